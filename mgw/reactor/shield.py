"""Wait for a result that others need as well: cancelling the wait does not cancel the work."""

from __future__ import annotations

from typing import TypeVar

from twisted.internet.defer import Deferred

T = TypeVar("T")


def shielded(awaited: Deferred[T]) -> Deferred[T]:
    """Return a Deferred that fires as another one does, and can be cancelled without it."""
    result: Deferred[T] = Deferred()
    _ = awaited.addCallbacks(result.callback, result.errback)
    return result
