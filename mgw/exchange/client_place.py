"""The place of one request among those that the limits of its client count."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from msgspec import Struct
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from mgw.clients.client_refusals import limit_refusal
from mgw.clients.limits import (
    NOTHING,
    ONE_REQUEST,
    Allowance,
    Counts,
    LimitReached,
    Limits,
    Permit,
    Taken,
    Unit,
    Warnings,
)
from mgw.clients.period import period_of
from mgw.nouns.errors import GatewayError
from mgw.usage.event import Outcome, SettledExchange


class ClientPlace(Struct, eq=False):
    """Whether the limits of a client admit one of its requests; they are told when it has ended."""

    counts: Counts
    permit: Permit | None = None
    """Stands for the request once it is counted."""
    pending: Deferred[Exception | None] | None = None
    """While it is not known whether they admit it, which nothing of it may be sent upstream before: fires
    with what stands against that.  Cancel it to wait no more."""
    zone: str = "UTC"
    """The name of the time zone in which the periods of the limits begin."""
    limits: Limits = ()
    """Those of the client."""
    held: Taken = ONE_REQUEST
    """What the request holds until its end."""
    _told: Taken = NOTHING
    """What was counted of it while it went on."""
    _outcome: Outcome | None = None
    """How the request ended; ``None`` until then."""
    _counted: Taken | None = None
    """What was counted as it was in flight no longer."""
    _warnings: Warnings | Awaitable[Warnings] = ()
    """What that has caused."""

    def wait(
        self, answer: Deferred[Permit | LimitReached], on_limit: Callable[[GatewayError], None] | None
    ) -> None:
        """Wait for a permit.

        :param on_limit: called as soon as it turns out that the request is one too many, unless it has ended.
        :raises GatewayError: ``CLIENT_LIMIT`` or ``CLIENT_BUDGET``, where that is known at once.
        """
        self.pending = pending = Deferred[Exception | None]()

        def tell(error: Exception | None) -> Exception | None:
            if on_limit is not None and isinstance(error, GatewayError) and self._outcome is None:
                on_limit(error)
            return error

        _ = answer.addCallbacks(self._on_permit, self._on_no_permit)
        if pending.called and isinstance(pending.result, GatewayError):
            raise pending.result
        _ = pending.addCallback(tell)

    async def granted(self) -> None:
        """Wait until the limits have admitted the request.

        :raises GatewayError: ``CLIENT_LIMIT`` or ``CLIENT_BUDGET``.
        """
        error = None if self.pending is None else await self.pending
        if error is not None:
            raise error

    def leave(self, settled: SettledExchange) -> None:
        """Be in flight no longer, where that is limited, though it is not known yet what the request took.

        The client has everything and may send its next request.  What the request has held counts until its
        end is known: else others would take the room meanwhile.
        """
        if self.permit is None or all(row.limit.unit is not Unit.IN_FLIGHT for row in self.limits):
            return
        taken, held = _taken(settled, settled.outcome), self.held
        most = max(taken.tokens, held.tokens), max(taken.nanodollars, held.nanodollars)
        self._counted = taken = Taken(taken.requests, *most)
        permit, self.permit = self.permit, None
        self._warnings = self.counts.end(permit, taken)

    def count(self, taken: Taken) -> None:
        """Count a part of what it comes to, while it goes on."""
        told = self._told
        self._told = Taken(0, told.tokens + taken.tokens, told.nanodollars + taken.nanodollars)
        self.counts.add(self.limits, taken)

    def end(
        self, settled: SettledExchange | None, outcome: Outcome, now: Callable[[], float] | None = None
    ) -> Warnings | Awaitable[Warnings]:
        """Tell what counts the client's requests that this one has ended, and what it came to.

        :param settled: ``None``: a bug keeps it from being known.
        :param now: tells the time in unix seconds.
        :returns: as :meth:`~mgw.clients.limits.Counts.end`.
        """
        self._outcome = outcome
        permit, counted = self.permit, self._counted
        if permit is not None:
            taken, told = _taken(settled, outcome), self._told
            rest = Taken(taken.requests, taken.tokens - told.tokens, taken.nanodollars - told.nanodollars)
            return self.counts.end(permit, rest)
        if counted is not None and settled is not None:
            taken = _taken(settled, outcome)
            further = Taken(0, taken.tokens - counted.tokens, taken.nanodollars - counted.nanodollars)
            if further != NOTHING:
                self._correct(further, settled.time, settled.time if now is None else now())
        return self._warnings

    def _correct(self, further: Taken, begun: float, now: float) -> None:
        """Correct what was counted as the request was in flight no longer.

        What is added counts in the current period of a row.  So a row that has begun a new one since the
        request was admitted is given nothing back, which would be room that nobody has paid for.
        """
        same = tuple([row for row in self.limits if _is_same_period(row, begun, now)])
        if same:
            self.counts.add(same, further)
        more = Taken(0, max(0, further.tokens), max(0, further.nanodollars))
        if len(same) < len(self.limits) and more != NOTHING:
            self.counts.add(tuple([row for row in self.limits if row not in same]), more)

    def _on_permit(self, found: Permit | LimitReached) -> None:
        pending = self.pending
        assert pending is not None, "somebody waits"
        if isinstance(found, LimitReached):
            pending.callback(limit_refusal(found, self.zone))
            return
        self.pending, self.permit = None, found
        if self._outcome is not None:
            _ = self.end(None, self._outcome)  # nothing of it went upstream
        pending.callback(None)

    def _on_no_permit(self, failure: Failure) -> None:
        assert self.pending is not None, "somebody waits"
        assert isinstance(failure.value, Exception), "what ends the process does not end here"
        self.pending.callback(failure.value)


def _is_same_period(row: Allowance, begun: float, now: float) -> bool:
    window = row.limit.window
    return not window.is_calendar or now < period_of(window, begun, row.zone).ends


def _taken(settled: SettledExchange | None, outcome: Outcome) -> Taken:
    """Return what a request came to; one that has gone upstream before the gateway ends it has been one."""
    if settled is None:
        return Taken(int(outcome is not Outcome.REJECTED))
    requests = int(outcome is not Outcome.REJECTED or settled.session is not None or bool(settled.attempts))
    return Taken(requests, settled.counted_tokens, settled.charged or 0)
