"""Make spans of usage events, with OpenTelemetry's protobuf classes.

Which attributes there are follows from the table of an event's fields (:mod:`mgw.usage.event`).  Most of what
spans say is the same for many of them: such a part is made once, kept, and copied into each of them.

Sources: opentelemetry-proto's trace/v1/trace.proto and common/v1/common.proto, the GenAI conventions as in
:mod:`mgw.usage.genai`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from hashlib import blake2b
from types import MappingProxyType
from typing import Any, Final, Protocol

from msgspec import Raw, Struct, defstruct
from msgspec.json import Decoder
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span, SpanFlags, Status
from opentelemetry.trace import TraceState

from mgw.usage.event import FIELDS
from mgw.usage.event_field import EventField, FieldType
from mgw.usage.genai import operation_of, output_of
from mgw.usage.operation_metrics import OTHER_ERROR

MAX_TEXT: Final = 256
"""The longest value of an attribute, which is cut there: clients choose names of models."""
MAX_NAMES: Final = 64
"""How many dropped fields a span names."""
MAX_KEPT: Final = 512
"""How many sets of attributes are kept for spans to come."""
_MAX_INTEGER: Final = 2**63 - 1
_OWN_FLAGS: Final = int(SpanFlags.SPAN_FLAGS_CONTEXT_HAS_IS_REMOTE_MASK)
"""It is known whether the parent is remote."""
_REMOTE_FLAGS: Final = _OWN_FLAGS | int(SpanFlags.SPAN_FLAGS_CONTEXT_IS_REMOTE_MASK)
_TYPES: Final[Mapping[FieldType, Any]] = MappingProxyType(  # Any: types
    {
        FieldType.TEXT: str,
        FieldType.TIME: datetime,
        FieldType.WORD: str,
        FieldType.COUNT: int,
        FieldType.NUMBER: float,
        FieldType.MONEY: float,
        FieldType.FLAG: bool,
        FieldType.NAMES: tuple[str, ...],
        FieldType.TAGS: dict[str, str],
    }
)

_Provider = tuple[str | None, str | None, int | None]
"""What OpenTelemetry calls a provider, its host and its port."""
Value = str | bool | int | float | tuple[str, ...]


class SpanLine(Struct):
    """What was stored: an event, with what was known of its trace and its provider."""

    event: Raw
    trace: str | None = None
    parent: str | None = None
    state: str = ""
    system: str | None = None
    address: str | None = None
    port: int | None = None


class Attributes(Protocol):
    """The attributes of a span, a resource or a scope."""

    def add(self, *, key: str) -> KeyValue:
        """Return a new one with this name, which has no value yet."""
        ...


_LINE_DECODER: Final = Decoder(SpanLine)


class SpanWriter:
    """Writes spans of events that have the fields of a table."""

    def __init__(self, fields: Sequence[EventField] = FIELDS) -> None:
        self._decoder = Decoder(_event_type(fields))
        shown = [
            (field.name, field.span_name)
            for field in fields
            if field.span_name is not None and field.type is not FieldType.TAGS
        ]
        self._tags = [(field.name, f"{field.span_name}.") for field in fields if field.type is FieldType.TAGS]
        shared = {field.name for field in fields if field.is_label or field.about.has_few_values}
        self._shared = [(name, attribute) for name, attribute in shown if name in shared]
        self._own = [(name, attribute) for name, attribute in shown if name not in shared]
        self._shared_span = lru_cache(maxsize=MAX_KEPT)(self._new_shared_span)

    def write(self, line: bytes, span: Span) -> None:
        """Write what was stored of an event into a new span.

        :raises msgspec.DecodeError: it cannot be read.
        :raises ValueError: the event cannot be one that was stored.
        """
        found = _LINE_DECODER.decode(line)
        event = self._decoder.decode(found.event)
        start = int(event.time.timestamp() * 1000) * 10**6
        end = start + int(event.latency_ms * 10**6)
        if not 0 <= start <= end <= _MAX_INTEGER:
            raise ValueError("times that a span cannot have")
        is_ok = event.status == "ok"
        error = None if is_ok else event.error or OTHER_ERROR
        values = tuple([getattr(event, name) for name, _ in self._shared])
        span.CopyFrom(self._shared_span(values, error, (found.system, found.address, found.port)))
        span.start_time_unix_nano, span.end_time_unix_nano = start, end
        _write_trace(span, found, blake2b(event.request_id.encode(), digest_size=24).digest())
        span.status.SetInParent()
        if not is_ok:  # conventions, "Recording errors"
            span.status.code = Status.STATUS_CODE_ERROR
            span.status.message = event.error_message or ""
        for name, attribute in self._own:
            value = getattr(event, name)
            if value is not None and name == "ttft_ms":
                value = value / 1000 if event.stream else None
            if value is not None:
                set_value(span.attributes.add(key=attribute).value, value)
        for name, prefix in self._tags:
            for tag, text in (getattr(event, name) or {}).items():
                set_value(span.attributes.add(key=prefix + tag).value, text)

    def _new_shared_span(self, values: tuple[Any, ...], error: str | None, provider: _Provider) -> Span:
        """Return name, kind, and the attributes that many spans have."""
        said = {name: value for (name, _), value in zip(self._shared, values, strict=True)}
        operation = operation_of(said["route"], said["modality"])
        model = _cut(said["model"])
        said |= {"error": error, "stream": said["stream"] or None}  # a stream only where it is one
        span = Span(name=f"{operation} {model}" if model else operation, kind=Span.SPAN_KIND_CLIENT)
        system, address, port = provider
        beside = {
            "gen_ai.operation.name": operation,
            "gen_ai.provider.name": system,
            "gen_ai.output.type": output_of(operation, said["modality"]),
            "server.address": address,
            "server.port": port,
        }
        set_attributes(span.attributes, beside.items())
        set_attributes(span.attributes, ((attribute, said[name]) for name, attribute in self._shared))
        return span


def set_attributes(attributes: Attributes, values: Iterable[tuple[str, Value | None]]) -> None:
    """Add attributes, but for those without a value."""
    for name, value in values:
        if value is not None:
            set_value(attributes.add(key=name).value, value)


def set_value(found: AnyValue, value: Value) -> None:
    """Set the value of an attribute; a long one is cut."""
    if isinstance(value, str):
        found.string_value = value if len(value) <= MAX_TEXT else f"{value[: MAX_TEXT - 1]}…"
    elif isinstance(value, bool):
        found.bool_value = value
    elif isinstance(value, int):
        found.int_value = min(value, _MAX_INTEGER)
    elif isinstance(value, float):
        found.double_value = value
    else:
        found.array_value.SetInParent()
        for one in value[:MAX_NAMES]:
            set_value(found.array_value.values.add(), one)


def _event_type(fields: Sequence[EventField]) -> Any:  # Any: its fields are those of the table
    optional = [(field.name, _TYPES[field.type] | None, None) for field in fields if not field.is_required]
    required = [(field.name, _TYPES[field.type]) for field in fields if field.is_required]
    return defstruct("_Event", [*required, *optional])


def _write_trace(span: Span, line: SpanLine, digest: bytes) -> None:
    """Write the client's trace and the parent in it, or a trace of the span's own.

    :param digest: of the id of the request: it is the same span however often it is sent.
    """
    span.span_id, span.flags = digest[16:], _OWN_FLAGS
    if line.trace is None:
        span.trace_id = digest[:16]
        return
    trace_id, parent = bytes.fromhex(line.trace), bytes.fromhex(line.parent or "")
    if len(trace_id) != 16 or len(parent) not in (0, 8):
        raise ValueError("an id of another length")
    span.trace_id = trace_id
    if line.state:
        span.trace_state = TraceState.from_header([line.state]).to_header()
    if parent:
        span.parent_span_id, span.flags = parent, _REMOTE_FLAGS


def _cut(text: str | None) -> str | None:
    return text if text is None or len(text) <= MAX_TEXT else f"{text[: MAX_TEXT - 1]}…"
