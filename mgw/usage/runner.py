"""Who does what may block for the outputs of events and lines (:class:`mgw.daemon_threads.DaemonThreads`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

T = TypeVar("T")


class Runner(Protocol):
    """Who does the work that may block, in the order given."""

    def run(self, work: Callable[[], T], then: Callable[[T | Exception], None]) -> None:
        """Do ``work`` elsewhere; ``then`` gets its result, or what it raised, on the reactor's thread."""
        ...

    def stop(self) -> None:
        """End when the work given so far is done."""
        ...
