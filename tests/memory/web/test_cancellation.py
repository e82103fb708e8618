"""Requests that are stopped while they wait for something: by their clients, or by the end of a drain.

Whatever a request waits for, it leaves one event and nothing else, and what it waited for comes to nothing.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import pytest
from twisted.internet.address import IPv4Address
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.error import ConnectingCancelledError

from mgw.credentials.provider import ClientKey, Credential, CredentialRefusal
from mgw.exchange.exchange import Exchange
from mgw.exchange.pipeline import ExchangeRun
from mgw.exchange.translation import Translation
from mgw.nouns.secret import Secret
from mgw.upstream.client import Upstream
from mgw.usage.event import Outcome
from mgw.web.server_request import ServerRequest
from tests.support.channels import post
from tests.support.exchanges import JSON, KEY, PATH, WHOLE
from tests.support.pipelines import ANSWER, answered
from tests.support.upstreams import LIMITS
from tests.support.web_servers import WebServerHarness, settled

pytestmark = pytest.mark.usefixtures("heads")

T = TypeVar("T")
CREDENTIAL = Credential(b"Authorization", Secret("Bearer sk-waited-for"), "hash")
STREAM_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
TRANSLATED = b'{"model":"main/gpt-b","max_tokens":9,"stream":%b,"messages":[{"role":"user","content":"hi"}]}'


@dataclass
class WaitingSource:
    """A source of credentials that takes its time."""

    first: Credential | None = None
    waiting: list[Deferred[Credential | None]] = field(default_factory=list)

    signs = False

    def ready(self, _: ClientKey | None, __: str | None = None) -> Credential | None:
        return self.first

    async def obtain(self, _: ClientKey | None, __: str | None = None) -> Credential:
        return await self._wait() or CREDENTIAL

    async def refused(self, _: Credential, __: CredentialRefusal) -> Credential | None:
        return await self._wait()

    async def _wait(self) -> Credential | None:
        self.waiting.append(Deferred())
        return await self.waiting[-1]

    def refusable(self, status: int) -> bool:
        return status == 401

    def close(self) -> None:
        pass


Late = Callable[[], None]
"""What happens too late."""


def nothing() -> None:
    pass


def dialling(harness: WebServerHarness) -> Late:
    endpoint = harness.pipeline.endpoint
    endpoint.held = True
    harness.send(WHOLE)
    (attempt,) = endpoint.pending

    def late() -> None:
        assert endpoint.cancelled == 1
        assert attempt[1].called

    return late


def queueing(harness: WebServerHarness) -> Late:
    endpoint = harness.pipeline.endpoint
    upstreams: Any = harness.generation.upstreams  # Any: a dictionary, which is a mapping to all others
    base_url = harness.generation.config.providers["main"].base_url
    upstreams["main"] = Upstream("main", base_url, LIMITS, endpoint, harness.clock, 1)
    harness.send(WHOLE)
    (first,), channel, transport = endpoint.connections, harness.channel, harness.transport
    harness.connect()
    harness.send(WHOLE)
    assert upstreams["main"].waiting == 1

    def late() -> None:
        assert upstreams["main"].waiting == 0
        if not first.closing:  # a drain stops both
            first.send(answered())
            assert transport.value().endswith(ANSWER)
            harness.observer.events.pop()
            harness.observer.lines.pop()
        channel.dataReceived(b"")

    return late


def source_of(harness: WebServerHarness, source: WaitingSource) -> WaitingSource:
    credentials: Any = harness.generation.credentials  # Any: as above
    credentials["main"] = source
    return source


def obtaining_a_credential(harness: WebServerHarness) -> Late:
    source = source_of(harness, WaitingSource())
    harness.send(WHOLE)
    return lambda: source.waiting[0].callback(CREDENTIAL)


def obtaining_another_credential(harness: WebServerHarness) -> Late:
    source = source_of(harness, WaitingSource(CREDENTIAL))
    harness.send(WHOLE)
    harness.connection.send(answered(status=b"401 Unauthorized"))
    return lambda: source.waiting[0].callback(CREDENTIAL)


def obtaining_another_credential_before_the_end(harness: WebServerHarness) -> Late:
    source = source_of(harness, WaitingSource(CREDENTIAL))
    harness.send(WHOLE)
    harness.connection.send(answered(status=b"401 Unauthorized")[:-1])
    return lambda: source.waiting[0].callback(None)


def in_a_thread(harness: WebServerHarness) -> Late:
    waiting: list[Callable[[], None]] = []

    def offload(work: Callable[[], T], /) -> Deferred[T]:
        result: Deferred[T] = Deferred()
        waiting.append(lambda: result.callback(work()))
        return result

    harness.server.offload = offload
    harness.send(post(b'{"x":"%b","model":"fast"}' % (b"x" * 1_100_000), KEY, JSON, path=PATH))
    (late,) = waiting
    return late


def awaiting_a_head(harness: WebServerHarness) -> Late:
    harness.send(WHOLE)
    return lambda: harness.connection.send(answered())


def in_a_head(harness: WebServerHarness) -> Late:
    harness.send(WHOLE)
    harness.connection.send(answered()[:30])
    return lambda: harness.connection.send(answered()[30:])


def in_a_body(harness: WebServerHarness) -> Late:
    harness.send(WHOLE)
    harness.connection.send(STREAM_HEAD + b"5\r\ndata:\r\n")
    return lambda: harness.connection.send(b"0\r\n\r\n")


def behind_a_head(harness: WebServerHarness) -> Late:
    harness.send(WHOLE)
    harness.connection.send(STREAM_HEAD)
    return lambda: harness.connection.send(b"5\r\ndata:\r\n0\r\n\r\n")


def gathering_a_body(harness: WebServerHarness) -> Late:
    harness.send(post(TRANSLATED % b"false", KEY, JSON, path="/v1/messages"))
    harness.connection.send(answered()[:-1])
    return lambda: harness.connection.send(answered()[-1:])


def holding_a_head(harness: WebServerHarness) -> Late:
    harness.send(post(TRANSLATED % b"true", KEY, JSON, path="/v1/messages"))
    harness.connection.send(STREAM_HEAD)
    return lambda: harness.connection.send(b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n")


def sent_afresh(harness: WebServerHarness) -> Late:
    """A pooled connection turns out closed, and another one is dialled."""
    harness.send(WHOLE)
    harness.connection.send(answered())
    harness.observer.events.clear()
    harness.observer.lines.clear()
    harness.transport.clear()
    harness.clock.advance(1)
    harness.send(WHOLE)
    harness.pipeline.endpoint.held = True
    harness.connection.close()
    assert len(harness.pipeline.endpoint.pending) == 1
    return nothing


MOMENTS: list[Callable[[WebServerHarness], Late]] = [
    dialling,
    queueing,
    obtaining_a_credential,
    obtaining_another_credential,
    obtaining_another_credential_before_the_end,
    in_a_thread,
    awaiting_a_head,
    in_a_head,
    in_a_body,
    behind_a_head,
    gathering_a_body,
    holding_a_head,
    sent_afresh,
]
STARTED = (in_a_body, behind_a_head)


def is_of(harness: WebServerHarness, found: object) -> bool:
    """Whether an object is what is made for one request, and of this server."""
    if isinstance(found, ServerRequest):
        return found.server is harness.server
    if isinstance(found, (ExchangeRun, Translation)):
        generation = harness.generation
        return any(
            one.generation is generation for one in gc.get_referents(found) if isinstance(one, Exchange)
        )
    return False


def check_nothing_is_left(harness: WebServerHarness, late: Late) -> None:
    before = harness.received()
    late()
    harness.pipeline.endpoint.settle()
    harness.clock.advance(2)
    harness.pipeline.endpoint.settle()
    assert harness.received() == before
    assert len(harness.observer.events) == len(harness.observer.lines) == 1
    assert harness.observer.have_events[-1:] == [True]
    assert settled(harness) == (0, 0, 0)
    assert not [upstream for upstream in harness.generation.upstreams.values() if upstream.active]
    gc.collect()
    assert not [found for found in gc.get_objects() if is_of(harness, found)]


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_client_that_leaves_ends_its_request_and_nothing_else(
    moment: Callable[[WebServerHarness], Late],
) -> None:
    harness = WebServerHarness()
    late = moment(harness)
    assert not harness.observer.events
    harness.leave()
    assert harness.event.status is Outcome.CLIENT_ABORT
    assert harness.observer.lines[0][2] == (harness.event.http_status or 0)
    check_nothing_is_left(harness, late)


@pytest.mark.parametrize("moment", [moment for moment in MOMENTS if moment is not queueing])
def test_the_end_of_a_drain_ends_a_request_and_nothing_else(
    moment: Callable[[WebServerHarness], Late],
) -> None:
    harness = WebServerHarness()
    late = moment(harness)
    assert not harness.observer.events
    harness.server.draining = True
    harness.server.abort_requests()
    assert harness.event.status is Outcome.REJECTED
    assert harness.event.error == "draining"
    if moment in STARTED:
        assert harness.event.http_status == 200
        assert not harness.received().endswith(b"0\r\n\r\n")
    else:
        assert harness.status() == harness.event.http_status == 503
    check_nothing_is_left(harness, late)


def test_an_aborted_drain_ends_who_waits_for_a_slot_and_who_has_it() -> None:
    harness = WebServerHarness()
    queueing(harness)
    harness.server.abort_requests()
    assert [event.error for event in harness.observer.events] == ["draining"] * 2
    assert settled(harness) == (0, 0, 0)
    assert harness.generation.upstreams["main"].waiting == 0


def test_a_dial_that_somebody_else_cancels_is_a_failure_of_the_provider() -> None:
    for error in (CancelledError(), ConnectingCancelledError(IPv4Address("TCP", "192.0.2.1", 443))):
        harness = WebServerHarness()
        dialling(harness)
        harness.pipeline.endpoint.pending[0][1].errback(error)
        assert harness.status() == 502
        assert harness.event.status is Outcome.UPSTREAM_ERROR
        check_nothing_is_left(harness, nothing)
