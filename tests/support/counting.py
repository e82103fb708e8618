"""Counts of limits at moments that a test states, and counts that answer when a test says so."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar, cast

from twisted.internet.defer import Deferred

from mgw.clients.limits import (
    LIMITS_BY_NAME,
    ONE_REQUEST,
    LimitReached,
    Limits,
    Permit,
    RowState,
    Taken,
    Warnings,
    limits_of,
)
from mgw.clients.local_counts import LocalCounts

HOLDER = "alice"
T = TypeVar("T")


def limits(**most: int | None) -> Limits:
    """Return limits by their names."""
    return limits_of(HOLDER, most)


def reached(name: str, most: int, seconds: float, holder: str = HOLDER) -> LimitReached:
    """Return what says that a row without periods stands against a request."""
    return LimitReached(holder, LIMITS_BY_NAME[name], most, seconds)


def answer_of(found: T | Awaitable[T]) -> T:
    """Return what counts have answered, at once or by a Deferred that has fired."""
    if not isinstance(found, Deferred):
        return cast(T, found)
    answers = list[T]()
    _ = found.addCallback(answers.append)
    (answer,) = answers
    return answer


def decision_of(found: Permit | LimitReached | Awaitable[Permit | LimitReached]) -> Permit | LimitReached:
    """Return what counts have decided, likewise."""
    return cast(Permit | LimitReached, answer_of(found))


class Counting:
    """The counts of one holder."""

    def __init__(self, **most: int | None) -> None:
        self.now = 0.0
        self.local = LocalCounts(lambda: self.now)
        self.limits: Limits = ()
        self.use(**most)

    @property
    def in_flight(self) -> int:
        """How many requests are under way."""
        return self.local.in_flight(HOLDER)

    def use(self, **most: int | None) -> None:
        """Obey other limits from now on."""
        self.limits = limits(**most)
        self.local.use(HOLDER, self.limits)

    def acquire(self, now: float) -> Permit | LimitReached:
        """Begin a request."""
        self.now = now
        return decision_of(self.local.begin(self.limits, ONE_REQUEST))

    def release(self, permit: Permit, now: float, tokens: int, *, refused: bool) -> None:
        """End a request."""
        self.now = now
        self.local.end(permit, Taken(int(not refused), tokens))


@dataclass
class LateCounts:
    """Counts that answer when the test does."""

    asked: list[Deferred[Permit | LimitReached]] = field(default_factory=list)
    ended: list[tuple[Permit, Taken]] = field(default_factory=list)
    used: list[tuple[str, Limits]] = field(default_factory=list)
    """The limits of which it was told."""
    ready: Permit | LimitReached | Exception | None = None
    """What is answered at once."""

    def use(self, client: str, limits: Limits) -> None:
        """Remember them."""
        self.used.append((client, limits))

    def begin(self, _: Limits, __: Taken) -> Deferred[Permit | LimitReached]:
        """Answer later, unless the answer is known."""
        self.asked.append(Deferred())
        if isinstance(self.ready, Exception):
            self.asked[-1].errback(self.ready)
        elif self.ready is not None:
            self.asked[-1].callback(self.ready)
        return self.asked[-1]

    def find_full(self, limits: Limits) -> LimitReached | None:
        """Nothing is known at once."""
        return None

    def end(self, permit: Permit, taken: Taken) -> Warnings:
        """Remember it."""
        self.ended.append((permit, taken))
        return ()

    def add(self, limits: Limits, taken: Taken) -> None:
        """Nobody has begun one elsewhere."""
        raise AssertionError((limits, taken))

    def state(self) -> list[RowState]:
        """Nothing is longer than a minute."""
        return []

    def reset(self, holder: str, limit: str | None, amount: int) -> bool:
        """Nothing is longer than a minute."""
        raise AssertionError((holder, limit, amount))

    def refusals(self) -> Mapping[tuple[str, str], int]:
        """Nobody has counted any."""
        return {}


def are_remembered(holders: int) -> bool:
    """Whether the first of so many holders, whose rows are in use by nobody, is remembered."""
    counts = LocalCounts(lambda: 0.0)
    for number in range(holders):
        rows = limits_of(f"corp:{number}", {"requests_per_minute": 1})
        permit = decision_of(counts.begin(rows, ONE_REQUEST))
        assert isinstance(permit, Permit)
        counts.end(permit, ONE_REQUEST)
    first = limits_of("corp:0", {"requests_per_minute": 1})
    return isinstance(decision_of(counts.begin(first, ONE_REQUEST)), LimitReached)
