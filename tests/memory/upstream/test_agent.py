"""The promises of mgw.upstream.agent, as treq uses it."""

from __future__ import annotations

import gc
import gzip
import tracemalloc
from dataclasses import dataclass, field

import pytest
from treq.client import HTTPClient
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.error import MessageLengthError
from twisted.internet.task import Clock
from twisted.web.client import ResponseFailed
from twisted.web.http_headers import Headers

from mgw.nouns.errors import forget_frames
from mgw.reactor.treq_arguments import ExactURL, as_reactor
from mgw.upstream.agent import UpstreamAgent, client_over
from mgw.upstream.client import Upstream, UpstreamFailure
from tests.support.deferreds import result_of
from tests.support.upstreams import LIMITS, OK, MemoryEndpoint, ProviderConnection

MAX_BYTES = 1000
URL = "http://api.example/"


@dataclass(slots=True)
class World:
    """Origins in memory, and treq's client over them."""

    endpoints: dict[str, MemoryEndpoint] = field(default_factory=dict)
    upstreams: dict[str, Upstream] = field(default_factory=dict)
    clock: Clock = field(default_factory=Clock)

    def upstream_at(self, origin: str) -> Upstream:
        endpoint = self.endpoints.setdefault(origin, MemoryEndpoint())
        self.upstreams[origin] = upstream = Upstream(origin, origin, LIMITS, endpoint, self.clock)
        return upstream

    def connection(self, origin: str = "http://api.example") -> ProviderConnection:
        return self.endpoints[origin].connections[-1]


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def client(world: World) -> HTTPClient:
    return client_over(UpstreamAgent(world.upstream_at, MAX_BYTES))


def test_get_json(world: World, client: HTTPClient) -> None:
    waiting = client.get("http://api.example/v1/models?a=%2F#part")
    assert world.connection().received.startswith(b"GET /v1/models?a=%2F HTTP/1.1\r\nHost: api.example\r\n")
    world.connection().send(b'HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{"a":[1]')
    assert not waiting.called, "the rest of the body has not arrived"
    world.connection().send(b"}")
    response = result_of(waiting)
    assert (response.length, result_of(response.json())) == (9, {"a": [1]})


def test_a_body_that_breaks_fails_whoever_reads_it(world: World, client: HTTPClient) -> None:
    waiting = client.get("http://api.example/")
    world.connection().send(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf")
    world.connection().reset()
    response = result_of(waiting)
    assert response.code == 200
    with pytest.raises(ResponseFailed):
        result_of(response.content())


def test_post_json(world: World, client: HTTPClient) -> None:
    waiting = client.post("http://api.example/token", json={"a": 1})
    head, _, body = world.connection().received.partition(b"\r\n\r\n")
    assert head.startswith(b"POST /token HTTP/1.1\r\n")
    assert head.count(b"Content-Length: 7") == 1
    assert body == b'{"a":1}'
    world.connection().send(b'HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\n{"b": 2}')
    response = result_of(waiting)
    assert (response.code, response.phrase, result_of(response.json())) == (200, b"OK", {"b": 2})


def test_a_body_is_collected_however_it_was_cut(world: World, client: HTTPClient) -> None:
    waiting = client.get(URL, unbuffered=True)
    world.connection().send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n")
    world.connection().send(b"3\r\nyou\r\n0\r\n\r\n")
    pieces: list[bytes] = []
    done: Deferred[None] = result_of(waiting).collect(pieces.append)
    result_of(done)
    assert b"".join(pieces) == b"hiyou"


@pytest.mark.parametrize("more", [0, 1])
@pytest.mark.parametrize("framing", ["length", "chunked", "close"])
def test_a_body_has_a_limit_and_a_larger_one_closes_the_connection(
    world: World, client: HTTPClient, framing: str, more: int
) -> None:
    waiting, body = client.get(URL), b"x" * (MAX_BYTES + more)
    heads = {"length": b"Content-Length: 5000\r\n" if more else b"Content-Length: 1000\r\n", "close": b""}
    world.connection().send(
        b"HTTP/1.1 418 Tea\r\n" + heads.get(framing, b"Transfer-Encoding: chunked\r\n") + b"\r\n"
    )
    world.connection().send(b"%x\r\n%b\r\n" % (len(body), body) if framing == "chunked" else body)
    if more:
        assert world.connection().aborted
    elif framing == "chunked":
        world.connection().send(b"0\r\n\r\n")
    elif framing == "close":
        world.connection().close()
    response = result_of(waiting)
    assert response.code == 418
    if more:
        with pytest.raises(MessageLengthError):
            result_of(response.content())
    else:
        assert result_of(response.content()) == body


def test_a_body_that_drips_takes_no_more_memory_than_it_has_bytes(world: World) -> None:
    client, pieces = client_over(UpstreamAgent(world.upstream_at, 1_000_000)), 20_000
    waiting = client.get(URL)
    connection = world.connection()
    connection.send(b"HTTP/1.1 200 OK\r\n\r\n")
    tracemalloc.start()
    try:
        for at in range(pieces):
            connection.send(b"%05d" % at)
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 2 * 5 * pieces
    connection.close()
    assert result_of(result_of(waiting).content()) == b"".join(b"%05d" % at for at in range(pieces))


def test_no_coding_is_asked_for_and_none_is_undone(world: World, client: HTTPClient) -> None:
    packed = gzip.compress(b"hello")
    waiting = client.get(URL, headers=Headers({"Accept-Encoding": ["br"]}))
    assert world.connection().received.lower().count(b"\r\naccept-encoding: identity\r\n") == 1
    assert world.connection().received.lower().count(b"accept-encoding") == 1
    world.connection().send(
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n%s" % (len(packed), packed)
    )
    assert result_of(result_of(waiting).content()) == packed


def test_a_cookie_of_one_caller_is_not_sent_for_another(world: World, client: HTTPClient) -> None:
    waiting = client.get(URL)
    world.connection().send(OK.replace(b"\r\n\r\n", b"\r\nSet-Cookie: a=canary; Path=/\r\n\r\n"))
    assert not list(result_of(waiting).cookies())
    client.get(URL)  # type: ignore[unused-awaitable]  # it stays under way
    assert world.connection().received.count(b"GET / HTTP/1.1\r\n") == 2
    assert b"cookie" not in world.connection().received.lower()


def test_treqs_timeout_holds_for_the_whole_of_a_response_that_drips(world: World, client: HTTPClient) -> None:
    waiting = client.get(URL, timeout=3.0, reactor=as_reactor(world.clock))
    world.connection().send(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n")
    for _ in range(3):
        assert not waiting.called
        world.connection().send(b"x")
        world.clock.advance(1)
    with pytest.raises(CancelledError):
        result_of(waiting)
    assert world.connection().aborted
    assert world.upstreams["http://api.example"].active == 0


@pytest.mark.parametrize("sent", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf"])
def test_cancelling_closes_the_connection(world: World, client: HTTPClient, sent: bytes) -> None:
    waiting = client.get(URL)
    world.connection().send(sent)
    waiting.cancel()
    with pytest.raises(CancelledError):
        result_of(waiting)
    assert world.connection().aborted
    assert world.upstreams["http://api.example"].active == 0


ENDS = {
    "whole": b"Content-Length: 2\r\n\r\nhi",
    "too large": b"Content-Length: 2000\r\n\r\n" + b"x" * 2000,
    "broken": b"Content-Length: 20\r\n\r\nhi",
}


@pytest.mark.parametrize("end", ENDS)
def test_nothing_of_a_response_waits_for_the_garbage_collector(
    world: World, client: HTTPClient, end: str
) -> None:
    class Marked(bytearray):
        """A local of the caller's, which a cycle would keep."""

    async def ask() -> None:
        marked = Marked()
        response = await client.get(
            ExactURL(URL), timeout=9.0, reactor=as_reactor(world.clock), unbuffered=True
        )
        try:
            await response.content()
        except (MessageLengthError, ResponseFailed) as error:
            forget_frames(error)  # Twisted ties an error that is awaited to its failure
        marked.append(1)

    gc.collect()
    gc.disable()
    try:
        done = Deferred.fromCoroutine(ask())
        world.connection().send(b"HTTP/1.1 200 OK\r\n" + ENDS[end])
        if end == "broken":
            world.connection().reset()
        result_of(done)
        assert not [held for held in gc.get_objects() if type(held) is Marked]
    finally:
        gc.enable()


@pytest.mark.parametrize(
    ("url", "host", "target"),
    [
        ("http://[::1]:8080/t", b"[::1]:8080", b"/t"),
        ("http://my_host/t", b"my_host", b"/t"),
        ("http://a.example:80/", b"a.example", b"/"),
        ("http://a.example:08081/", b"a.example:8081", b"/"),
        ("http://a.example:/t", b"a.example", b"/t"),
        ("http://a.example", b"a.example", b"/"),
        ("http://a.example?x=1", b"a.example", b"/?x=1"),
        ("http://a.example/t?", b"a.example", b"/t?"),
        (
            "http://a.example/%zz%2f//b;c?x=[1]|%2F&&y&z==+%20\"'",
            b"a.example",
            b"/%zz%2f//b;c?x=[1]|%2F&&y&z==+%20\"'",
        ),
        ("http://a.example/t?to=http://u:p@b.example/", b"a.example", b"/t?to=http://u:p@b.example/"),
    ],
)
def test_a_url_is_requested_as_it_was_written(
    world: World, client: HTTPClient, url: str, host: bytes, target: bytes
) -> None:
    client.get(ExactURL(url))  # type: ignore[unused-awaitable]  # it stays under way
    [endpoint] = world.endpoints.values()
    assert endpoint.connections[0].received.startswith(b"GET %b HTTP/1.1\r\nHost: %b\r\n" % (target, host))


def test_an_address_with_a_user_is_refused_and_not_repeated(world: World, client: HTTPClient) -> None:
    waiting = client.get(ExactURL("http://canary:canary@api.example/"))
    with pytest.raises(ValueError, match="no user") as caught:
        result_of(waiting)
    assert "canary" not in str(caught.value)
    assert not world.endpoints


def test_a_redirect_is_left_to_treq(world: World, client: HTTPClient) -> None:
    waiting = client.get("http://api.example/old")
    world.connection().send(
        b"HTTP/1.1 302 Found\r\nLocation: http://other.example/new\r\nContent-Length: 0\r\n\r\n"
    )
    world.connection("http://other.example").send(OK)
    response = result_of(waiting)
    assert (result_of(response.content()), len(response.history())) == (b"hi", 1)
    assert world.upstreams["http://api.example"].idle == 1


@pytest.mark.parametrize(
    "head", [b"HTTP/1.1 204 No Content\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"]
)
def test_an_answer_without_a_body_needs_nobody_to_take_it(
    world: World, client: HTTPClient, head: bytes
) -> None:
    waiting = client.get("http://api.example/")
    world.connection().send(head)
    assert result_of(result_of(waiting).content()) == b""
    assert world.upstreams["http://api.example"].idle == 1


def test_a_head_request_has_no_body(world: World, client: HTTPClient) -> None:
    waiting = client.head("http://api.example/")
    world.connection().send(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n")
    assert result_of(result_of(waiting).content()) == b""


def rested(world: World, client: HTTPClient) -> None:
    waiting = client.get("http://api.example/")
    world.connection().send(OK)
    result_of(result_of(waiting).content())


def test_a_request_that_may_be_sent_twice_survives_a_stale_connection(
    world: World, client: HTTPClient
) -> None:
    rested(world, client)
    waiting = client.get("http://api.example/again")
    world.endpoints["http://api.example"].connections[0].close()
    world.connection().send(OK)
    assert result_of(result_of(waiting).content()) == b"hi"
    assert len(world.endpoints["http://api.example"].connections) == 2


def test_a_request_that_may_not_is_sent_on_a_new_connection(world: World, client: HTTPClient) -> None:
    rested(world, client)
    client.post("http://api.example/token", data=b"x")  # type: ignore[unused-awaitable]  # it stays under way
    assert len(world.endpoints["http://api.example"].connections) == 2


def test_an_idempotency_key_lets_a_post_use_a_resting_connection(world: World, client: HTTPClient) -> None:
    rested(world, client)
    headers = Headers({"Idempotency-Key": ["1"]})
    client.post("http://api.example/", data=b"x", headers=headers)  # type: ignore[unused-awaitable]  # as above
    assert len(world.endpoints["http://api.example"].connections) == 1


def test_a_failure_names_the_origin_and_not_the_address(world: World, client: HTTPClient) -> None:
    waiting = client.get("http://api.example/path?key=canary")
    world.connection().send(b"garbage")
    with pytest.raises(UpstreamFailure) as caught:
        result_of(waiting)
    assert "http://api.example" in caught.value.message
    assert "canary" not in caught.value.message


def test_the_origin_that_was_not_asked_for_longest_goes(world: World) -> None:
    client = HTTPClient(UpstreamAgent(world.upstream_at, MAX_BYTES, max_origins=2))
    for name in ("a", "b", "a", "c"):
        waiting = client.get(f"http://{name}.example/")
        world.connection(f"http://{name}.example").send(OK)
        result_of(result_of(waiting).content())
    closed = {origin: endpoint.connections[-1].closing for origin, endpoint in world.endpoints.items()}
    assert closed == {"http://a.example": False, "http://b.example": True, "http://c.example": False}
