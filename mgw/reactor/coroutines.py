"""Run a coroutine without a Deferred for as long as it has nothing to wait for.

``Deferred.fromCoroutine`` costs several times what a coroutine does that returns at once, as most do here:
a body that is small is parsed where it is, a credential that is known is known.
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, TypeVar, cast

from twisted.internet.defer import Deferred

T = TypeVar("T")


def run_until_waiting(coroutine: Coroutine[Deferred[Any], Any, T]) -> T | Deferred[T]:
    """Return what a coroutine returns; where it has to wait, the Deferred that will fire with it.

    What it raises before it waits is raised here.
    """
    try:
        _ = coroutine.send(None)
    except StopIteration as returned:
        return cast(T, returned.value)
    # The coroutine stands at the Deferred that it awaits, which it is asked for once more.
    return Deferred.fromCoroutine(coroutine)
