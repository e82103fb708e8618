"""Requests of operators through a worker: what the supervisor sees of it, and what the client gets."""

from __future__ import annotations

import json

import pytest
from twisted.internet.error import ConnectError
from twisted.internet.testing import StringTransport

from mgw.web.request_ids import RequestIds
from mgw.workers.forwarding import LIMITS
from mgw.workers.internal_listener import LINE_SECONDS, MAX_LINE_BYTES
from tests.memory.dashboard.test_access import BEARER, KEY, LOCAL, NO_KEYS, OWN_KEYS, PATH, WITH_KEYS
from tests.support.dashboards import AWAY, HERE, Address, Response
from tests.support.forwarding import PIPE_BYTES, WorkerHarness
from tests.support.web_servers import settled

EVENTS = "/v1/dashboard/events"


def held(worker: WorkerHarness) -> tuple[object, ...]:
    """Return what is left of requests, in the worker and in the supervisor."""
    return (
        settled(worker)[0],
        settled(worker.supervisor)[0],
        worker.endpoint.open_ends,
        worker.listener.channels.channels,
    )


@pytest.mark.parametrize(("peer", "host", "headers", "status"), LOCAL.values(), ids=LOCAL)
def test_without_keys_only_this_machine_comes_in(
    peer: Address, host: str, headers: list[str], status: int
) -> None:
    worker = WorkerHarness(NO_KEYS, peer)
    assert worker.ask(PATH, *headers, host=host).status == status
    assert len(worker.supervisor.rejected) == (status != 200)
    assert held(worker) == (0, 0, 0, 0)


@pytest.mark.parametrize(("headers", "status"), WITH_KEYS.values(), ids=WITH_KEYS)
def test_with_keys_who_has_one_comes_in(headers: list[str], status: int) -> None:
    assert WorkerHarness(OWN_KEYS).ask(PATH, *headers).status == status


HIDING = {
    "a proxy's word that is said to be of the connection": [
        "X-Forwarded-For: 192.0.2.1",
        "Connection: X-Forwarded-For",
    ],
    "a line like the worker's in a header": ['X-Forwarded-For: {"host":"127.0.0.1","port":1}'],
}


@pytest.mark.parametrize("headers", HIDING.values(), ids=HIDING)
def test_a_client_cannot_hide_that_it_is_behind_a_proxy(headers: list[str]) -> None:
    assert WorkerHarness(NO_KEYS, HERE).ask(PATH, *headers, host="localhost").status == 401


@pytest.mark.parametrize(
    "line",
    [
        b"PROXY TCP4 127.0.0.1 127.0.0.1 1 2\r\n",
        b'{"host":"127.0.0.1","port":1,"is_secure":false,"request_id":"req_1"}\n',
    ],
)
def test_a_line_about_the_client_that_the_client_sends_is_no_request(line: bytes) -> None:
    worker = WorkerHarness(NO_KEYS, AWAY)
    worker.send(line + b"GET %b HTTP/1.1\r\nHost: localhost\r\n\r\n" % PATH.encode())
    worker.turn()
    assert worker.status() == 400
    assert not worker.endpoint.ends


def test_what_speaks_like_a_proxy_is_none_of_this_machine_for_the_supervisor_either() -> None:
    worker = WorkerHarness(NO_KEYS, HERE)
    worker.send(b"GET %b HTTP/1.0\r\nHost: 127.0.0.1:8787\r\n\r\n" % PATH.encode())
    worker.turn()
    assert worker.status() == 401


@pytest.mark.parametrize("secure", [False, True])
def test_a_cookie_is_for_tls_where_the_client_speaks_it_with_the_worker(secure: bool) -> None:
    worker = WorkerHarness(OWN_KEYS, secure=secure)
    signed = worker.ask("/ui/login", method="POST", body=b'{"key":"%b"}' % KEY.encode())
    assert (signed.status, signed.body) == (204, b"")
    assert ("Secure" in signed.headers["set-cookie"].split("; ")) is secure
    assert worker.ask(PATH, f"Cookie: {signed.cookie}", "Cookie: other=1").status == 200


def test_the_supervisor_names_the_request_as_the_worker_does_which_alone_logs_it() -> None:
    worker = WorkerHarness(OWN_KEYS)
    taken: list[str] = []

    class Ids(RequestIds):
        def take(self) -> str:
            taken.append(super().take())
            return taken[-1]

    worker.supervisor.server.request_ids = Ids()
    response = worker.ask(PATH, BEARER)
    assert response.headers["x-gateway-request-id"] == worker.observer.ids[0] == taken[0]
    assert worker.received().count(b"-Request-Id") == 1
    assert worker.received().count(b"Date:") == 1
    assert worker.observer.lines == [("GET", PATH, 200)]
    assert worker.supervisor.observer.lines == []


def test_status_and_headers_are_those_of_the_supervisor_and_the_body_is_whole() -> None:
    worker = WorkerHarness(OWN_KEYS)
    direct = worker.supervisor.ask(f"{PATH}?a=b", BEARER)
    response = worker.ask(f"{PATH}?a=b", BEARER)
    for one in (direct, response):
        one.headers.pop("x-gateway-request-id")
    assert (response.status, response.headers, response.body) == (direct.status, direct.headers, direct.body)


def test_a_body_in_chunks_goes_on_whole() -> None:
    worker = WorkerHarness(OWN_KEYS)
    body = b'{"key":"%b"}' % KEY.encode()
    worker.send(
        b"POST /ui/login HTTP/1.1\r\nHost: gw\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n"
    )
    for piece in (body[:5], body[5:], b""):
        worker.send(b"%x\r\n%b\r\n" % (len(piece), piece))
    worker.turn()
    assert worker.received().count(b"HTTP/1.1 204 ") == 1


def test_head_has_the_length_of_what_get_would_send() -> None:
    worker = WorkerHarness(OWN_KEYS)
    response = worker.ask(PATH, BEARER, method="HEAD")
    assert (response.status, response.body) == (200, b"")
    assert held(worker) == (0, 0, 0, 0)


def test_the_connection_of_the_client_stays_open_for_another_request() -> None:
    worker = WorkerHarness(OWN_KEYS)
    for count in (1, 2):
        worker.send(b"GET %b HTTP/1.1\r\nHost: gw\r\nx-api-key: %b\r\n\r\n" % (PATH.encode(), KEY.encode()))
        worker.turn()
        assert worker.received().count(b"HTTP/1.1 200 OK") == count
    assert len(worker.endpoint.ends) == 4


def test_events_flow_until_the_client_leaves() -> None:
    worker = WorkerHarness(OWN_KEYS)
    assert worker.ask(EVENTS, BEARER).headers["content-type"] == "text/event-stream"
    for clock in (worker.supervisor.clock, worker.clock):
        clock.advance(15)
    worker.turn()
    assert worker.received().count(b":\nid: ") == 1
    worker.leave()
    worker.turn()
    assert held(worker) == (0, 0, 0, 0)
    assert worker.observer.lines == [("GET", EVENTS, 499)]


def test_a_slow_client_holds_up_the_supervisor_and_not_memory() -> None:
    worker = WorkerHarness(OWN_KEYS)
    worker.ask(EVENTS, BEARER)
    channel, before = worker.channel, len(worker.received())
    channel.pauseProducing()
    (supervisor,) = worker.listener.channels._open
    for _ in range(100):
        if not supervisor._client.is_full:
            supervisor.write(b":" * 8192 + b"\n\n")
        worker.turn()
    assert supervisor._client.is_full
    assert worker.endpoint.supervisor.most <= PIPE_BYTES + 16384
    assert len(worker.received()) - before <= 16384
    worker.supervisor.clock.advance(3600)
    channel.resumeProducing()
    worker.turn()
    assert not supervisor._client.is_full
    assert len(worker.received()) - before >= PIPE_BYTES


def test_a_worker_that_drains_ends_streams_in_order_and_begins_no_other() -> None:
    worker = WorkerHarness(OWN_KEYS)
    worker.ask(EVENTS, BEARER)
    worker.forwarding.drain()
    worker.turn()
    assert worker.received().endswith(b"\r\n0\r\n\r\n")
    assert held(worker) == (0, 0, 0, 0)
    assert worker.ask(PATH, BEARER).status == 200
    assert worker.ask(EVENTS, BEARER).status == 503
    assert held(worker) == (0, 0, 0, 0)


def refusal(response: Response) -> tuple[int, str, str]:
    return response.status, json.loads(response.body)["error"]["code"], response.headers["retry-after"]


def test_no_supervisor_is_said_at_once() -> None:
    worker = WorkerHarness(OWN_KEYS)
    worker.endpoint.refusal = ConnectError()
    assert refusal(worker.ask(PATH, BEARER)) == (503, "overloaded", "1")
    assert worker.observer.lines == [("GET", PATH, 503)]


def test_a_silent_supervisor_is_given_up() -> None:
    worker = WorkerHarness(OWN_KEYS)
    worker.endpoint.is_silent = True
    worker.connect()
    worker.send(b"GET %b HTTP/1.1\r\nHost: gw\r\n\r\n" % PATH.encode())
    worker.turn()
    worker.clock.advance(LIMITS.first_byte - 1)
    assert worker.received() == b""
    worker.clock.advance(2)
    worker.turn()
    assert refusal(Response(worker.received())) == (503, "overloaded", "1")
    assert held(worker)[:3] == (0, 0, 0)


def test_a_client_that_leaves_before_the_supervisor_responds_closes_its_connection() -> None:
    worker = WorkerHarness(OWN_KEYS)
    worker.endpoint.is_silent = True
    worker.send(b"GET %b HTTP/1.1\r\nHost: gw\r\n\r\n" % PATH.encode())
    worker.turn()
    worker.leave()
    worker.turn()
    assert held(worker)[:3] == (0, 0, 0)


def test_a_supervisor_that_dies_in_the_middle_breaks_the_response_visibly() -> None:
    worker = WorkerHarness(OWN_KEYS)
    worker.ask(EVENTS, BEARER)
    worker.endpoint.supervisor.abortConnection()
    worker.turn()
    assert worker.transport.disconnecting
    assert not worker.received().endswith(b"0\r\n\r\n")
    assert worker.observer.errors == ["truncated"]


BAD_LINES = {
    "no JSON": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "another JSON": b"[]\n",
    "a field that is missing": b'{"host":"127.0.0.1"}\n',
    "no end": b"x" * (MAX_LINE_BYTES + 1),
}


@pytest.mark.parametrize("line", BAD_LINES.values(), ids=BAD_LINES)
def test_whoever_says_nothing_of_a_client_is_cut_off(line: bytes) -> None:
    worker = WorkerHarness(NO_KEYS)
    connection, transport = worker.listener.connection(), StringTransport()
    connection.makeConnection(transport)  # type: ignore[no-untyped-call]  # Twisted's
    connection.dataReceived(line)
    assert transport.disconnecting
    assert transport.value() == b""


def test_whoever_says_nothing_at_all_is_cut_off() -> None:
    worker = WorkerHarness(NO_KEYS)
    connection, transport = worker.listener.connection(), StringTransport()
    connection.makeConnection(transport)  # type: ignore[no-untyped-call]  # Twisted's
    worker.supervisor.clock.advance(LINE_SECONDS + 1)
    assert transport.disconnecting


def test_the_line_may_come_in_pieces() -> None:
    worker = WorkerHarness(OWN_KEYS)
    connection, transport = worker.listener.connection(), StringTransport()
    connection.makeConnection(transport)  # type: ignore[no-untyped-call]  # Twisted's
    line = b'{"host":"::1","port":1,"is_secure":false,"request_id":"req_1"}\n'
    text = line + b"GET /ui HTTP/1.1\r\nHost: localhost\r\n\r\n"
    for at in range(len(text)):
        connection.dataReceived(text[at : at + 1])
    assert transport.value().startswith(b"HTTP/1.1 401 ")
    assert b"X-Gateway-Request-Id: req_1\r\n" in transport.value()
