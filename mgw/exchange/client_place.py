"""The place of one request among those that the limits of its client count."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from msgspec import Struct
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from mgw.clients.client_refusals import limit_refusal
from mgw.clients.limits import NOTHING, Counts, LimitReached, Limits, Permit, Taken, Unit, Warnings
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
    _outcome: Outcome | None = None
    """How the request ended; ``None`` until then."""
    _counted: Taken | None = None
    """What was counted as it was in flight no longer."""
    _warnings: Warnings | Awaitable[Warnings] = ()
    """What that has caused."""

    @property
    def counts_money(self) -> bool:
        """Whether one of the limits is one on dollars."""
        for row in self.limits:  # noqa: SIM110  a generator costs more than all the rest
            if row.limit.unit is Unit.NANODOLLAR:
                return True
        return False

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

        The client has everything and may send its next request.
        """
        if self.permit is None or all(row.limit.unit is not Unit.IN_FLIGHT for row in self.limits):
            return
        self._counted = taken = _taken(settled, settled.outcome)
        permit, self.permit = self.permit, None
        self._warnings = self.counts.end(permit, taken)

    def end(self, settled: SettledExchange | None, outcome: Outcome) -> Warnings | Awaitable[Warnings]:
        """Tell what counts the client's requests that this one has ended, and what it came to.

        :param settled: ``None``: a bug keeps it from being known.
        :returns: as :meth:`~mgw.clients.limits.Counts.end`.
        """
        self._outcome = outcome
        permit, counted = self.permit, self._counted
        if permit is not None:
            return self.counts.end(permit, _taken(settled, outcome))
        if counted is not None and settled is not None:
            taken = _taken(settled, outcome)
            further = Taken(0, taken.tokens - counted.tokens, taken.nanodollars - counted.nanodollars)
            if further != NOTHING:
                self.counts.add(self.limits, further)
        return self._warnings

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


def _taken(settled: SettledExchange | None, outcome: Outcome) -> Taken:
    """Return what a request came to."""
    requests = int(outcome is not Outcome.REJECTED)
    return Taken(requests) if settled is None else Taken(requests, settled.counted_tokens, settled.cost or 0)
