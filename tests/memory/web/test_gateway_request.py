# mypy: disable-error-code="no-untyped-call"
# Twisted's request has hardly any types.
"""Twisted's request over our channel: it is responded to as it is on Twisted's own server."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from twisted.internet.defer import Deferred
from twisted.internet.error import ConnectionDone
from twisted.internet.interfaces import IPushProducer
from twisted.python.failure import Failure
from twisted.web.resource import IResource, Resource
from twisted.web.server import NOT_DONE_YET
from zope.interface import implementer

from mgw.web.gateway_request import GatewayRequest
from tests.support.channels import Line, RecordedRequest, RecordingHandler, get


@dataclass
class ResourceHandler(RecordingHandler):
    """A handler behind which every request is rendered by one resource."""

    resource: IResource | None = None
    request: GatewayRequest | None = None

    def __post_init__(self) -> None:
        self.answer = self.render

    def render(self, request: RecordedRequest) -> None:
        self.request = GatewayRequest(request.channel, request.head, request.body)
        self.request.render(self.resource)


class Leaf(Resource):
    """A resource that is one function."""

    isLeaf = True

    def __init__(self, work: Callable[[GatewayRequest], Any]) -> None:  # Any: bytes or NOT_DONE_YET
        super().__init__()
        self.work = work

    def render(self, request: GatewayRequest) -> Any:  # Any: as above
        return self.work(request)


def serving(resource: IResource) -> tuple[Line, ResourceHandler]:
    handler = ResourceHandler(resource=resource)
    return Line(handler), handler


def leaf(work: Callable[[GatewayRequest], Any]) -> tuple[Line, ResourceHandler]:  # Any: as above
    return serving(Leaf(work))


@pytest.mark.parametrize(
    ("code", "line_of_status"),
    [
        (409, b"HTTP/1.1 409 Conflict\r\n"),
        (429, b"HTTP/1.1 429 Too Many Requests\r\n"),
        (529, b"HTTP/1.1 529 Overloaded\r\n"),
        (599, b"HTTP/1.1 599 Unknown\r\n"),
    ],
)
def test_statuses_have_their_phrases(code: int, line_of_status: bytes) -> None:
    def work(request: GatewayRequest) -> bytes:
        request.setResponseCode(code)
        return b""

    line, _ = leaf(work)
    line.send(get())
    assert line.take().startswith(line_of_status)


def test_a_phrase_of_one_s_own_stands() -> None:
    def work(request: GatewayRequest) -> bytes:
        request.setResponseCode(200, b"Fine")
        return b""

    line, _ = leaf(work)
    line.send(get())
    assert line.take().startswith(b"HTTP/1.1 200 Fine\r\n")


def test_a_redirect_has_its_location() -> None:
    def work(request: GatewayRequest) -> bytes:
        request.redirect(b"/there")
        return b""

    line, _ = leaf(work)
    line.send(get())
    data = line.take()
    assert data.startswith(b"HTTP/1.1 302 Found\r\n")
    assert b"\r\nLocation: /there\r\n" in data


def test_head_has_the_headers_and_no_body() -> None:
    line, _ = leaf(lambda request: b"body")
    line.send(get(method="HEAD") + get(method="HEAD"))
    assert line.take().count(b"\r\nContent-Length: 4\r\n") == 2
    assert b"body" not in line.take()


def test_a_resource_that_streams_is_chunked_once() -> None:
    def work(request: GatewayRequest) -> int:
        request.write(b"one")
        request.write(b"two")
        request.finish()
        return NOT_DONE_YET

    line, _ = leaf(work)
    line.send(get())
    assert line.take().endswith(b"Transfer-Encoding: chunked\r\n\r\n3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n")


def test_whoever_waits_for_the_end_is_told() -> None:
    ended: list[object] = []
    ending: list[Deferred[None]] = []

    def work(request: GatewayRequest) -> bytes:
        ending.append(request.notifyFinish().addBoth(ended.append))
        return b""

    line, _ = leaf(work)
    line.send(get())
    assert ended == [None]


def test_whoever_waits_for_the_end_is_told_that_the_client_left() -> None:
    ended: list[Failure] = []
    ending: list[Deferred[None]] = []

    def work(request: GatewayRequest) -> int:
        ending.append(request.notifyFinish().addErrback(ended.append))
        return NOT_DONE_YET

    line, handler = leaf(work)
    line.send(get())
    line.leave()
    assert handler.request is not None
    handler.request.connectionLost(Failure(ConnectionDone()))
    assert ended[0].check(ConnectionDone)
    handler.request.write(b"late")


def test_a_request_after_its_end_does_not_reach_the_next_answer() -> None:
    requests: list[GatewayRequest] = []

    def work(request: GatewayRequest) -> int:
        requests.append(request)
        return NOT_DONE_YET

    line, _ = leaf(work)
    line.send(get() + get())
    first = requests[0].response_channel
    line.requests[0].say(b"one")
    line.take()
    first.writeHeaders(b"HTTP/1.1", b"200", b"OK", requests[0].responseHeaders)
    first.write(b"stray")
    first.requestDone(requests[0])
    first.abortConnection()
    assert line.take() == b""
    assert not line.aborted


@implementer(IPushProducer)
class Producer:
    """A push producer that notes what it is told."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def pauseProducing(self) -> None:
        self.told.append("pause")

    def resumeProducing(self) -> None:
        self.told.append("resume")

    def stopProducing(self) -> None:
        self.told.append("stop")


def test_a_push_producer_writes_at_the_client_s_pace_and_stops_with_it() -> None:
    producer = Producer()

    def work(request: GatewayRequest) -> int:
        request.registerProducer(producer, True)
        return NOT_DONE_YET

    line, handler = leaf(work)
    line.send(get())
    line.channel.pauseProducing()
    line.channel.resumeProducing()
    line.leave()
    assert handler.request is not None
    handler.request.connectionLost(Failure(ConnectionDone()))
    assert producer.told == ["pause", "resume", "stop"]


def test_addresses_are_those_of_the_transport() -> None:
    line, handler = leaf(lambda request: b"")
    line.send(get())
    assert handler.request is not None
    assert handler.request.getClientAddress() == line.transport.getPeer()
    assert handler.request.getHost() == line.transport.getHost()
    assert not handler.request.isSecure()
    assert line.channel.peer == "192.168.1.1"
