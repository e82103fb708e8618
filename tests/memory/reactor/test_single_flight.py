"""One run of work among all who ask for the same."""

from __future__ import annotations

import pytest
from twisted.internet.defer import CancelledError, Deferred

from mgw.reactor.single_flight import SingleFlight, gather
from tests.support.deferreds import result_of


class Work:
    """Work that ends when the test says so."""

    def __init__(self) -> None:
        self.under_way: list[Deferred[str]] = []

    async def __call__(self) -> str:
        waiting: Deferred[str] = Deferred()
        self.under_way.append(waiting)
        return await waiting


def results(*waiters: Deferred[str]) -> list[str]:
    return [result_of(waiter) for waiter in waiters]


def test_all_who_ask_while_it_runs_share_one_run() -> None:
    flight: SingleFlight[str] = SingleFlight()
    work = Work()
    waiters = [flight.run("key", work) for _ in range(3)]
    (run,) = work.under_way
    run.callback("done")
    assert results(*waiters) == ["done"] * 3


def test_another_key_is_another_run() -> None:
    flight: SingleFlight[str] = SingleFlight()
    work = Work()
    first, second = flight.run("a", work), flight.run("b", work)
    for number, run in enumerate(work.under_way):
        run.callback(str(number))
    assert results(first, second) == ["0", "1"]


def test_a_cancelled_waiter_leaves_the_others_waiting() -> None:
    flight: SingleFlight[str] = SingleFlight()
    work = Work()
    first, second = flight.run("key", work), flight.run("key", work)
    first.cancel()
    with pytest.raises(CancelledError):
        result_of(first)
    work.under_way[0].callback("done")
    assert results(second) == ["done"]


def test_work_goes_on_when_everybody_has_left_and_newcomers_join_it() -> None:
    flight: SingleFlight[str] = SingleFlight()
    work = Work()
    left = flight.run("key", work)
    _ = left.addErrback(lambda failure: failure.trap(CancelledError))
    left.cancel()
    joined = flight.run("key", work)
    (run,) = work.under_way
    run.callback("done")
    assert results(joined) == ["done"]


def test_a_failure_goes_to_all_who_wait_and_is_not_kept() -> None:
    flight: SingleFlight[str] = SingleFlight()
    work = Work()
    waiters = [flight.run("key", work) for _ in range(2)]
    work.under_way[0].errback(ZeroDivisionError())
    for waiter in waiters:
        with pytest.raises(ZeroDivisionError):
            result_of(waiter)
    again = flight.run("key", work)
    work.under_way[1].callback("done")
    assert results(again) == ["done"]


def test_a_waiter_that_asks_again_when_told_begins_anew() -> None:
    flight: SingleFlight[str] = SingleFlight()
    work = Work()
    again: list[Deferred[str]] = []
    first = flight.run("key", work)
    _ = first.addCallback(lambda _: again.append(flight.run("key", work)))
    work.under_way[0].callback("old")
    work.under_way[1].callback("new")
    assert results(*again) == ["new"]


def test_a_waiter_that_leaves_while_another_is_told_keeps_nobody_from_being_told() -> None:
    flight: SingleFlight[str] = SingleFlight()
    work = Work()
    first, second, third = (flight.run("key", work) for _ in range(3))
    _ = first.addCallback(lambda _: second.cancel())
    work.under_way[0].callback("done")
    with pytest.raises(CancelledError):
        result_of(second)
    assert results(third) == ["done"]


def test_results_come_in_the_order_of_the_works() -> None:
    works = [Work() for _ in range(3)]
    whole = Deferred.fromCoroutine(gather(work() for work in works))
    for number in (2, 0, 1):
        works[number].under_way[0].callback(str(number))
    assert result_of(whole) == ["0", "1", "2"]


def test_no_work_is_done_at_once() -> None:
    assert result_of(gather([])) == []


def test_cancelling_the_whole_cancels_each() -> None:
    works = [Work() for _ in range(3)]
    whole = Deferred.fromCoroutine(gather(work() for work in works))
    whole.cancel()
    with pytest.raises(CancelledError):
        result_of(whole)
    assert all(work.under_way[0].called for work in works)


def test_what_one_raises_is_raised_when_all_are_done() -> None:
    works = [Work() for _ in range(2)]
    whole = Deferred.fromCoroutine(gather(work() for work in works))
    works[0].under_way[0].errback(ZeroDivisionError())
    assert not whole.called
    works[1].under_way[0].callback("done")
    with pytest.raises(ZeroDivisionError):
        result_of(whole)
