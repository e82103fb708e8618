"""The promises of mgw.upstream.pool, seen through the upstream that it serves."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from twisted.internet.defer import CancelledError
from twisted.internet.error import ConnectingCancelledError
from twisted.internet.error import ConnectionRefusedError as Refused
from twisted.internet.task import Clock

from mgw.http.head_shape import LEARN_AFTER
from mgw.nouns.errors import GatewayError, Reason
from mgw.upstream import pool
from mgw.upstream.client import Phase, UpstreamFailure
from mgw.upstream.connection import Connection, ResponseWaiter
from tests.support.upstreams import (
    LIMITS,
    OK,
    MemoryEndpoint,
    ProviderConnection,
    Result,
    UpstreamHarness,
    collect_body,
    get,
    memory_upstream,
    outcome_of,
)


def ask(b: UpstreamHarness, *, fresh: bool = False) -> Result:
    return outcome_of(b.upstream.open(get(), fresh=fresh))


def response(connection: ProviderConnection, result: Result) -> None:
    connection.send(OK)
    collect_body(result.response)


def resting(count: int) -> UpstreamHarness:
    """An upstream with ``count`` connections that rest, in the order of their connections."""
    b = memory_upstream()
    results = [ask(b) for _ in range(count)]
    for connection, result in zip(b.endpoint.connections, results, strict=True):
        response(connection, result)
    return b


def test_the_connection_that_rested_longest_is_used_first() -> None:
    b = resting(3)
    before = b.endpoint.connections[0].received
    ask(b)
    assert len(b.endpoint.connections[0].received) > len(before)


def test_a_fresh_request_takes_no_resting_connection() -> None:
    b = resting(1)
    ask(b, fresh=True)
    assert len(b.endpoint.connections) == 2
    assert b.upstream.idle == 1


@pytest.mark.parametrize("reset", [False, True])
def test_a_connection_that_the_provider_closed_leaves_at_once(reset: bool) -> None:
    b = resting(1)
    if reset:
        b.connection.reset()
    else:
        b.connection.close()
    assert (b.upstream.idle, b.upstream.active) == (0, 0)


def test_no_more_connections_rest_than_allowed_and_the_oldest_goes() -> None:
    b = resting(pool.MAX_IDLE + 1)
    assert b.upstream.idle == pool.MAX_IDLE
    assert b.endpoint.connections[0].closing
    assert not b.endpoint.connections[1].closing


def test_counters_tell_active_idle_and_opened() -> None:
    b = resting(2)
    ask(b)
    assert (b.upstream.active, b.upstream.idle, b.upstream.opened_total) == (1, 1, 2)


def crowded() -> tuple[UpstreamHarness, Result]:
    """An upstream with one connection allowed, and that one in use."""
    b = memory_upstream(max_connections=1)
    return b, ask(b)


def test_a_request_beyond_the_limit_waits_for_a_connection() -> None:
    b, first = crowded()
    second = ask(b)
    assert (len(b.endpoint.connections), b.upstream.waiting) == (1, 1)
    response(b.connection, first)
    assert (b.upstream.waiting, b.upstream.active) == (0, 1)
    response(b.connection, second)
    assert b.upstream.idle == 1


def test_waiters_are_served_in_their_order() -> None:
    b, result = crowded()
    waiters = [ask(b) for _ in range(3)]
    served = []
    for _ in range(3):
        response(b.connection, result)
        b.connection.send(OK)
        (result,) = [waiter for waiter in waiters if waiter.value is not None and waiter not in served]
        served.append(result)
    assert served == waiters


def test_a_connection_that_ends_gives_its_place_to_the_first_in_line() -> None:
    b, _ = crowded()
    second = ask(b)
    b.connection.reset()
    assert len(b.endpoint.connections) == 2
    response(b.connection, second)


def test_an_attempt_that_fails_gives_its_place_to_the_first_in_line() -> None:
    b = memory_upstream(max_connections=1)
    b.endpoint.held = True
    first, second = ask(b), ask(b)
    b.endpoint.pending[0][1].errback(Refused())
    assert isinstance(first.error, UpstreamFailure)
    b.endpoint.pending.pop(0)
    b.endpoint.let_through()
    response(b.connection, second)


def test_a_fresh_request_gets_the_place_of_one_that_rests() -> None:
    b, first = crowded()
    response(b.connection, first)
    second = ask(b, fresh=True)
    assert b.endpoint.connections[0].closing
    assert len(b.endpoint.connections) == 2
    assert b.upstream.active == 1
    response(b.connection, second)


def test_a_fresh_waiter_gets_the_place_but_not_the_connection() -> None:
    b, first = crowded()
    second = ask(b, fresh=True)
    response(b.connection, first)
    assert b.endpoint.connections[0].closing
    assert len(b.endpoint.connections) == 2
    response(b.connection, second)
    assert (b.upstream.active, b.upstream.idle) == (0, 1)


def test_a_waiter_is_told_to_come_back_when_it_waits_too_long() -> None:
    b, _ = crowded()
    second = ask(b)
    b.clock.advance(10)
    assert isinstance(second.error, GatewayError)
    assert (second.error.reason, second.error.retry_after) == (Reason.OVERLOADED, 1)
    assert b.upstream.waiting == 0


def test_a_waiter_beyond_the_line_is_told_to_come_back_at_once() -> None:
    b, _ = crowded()
    waiting = [ask(b) for _ in range(pool.MAX_WAITERS)]
    last = ask(b)
    assert not any(one.error for one in waiting)
    assert isinstance(last.error, GatewayError)
    assert last.error.reason is Reason.OVERLOADED


def test_a_cancelled_waiter_leaves_the_others_waiting() -> None:
    b, first = crowded()
    leaving = b.upstream.open(get())
    left = outcome_of(leaving)
    third = ask(b)
    leaving.cancel()
    assert isinstance(left.error, CancelledError)
    assert b.upstream.waiting == 1
    response(b.connection, first)
    response(b.connection, third)


def test_cancelling_while_connecting_cancels_the_attempt_and_frees_its_place() -> None:
    b = memory_upstream(max_connections=1)
    b.endpoint.held = True
    waiting = b.upstream.open(get())
    result = outcome_of(waiting)
    waiting.cancel()
    assert isinstance(result.error, CancelledError)
    assert (b.endpoint.cancelled, b.upstream.active, b.timers()) == (1, 0, 0)


def test_a_dial_that_its_endpoint_cancels_is_a_failure() -> None:
    b = memory_upstream()
    b.endpoint.held = True
    result = ask(b)
    b.endpoint.pending[0][1].errback(ConnectingCancelledError(None))
    assert isinstance(result.error, UpstreamFailure)


def test_connecting_takes_no_longer_than_its_limit() -> None:
    b = memory_upstream()
    b.endpoint.held = True
    result = ask(b)
    b.clock.advance(9)
    assert result.error is None
    b.clock.advance(1)
    assert isinstance(result.error, UpstreamFailure)
    assert (result.error.reason, result.error.phase) == (Reason.UPSTREAM_TOO_SLOW, Phase.CONNECT)
    assert (b.endpoint.cancelled, b.upstream.active, b.timers()) == (1, 0, 0)


def test_a_refused_connection_is_told_with_the_providers_name() -> None:
    b = memory_upstream()
    b.endpoint.refusal = Refused()
    result = ask(b)
    assert isinstance(result.error, UpstreamFailure)
    assert (result.error.reason, result.error.phase) == (Reason.UPSTREAM_BROKEN, Phase.CONNECT)
    assert result.error.message == "provider main refused the connection"


def test_closing_closes_what_rests_and_lets_the_active_finish() -> None:
    b = resting(2)
    active = ask(b)
    b.upstream.close()
    assert [connection.closing for connection in b.endpoint.connections] == [False, True]
    response(b.endpoint.connections[0], active)
    assert b.endpoint.connections[0].closing
    assert b.upstream.idle == 0


def test_a_closed_upstream_is_drained_when_the_last_request_is_done() -> None:
    b = memory_upstream()
    active = ask(b)
    b.upstream.close()
    drained = b.upstream.when_closed()
    assert not drained.called
    response(b.connection, active)
    assert drained.called


def test_an_upstream_without_connections_is_drained() -> None:
    b = memory_upstream()
    b.upstream.close()
    assert b.upstream.when_closed().called


def test_a_request_that_began_before_the_close_may_still_open_a_connection() -> None:
    b = memory_upstream()
    b.upstream.close()
    result = ask(b)
    response(b.connection, result)
    assert (b.connection.closing, b.upstream.idle) == (True, 0)


SETTLING = replace(LIMITS, settle=pool.SETTLE_SECONDS)


def test_a_connection_settles_before_it_is_lent_again() -> None:
    b = memory_upstream(limits=SETTLING)
    first = ask(b)
    response(b.connection, first)
    ask(b)
    assert len(b.endpoint.connections) == 2  # the one at rest may yet say more
    b.clock.advance(pool.SETTLE_SECONDS)
    before = b.endpoint.connections[0].received
    ask(b)
    assert len(b.endpoint.connections) == 2
    assert len(b.endpoint.connections[0].received) == 2 * len(before)


def test_who_stands_in_line_gets_the_connection_when_it_has_settled() -> None:
    b = memory_upstream(max_connections=1, limits=SETTLING)
    first, second = ask(b), ask(b)
    before = b.connection.received
    response(b.connection, first)
    assert b.connection.received == before
    b.clock.advance(pool.SETTLE_SECONDS)
    assert len(b.connection.received) == 2 * len(before)
    response(b.connection, second)
    assert second.value is not None


def test_a_connection_that_speaks_while_it_settles_leaves_its_place_to_who_is_in_line() -> None:
    b = memory_upstream(max_connections=1, limits=SETTLING)
    first, second = ask(b), ask(b)
    response(b.connection, first)
    b.connection.send(OK)
    assert len(b.endpoint.connections) == 2
    response(b.connection, second)
    assert second.value is not None


def test_who_finds_only_a_connection_that_settles_waits_for_it_where_no_place_is_free() -> None:
    b = memory_upstream(max_connections=1, limits=SETTLING)
    first = ask(b)
    before = b.connection.received
    response(b.connection, first)
    ask(b)
    assert (b.connection.received, len(b.endpoint.connections)) == (before, 1)
    b.clock.advance(pool.SETTLE_SECONDS)
    assert len(b.connection.received) == 2 * len(before)


def test_cancelling_while_a_connection_settles_leaves_it_at_rest() -> None:
    b = memory_upstream(max_connections=1, limits=SETTLING)
    answer_of = ask(b)
    response(b.connection, answer_of)
    waiting = b.upstream.open(get())
    waiting.cancel()
    assert isinstance(outcome_of(waiting).error, CancelledError)
    assert (b.upstream.idle, b.upstream.active) == (1, 0)
    b.clock.advance(pool.SETTLE_SECONDS)
    assert (b.upstream.idle, b.upstream.active) == (1, 0)


def test_a_connection_may_be_requested_by_callbacks() -> None:
    clock, endpoint = Clock(), MemoryEndpoint()
    connections = pool.Pool("main", endpoint, clock, LIMITS, lambda error: pytest.fail(str(error)))
    ready: list[Connection] = []
    errors: list[Exception] = []
    connections.request_connection(ready.append, errors.append, fresh=False)
    assert len(ready) == 1
    connections.on_released(ready[0])
    connections.request_connection(ready.append, errors.append, fresh=False)
    assert ready == [ready[0]] * 2
    endpoint.held = True
    request = connections.request_connection(ready.append, errors.append, fresh=False)
    assert connections.active == 2
    request.cancel()
    request.cancel()
    assert (connections.active, endpoint.cancelled, len(ready), errors) == (1, 1, 2, [])


def test_what_is_known_of_heads_holds_for_all_connections() -> None:
    clock, endpoint = Clock(), MemoryEndpoint()
    connections = pool.Pool("main", endpoint, clock, LIMITS, lambda error: pytest.fail(str(error)))
    for _ in range(LEARN_AFTER):
        assert not connections.head_shapes.tried
        _ = connections.obtain(fresh=True).addCallback(
            lambda connection: connection.exchange(b"GET", b"", b"", ResponseWaiter())
        )
        endpoint.connections[-1].send(OK)
    (shape,) = connections.head_shapes.tried
    assert shape.read(OK) is not None
