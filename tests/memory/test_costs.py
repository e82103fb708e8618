"""What a request, chunk, frame or session may cost: calls of Python functions, and objects left in cycles.

The whole gateway runs in memory with everything on, as ``make bench-memory`` measures it; ``python -m
bench.memory --calls 40`` says which functions are called, and ``--cycles`` what is left.
"""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from typing import Final

import pytest

from mgw.usage.event import SettledExchange
from mgw.usage.record import encode_settled
from tests.support.calls import count_calls
from tests.support.in_memory.cases import SessionCase, cases
from tests.support.in_memory.gateway import MemoryGateway
from tests.support.in_memory.measure import calls_by_function, collector_off, count_cycles
from tests.support.in_memory.sessions import close_session, open_session
from tests.support.in_memory.work import Work, work_of
from tests.support.usage import exchange

CASES: Final = cases()
CALLS: Final = {
    "relayed 1 kB": 85.3,
    "relayed 1 kB, 20 headers in the answer": 85.3,
    "relayed 1 kB, a new traceparent each": 92.6,
    "relayed 1 kB, a new unknown header each": 114.0,
    "relayed 1 kB, a token of an endpoint": 85.3,
    "relayed 1 kB, signed": 94.5,
    "translated 4 kB, chat to anthropic": 199.1,
    "translated 4 kB, anthropic to chat": 203.1,
    "translated 4 kB, chat to gemini": 196.1,
    "refused, 401": 88.9,
    "refused, 404": 156.7,
    "chunk, relayed": 4.1,
    "chunk, chat to anthropic": 17.5,
    "chunk, anthropic to chat": 20.6,
    "chunk, chat to gemini": 19.5,
    "relayed 1 kB, new connections": 151.2,
    "stream of 5 events, new connections": 305.7,
    "frame, relayed": 13.5,
    "session, opened and closed": 448.5,
}
"""The most calls of each: 3 % above what was counted.  Lower the bar when the number falls."""
OPENING_CALLS: Final = 299
"""The most calls for a session up to the client's 101, with those of the test's own two ends."""
CLOSING_CALLS: Final = 253
"""The most calls from the first close frame to the event that is written, with those of the two ends."""
LINE_CALLS: Final = {
    "request": (exchange(), 2),
    "request with a cost": (exchange(cost_usd=0.00123), 3),
    "session": (exchange(session_minutes=1.5, bytes_in=1, bytes_out=2, ttft_ms=None), 2),
}
"""The calls that make the line of an event: its own, one for the time, and one for the cost."""
SESSION_BYTES: Final = 11_300
"""The most that an open session keeps, but for its transports, and its event in the feed: 3 % above what was
counted."""


@pytest.fixture(scope="module")
def gateway() -> Iterator[MemoryGateway]:
    gateway = MemoryGateway()
    yield gateway
    gateway.close()


@pytest.fixture
def work(request: pytest.FixtureRequest, gateway: MemoryGateway) -> Iterator[Work]:
    with work_of(CASES[request.param], gateway) as work:
        yield work


@pytest.mark.parametrize(("work", "most"), CALLS.items(), ids=CALLS, indirect=["work"])
def test_the_calls_of_a_request_stay_below_their_bar(work: Work, most: float) -> None:
    calls = calls_by_function(work)
    top = list(calls.items())[:20]
    assert sum(calls.values()) <= most, "\n".join(f"{count:8.2f}  {function}" for function, count in top)


def test_a_request_with_a_token_that_is_good_costs_what_a_static_key_does() -> None:
    calls = []
    for row in ("relayed 1 kB", "relayed 1 kB, a token of an endpoint"):
        gateway = MemoryGateway()  # new for each: some calls are made by the turn, which depends on the past
        try:
            with work_of(CASES[row], gateway) as work:
                calls.append(sum(calls_by_function(work).values()))
        finally:
            gateway.close()
    assert abs(calls[1] - calls[0]) < 0.5


def test_a_signature_costs_twelve_calls_at_most() -> None:
    calls = []
    for row in ("relayed 1 kB, 20 headers in the answer", "relayed 1 kB, signed"):
        gateway = MemoryGateway()  # as above
        try:
            with work_of(CASES[row], gateway) as work:
                calls.append(sum(calls_by_function(work).values()))
        finally:
            gateway.close()
    assert calls[1] - calls[0] <= 12


@pytest.mark.parametrize("work", CALLS, indirect=True)
def test_a_thousand_requests_leave_nothing_to_the_collector(work: Work) -> None:
    assert count_cycles(work, 1000) == {}


def test_every_row_of_the_benchmark_has_a_bar() -> None:
    assert list(CASES) == list(CALLS)


def test_opening_a_session_takes_few_calls(gateway: MemoryGateway) -> None:
    case = CASES["session, opened and closed"]
    assert isinstance(case, SessionCase)
    sessions = [open_session(gateway, case.request) for _ in range(3)]
    calls = count_calls(lambda: sessions.append(open_session(gateway, case.request)))
    for session in sessions:
        assert close_session(gateway, session)
    assert calls <= OPENING_CALLS


def test_closing_a_session_and_writing_its_event_takes_few_calls() -> None:
    case = CASES["session, opened and closed"]
    assert isinstance(case, SessionCase)
    gateway = MemoryGateway()  # a new one: what else its turns do depends on the past
    try:
        first, second = (open_session(gateway, case.request) for _ in range(2))
        assert close_session(gateway, first)
        gateway.reactor.turn(1.0)

        def close() -> None:
            assert close_session(gateway, second)
            gateway.reactor.turn(1.0)

        assert count_calls(close) <= CLOSING_CALLS
    finally:
        gateway.close()


@pytest.mark.parametrize(("settled", "most"), LINE_CALLS.values(), ids=LINE_CALLS)
def test_the_line_of_an_event_takes_few_calls(settled: SettledExchange, most: int) -> None:
    encode_settled(settled)
    assert count_calls(lambda: encode_settled(settled)) <= most


def test_an_open_session_takes_little_memory(gateway: MemoryGateway) -> None:
    case = CASES["session, opened and closed"]
    assert isinstance(case, SessionCase)
    sessions = [open_session(gateway, case.request) for _ in range(20)]
    with collector_off():
        tracemalloc.start()
        before, _ = tracemalloc.get_traced_memory()
        sessions += [open_session(gateway, case.request) for _ in range(200)]
        gateway.reactor.turn(1.0)
        after, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    for session in sessions:
        assert close_session(gateway, session)
    assert (after - before) / 200 <= SESSION_BYTES
