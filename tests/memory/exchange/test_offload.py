"""Coroutines that run for as long as they have nothing to wait for, and become a Deferred where they have."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
from twisted.internet.defer import CancelledError, Deferred, fail, succeed
from twisted.python.failure import Failure

from mgw.exchange.offload import run_until_waiting


class Steps:
    """A coroutine that notes how far it has come."""

    def __init__(self) -> None:
        self.done: list[str] = []

    async def take(self, *waits: Awaitable[str]) -> str:
        try:
            for waiting in waits:
                self.done.append(await waiting)
        except BaseException as error:
            self.done.append(type(error).__name__)
            raise
        finally:
            self.done.append("end")
        return "returned"


def note_failure(result: Deferred[str], failed: list[type[BaseException] | None]) -> None:
    def note(failure: Failure) -> None:
        failed.append(failure.type)

    _ = result.addErrback(note)


def test_what_need_not_wait_returns_at_once() -> None:
    steps = Steps()
    assert run_until_waiting(steps.take(succeed("a"), succeed("b"))) == "returned"
    assert steps.done == ["a", "b", "end"]


def test_what_has_to_wait_fires_later_and_does_nothing_twice() -> None:
    steps, first, second = Steps(), Deferred[str](), Deferred[str]()
    result = run_until_waiting(steps.take(succeed("a"), first, second))
    assert isinstance(result, Deferred)
    told: list[str] = []
    _ = result.addCallback(told.append)
    assert (steps.done, told) == (["a"], [])
    first.callback("b")
    assert (steps.done, told) == (["a", "b"], [])
    second.callback("c")
    assert steps.done == ["a", "b", "c", "end"]
    assert told == ["returned"]


def test_an_inner_coroutine_waits_as_well() -> None:
    steps, waiting = Steps(), Deferred[str]()

    async def outer() -> str:
        return f"{await steps.take(waiting)} twice"

    result = run_until_waiting(outer())
    assert isinstance(result, Deferred)
    told: list[str] = []
    _ = result.addCallback(told.append)
    waiting.callback("a")
    assert told == ["returned twice"]


def test_what_raises_before_it_waits_raises_here() -> None:
    steps = Steps()
    with pytest.raises(KeyError):
        run_until_waiting(steps.take(succeed("a"), fail(KeyError("no"))))
    assert steps.done == ["a", "KeyError", "end"]


def test_what_raises_after_it_waited_fails() -> None:
    steps, waiting = Steps(), Deferred[str]()
    result = run_until_waiting(steps.take(waiting, fail(KeyError("no"))))
    assert isinstance(result, Deferred)
    failed: list[type[BaseException] | None] = []
    note_failure(result, failed)
    assert failed == []
    waiting.callback("a")
    assert (steps.done, failed) == (["a", "KeyError", "end"], [KeyError])


def ended_by_error(waiting: Deferred[str], _: Deferred[str]) -> None:
    waiting.errback(KeyError("no"))


def ended_by_cancelling(_: Deferred[str], result: Deferred[str]) -> None:
    result.cancel()


@pytest.mark.parametrize(("end", "kind"), [(ended_by_error, KeyError), (ended_by_cancelling, CancelledError)])
def test_what_it_waits_for_ends_it(
    end: Callable[[Deferred[str], Deferred[str]], None], kind: type[Exception]
) -> None:
    steps = Steps()
    cancelled: list[Deferred[str]] = []
    waiting: Deferred[str] = Deferred(cancelled.append)
    result = run_until_waiting(steps.take(succeed("a"), waiting))
    assert isinstance(result, Deferred)
    failed: list[type[BaseException] | None] = []
    note_failure(result, failed)
    end(waiting, result)
    assert failed == [kind]
    assert steps.done == ["a", kind.__name__, "end"]
    assert bool(cancelled) == (kind is CancelledError)


def test_a_wait_that_ends_in_a_chain_is_waited_for() -> None:
    steps, inner = Steps(), Deferred[str]()
    outer: Deferred[str] = succeed("a")
    _ = outer.addCallback(lambda _: inner)
    result = run_until_waiting(steps.take(outer))
    assert isinstance(result, Deferred)
    inner.callback("b")
    assert steps.done == ["b", "end"]
