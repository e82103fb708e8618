"""Limits of keys that are counted elsewhere: requests and sessions wait for the answer."""

from __future__ import annotations

import gc

import pytest
from twisted.internet.defer import Deferred

from mgw.clients.client import ClientRegistry
from mgw.clients.limits import LIMITS_BY_NAME, NOTHING, LimitReached, Permit, Taken, limits_of
from mgw.exchange.exchange import Exchange
from mgw.exchange.pipeline import ExchangeRun
from mgw.realtime.sessions import SESSIONS, Sessions
from mgw.usage.event import Outcome
from mgw.web.client_transport import LINGER_SECONDS
from mgw.web.server_request import ServerRequest
from tests.memory.web.test_admission import reload, upstream_heads
from tests.memory.web.test_named_keys import CHAT, MESSAGES, ask, body, retry_after
from tests.support.channels import post
from tests.support.configs import THREE_FAMILIES
from tests.support.counting import LateCounts, reached
from tests.support.exchanges import JSON
from tests.support.in_memory.measure import collector_off
from tests.support.memory_sessions import LIVE, REALTIME, RESPONSES, SETUP, SessionHarness, closing
from tests.support.pipelines import answered
from tests.support.raw_sessions import close_frame, handshake
from tests.support.web_servers import WebServerHarness, settled

SHARED = """
edge_auth:
  enabled: true
  keys:
    - {name: alice, key: edge, max_in_flight: 1}
"""
TEXT = THREE_FAMILIES + SHARED
REACHED = reached("requests_per_minute", 7, 12.5)
FULL = reached("max_sessions", 3, 1.0, SESSIONS)
USAGE = b'{"usage":{"prompt_tokens":7,"completion_tokens":4,"total_tokens":11}}'
NEW_AND_KNOWN = pytest.mark.usefixtures("heads")


def share(harness: WebServerHarness, text: str = TEXT) -> LateCounts:
    """Have the one key of a server counted elsewhere."""
    counts = LateCounts()
    harness.server.registry = ClientRegistry(counts)
    reload(harness, text)
    return counts


def server(text: str = TEXT) -> tuple[WebServerHarness, LateCounts]:
    harness = WebServerHarness(text)
    return harness, share(harness, text)


def send(harness: WebServerHarness, counts: LateCounts, data: bytes) -> Deferred[Permit | LimitReached]:
    """Send a request, and return what its permit is waited for with; requests before it leave nothing."""
    harness.send(data)
    *warmed, waiting = counts.asked
    for other in warmed:
        if not other.called:
            other.callback(Permit())
    counts.ended.clear()
    return waiting


@NEW_AND_KNOWN
@pytest.mark.parametrize(
    ("path", "content"),
    [
        (CHAT, body("gpt-b")),
        (CHAT, body("claude/x")),
        (MESSAGES, body("main/gpt-b")),
        ("/v1/embeddings", b'{"model":"gpt-b","input":"x"}'),
        ("/v1/audio/speech", b'{"model":"gpt-b","input":"x","voice":"a"}'),
        ("/v1/images/generations", b'{"model":"gpt-b","prompt":"x"}'),
        ("/v1/messages/batches", b'{"requests":[{"params":{"model":"claude-x"}}]}'),
    ],
)
def test_nothing_goes_upstream_before_the_permit_is_there(path: str, content: bytes) -> None:
    harness, counts = server()
    waiting = send(harness, counts, post(content, "x-api-key: edge", JSON, path=path))
    assert not upstream_heads(harness)
    assert not harness.received()
    permit = Permit()
    waiting.callback(permit)
    assert len(upstream_heads(harness)) == 1
    assert not counts.ended
    harness.connection.send(answered(USAGE))
    ((ended, taken),) = counts.ended
    assert (ended is permit, taken.requests) == (True, 1)
    assert len(harness.observer.events) == 1
    assert settled(harness)[0] == 0


@NEW_AND_KNOWN
def test_a_late_refusal_says_when_the_row_resets_in_the_time_zone_of_the_gateway() -> None:
    harness, counts = server(TEXT.replace("  enabled: true\n", "  enabled: true\n  timezone: Asia/Tokyo\n"))
    waiting = send(harness, counts, ask("edge"))
    waiting.callback(LimitReached("alice", LIMITS_BY_NAME["usd_per_day"], 5 * 10**9, 54_000.0, 54_000.0))
    assert b"x-should-retry: false\r\n" in harness.received()
    assert b"usd_per_day is 5; it resets at 1970-01-02T00:00:00+09:00" in harness.received()
    assert harness.observer.events[-1].error == "insufficient_quota"
    assert not upstream_heads(harness)


@NEW_AND_KNOWN
def test_the_tokens_are_told_with_the_end() -> None:
    harness, counts = server()
    waiting = send(harness, counts, ask("edge"))
    waiting.callback(Permit())
    harness.connection.send(answered(USAGE))
    assert [taken for _, taken in counts.ended] == [Taken(tokens=11)]


@NEW_AND_KNOWN
def test_the_cost_is_told_with_the_end() -> None:
    prices = "prices: {rows: [{model: '*', input: 2, output: 5}]}\n"
    harness, counts = server(TEXT.replace("max_in_flight: 1", "limits: [{usd: 1, per: day}]") + prices)
    waiting = send(harness, counts, ask("edge"))
    waiting.callback(Permit())
    harness.connection.send(answered(USAGE))
    assert [taken for _, taken in counts.ended] == [Taken(tokens=11, nanodollars=7 * 2_000 + 4 * 5_000)]


@NEW_AND_KNOWN
@pytest.mark.parametrize("path", [CHAT, MESSAGES])
def test_a_limit_that_is_known_later_refuses_like_any_other(path: str) -> None:
    harness, counts = server()
    send(harness, counts, ask("edge", "main/gpt-b", path)).callback(REACHED)
    assert (harness.status(), retry_after(harness.received())) == (429, 13)
    assert b"requests_per_minute is 7" in harness.received()
    event = harness.event
    assert (event.status, event.error, event.attempts) == (
        Outcome.REJECTED,
        "rate_limit_exceeded",
        0,
    )
    assert (upstream_heads(harness), counts.ended) == ([], [])
    assert settled(harness) == (0, 0, 0)


@NEW_AND_KNOWN
@pytest.mark.parametrize("late", [Permit(), REACHED])
def test_a_client_that_leaves_while_it_waits_keeps_no_permit(late: Permit | LimitReached) -> None:
    harness, counts = server()
    waiting = send(harness, counts, ask("edge"))
    harness.leave()
    assert harness.event.status is Outcome.CLIENT_ABORT
    assert not counts.ended
    waiting.callback(late)
    assert counts.ended == ([(late, Taken())] if isinstance(late, Permit) else [])
    assert len(harness.observer.events) == 1
    assert not upstream_heads(harness)
    assert settled(harness) == (0, 0, 0)


@NEW_AND_KNOWN
def test_the_body_is_received_while_the_permit_is_awaited() -> None:
    harness, counts = server()
    data = ask("edge")
    waiting = send(harness, counts, data[:-5])
    permit = Permit()
    waiting.callback(permit)
    assert not upstream_heads(harness)
    harness.channel.dataReceived(data[-5:])
    assert len(upstream_heads(harness)) == 1
    harness.connection.send(answered())
    assert [ended for ended, _ in counts.ended] == [permit]


@NEW_AND_KNOWN
def test_a_limit_ends_an_upload_at_once() -> None:
    harness, counts = server()
    data = post(b" " * 70_000, "x-api-key: edge", JSON, path=CHAT)
    send(harness, counts, data[:-5]).callback(REACHED)
    assert harness.status() == 429
    assert b"Connection: close" in harness.received()
    assert harness.event.status is Outcome.REJECTED
    harness.clock.advance(LINGER_SECONDS)
    harness.leave()
    assert (counts.ended, len(harness.observer.events), settled(harness)) == ([], 1, (0, 0, 0))


@NEW_AND_KNOWN
def test_who_is_refused_for_another_reason_meanwhile_never_counted() -> None:
    harness, counts = server(f"{TEXT}max_body_bytes: 200\n")
    head, _, content = post(
        b" " * 150, "x-api-key: edge", JSON, "Transfer-Encoding: chunked", path=CHAT
    ).partition(b"\r\n\r\n")
    lines = [line for line in head.split(b"\r\n") if not line.lower().startswith(b"content-length")]
    data = b"\r\n".join(lines) + b"\r\n\r\n" + b"96\r\n" + content + b"\r\n"
    waiting = send(harness, counts, data)
    harness.channel.dataReceived(b"96\r\n" + content + b"\r\n")
    assert harness.status() == 413
    permit = Permit()
    waiting.callback(permit)
    assert counts.ended == [(permit, NOTHING)]
    assert len(harness.observer.events) == 1


@NEW_AND_KNOWN
def test_the_end_of_a_drain_ends_the_wait() -> None:
    harness, counts = server()
    waiting = send(harness, counts, ask("edge"))
    harness.server.abort_requests()
    assert harness.status() == 503
    permit = Permit()
    waiting.callback(permit)
    assert counts.ended == [(permit, NOTHING)]
    assert (upstream_heads(harness), len(harness.observer.events)) == ([], 1)


@NEW_AND_KNOWN
def test_counts_that_fail_are_a_bug() -> None:
    harness, counts = server()
    send(harness, counts, ask("edge")).errback(ValueError("broken"))
    assert harness.status() == 500
    assert (upstream_heads(harness), counts.ended) == ([], [])
    assert harness.event.status is Outcome.REJECTED


@NEW_AND_KNOWN
def test_an_answer_that_is_there_already_is_not_waited_for() -> None:
    harness, counts = server()
    counts.ready = Permit()
    harness.send(ask("edge"))
    assert len(upstream_heads(harness)) == 1
    harness.connection.send(answered())
    harness.leave()
    harness.connect()
    counts.ready = REACHED
    harness.send(ask("edge"))
    assert harness.status() == 429
    counts.ready = ValueError("broken")
    harness.connect()
    harness.send(ask("edge"))
    assert harness.status() == 500


OURS = (Exchange, ExchangeRun, ServerRequest)


@pytest.mark.parametrize("leaves", [True, False])
@pytest.mark.parametrize("late", [Permit(), REACHED])
def test_a_request_that_waited_leaves_no_cycles(late: Permit | LimitReached, leaves: bool) -> None:
    harness, counts = server()
    with collector_off():
        for _ in range(5):
            harness.connect()
            harness.send(ask("edge"))
            if leaves:
                harness.leave()
            counts.asked.pop().callback(late)
            if not leaves and isinstance(late, Permit):
                harness.connection.send(answered())
        counts.ended.clear()
        assert not [found for found in gc.get_objects() if isinstance(found, OURS) and is_of(harness, found)]


def is_of(harness: WebServerHarness, found: object) -> bool:
    """Whether an object is what is made for one request, and of this server."""
    if isinstance(found, Exchange):
        return found.generation is harness.server.generation
    if isinstance(found, ServerRequest):
        return found.server is harness.server
    return isinstance(found, ExchangeRun) and found._exchange.generation is harness.server.generation


# Sessions


def session(path: str = REALTIME) -> tuple[SessionHarness, LateCounts, LateCounts]:
    """Ask for a session, where both its permit and its slot are given out elsewhere."""
    harness = SessionHarness(path, TEXT)
    harness.leave()
    harness.turn()
    harness.observer.events.clear()
    counts, slots = share(harness), LateCounts()
    harness.server.sessions = Sessions(3, counts=slots)
    harness.connect()
    before = len(harness.pipeline.endpoint.connections)
    harness.channel.dataReceived(handshake(path, "edge"))
    assert (len(counts.asked), slots.asked) == (1, [])
    assert len(harness.pipeline.endpoint.connections) == before
    assert not harness.received()
    return harness, counts, slots


def test_a_session_waits_for_its_permit_and_then_for_its_slot() -> None:
    harness, counts, slots = session()
    before = len(harness.pipeline.endpoint.connections)
    counts.asked[0].callback(Permit())
    assert len(harness.pipeline.endpoint.connections) == before
    slots.asked[0].callback(Permit())
    assert harness.server.sessions.count == 1
    harness.switch()
    assert harness.take_head().startswith(b"HTTP/1.1 101 ")
    harness.channel.dataReceived(close_frame(1000))
    harness.provider.send(closing(1000))
    assert (harness.server.sessions.count, len(slots.ended), len(counts.ended)) == (0, 1, 1)
    assert harness.event.status is Outcome.OK


@pytest.mark.parametrize("path", [REALTIME, LIVE])
def test_a_session_without_a_permit_is_refused(path: str) -> None:
    harness, counts, slots = session(path)
    counts.asked[0].callback(REACHED)
    assert (harness.status(), retry_after(harness.received())) == (429, 13)
    assert (slots.asked, slots.ended, counts.ended) == ([], [], [])
    assert harness.event.error == "rate_limit_exceeded"
    assert harness.is_free()


@pytest.mark.parametrize("path", [REALTIME, LIVE])
def test_a_session_without_a_slot_is_refused(path: str) -> None:
    harness, counts, slots = session(path)
    counts.asked[0].callback(Permit())
    slots.asked[0].callback(FULL)
    assert harness.status() == 429
    assert b"all 3 realtime sessions" in harness.received()
    assert not slots.ended
    assert [taken for _, taken in counts.ended] == [NOTHING]
    assert harness.is_free()


@pytest.mark.parametrize("path", [REALTIME, LIVE])
@pytest.mark.parametrize("is_taken", [True, False])
@pytest.mark.parametrize("is_drain", [True, False])
def test_a_session_that_ends_while_it_waits_for_its_slot_gives_it_back(
    path: str,
    is_taken: bool,
    is_drain: bool,
) -> None:
    harness, counts, slots = session(path)
    counts.asked[0].callback(Permit())
    (harness.server.abort_requests if is_drain else harness.leave)()
    assert (len(slots.ended), len(counts.ended)) == (0, 1)
    slots.asked[0].callback(Permit() if is_taken else FULL)
    assert (len(slots.ended), len(counts.ended)) == (int(is_taken), 1)
    assert harness.is_free()
    assert len(harness.observer.events) == 1


@pytest.mark.parametrize("path", [REALTIME, LIVE])
def test_a_session_that_ends_while_it_waits_for_its_permit_gives_that_back(path: str) -> None:
    harness, counts, slots = session(path)
    harness.leave()
    assert harness.event.status is Outcome.CLIENT_ABORT
    permit = Permit()
    counts.asked[0].callback(permit)
    assert counts.ended == [(permit, Taken())]
    assert not slots.asked
    assert harness.is_free()


def test_slots_that_fail_are_a_bug() -> None:
    harness, counts, slots = session()
    counts.asked[0].callback(Permit())
    slots.asked[0].errback(ValueError("broken"))
    assert harness.status() == 500
    assert not slots.ended
    assert harness.is_free()


def test_a_session_by_message_has_its_101_with_its_slot() -> None:
    harness, counts, slots = session(LIVE)
    counts.asked[0].callback(Permit())
    assert not harness.received()
    slots.asked[0].callback(Permit())
    assert harness.take_head().startswith(b"HTTP/1.1 101 ")
    harness.channel.dataReceived(SETUP)
    harness.leave()
    assert (len(slots.ended), len(counts.ended)) == (1, 1)


def test_a_socket_of_responses_is_no_request_itself() -> None:
    harness = SessionHarness(RESPONSES, TEXT)
    counts = share(harness)
    harness.connect()
    harness.channel.dataReceived(handshake(RESPONSES, "edge"))
    assert harness.take_head().startswith(b"HTTP/1.1 101 ")
    assert counts.asked == []


def test_a_reload_tells_the_slots() -> None:
    harness, _, slots = session()
    reload(harness, f"{TEXT}realtime: {{max_sessions: 5}}\n")
    assert slots.used == [(SESSIONS, limits_of(SESSIONS, {"max_sessions": most})) for most in (3, 5)]
    assert harness.server.sessions.max_sessions == 5
