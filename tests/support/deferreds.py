"""Run coroutines that finish at once, without a reactor."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, TypeVar

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from mgw.nouns.errors import GatewayError

T = TypeVar("T")


def result_of(work: Coroutine[Deferred[Any], Any, T] | Deferred[T]) -> T:
    """Return what the work came to, or raise what it failed with; it must be done already."""
    deferred = work if isinstance(work, Deferred) else Deferred.fromCoroutine(work)
    results: list[T | Failure] = []
    _ = deferred.addBoth(results.append)
    assert results, "the work is still waiting"
    (result,) = results
    if isinstance(result, Failure):
        result.raiseException()
    return result


def refusal_of(work: Deferred[Any]) -> GatewayError:
    """Return the refusal that the work ended with; it must be done already."""
    failures: list[Failure] = []
    _ = work.addErrback(failures.append)
    assert failures, "the work did not fail"
    error = failures[0].value
    assert isinstance(error, GatewayError)
    return error
