"""Counts that several processes or hosts share: somebody else counts, and is asked.

What was admitted elsewhere is counted here too, whatever stands against it here.  So while nobody answers,
this process knows what it has used itself, and keeps to its share of each limit: a counting process that
hangs neither makes every request wait nor opens the gate.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from msgspec.structs import replace
from twisted.internet.defer import Deferred

from mgw.clients.limits import (
    ONE_REQUEST,
    LimitReached,
    Limits,
    Permit,
    RowState,
    Taken,
    Warnings,
)
from mgw.clients.local_counts import LocalCounts, LocalPermit

T = TypeVar("T")


class SharedTallies(Protocol[T]):
    """What counts for several.  It gives a ticket of its own kind for each request that it has admitted."""

    def share(self, limits: Limits) -> Limits:
        """Return what this process may use alone."""
        ...

    @property
    def keeps_refusals(self) -> bool:
        """Whether it counts itself how often it did not admit a request."""
        ...

    def begin(self, limits: Limits, held: Taken) -> Deferred[T | LimitReached | None] | None:
        """Ask whether a request may begin; the answer is its ticket, or what stands against it.

        ``None``, at once or later: it does not answer.  Fails with :class:`~mgw.nouns.errors.GatewayError`
        where nobody would ever count the request.
        """
        ...

    def begun_alone(self, permit: LocalPermit) -> None:
        """Know that a request has begun, which was admitted here alone."""
        ...

    def end(self, permit: LocalPermit, ticket: T | None, taken: Taken) -> Deferred[Warnings] | None:
        """Tell of the end of a request, and return its warnings, if there may be any; never fails.

        :param permit: how it was counted here.
        :param ticket: ``None``: it was admitted here alone.
        """
        ...

    def add(self, permit: LocalPermit, taken: Taken) -> None:
        """Tell of a request that has ended, and of whose beginning it was not told."""
        ...

    def state(self) -> Deferred[list[RowState]] | None:
        """Return what is used of the rows longer than a minute; ``None``: it does not answer."""
        ...

    def reset(self, holder: str, limit: str | None, amount: int) -> Deferred[bool] | None:
        """Set what is used of rows longer than a minute; ``None``: it does not answer."""
        ...


class SharedPermit(Permit, Generic[T], eq=False):
    """A request that was admitted elsewhere, or here alone."""

    local: LocalPermit
    ticket: T | None


@dataclass(slots=True, eq=False)
class SharedCounts(Generic[T]):
    """How much of its limits each holder has used, in all processes that share them."""

    tallies: SharedTallies[T]
    local: LocalCounts
    """What this process has used."""

    def use(self, client: str, limits: Limits) -> None:
        """Know the rows of a client from now on; without any it is forgotten here."""
        self.local.use(client, limits)

    def begin(self, limits: Limits, held: Taken) -> Permit | LimitReached | Deferred[Permit | LimitReached]:
        """Ask whether a request may begin, or decide it here where nobody would answer."""
        asked = self.tallies.begin(limits, held)
        if asked is None:
            return self._begin_alone(limits, held)
        return asked.addCallback(self._on_answer, limits, held)

    def find_full(self, limits: Limits) -> LimitReached | None:
        """Return what stands against a request by what this process has used alone."""
        return self.local.find_full(limits)

    def end(self, permit: Permit, taken: Taken) -> Warnings | Deferred[Warnings]:
        """Count the end of a request, and what it came to."""
        assert isinstance(permit, SharedPermit), "it was counted here"
        warnings = self.local.end(permit.local, taken)
        asked = self.tallies.end(permit.local, permit.ticket, taken)
        if asked is not None:
            return asked
        return warnings if permit.ticket is None else ()

    def add(self, limits: Limits, taken: Taken) -> None:
        """Count a request that was begun and has ended while this could not be asked."""
        permit = self.local.admit(limits, ONE_REQUEST)
        self.local.end(permit, taken)
        self.tallies.add(permit, taken)

    def refusals(self) -> Mapping[tuple[str, str], int]:
        """Return how many requests were not admitted, as far as nobody else counts that."""
        return self.local.refusals()

    def state(self) -> list[RowState] | Awaitable[list[RowState]]:
        """Return what is used of the rows longer than a minute, here where nobody else answers."""
        return self.tallies.state() or self.local.state()

    def reset(self, holder: str, limit: str | None, amount: int) -> bool | Awaitable[bool]:
        """Set what is used of rows longer than a minute in their current period; what is held stays."""
        return self.tallies.reset(holder, limit, amount) or self.local.reset(holder, limit, amount)

    def _on_answer(
        self, answer: T | LimitReached | None, limits: Limits, held: Taken
    ) -> Permit | LimitReached | Deferred[Permit | LimitReached]:
        if answer is None:
            return self._begin_alone(limits, held)
        if isinstance(answer, LimitReached):
            if not self.tallies.keeps_refusals:
                self.local.count_refusal(answer)
            return answer
        return SharedPermit(self.local.admit(limits, held), answer)

    def _begin_alone(
        self, limits: Limits, held: Taken
    ) -> Permit | LimitReached | Deferred[Permit | LimitReached]:
        found = self.local.begin(self.tallies.share(limits), held)
        if isinstance(found, LocalPermit | LimitReached):
            return self._on_own(found, limits)
        assert isinstance(found, Deferred), "counts of other processes answer with one"
        return found.addCallback(self._on_own, limits)

    def _on_own(self, found: LocalPermit | LimitReached, limits: Limits) -> Permit | LimitReached:
        if isinstance(found, LimitReached):
            most = next(row.most for row in limits if (row.holder, row.limit) == (found.holder, found.limit))
            return replace(found, most=most)
        self.tallies.begun_alone(found)
        return SharedPermit(found, None)
