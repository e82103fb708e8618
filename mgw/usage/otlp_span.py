"""Encode a usage event as an OTLP span, in protobuf.

The SDK takes a tenth of a millisecond for a span, which is processor time that requests then lack.  Most of
what spans say is the same for many of them, and an element of a message stands in it as it would by itself
(protobuf.dev/programming-guides/encoding, "Submessages").  So what repeats is encoded once and kept, and a
span is a few pieces put behind one another.

Sources: opentelemetry-proto's trace/v1/trace.proto and common/v1/common.proto (numbers of fields), the GenAI
conventions as in :mod:`mgw.usage.genai`.
"""

from __future__ import annotations

from datetime import datetime
from functools import lru_cache
from hashlib import blake2b
from struct import pack
from typing import Final

from msgspec import Struct
from msgspec.json import Decoder
from opentelemetry.trace import TraceState

from mgw.usage.genai import operation_of, output_of
from mgw.usage.operation_metrics import OTHER_ERROR

MAX_TEXT: Final = 256
"""The longest value of an attribute, which is cut there: clients choose names of models."""
MAX_NAMES: Final = 64
"""How many dropped fields a span names."""
MAX_KEPT: Final = 512
"""How many sets of attributes are kept for spans to come."""
_MAX_INTEGER: Final = 2**63 - 1
_ALL_BITS: Final = 2**64 - 1

# Tags: the number of a field, and how its value is written (0: a number, 1: 8 bytes, 2: bytes behind their
# length, 5: 4 bytes).
_SPANS: Final = b"\x12"  # ScopeSpans.spans
_TRACE_ID: Final = b"\x0a\x10"
_SPAN_ID: Final = b"\x12\x08"
_TRACE_STATE: Final = b"\x1a"
_PARENT_SPAN_ID: Final = b"\x22\x08"
_NAME: Final = b"\x2a"
_CLIENT_KIND: Final = b"\x30\x03"
_START: Final = 0x39
_END: Final = 0x41
_ATTRIBUTES: Final = b"\x4a"
_STATUS: Final = b"\x7a"
_ERROR_CODE: Final = b"\x18\x02"
_STATUS_MESSAGE: Final = b"\x12"
_OWN_FLAGS: Final = b"\x85\x01\x00\x01\x00\x00"
"""The flag that it is known whether the parent is remote (0x100)."""
_REMOTE_FLAGS: Final = b"\x85\x01\x00\x03\x00\x00"
"""The flags that it is known and that the parent is remote (0x200)."""
_KEY: Final = b"\x0a"
_VALUE: Final = b"\x12"

Value = str | bool | int | float | tuple[str, ...]


class _Event(Struct):
    """What a span says of a usage event."""

    request_id: str
    time: datetime
    dialect: str
    route: str
    modality: str
    transport: str
    status: str
    latency_ms: float
    provider: str | None = None
    model: str | None = None
    upstream_model: str | None = None
    tokens_in: int | None = None
    tokens_out: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None
    session_minutes: float | None = None
    cost_usd: float | None = None
    stream: bool | None = None
    http_status: int | None = None
    ttft_ms: float | None = None
    attempts: int | None = None
    key_hash: str | None = None
    dropped_fields: tuple[str, ...] = ()
    bytes_in: int | None = None
    bytes_out: int | None = None
    frames_in: int | None = None
    frames_out: int | None = None
    client: str | None = None
    error: str | None = None
    error_message: str | None = None
    upstream_request_id: str | None = None


class SpanLine(Struct):
    """An event, with what was known of its trace and its provider."""

    event: _Event
    trace: str | None = None
    parent: str | None = None
    state: str = ""
    system: str | None = None
    address: str | None = None
    port: int | None = None


class _Shared(Struct, frozen=True):
    """What many spans say."""

    route: str
    modality: str
    dialect: str
    transport: str
    status: str
    error: str | None
    stream: bool | None
    http_status: int | None
    attempts: int | None
    provider: str | None
    model: str | None
    upstream_model: str | None
    key_hash: str | None
    client: str | None
    system: str | None
    address: str | None
    port: int | None


_DECODER: Final = Decoder(SpanLine)


def read_line(line: bytes) -> SpanLine:
    """Return what was stored of an event.

    :raises msgspec.DecodeError: it cannot be read.
    """
    return _DECODER.decode(line)


def encode_span(line: SpanLine) -> bytes:
    """Return the span of an event, as an element of a ``ScopeSpans``.

    :raises ValueError: the event cannot be one that was stored.
    """
    event = line.event
    digest = blake2b(event.request_id.encode(), digest_size=24).digest()
    start = int(event.time.timestamp() * 1000) * 10**6
    end = start + int(event.latency_ms * 10**6)
    if not 0 <= start <= end <= _MAX_INTEGER:
        raise ValueError("times that a span cannot have")
    if line.trace is None:
        trace = b"".join((_TRACE_ID, digest[:16], _OWN_FLAGS))
    else:
        trace = _encode_trace(line.trace, line.parent, line.state)
    span = b"".join(
        (
            trace,
            _SPAN_ID,
            digest[16:],
            _encode_shared(_shared_of(line)),
            _encode_status(event),
            pack("<BQBQ", _START, start, _END, end),
            *[encode_attribute(name, value) for name, value in _own_values(event) if value is not None],
        )
    )
    return _message(_SPANS, span)


def encode_attribute(name: str, value: Value) -> bytes:
    """Return an attribute, as an element of a span."""
    return _message(_ATTRIBUTES, _key_of(name) + _message(_VALUE, _encode_value(value)))


def encode_request(attributes: dict[str, Value], scope_name: str, scope_version: str, spans: bytes) -> bytes:
    """Return an ``ExportTraceServiceRequest`` of these spans, all of one resource and scope.

    :param attributes: the resource's.
    """
    resource = b"".join(
        _message(b"\x0a", _key_of(name) + _message(_VALUE, _encode_value(value)))
        for name, value in attributes.items()
    )
    scope = _message(b"\x0a", scope_name.encode()) + _message(b"\x12", scope_version.encode())
    scope_spans = _message(b"\x0a", scope) + spans
    return _message(b"\x0a", _message(b"\x0a", resource) + _message(b"\x12", scope_spans))


def _own_values(event: _Event) -> tuple[tuple[str, Value | None], ...]:
    """The attributes that each span has for itself."""
    ttft = event.ttft_ms
    return (
        ("mgw.request_id", event.request_id),
        (
            "gen_ai.response.time_to_first_chunk",
            ttft / 1000 if event.stream and ttft is not None else None,
        ),
        ("gen_ai.usage.input_tokens", event.tokens_in),
        ("gen_ai.usage.output_tokens", event.tokens_out),
        ("gen_ai.usage.cache_read.input_tokens", event.cache_read_tokens),
        ("gen_ai.usage.cache_creation.input_tokens", event.cache_write_tokens),
        ("gen_ai.usage.reasoning.output_tokens", event.reasoning_tokens),
        ("mgw.cost_usd", event.cost_usd),
        ("mgw.upstream_request_id", event.upstream_request_id),
        ("mgw.dropped_fields", event.dropped_fields[:MAX_NAMES] or None),
        ("mgw.session_minutes", event.session_minutes),
        ("mgw.bytes_in", event.bytes_in),
        ("mgw.bytes_out", event.bytes_out),
        ("mgw.frames_in", event.frames_in),
        ("mgw.frames_out", event.frames_out),
    )


def _shared_of(line: SpanLine) -> _Shared:
    event = line.event
    return _Shared(
        event.route,
        event.modality,
        event.dialect,
        event.transport,
        event.status,
        event.error,
        event.stream or None,  # only where it is one
        event.http_status,
        event.attempts,
        event.provider,
        _cut(event.model),
        _cut(event.upstream_model),
        event.key_hash,
        event.client,
        line.system,
        line.address,
        line.port,
    )


@lru_cache(maxsize=MAX_KEPT)
def _encode_shared(shared: _Shared) -> bytes:
    """Return name, kind, and the attributes."""
    operation = operation_of(shared.route, shared.modality)
    failed = shared.status != "ok"
    values: dict[str, Value | None] = {
        "gen_ai.operation.name": operation,
        "gen_ai.provider.name": shared.system,
        "gen_ai.request.model": shared.model,
        "gen_ai.response.model": shared.upstream_model,
        "gen_ai.output.type": output_of(operation, shared.modality),
        "gen_ai.request.stream": shared.stream,
        "server.address": shared.address,
        "server.port": shared.port,
        "http.response.status_code": shared.http_status,
        "error.type": (shared.error or OTHER_ERROR) if failed else None,
        "mgw.provider": shared.provider,
        "mgw.route": shared.route,
        "mgw.dialect": shared.dialect,
        "mgw.modality": shared.modality,
        "mgw.transport": shared.transport,
        "mgw.outcome": shared.status,
        "mgw.attempts": shared.attempts,
        "mgw.client": shared.client,
        "mgw.key_hash": shared.key_hash,
    }
    name = f"{operation} {shared.model}" if shared.model else operation
    attributes = [encode_attribute(key, value) for key, value in values.items() if value is not None]
    return b"".join((_message(_NAME, name.encode()), _CLIENT_KIND, *attributes))


def _encode_status(event: _Event) -> bytes:
    """Return whether the request failed, and how the provider says so (conventions, "Recording errors")."""
    if event.status == "ok":
        return _message(_STATUS, b"")
    said = event.error_message
    described = b"" if said is None else _message(_STATUS_MESSAGE, said.encode())
    return _message(_STATUS, described + _ERROR_CODE)


def _encode_trace(trace_id: str, parent: str | None, state: str) -> bytes:
    """The client's trace, and the parent in it."""
    trace = bytes.fromhex(trace_id)
    span = b"" if parent is None else bytes.fromhex(parent)
    if len(trace) != 16 or len(span) not in (0, 8):
        raise ValueError("an id of another length")
    found = _TRACE_ID + trace
    if state:
        found += _message(_TRACE_STATE, TraceState.from_header([state]).to_header().encode())
    return found + (_PARENT_SPAN_ID + span + _REMOTE_FLAGS if span else _OWN_FLAGS)


def _encode_value(value: Value) -> bytes:
    """Return an ``AnyValue``."""
    if isinstance(value, str):
        return _message(b"\x0a", (_cut(value) or "").encode())
    if isinstance(value, bool):
        return b"\x10\x01" if value else b"\x10\x00"
    if isinstance(value, int):
        return b"\x18" + _varint(min(value, _MAX_INTEGER) & _ALL_BITS)
    if isinstance(value, float):
        return pack("<Bd", 0x21, value)
    return _message(b"\x2a", b"".join([_message(b"\x0a", _encode_value(one)) for one in value]))


@lru_cache(maxsize=128)
def _key_of(name: str) -> bytes:
    """The key of a ``KeyValue``; names are ours."""
    return _message(_KEY, name.encode())


def _message(tag: bytes, content: bytes) -> bytes:
    size = len(content)
    return tag + (_SMALL[size] if size < len(_SMALL) else _varint(size)) + content


def _varint(number: int) -> bytes:
    """Seven bits to a byte, the lowest first; all bytes but the last have the eighth bit set."""
    found = bytearray()
    while number > 127:
        found.append(number & 127 | 128)
        number >>= 7
    found.append(number)
    return bytes(found)


_SMALL: Final = tuple(map(_varint, range(1024)))


def _cut(text: str | None) -> str | None:
    return text if text is None or len(text) <= MAX_TEXT else f"{text[: MAX_TEXT - 1]}…"
