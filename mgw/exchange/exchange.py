"""The record of one exchange, which leaves exactly one usage event behind.

An :class:`Exchange` opens when the head of a request has passed edge auth on a route that is metered, and
settles once: at the end of ``async with``, or before that by whoever ends the request for a cause of its
own (a body over the limit, a client that leaves in mid-upload, the end of a drain).  Later calls of
:meth:`settle` find it settled.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from twisted.internet.defer import CancelledError
from twisted.internet.interfaces import IReactorTime

from mgw.canonical.reply import NO_USAGE, TokenUsage
from mgw.errors import CLIENT_CLOSED, GatewayError, Reason
from mgw.exchange.aside import Aside, here
from mgw.generation import Generation
from mgw.routing.resolve import Target
from mgw.routing.route import Route
from mgw.usage.event import Outcome, UsageEvent, dropped_names

_UPSTREAM_REASONS = frozenset({Reason.UPSTREAM_BROKEN, Reason.UPSTREAM_TOO_SLOW, Reason.CREDENTIAL_SOURCE})


@dataclass(slots=True)
class Exchange:
    """One request, from its head to the last byte of its answer."""

    request_id: str
    route: Route
    generation: Generation
    clock: IReactorTime
    record: Callable[[UsageEvent], None]
    """Takes the usage event; never raises."""
    wall: float
    """Unix seconds at which the head was complete."""
    started: float = field(init=False)
    target: Target | None = None
    asked_model: str | None = None
    key_hash: str | None = None
    attempts: int = 0
    http_status: int | None = None
    """What the client got, once it gets something."""
    stream: bool = False
    first_byte_at: float | None = None
    usage: Callable[[], TokenUsage] = field(default=lambda: NO_USAGE, repr=False)
    hold: Callable[[int], None] = field(default=lambda _: None, repr=False)
    """Takes room for a body that is kept; raises ``OVERLOADED`` where there is none."""
    aside: Aside = field(default=here, repr=False)
    """Does what a large body costs."""
    dropped_fields: Sequence[str] = ()
    """The client's paths of what a translation did not carry, where the operator observes them."""
    settled: bool = False

    def __post_init__(self) -> None:
        self.started = self.clock.seconds()
        self.generation.enter()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        if error is None:
            status = self.http_status
            failed = status is not None and status >= 400
            self.settle(Outcome.UPSTREAM_ERROR if failed else Outcome.OK)
        elif isinstance(error, (CancelledError, GeneratorExit)):
            self.client_left()
        elif isinstance(error, GatewayError):
            self.refused(error)
        else:
            self.settle(Outcome.REJECTED, Reason.INTERNAL.status)

    def client_left(self) -> None:
        """Settle: the client went away before the end of its answer."""
        self.http_status = CLIENT_CLOSED
        self.settle(Outcome.CLIENT_ABORT)

    def refused(self, error: GatewayError) -> None:
        """Settle: the gateway refused, or the upstream failed."""
        upstream = error.reason in _UPSTREAM_REASONS
        self.settle(Outcome.UPSTREAM_ERROR if upstream else Outcome.REJECTED, error.status)

    def settle(self, outcome: Outcome, status: int | None = None) -> None:
        """Record the one usage event; nothing happens the second time.

        :param status: the HTTP status to record where the client has got none yet.
        """
        if self.settled:
            return
        self.settled = True
        if self.http_status is None:
            self.http_status = status
        try:
            self.record(self._event(outcome))
        finally:
            self.generation.leave()

    def _event(self, outcome: Outcome) -> UsageEvent:
        now = self.clock.seconds()
        first, target, usage = self.first_byte_at, self.target, self.usage()
        return UsageEvent(
            request_id=self.request_id,
            time=self.wall,
            dialect=self.route.family.value,
            route=self.route.name,
            provider=None if target is None else target.provider.name,
            model=self.asked_model,
            upstream_model=None if target is None else target.upstream_model,
            modality=self.route.modality.value,
            transport="http",
            tokens_in=usage.tokens_in,
            tokens_out=usage.tokens_out,
            cache_read_tokens=usage.cache_read,
            cache_write_tokens=usage.cache_write,
            reasoning_tokens=usage.reasoning,
            stream=self.stream,
            status=outcome,
            http_status=self.http_status,
            latency_ms=(now - self.started) * 1000.0,
            ttft_ms=None if first is None else (first - self.started) * 1000.0,
            attempts=self.attempts,
            key_hash=self.key_hash,
            dropped_fields=dropped_names(self.dropped_fields) if self.dropped_fields else None,
        )
