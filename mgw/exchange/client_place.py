"""The place of one request among those that the limits of its client count."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from mgw.clients.client_refusals import limit_refusal
from mgw.clients.limits import Counts, LimitReached, Permit, Taken
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
    _outcome: Outcome | None = None
    """How the request ended; ``None`` until then."""

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

    def end(self, settled: SettledExchange | None, outcome: Outcome) -> None:
        """Tell what counts the client's requests that this one has ended, and what it came to.

        :param settled: ``None``: a bug keeps it from being known.
        """
        self._outcome = outcome
        permit = self.permit
        if permit is None:
            return
        tokens = nanodollars = 0
        if settled is not None:
            tokens = (settled.usage.tokens_in or 0) + (settled.usage.tokens_out or 0)
            nanodollars = settled.cost or 0
        _ = self.counts.end(permit, Taken(int(outcome is not Outcome.REJECTED), tokens, nanodollars))

    def _on_permit(self, found: Permit | LimitReached) -> None:
        pending = self.pending
        assert pending is not None, "somebody waits"
        if isinstance(found, LimitReached):
            pending.callback(limit_refusal(found, self.zone))
            return
        self.pending, self.permit = None, found
        if self._outcome is not None:
            self.end(None, self._outcome)  # nothing of it went upstream
        pending.callback(None)

    def _on_no_permit(self, failure: Failure) -> None:
        assert self.pending is not None, "somebody waits"
        assert isinstance(failure.value, Exception), "what ends the process does not end here"
        self.pending.callback(failure.value)
