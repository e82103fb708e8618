"""A gateway with two workers, as clients and operators see it: one gateway, also where a worker is killed."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from typing import Final

import pytest

from tests.sockets.test_dashboard_access import ask as ask_dashboard
from tests.sockets.test_dashboard_access import sign_in
from tests.sockets.test_dashboard_feed import Feed
from tests.support.gateway import GatewayProcess, start_gateway
from tests.support.ledger import Ledger, event_of
from tests.support.operations import ask
from tests.support.raw_client import CHAT, RawClient, RawResponse, asking, chat, request
from tests.support.raw_sessions import REALTIME, handshake
from tests.support.raw_upstream import COMPLETION, JSON, RawUpstream, Turn, counted
from tests.support.supervised import Load, Workers, held_turns, holding, request_id
from tests.support.waiting import wait_until

PLAIN: Final = "edge-canary-plain"
FOUR: Final = "edge-canary-four"
TEN: Final = "edge-canary-ten"
DASHBOARD: Final = "dashboard-canary-key-1"
SESSIONS: Final = 3


def configuration(upstream: RawUpstream) -> str:
    return f"""
workers: 2
providers:
  main: {{kind: openai, base_url: "{upstream.url}/v1", api_key: sk-canary}}
defaults: {{openai_dialect: main}}
edge_auth:
  enabled: true
  keys:
    - {PLAIN}
    - {{name: four, key: {FOUR}, max_in_flight: 4}}
    - {{name: ten, key: {TEN}, requests_per_minute: 10}}
realtime: {{max_sessions: {SESSIONS}}}
dashboard: {{keys: [{DASHBOARD}]}}
"""


@pytest.fixture(scope="module")
def gateway(upstream: RawUpstream) -> Iterator[GatewayProcess]:
    with start_gateway(configuration(upstream)) as process:
        yield process


@pytest.fixture
def workers(gateway: GatewayProcess, upstream: RawUpstream) -> Workers:
    found = Workers(gateway)
    wait_until(lambda: found.pids.keys() == {0, 1}, "both workers")
    upstream.begin()
    return found


def bearer(key: str) -> bytes:
    return f"Authorization: Bearer {key}".encode()


def test_both_workers_serve_and_one_process_counts(workers: Workers, upstream: RawUpstream) -> None:
    gateway, ledger = workers.gateway, Ledger(workers.gateway)
    authorization = {"Authorization": f"Bearer {PLAIN}"}
    counted_before = gateway.metric("mgw_requests_total", authorization)
    assert gateway.metric("mgw_requests_in_flight ", authorization) == 1, "the scrape itself"
    connections: list[set[int]] = []
    answers: list[RawResponse] = []
    for slot in (0, 1):
        seen = len(upstream.turns)
        with workers.connect(slot) as client:
            for _ in range(5):
                client.send(chat("gpt-1", bearer(PLAIN)))
                answers.append(client.read_response())
        connections.append({turn.connection for turn in upstream.turns[seen:]})
    assert connections[0].isdisjoint(connections[1])  # each has its own to the provider
    with ThreadPoolExecutor(8) as threads:
        body = asking("gpt-1")
        answers += threads.map(lambda _: ask(gateway.port, CHAT, bearer(PLAIN), body=body), range(40))
    assert Counter(answer.status for answer in answers) == {200: 50}
    ids = sorted(request_id(answer) for answer in answers)
    assert sorted(event["request_id"] for event in ledger.take(50)) == ids
    assert gateway.metric("mgw_requests_total", authorization) == counted_before + 50
    assert ledger.rest("gpt-1", bearer(PLAIN)) == []
    for word in ("usage", "http"):
        lines = [line for line in gateway.stderr.data.decode().splitlines() if line.startswith(f"{word} ")]
        found = [one for line in lines for one in ids if f"request_id={one}" in line]
        assert sorted(found) == ids


def test_a_killed_worker_takes_only_its_own_requests_with_it(workers: Workers, upstream: RawUpstream) -> None:
    gateway, load = workers.gateway, Load(workers.gateway.port, (bearer(PLAIN),))
    with holding(upstream) as go_on, ExitStack() as stack:
        clients = [[stack.enter_context(workers.connect(slot)) for _ in range(2)] for slot in (0, 1)]
        for client in (*clients[0], *clients[1]):
            client.send(chat("held", bearer(FOUR)))
        upstream.wait_for(lambda: held_turns(upstream) == 4, "four requests")
        assert ask(gateway.port, CHAT, bearer(FOUR), body=asking("held")).status == 429
        with load.running():
            load.wait_for_more(50)
            early = set(load.answered)
            with workers.connect(0) as client:  # whose events keep their order
                client.send(chat("gpt-1", bearer(PLAIN)))
                event_of(gateway, client.read_response())
            killed = workers.kill(0)
            assert all(client.no_answer() for client in clients[0])
            workers.wait_for_replacement(0, killed)
            more = [stack.enter_context(RawClient(gateway.port)) for _ in range(2)]  # in the freed places
            for client in more:
                client.send(chat("held", bearer(FOUR)))
            upstream.wait_for(lambda: held_turns(upstream) == 6, "two more requests")
            assert ask(gateway.port, CHAT, bearer(FOUR), body=asking("held")).status == 429
            late = len(load.answered)
            load.wait_for_more(20)
        go_on.set()
        assert [client.read_response().status for client in (*clients[1], *more)] == [200] * 4
    assert len(load.failed) <= load.clients, load.failed  # what each was waiting for just then
    assert early <= ids_of_events(gateway)
    wait_until(lambda: set(load.answered[late:]) <= ids_of_events(gateway), "all later events")
    ids = [event["request_id"] for event in gateway.events()]  # read once: events may still be written
    assert len(ids) == len(set(ids)), "an event is written twice"
    assert gateway.metric("mgw_worker_restarts_total", {"Authorization": f"Bearer {PLAIN}"}) == 1


def ids_of_events(gateway: GatewayProcess) -> set[str]:
    return {event["request_id"] for event in gateway.events()}


def test_as_many_requests_of_a_key_are_under_way_as_it_may_have(
    workers: Workers, upstream: RawUpstream
) -> None:
    with holding(upstream) as go_on, ExitStack() as stack:
        clients = [stack.enter_context(workers.connect(number % 2)) for number in range(12)]
        with ThreadPoolExecutor(12) as threads:

            def send(client: RawClient) -> int:
                client.send(chat("held", bearer(FOUR)))
                return client.read_response().status

            waiting = [threads.submit(send, client) for client in clients]
            wait_until(lambda: sum(one.done() for one in waiting) == 8, "eight refusals")
            upstream.wait_for(lambda: held_turns(upstream) == 4, "four requests")
            go_on.set()
            assert Counter(one.result() for one in waiting) == {200: 4, 429: 8}
        for client in clients[:4]:  # and their places are free again
            client.send(chat("gpt-1", bearer(FOUR)))
            assert client.read_response().status == 200


def test_a_key_has_its_requests_per_minute_once_for_all_workers(workers: Workers) -> None:
    with ExitStack() as stack, ThreadPoolExecutor(6) as threads:
        clients = [stack.enter_context(workers.connect(number % 2)) for number in range(6)]

        def send(client: RawClient) -> list[int]:
            statuses = []
            for _ in range(4):
                client.send(chat("gpt-1", bearer(TEN)))
                statuses.append(client.read_response().status)
            return statuses

        found = Counter(status for statuses in threads.map(send, clients) for status in statuses)
    assert found == {200: 10, 429: 14}


def open_session(connect: Callable[[], RawClient], stack: ExitStack) -> tuple[RawClient, int]:
    """Ask for a session; return the connection and the status."""
    client = stack.enter_context(connect())
    client.send(handshake(f"{REALTIME}m-1", PLAIN))
    head = client.incoming.head()
    assert head is not None
    return client, int(head[0].split(b" ")[1])


def accept_session(turn: Turn) -> None:
    turn.switch_protocols()
    turn.wait_until_left()
    turn.closed = True


def test_sessions_are_counted_and_shown_for_all_workers(workers: Workers, upstream: RawUpstream) -> None:
    upstream.begin(accept_session)
    gateway, cookie = workers.gateway, sign_in(workers.gateway, DASHBOARD)

    def listed() -> int:
        found = json.loads(ask_dashboard(gateway, "/v1/dashboard/sessions", Cookie=cookie).read())
        assert found["max_sessions"] == SESSIONS
        return len({row["request_id"] for row in found["sessions"]})

    with ExitStack() as stack:
        with workers.only(0):  # the other one will be killed
            feed = stack.enter_context(closing(Feed(gateway, "?kinds=session", Cookie=cookie)))
        sessions = [open_session(lambda slot=slot: workers.connect(slot), stack) for slot in (0, 1, 1)]  # type: ignore[misc]  # bound now
        assert [status for _, status in sessions] == [101] * 3
        assert [feed.event()[1]["state"] for _ in range(3)] == ["opened"] * 3
        for slot in (0, 1):
            assert open_session(lambda slot=slot: workers.connect(slot), stack)[1] == 429  # type: ignore[misc]  # bound now
        assert listed() == 3
        killed = workers.kill(1)
        assert all(client.no_answer() for client, _ in sessions[1:])
        assert [feed.event()[1]["state"] for _ in range(2)] == ["closed"] * 2
        wait_until(lambda: listed() == 1, "two sessions to be gone")
        workers.wait_for_replacement(1, killed)
        again = [open_session(lambda: RawClient(gateway.port), stack)[1] for _ in range(3)]
        assert again == [101, 101, 429]
        sessions[0][0].socket.close()
        wait_until(lambda: listed() == 2, "a session to end")
        states = [feed.event()[1]["state"] for _ in range(3)]
        assert states == ["opened", "opened", "closed"]


def test_operators_reach_the_dashboard_through_each_worker(workers: Workers) -> None:
    gateway = workers.gateway
    for slot in (0, 1):
        with workers.only(slot):
            assert ask(gateway.port, "/readyz").status == 200
            assert ask(gateway.port, "/ui").value(b"content-type") == b"text/html; charset=utf-8"
            assert ask_dashboard(gateway, "/v1/dashboard/requests").status == 401
            cookie = sign_in(gateway, DASHBOARD)
        with workers.connect(1 - slot) as client:
            answered = [("requests", b'"requests":'), ("profiles", b'"main"'), ("logs", b"worker 0")]
            for name, words in answered:
                path = f"/v1/dashboard/{name}"
                lines = [f"GET {path} HTTP/1.1", "Host: g", f"Cookie: {cookie}", "", ""]
                client.send("\r\n".join(lines).encode())
                response = client.read_response("GET")
                assert (response.status, words in response.body) == (200, True), response


def test_no_line_of_a_worker_shows_a_key(workers: Workers, upstream: RawUpstream) -> None:
    for slot, key in enumerate(("sk-canary", FOUR)):
        completion = COMPLETION.replace(b'"stop"', f'"{key}"'.encode())
        upstream.begin(lambda turn, body=completion: turn.send(counted(body, JSON)))  # type: ignore[misc]  # bound now
        with workers.connect(slot) as client:
            client.send(request(asking("main/gpt-1", max_tokens=9), bearer(PLAIN), path="/v1/messages"))
            assert client.read_response().status == 200
        log = workers.gateway.log(b"[worker %d] provider main sent the unknown finish reason" % slot)
        assert key.encode() not in log
