"""The usage event: one record of each exchange.

The names, their order and their meaning are those of contract 7.2.  ``None`` means unknown and is left
out of the line; a count of zero is known and written.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum, StrEnum
from functools import lru_cache
from time import gmtime, strftime
from typing import Any, Final, Literal

from msgspec import Raw, Struct, defstruct
from msgspec.json import Encoder
from msgspec.structs import astuple, replace

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


_FIELDS: Final = UsageEvent.__struct_fields__
_TIME: Final = _FIELDS.index("time")
_COST: Final = _FIELDS.index("cost_usd")
_ROUNDED: Final = tuple(_FIELDS.index(name) for name in ("session_minutes", "latency_ms", "ttft_ms"))
# Any: encoding looks at values alone, and time is text here.
_Line: Final = defstruct("_Line", [(name, Any, None) for name in _FIELDS], omit_defaults=True)
_ENCODER: Final = Encoder()
_MILLISECONDS: Final = tuple(f".{number:03d}Z" for number in range(1000))


def encode(event: UsageEvent) -> bytes:
    """Return the event as one line of JSON that ends in a newline; any event has one."""
    try:
        line = _encode(event)
    except UnicodeEncodeError:  # a model name may hold half of a surrogate pair
        return _encode(_shorten(event))
    return line if len(line) <= MAX_LINE_BYTES else _encode(_shorten(event))


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


def _encode(event: UsageEvent) -> bytes:
    values = list(astuple(event))
    values[_TIME] = timestamp(event.time)
    for index in _ROUNDED:
        value = values[index]
        if value is not None:
            values[index] = round(value, 3)
    if event.cost_usd is not None:
        values[_COST] = Raw(usd_text(nanodollars_of(event.cost_usd)).encode())
    return _ENCODER.encode(_Line(*values)) + b"\n"


@lru_cache(maxsize=64)
def _second(unix_seconds: int) -> str:
    return strftime("%Y-%m-%dT%H:%M:%S", gmtime(unix_seconds))


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
