"""Usage events, and outputs that fail on demand."""

from __future__ import annotations

import errno
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from msgspec.structs import replace
from twisted.internet.defer import Deferred, succeed

from mgw.canonical.reply import TokenUsage
from mgw.usage.event import NO_SESSION, Outcome, SessionCounts, SettledExchange, UsageEvent, nanodollars_of
from mgw.usage.labels import ExchangeLabels
from mgw.usage.record import EndedRequest

T = TypeVar("T")

EVENT = UsageEvent(
    request_id="req_1",
    time=1_764_000_000.25,
    dialect="openai",
    route="chat",
    provider="main",
    model="fast",
    upstream_model="gpt-5",
    modality="text",
    transport="http",
    tokens_in=12,
    tokens_out=0,
    stream=True,
    status=Outcome.OK,
    http_status=200,
    latency_ms=1234.5678,
    ttft_ms=99.0,
    attempts=1,
    key_hash="0123456789ab",
)


def event(**changes: Any) -> UsageEvent:  # Any: the fields of an event by name
    """Return an ordinary event with some fields changed."""
    return replace(EVENT, **changes)


def settled_as(wanted: UsageEvent) -> SettledExchange:
    """Return the exchange that leaves this event behind."""
    session = SessionCounts(
        wanted.session_minutes, wanted.bytes_in, wanted.bytes_out, wanted.frames_in, wanted.frames_out
    )
    labels = ExchangeLabels(
        wanted.dialect,
        wanted.route,
        wanted.provider,
        wanted.model,
        wanted.upstream_model,
        wanted.modality,
        wanted.transport,
        wanted.key_hash,
        wanted.client,
        wanted.client_groups,
        wanted.tags,
    )
    return SettledExchange(
        labels,
        wanted.request_id,
        wanted.time,
        wanted.status,
        wanted.latency_ms,
        http_status=wanted.http_status,
        ttft_ms=wanted.ttft_ms,
        usage=TokenUsage(
            wanted.tokens_in,
            wanted.tokens_out,
            wanted.cache_read_tokens,
            wanted.cache_write_tokens,
            wanted.reasoning_tokens,
            service_tier=wanted.service_tier,
        ),
        stream=wanted.stream,
        attempts=wanted.attempts,
        dropped_fields=wanted.dropped_fields,
        error=wanted.error,
        error_message=wanted.error_message,
        upstream_request_id=wanted.upstream_request_id,
        session=None if session == NO_SESSION else session,
        cost=None if wanted.cost_usd is None else nanodollars_of(wanted.cost_usd),
        service_tier=wanted.service_tier,
        price_tier=wanted.price_tier,
        tokens_in_estimated=wanted.tokens_in_estimated,
        tokens_out_estimated=wanted.tokens_out_estimated,
        charged=None if wanted.charged_usd is None else nanodollars_of(wanted.charged_usd),
        limit_warnings=wanted.limit_warnings,
        body_rules=wanted.body_rules,
    )


def exchange(**changes: Any) -> SettledExchange:  # Any: the fields of an event by name
    """Return the exchange behind an ordinary event with some fields changed."""
    return settled_as(event(**changes))


def ended_of(settled: SettledExchange) -> EndedRequest:
    """Return the request that has ended with this exchange."""
    status, request_id = settled.http_status or 200, settled.request_id
    return EndedRequest(
        1_764_000_000.5, b"POST", b"/v1/x", status, 0.0123, request_id, settled.error, settled
    )


@dataclass
class MemoryOutput:
    """An output in memory.

    Each number of ``script`` is how many bytes the next write takes; 0 is a full disk.  When the script is
    over, it takes everything.
    """

    written: bytearray = field(default_factory=bytearray)
    script: list[int] = field(default_factory=list)
    mid_line: bool = False
    closed: bool = False

    def write(self, data: memoryview) -> int:
        size = self.script.pop(0) if self.script else len(data)
        if size == 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        self.written += data[:size]
        return min(size, len(data))

    def close(self) -> None:
        self.closed = True


class AtOnce:
    """A runner that does the work where it stands."""

    def __init__(self) -> None:
        self.stopped = False

    def run(self, work: Callable[[], T], then: Callable[[T | Exception], None]) -> None:
        result: T | Exception
        try:
            result = work()
        except Exception as error:
            result = error
        then(result)

    def stop(self) -> None:
        self.stopped = True


class OnDemand:
    """A runner whose work is done when the test says so: a thread that is stuck until then."""

    def __init__(self) -> None:
        self.waiting: list[Callable[[], None]] = []
        self.stopped = False

    def run(self, work: Callable[[], T], then: Callable[[T | Exception], None]) -> None:
        self.waiting.append(lambda: then(work()))

    def stop(self) -> None:
        self.stopped = True

    def go_on(self) -> None:
        """Do the next piece of work."""
        self.waiting.pop(0)()


@dataclass
class MemorySink:
    """A sink that keeps what it is given, or raises."""

    name: str = "memory"
    errors: int = 0
    dropped: int = 0
    waiting: int = 0
    events: list[UsageEvent] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)
    trouble: Exception | None = None
    closing: Deferred[None] = field(default_factory=lambda: succeed(None))

    def record(self, event: UsageEvent) -> None:
        if self.trouble is not None:
            raise self.trouble
        self.events.append(event)

    def flush(self) -> None:
        self.calls.append("flush")
        if self.trouble is not None:
            raise self.trouble

    def reopen(self) -> None:
        self.calls.append("reopen")

    def close(self) -> Deferred[None]:
        self.calls.append("close")
        return self.closing
