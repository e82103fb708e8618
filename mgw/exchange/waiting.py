"""Work that continues in callbacks where it has to wait, and in plain calls elsewhere."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from mgw.exchange.offload import run_until_waiting

T = TypeVar("T")


class WaitingRun(ABC):
    """A run of steps, of which at most one waits; who derives from it sets both attributes."""

    __slots__ = ("_cancel", "_on_end")

    _on_end: Callable[[Exception | None], None] | None
    """Called once by the run when it is over; ``None`` from then on."""
    _cancel: Callable[[], None] | None
    """Stops what it waits for."""

    @abstractmethod
    def _fail(self, error: Exception) -> None:
        """End the run."""

    def _run(
        self,
        coroutine: Coroutine[Deferred[Any], Any, T],
        then: Callable[[T], None],
        otherwise: Callable[[Exception], None] | None = None,
    ) -> None:
        """Go on with what a coroutine returns, at once if it need not wait.

        :param otherwise: goes on with what it raises; ``None``: that ends the run.
        """
        try:
            result = run_until_waiting(coroutine)
        except Exception as error:
            if otherwise is None:
                raise
            otherwise(error)
            return
        if isinstance(result, Deferred):
            self._wait(result, then, otherwise)
        else:
            then(result)

    def _wait(
        self,
        deferred: Deferred[T],
        then: Callable[[T], None],
        otherwise: Callable[[Exception], None] | None = None,
    ) -> None:
        def proceed(result: T) -> None:
            self._cancel = None
            if self._on_end is not None:
                then(result)

        def fail(failure: Failure) -> None:
            error = failure.value
            assert isinstance(error, Exception), "what ends the process does not end here"
            self._cancel = None
            if otherwise is None or self._on_end is None:
                self._fail(error)
            else:
                otherwise(error)

        self._cancel = deferred.cancel
        if otherwise is None:
            _ = deferred.addCallback(proceed).addErrback(fail)
        else:
            _ = deferred.addCallbacks(proceed, fail).addErrback(self._on_bug)

    def _on_bug(self, failure: Failure) -> None:
        assert isinstance(failure.value, Exception), "what ends the process does not end here"
        self._fail(failure.value)
