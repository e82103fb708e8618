"""The promises of mgw.upstream.agent, as treq uses it."""

from __future__ import annotations

import gzip
from dataclasses import dataclass, field

import pytest
from treq.client import HTTPClient
from treq.testing import _SynchronousProducer  # treq ships it for tests with agents in memory
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.web.client import ResponseFailed
from twisted.web.http_headers import Headers

from mgw.upstream.agent import UpstreamAgent
from mgw.upstream.client import Upstream, UpstreamFailure
from tests.support.deferreds import result_of
from tests.support.upstreams import LIMITS, OK, MemoryEndpoint, ProviderConnection


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
    return HTTPClient(UpstreamAgent(world.upstream_at), data_to_body_producer=_SynchronousProducer)


def test_get_json(world: World, client: HTTPClient) -> None:
    waiting = client.get("http://api.example/v1/models?a=%2F#part")
    assert world.connection().received.startswith(b"GET /v1/models?a=%2F HTTP/1.1\r\nHost: api.example\r\n")
    world.connection().send(b'HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{"a":[1]')
    response = result_of(waiting)
    body = response.json()
    world.connection().send(b"}")
    assert result_of(body) == {"a": [1]}


def test_a_body_that_breaks_fails_whoever_reads_it(world: World, client: HTTPClient) -> None:
    waiting = client.get("http://api.example/")
    world.connection().send(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf")
    body = result_of(waiting).content()
    world.connection().reset()
    with pytest.raises(ResponseFailed):
        result_of(body)


def test_post_json(world: World, client: HTTPClient) -> None:
    waiting = client.post("http://api.example/token", json={"a": 1})
    head, _, body = world.connection().received.partition(b"\r\n\r\n")
    assert head.startswith(b"POST /token HTTP/1.1\r\n")
    assert head.count(b"Content-Length: 7") == 1
    assert body == b'{"a":1}'
    world.connection().send(b'HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\n{"b": 2}')
    response = result_of(waiting)
    assert (response.code, response.phrase, result_of(response.json())) == (200, b"OK", {"b": 2})


def test_a_stream_arrives_piece_by_piece(world: World, client: HTTPClient) -> None:
    waiting = client.get("http://api.example/stream", unbuffered=True)
    world.connection().send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n")
    pieces: list[bytes] = []
    done: Deferred[None] = result_of(waiting).collect(pieces.append)
    assert pieces == [b"hi"]
    world.connection().send(b"3\r\nyou\r\n0\r\n\r\n")
    result_of(done)
    assert pieces == [b"hi", b"you"]


def test_gzip_is_left_to_treq(world: World, client: HTTPClient) -> None:
    packed = gzip.compress(b"hello")
    waiting = client.get("http://api.example/")
    world.connection().send(
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n%s" % (len(packed), packed)
    )
    assert result_of(result_of(waiting).content()) == b"hello"


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
    client = HTTPClient(UpstreamAgent(world.upstream_at, max_origins=2))
    for name in ("a", "b", "a", "c"):
        waiting = client.get(f"http://{name}.example/")
        world.connection(f"http://{name}.example").send(OK)
        result_of(result_of(waiting).content())
    closed = {origin: endpoint.connections[-1].closing for origin, endpoint in world.endpoints.items()}
    assert closed == {"http://a.example": False, "http://b.example": True, "http://c.example": False}
