"""Usage events to an OpenTelemetry collector: spans that arrive at least once, and metrics (``hooks.otlp``).

Spans go the way of a webhook's events, in batches that an :class:`~mgw.usage.outbox.Outbox` keeps and tries
again; what is stored is the event, which becomes a span when it is sent.  Metrics are numbers that only grow:
they are sent every few seconds as they stand, so what does not arrive is made up for by what comes next.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final
from uuid import uuid4

from msgspec import Struct
from msgspec.json import encode
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure

from mgw.config.hooks import OTLP_MISSING, OtlpSettings, has_otlp_packages
from mgw.config.settings import Config
from mgw.nouns.secret import Secret
from mgw.reactor.rate_limited_log import RateLimitedLog
from mgw.usage.event import SettledExchange
from mgw.usage.genai import ProviderFacts, facts_of, known_models
from mgw.usage.operation_metrics import OperationMetrics
from mgw.usage.otlp_collector import TIMEOUT_SECONDS, Collector
from mgw.usage.outbox import DELIVER_SECONDS, Outbox, OutboxOptions, Result, Verdict
from mgw.usage.record import encode_settled
from mgw.usage.sinks import SinkTools
from mgw.usage.trace_context import TraceContext

BATCH_MAX: Final = 512
SPAN_SECONDS: Final = 1.0
"""How long a span waits for others, at most."""

_log: Final = Logger()


class _Provider(Struct, frozen=True):
    """A provider, and what lines say of it."""

    facts: ProviderFacts | None
    """What the metrics say of it; ``None``: nothing is known."""
    fields: bytes
    """The same facts as the beginning of a line's JSON object."""


_NO_PROVIDER: Final = _Provider(None, b"")


@dataclass(slots=True, eq=False)
class OtlpSink:
    """A usage sink for a collector; :mod:`mgw.usage.outbox` states the rules for spans."""

    clock: IReactorTime
    wall: Callable[[], float]
    """Returns Unix seconds."""
    config: Callable[[], Config | None]
    """Returns the configuration in use, which says what is known of providers and models."""
    collector: Collector
    outbox: Outbox
    interval_seconds: float
    metrics: OperationMetrics = field(default_factory=OperationMetrics)
    metric_errors: int = 0
    """How often the metrics could not be sent."""
    name: str = "otlp"
    _since: float = field(init=False)
    _read_config: Config | None = field(default=None, repr=False)
    _providers: dict[str, _Provider] = field(default_factory=dict, repr=False)
    _timer: IDelayedCall | None = field(default=None, repr=False)
    _sending: Deferred[None] | None = field(default=None, repr=False)
    _reports: RateLimitedLog = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._since = self.wall()
        self._reports = RateLimitedLog(self.clock)

    def start(self) -> None:
        """Begin to send."""
        self.outbox.start()
        self._timer = self.clock.callLater(self.interval_seconds, self._on_timer)

    @property
    def errors(self) -> int:
        """How many tries failed."""
        return self.outbox.errors + self.metric_errors

    @property
    def dropped(self) -> int:
        """How many events are no spans: refused, unreadable, or too old for the room on the disk."""
        return self.outbox.dropped

    @property
    def waiting(self) -> int:
        """How many spans have not been delivered."""
        return self.outbox.waiting

    def record_all(self, rows: Iterator[SettledExchange]) -> None:
        """Count exchanges, and take those whose clients keep their traces."""
        config = self.config()
        if config is not self._read_config and config is not None:
            self._read(config)
        lines: list[bytes] = []
        try:
            for settled in rows:
                provider = self._providers.get(settled.labels.provider or "", _NO_PROVIDER)
                self.metrics.add(settled, provider.facts)
                if settled.trace is None or settled.trace.is_sampled:
                    lines.append(line_of(settled, provider.fields))
        finally:
            self.outbox.record_lines(lines)

    def flush(self) -> None:
        """Send the spans that wait."""
        self.outbox.flush()

    def reopen(self) -> None:
        """Do nothing: its files are its own."""

    def close(self) -> Deferred[None]:
        """Send what waits and the last numbers; store the spans that cannot be sent."""
        return Deferred.fromCoroutine(self._close())

    async def _close(self) -> None:
        if self._timer is not None and self._timer.active():
            self._timer.cancel()
        if self._sending is not None:
            self._sending.cancel()
        spans, numbers = self.outbox.close(), self._send_metrics(DELIVER_SECONDS)
        await spans
        await numbers
        self.collector.close()

    def _read(self, config: Config) -> None:
        """Take a configuration; providers that it has no more may still have requests."""
        self._read_config = config
        self.metrics.models = known_models(config)
        for name, provider in config.providers.items():
            facts = facts_of(provider)
            self._providers[name] = _Provider(facts, facts.json_fields())

    def _on_timer(self) -> None:
        self._timer = self.clock.callLater(self.interval_seconds, self._on_timer)
        if self._sending is None:
            self._sending = sending = self._send_metrics()
            _ = sending.addCallback(self._on_sent)

    def _on_sent(self, _: None) -> None:
        self._sending = None

    def _send_metrics(self, seconds: float | None = None) -> Deferred[None]:
        """Send the numbers as they stand; never fails."""
        sending = self.collector.send_metrics(self.metrics, self._since, self.wall())
        if seconds is not None:
            _ = sending.addTimeout(seconds, self.clock)
        return sending.addErrback(_describe).addCallback(self._note)

    def _note(self, result: Result) -> None:
        if result.verdict is Verdict.DELIVERED and not result.lost:
            return
        self.metric_errors += 1
        if self._reports.is_due():
            _log.error(
                "metrics to hooks.otlp: {reason}; {quiet} more since the last report",
                reason=result.reason,
                quiet=self._reports.take_suppressed(),
            )


def line_of(settled: SettledExchange, provider_fields: bytes) -> bytes:
    """Return the line that is stored, which :mod:`mgw.usage.otlp_span` reads."""
    trace = b"" if settled.trace is None else _trace_fields(settled.trace)
    return b"".join((b"{", provider_fields, trace, b'"event":', encode_settled(settled)[:-1], b"}\n"))


def _trace_fields(trace: TraceContext) -> bytes:
    fields = {"trace": trace.trace_id, "parent": trace.span_id, "state": trace.state}
    return encode(fields)[1:-1] + b","


def _describe(failure: Failure) -> Result:
    """A try that was ended, or a bug; of the error only its kind is told."""
    return Result(Verdict.RETRY, f"not sent ({failure.type.__name__ if failure.type else 'unknown'})")


def open_sink(settings: OtlpSettings, tools: SinkTools) -> OtlpSink:
    """Begin to send to ``hooks.otlp``; whether the collector is there is not asked.

    :raises ValueError: OpenTelemetry is not installed.
    """
    if not has_otlp_packages():
        raise ValueError(f"hooks.otlp: {OTLP_MISSING}")
    receiver = tools.receiver(TIMEOUT_SECONDS)
    headers = tuple(
        (name.encode("ascii"), value.reveal().encode("latin-1"))
        for name, value in settings.headers.items()
        if isinstance(value, Secret)  # as all are that have been loaded
    )
    collector = Collector(
        receiver, tools.reactor, tools.runner("mgw-otlp"), settings.endpoint, headers, str(uuid4())
    )
    options = OutboxOptions(BATCH_MAX, min(SPAN_SECONDS, settings.interval_seconds), save_first=True)
    sink = OtlpSink(
        tools.reactor,
        tools.wall,
        tools.config,
        collector,
        tools.outbox("otlp", collector.deliver, options),
        settings.interval_seconds,
    )
    sink.start()
    return sink
