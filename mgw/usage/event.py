"""The usage event: one record of each exchange, and what an exchange leaves behind for it.

The names, their order and their meaning are those of contract 7.2.  ``None`` means unknown and is left
out of the line; a count of zero is known and written.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from functools import lru_cache
from time import gmtime, strftime
from typing import Final, Literal

from msgspec import Struct

from mgw.canonical.reply import NO_USAGE, TokenUsage
from mgw.usage.labels import ExchangeLabels
from mgw.usage.price_row import Unpriced
from mgw.usage.trace_context import TraceContext

MAX_DROPPED_NAMES: Final = 256
"""How many names of dropped fields an event holds; an ellipsis says that there were more."""
MAX_LINE_BYTES: Final = 64 * 1024
"""A line above this is written again with every text cut: a client's model name must not fill the sink."""
MAX_TEXT: Final = 512
NANODOLLARS: Final = 10**9
"""How many nanodollars make a dollar."""
MAX_NAME: Final = 128
ELLIPSIS: Final = "…"


class Outcome(StrEnum):
    """How an exchange ended."""

    OK = "ok"
    UPSTREAM_ERROR = "upstream_error"
    CLIENT_ABORT = "client_abort"
    REJECTED = "rejected"


class UsageEvent(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One exchange, or one realtime session."""

    request_id: str
    time: float
    """Unix seconds; written as RFC 3339 in UTC."""
    dialect: str
    """The client's family."""
    route: str
    """The name of a row of the route table."""
    provider: str | None = None
    model: str | None = None
    """The model as requested."""
    upstream_model: str | None = None
    modality: str
    transport: Literal["http", "websocket"]
    tokens_in: int | None = None
    """The prompt's tokens, cache reads and writes included, however a provider counts."""
    tokens_out: int | None = None
    """The answer's tokens, reasoning included."""
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None
    session_minutes: float | None = None
    cost_usd: float | None = None
    """US dollars: a whole number of nanodollars, written with at most 9 decimals."""
    stream: bool | None = None
    """Whether the response was an event stream or an array in pieces."""
    status: Outcome
    http_status: int | None = None
    """What the client got; 499 for a client that left first."""
    latency_ms: float
    """The time from the complete request head to the last byte handed to the transport."""
    ttft_ms: float | None = None
    """The time from the complete request head to the first body byte of the response."""
    attempts: int | None = None
    """The number of upstream requests begun."""
    key_hash: str | None = None
    dropped_fields: tuple[str, ...] | None = None
    bytes_in: int | None = None
    """The bytes of a realtime session that came from the client."""
    bytes_out: int | None = None
    frames_in: int | None = None
    frames_out: int | None = None
    client: str | None = None
    """The client's name: that of its key, else the first digits of the key's digest."""
    error: str | None = None
    """Why it did not end well: one word (:func:`mgw.dialects.refusal.word_of`)."""
    error_message: str | None = None
    """How the provider itself said so: the beginning of its error's message, without credentials."""
    upstream_request_id: str | None = None
    """The provider's own id of the exchange."""


class SessionCounts(Struct, frozen=True, gc=False, array_like=True):
    """What went through a realtime session."""

    minutes: float | None = None
    bytes_in: int | None = None
    bytes_out: int | None = None
    frames_in: int | None = None
    frames_out: int | None = None


NO_SESSION: Final = SessionCounts()


class SettledExchange(Struct, frozen=True, gc=False):
    """One exchange that has ended; the fields mean what those of :class:`~mgw.usage.event.UsageEvent` do."""

    labels: ExchangeLabels
    request_id: str
    time: float
    """Unix seconds."""
    outcome: Outcome
    latency_ms: float
    http_status: int | None = None
    ttft_ms: float | None = None
    usage: TokenUsage = NO_USAGE
    stream: bool | None = None
    attempts: int | None = None
    dropped_fields: tuple[str, ...] | None = None
    error: str | None = None
    error_message: str | None = None
    upstream_request_id: str | None = None
    session: SessionCounts | None = None
    cost: int | None = None
    """The cost in nanodollars."""
    unpriced: Unpriced | None = None
    """Why there is no cost, where one was to be expected."""
    trace: TraceContext | None = None
    """Where a sink asks for it; the event does not have it."""

    def event(self) -> UsageEvent:
        """Return the usage event."""
        labels, usage, session = self.labels, self.usage, self.session or NO_SESSION
        return UsageEvent(
            request_id=self.request_id,
            time=self.time,
            dialect=labels.dialect,
            route=labels.route,
            provider=labels.provider,
            model=labels.model,
            upstream_model=labels.upstream_model,
            modality=labels.modality,
            transport=labels.transport,
            tokens_in=usage.tokens_in,
            tokens_out=usage.tokens_out,
            cache_read_tokens=usage.cache_read,
            cache_write_tokens=usage.cache_write,
            reasoning_tokens=usage.reasoning,
            session_minutes=session.minutes,
            cost_usd=None if self.cost is None else self.cost / NANODOLLARS,
            stream=self.stream,
            status=self.outcome,
            http_status=self.http_status,
            latency_ms=self.latency_ms,
            ttft_ms=self.ttft_ms,
            attempts=self.attempts,
            key_hash=labels.key_hash,
            dropped_fields=self.dropped_fields,
            bytes_in=session.bytes_in,
            bytes_out=session.bytes_out,
            frames_in=session.frames_in,
            frames_out=session.frames_out,
            client=labels.client,
            error=self.error,
            error_message=self.error_message,
            upstream_request_id=self.upstream_request_id,
        )


_MILLISECONDS: Final = tuple(f".{number:03d}Z" for number in range(1000))


def timestamp(unix_seconds: float) -> str:
    """Return RFC 3339 in UTC with milliseconds, as ``2026-01-31T12:00:00.250Z``."""
    milliseconds = int(unix_seconds * 1000)
    return _second(milliseconds // 1000) + _MILLISECONDS[milliseconds % 1000]


def usd_text(nanodollars: int) -> str:
    """Return dollars as a number without an exponent, and with no more decimals than it needs."""
    dollars, rest = divmod(nanodollars, NANODOLLARS)
    return f"{dollars}.{rest:09d}".rstrip("0").rstrip(".") if rest else str(dollars)


def nanodollars_of(dollars: float) -> int:
    """Return the nanodollars that an event's ``cost_usd`` stands for."""
    return round(dollars * NANODOLLARS)


def limit_dropped_names(names: Iterable[str]) -> tuple[str, ...] | None:
    """Return ``dropped_fields``: sorted, unique, at most 256 and then an ellipsis; ``None`` for none."""
    found = tuple(sorted(set(names)))
    if len(found) > MAX_DROPPED_NAMES:
        return (*found[:MAX_DROPPED_NAMES], ELLIPSIS)
    return found or None


@lru_cache(maxsize=64)
def _second(unix_seconds: int) -> str:
    return strftime("%Y-%m-%dT%H:%M:%S", gmtime(unix_seconds))
