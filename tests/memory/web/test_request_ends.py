"""When an exchange settles and when its request ends: in one call, so that one record has both.

The record is made when the request ends.  Were that in a later turn, the usage event would wait for it.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import NoReturn

import pytest

from mgw.exchange.pipeline import ExchangeRun
from mgw.realtime.session import Session
from mgw.realtime.sessions import Sessions
from mgw.upstream.client import UpstreamResponse
from mgw.web import server_request, upgrade
from mgw.web.upgrade import UpgradedClient
from tests.support.channels import LIMITS, post
from tests.support.exchanges import JSON, KEY, PATH, UNFINISHED, WHOLE, new_in_a_drain, too_slow
from tests.support.memory_sessions import (
    FIRST_MESSAGE,
    MESSAGE,
    REALTIME,
    RESPONSES,
    SessionHarness,
    closing,
    opened,
    spoken,
)
from tests.support.pipelines import answered
from tests.support.raw_sessions import close_frame, frame
from tests.support.web_servers import WebServerHarness

Steps = Iterator[WebServerHarness]
"""What happens to a server, a turn of the reactor at a time."""
STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
CHUNK = b'e\r\ndata: {"a":1}\n\r\n'
END = b"0\r\n\r\n"


def asked(data: bytes = WHOLE) -> WebServerHarness:
    harness = WebServerHarness()
    harness.send(data)
    return harness


def streaming() -> WebServerHarness:
    harness = asked()
    harness.connection.send(STREAM + CHUNK)
    return harness


def answered_at_once() -> Steps:
    harness = asked()
    yield harness
    harness.connection.send(answered())
    yield harness


def stalled_client() -> Steps:
    harness = streaming()
    harness.channel.pauseProducing()
    yield harness
    harness.connection.send(CHUNK + END)
    yield harness
    harness.channel.resumeProducing()
    yield harness


def stalled_for_too_long() -> Steps:
    harness = streaming()
    harness.channel.pauseProducing()
    harness.connection.send(CHUNK)
    yield harness
    harness.clock.advance(LIMITS.write_stall)
    yield harness
    harness.leave()
    yield harness


def upload_answered_before_its_end() -> Steps:
    large = post(b"x" * 70_000, KEY, JSON, path=PATH).replace(b": 70000\r\n", b": 99999999999\r\n")
    harness = asked(large[:-60_000])
    yield harness
    harness.send(large[-60_000:])
    yield harness
    harness.clock.advance(LIMITS.client_body_idle)
    yield harness


def upload_too_slow() -> Steps:
    harness = WebServerHarness()
    too_slow(harness)
    yield harness


def refused_in_a_drain() -> Steps:
    harness = WebServerHarness()
    new_in_a_drain(harness)
    yield harness


def left_in_the_upload() -> Steps:
    harness = asked(UNFINISHED)
    harness.leave()
    yield harness


def left_in_the_answer() -> Steps:
    harness = streaming()
    harness.leave()
    yield harness


def rejected_upstream() -> Steps:
    harness = asked()
    harness.connection.send(answered(status=b"429 Too Many Requests"))
    yield harness


def broken_off_upstream() -> Steps:
    harness = streaming()
    harness.connection.reset()
    yield harness


def pipelined() -> Steps:
    harness = asked(WHOLE + WHOLE + WHOLE)
    yield harness
    for _ in range(3):
        harness.connection.send(answered())
        yield harness


def drained() -> Steps:
    harness = streaming()
    harness.server.abort_requests()
    yield harness


def session_closed_by_the_client() -> Steps:
    harness = opened()
    harness.send(MESSAGE)
    yield harness
    harness.send(close_frame(1000))
    yield harness
    harness.provider.send(closing(1000))
    yield harness
    harness.turn()
    yield harness


def session_closed_by_the_provider() -> Steps:
    harness = opened()
    harness.provider.send(spoken(b"{}") + closing(1011))
    yield harness
    harness.clock.advance(60)
    yield harness
    harness.turn()
    yield harness


def session_left() -> Steps:
    harness = opened()
    harness.leave()
    yield harness
    harness.turn()
    yield harness


def session_drained() -> Steps:
    harness = opened()
    harness.server.abort_requests()
    yield harness
    harness.clock.advance(60)
    yield harness


def session_of_a_message_that_leads_nowhere() -> Steps:
    harness = SessionHarness(RESPONSES)
    yield harness
    harness.send(frame(0x81, b"[]"))
    yield harness
    harness.turn()
    yield harness


def session_rejected_upstream() -> Steps:
    harness = SessionHarness(REALTIME)
    yield harness
    harness.provider.send(answered(status=b"403 Forbidden"))
    yield harness


CASES = [
    *(answered_at_once, stalled_client, stalled_for_too_long, upload_answered_before_its_end),
    *(upload_too_slow, refused_in_a_drain, left_in_the_upload, left_in_the_answer, rejected_upstream),
    *(broken_off_upstream, pipelined, drained, session_closed_by_the_client),
    *(session_closed_by_the_provider, session_left, session_drained),
    *(session_of_a_message_that_leads_nowhere, session_rejected_upstream),
]


@pytest.mark.parametrize("case", CASES)
def test_an_exchange_settles_in_the_call_in_which_its_request_ends(case: Callable[[], Steps]) -> None:
    for harness in case():
        assert not [exchange for exchange in harness.server.exchanges if exchange.settled]
    observer = harness.observer
    assert harness.server.in_flight == 0
    assert len(observer.events) == (3 if case is pipelined else 1)
    assert observer.have_events == [True] * len(observer.events)


class Bug(Exception):
    """A bug in a step between the two."""


def unfinished() -> WebServerHarness:
    return asked(UNFINISHED)


def opening() -> SessionHarness:
    return SessionHarness(REALTIME)


def dialling_for_a_message() -> SessionHarness:
    harness = SessionHarness(RESPONSES)
    harness.pipeline.endpoint.held = True
    harness.send(FIRST_MESSAGE)
    assert harness.pipeline.endpoint.pending
    return harness


def wait(harness: WebServerHarness) -> None:
    harness.clock.advance(LIMITS.client_body_idle)


def reset(harness: WebServerHarness) -> None:
    harness.connection.reset()


def drain(harness: WebServerHarness) -> None:
    harness.server.abort_requests()


def leave(harness: WebServerHarness) -> None:
    harness.leave()


BUGS = [
    (server_request, "send_refusal", unfinished, wait),
    (server_request, "send_refusal", asked, reset),
    (server_request, "send_refusal", asked, drain),
    (ExchangeRun, "cancel", streaming, drain),
    (UpstreamResponse, "cancel", streaming, reset),
    (upgrade, "send_refusal", opening, reset),
    (Session, "stop_opening", opening, drain),
    (UpgradedClient, "close", dialling_for_a_message, drain),
    (Sessions, "free_slot", opened, leave),
]


@pytest.mark.parametrize(("place", "name", "begin", "end"), BUGS)
def test_a_bug_after_an_exchange_has_settled_does_not_keep_its_event(
    place: object,
    name: str,
    begin: Callable[[], WebServerHarness],
    end: Callable[[WebServerHarness], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    harness, bugs = begin(), list[str]()

    def fail(*_: object) -> NoReturn:
        bugs.append(name)
        raise Bug

    monkeypatch.setattr(place, name, fail)
    with suppress(Bug):
        end(harness)
    assert bugs
    assert len(harness.observer.events) == 1
    monkeypatch.undo()
    gc.collect()
