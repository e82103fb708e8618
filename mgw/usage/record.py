"""What a request leaves behind, as lines of JSON.

A request that ends stores a :class:`~mgw.usage.event.SettledExchange`, if it has a usage event, and an
:class:`EndedRequest` for the access log; :mod:`mgw.usage.record_queue` hands them on in batches.  What
exchanges share, their labels, is rendered once.
"""

from __future__ import annotations

from enum import Enum
from typing import Any, Final

from msgspec import Raw, Struct, defstruct
from msgspec.json import Encoder
from msgspec.structs import astuple, replace

from mgw.usage.event import (
    ELLIPSIS,
    MAX_LINE_BYTES,
    MAX_NAME,
    MAX_TEXT,
    SettledExchange,
    UsageEvent,
    nanodollars_of,
    timestamp,
    usd_text,
)
from mgw.usage.labels import ExchangeLabels

_FIELDS: Final = UsageEvent.__struct_fields__
_TIME: Final = _FIELDS.index("time")
_COST: Final = _FIELDS.index("cost_usd")
_ROUNDED: Final = tuple(_FIELDS.index(name) for name in ("session_minutes", "latency_ms", "ttft_ms"))
# Any: encoding looks at values alone, and time is text here.
_EventLine: Final = defstruct("_EventLine", [(name, Any, None) for name in _FIELDS], omit_defaults=True)
_ENCODER: Final = Encoder()


class EndedRequest(Struct, frozen=True, gc=False, array_like=True):
    """The end of a request, for the access log."""

    time: float
    """Unix seconds, of the end."""
    method: bytes | None
    """``None`` where the request could not be read so far."""
    raw_path: bytes | None
    status: int
    seconds: float
    """The time from the complete head to the end of the response."""
    request_id: str
    error: str | None = None
    """Why it did not end well."""
    has_event: bool = False
    """Whether an exchange of the same id has a record, too."""


class _Line(Struct, omit_defaults=True):
    """A line of JSON; its fields are those of the event, but for the labels."""

    request_id: str
    time: str
    dialect: Raw
    """The dialect and all that follows it up to the transport: what is raw is written as it stands."""
    tokens_in: int | None = None
    tokens_out: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None
    session_minutes: float | None = None
    cost_usd: Raw | None = None
    stream: bool | None = None
    status: str | None = None
    http_status: int | None = None
    latency_ms: float | None = None
    ttft_ms: float | None = None
    attempts: int | None = None
    key_hash: str | None = None
    dropped_fields: tuple[str, ...] | None = None
    client: str | None = None
    error: str | None = None
    error_message: str | None = None
    upstream_request_id: str | None = None


class _Labels(Struct, kw_only=True, omit_defaults=True):
    """What stands between the time and the counts."""

    dialect: str
    route: str
    provider: str | None = None
    model: str | None = None
    upstream_model: str | None = None
    modality: str
    transport: str


def encode_settled(settled: SettledExchange) -> bytes:
    """Return the line of JSON of an exchange: that of its event (:func:`encode`)."""
    labels, usage, ttft_ms, cost = settled.labels, settled.usage, settled.ttft_ms, settled.cost
    try:
        line = _ENCODER.encode(
            _Line(
                settled.request_id,
                timestamp(settled.time),
                labels.json_text or _render_labels(labels),
                usage.tokens_in,
                usage.tokens_out,
                usage.cache_read,
                usage.cache_write,
                usage.reasoning,
                None,
                None if cost is None else Raw(usd_text(cost).encode()),
                settled.stream,
                settled.outcome,
                settled.http_status,
                round(settled.latency_ms, 3),
                None if ttft_ms is None else round(ttft_ms, 3),
                settled.attempts,
                labels.key_hash,
                settled.dropped_fields,
                labels.client,
                settled.error,
                settled.error_message,
                settled.upstream_request_id,
            )
        )
    except UnicodeEncodeError:  # a model name may hold half of a surrogate pair
        return encode(settled.event())
    if settled.session is not None or len(line) >= MAX_LINE_BYTES:  # a newline more is too long
        return encode(settled.event())
    return line + b"\n"


def _render_labels(labels: ExchangeLabels) -> Raw:
    text = _ENCODER.encode(
        _Labels(
            dialect=labels.dialect,
            route=labels.route,
            provider=labels.provider,
            model=labels.model,
            upstream_model=labels.upstream_model,
            modality=labels.modality,
            transport=labels.transport,
        )
    )
    labels.json_text = raw = Raw(text[len(b'{"dialect":') : -len(b"}")])
    return raw


def encode(event: UsageEvent) -> bytes:
    """Return the event as one line of JSON that ends in a newline; any event has one."""
    try:
        line = _encode(event)
    except UnicodeEncodeError:  # a model name may hold half of a surrogate pair
        return _encode(_shorten(event))
    return line if len(line) <= MAX_LINE_BYTES else _encode(_shorten(event))


def _encode(event: UsageEvent) -> bytes:
    values = list(astuple(event))
    values[_TIME] = timestamp(event.time)
    for index in _ROUNDED:
        value = values[index]
        if value is not None:
            values[index] = round(value, 3)
    if event.cost_usd is not None:
        values[_COST] = Raw(usd_text(nanodollars_of(event.cost_usd)).encode())
    return _ENCODER.encode(_EventLine(*values)) + b"\n"


def _shorten(event: UsageEvent) -> UsageEvent:
    changed: dict[str, Any] = {}  # Any: replace() takes the fields by name
    for name in _FIELDS:
        value = getattr(event, name)
        if isinstance(value, str) and not isinstance(value, Enum):
            changed[name] = _truncate(value, MAX_TEXT)
    if event.dropped_fields is not None:
        changed["dropped_fields"] = tuple(_truncate(name, MAX_NAME) for name in event.dropped_fields)
    return replace(event, **changed)


def _truncate(text: str, length: int) -> str:
    if len(text) > length:
        text = text[:length] + ELLIPSIS
    return text.encode("utf-8", "replace").decode()
