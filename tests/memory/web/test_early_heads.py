"""A head that a keep-alive has sent: the request's memory, and the connection behind the stream."""

from __future__ import annotations

import pytest

from mgw.usage.event import Outcome
from tests.support.channels import post
from tests.support.configs import THREE_FAMILIES
from tests.support.exchanges import JSON, KEY, PATH
from tests.support.passing_streams import MESSAGES, chunks, head
from tests.support.pipelines import ANSWER, answered
from tests.support.web_servers import WebServerHarness, settled

pytestmark = pytest.mark.usefixtures("heads")

TEXT = THREE_FAMILIES + "stream_keepalive: {interval: 15}\n"
STREAMED = b'{"model":"claude/x","max_tokens":9,"stream":true,"messages":[{"role":"user","content":"hi"}]}'
PLAIN = b'{"model":"main/gpt-b","messages":[]}'


def ask(harness: WebServerHarness, body: bytes = STREAMED) -> None:
    harness.send(post(body, JSON, KEY, path=PATH))


def test_the_memory_of_a_request_is_held_until_the_answer_begins() -> None:
    harness = WebServerHarness(TEXT)
    ask(harness)
    held = harness.server.budget.held
    assert held >= len(STREAMED)
    harness.clock.advance(16)
    assert harness.status() == 200
    assert harness.server.budget.held == held
    harness.connection.send(head() + chunks(MESSAGES.silent[0], MESSAGES.words))
    assert harness.server.budget.held == 0
    harness.connection.send(chunks(MESSAGES.finish, MESSAGES.rest) + b"0\r\n\r\n")
    assert settled(harness) == (0, 0, 0)
    assert harness.event.status is Outcome.OK


@pytest.mark.parametrize("waits", [True, False], ids=["behind a keep-alive", "behind words"])
def test_the_next_request_of_a_connection_survives_a_stream_that_failed(*, waits: bool) -> None:
    harness = WebServerHarness(TEXT)
    ask(harness)
    if waits:
        harness.clock.advance(16)
        failed = harness.connection
        ask(harness, PLAIN)  # before the first response has ended
        failed.send(answered(b"{}", b"503 Busy"))
    else:
        failed = harness.connection
        failed.send(head() + chunks(MESSAGES.silent[0], MESSAGES.words))
        ask(harness, PLAIN)
        failed.send(chunks(MESSAGES.errors[0]))
    assert harness.connection is not failed
    harness.connection.send(answered())
    assert harness.received().endswith(ANSWER)
    assert [event.status for event in harness.observer.events] == [Outcome.UPSTREAM_ERROR, Outcome.OK]
    assert harness.observer.events[0].http_status == 200
    assert harness.observer.errors == [harness.observer.events[0].error, None]
