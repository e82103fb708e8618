"""What a request leaves behind, as lines of JSON.

A request that ends stores a :class:`~mgw.usage.event.SettledExchange`, if it has a usage event, and an
:class:`EndedRequest` for the access log; :mod:`mgw.usage.record_queue` hands them on in batches.  What
exchanges share, their labels, is rendered once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from itertools import takewhile
from operator import attrgetter
from typing import Any, Final

from msgspec import Raw, Struct, defstruct
from msgspec.json import Encoder
from msgspec.structs import astuple

from mgw.usage.event import (
    ELLIPSIS,
    FIELDS,
    MAX_LINE_BYTES,
    MAX_NAME,
    MAX_TEXT,
    SettledExchange,
    UsageEvent,
    nanodollars_of,
    timestamp,
    usd_text,
)
from mgw.usage.event_field import EventField, FieldType
from mgw.usage.labels import ExchangeLabels

_ENCODER: Final = Encoder()

Values = list[Any]  # Any: the fields of an exchange by their places, as the exchange has them


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


def settled_encoder(fields: Sequence[EventField]) -> Callable[[SettledExchange], bytes]:
    """Return what makes the line of JSON of an exchange, with the fields of a table.

    The labels that stand next to one another in the table are encoded once for all exchanges that share them.
    Exchanges with a session, and those with unusual texts, take another way (:func:`line_encoder`).
    """
    first, shared = _shared_labels(fields)
    alone = [field for field in fields[first + len(shared) :] if not field.is_of_session]
    usual = [*fields[: first + 1], *alone]
    sources = [field.source for field in usual]
    sources[first] = "labels.json_text"
    read = attrgetter(*sources)
    numbers = [at for at, field in enumerate(usual) if field.type is FieldType.NUMBER]
    others = [(at, _CONVERTED[field.type]) for at, field in enumerate(usual) if field.type in _CONVERTED]
    line_type, encode_json = _line_type(usual), _ENCODER.encode
    readers, encode_unusual = [field.reader() for field in fields], line_encoder(fields)

    def encode_settled(settled: SettledExchange) -> bytes:
        """Return the line of JSON of an exchange: that of its event (:func:`encode`)."""
        values = [*read(settled)]
        for at, convert in others:
            if (value := values[at]) is not None:
                values[at] = convert(value)
        for at in numbers:  # each request has some: rounded here, they need no call
            if (value := values[at]) is not None:
                values[at] = round(value, 3)
        try:
            if values[first] is None:
                values[first] = _render_labels(shared, settled.labels)
            line = encode_json(line_type(*values))
        except UnicodeEncodeError:  # a model name may hold half of a surrogate pair
            return encode_unusual([read(settled) for read in readers])
        if settled.session is not None or len(line) >= MAX_LINE_BYTES:  # a newline more is too long
            return encode_unusual([read(settled) for read in readers])
        return line + b"\n"

    return encode_settled


def _shared_labels(fields: Sequence[EventField]) -> tuple[int, list[EventField]]:
    """Return the first labels that stand next to one another, and the place of the first of them."""
    first = next(at for at, field in enumerate(fields) if field.is_label)
    return first, list(takewhile(lambda field: field.is_label, fields[first:]))


def line_encoder(fields: Sequence[EventField]) -> Callable[[Values], bytes]:
    """Return what makes a line of JSON of the values of these fields; any values have one."""
    types = [field.type for field in fields]
    line_type = _line_type(fields)

    def write(values: Values) -> bytes:
        return _ENCODER.encode(line_type(*map(_json_value, types, values))) + b"\n"

    def encode_values(values: Values) -> bytes:
        try:
            line = write(values)
        except UnicodeEncodeError:
            return write([_shorten(value) for value in values])
        return line if len(line) <= MAX_LINE_BYTES else write([_shorten(value) for value in values])

    return encode_values


def encode(event: UsageEvent) -> bytes:
    """Return the event as one line of JSON that ends in a newline."""
    values = [*astuple(event)]
    if event.cost_usd is not None:
        values[_COST] = nanodollars_of(event.cost_usd)
    return _encode_values(values)


def _line_type(fields: Sequence[EventField]) -> Callable[..., Struct]:
    # Any: the encoder looks at the values alone, and some of them are text that is written as it stands.
    return defstruct("_Line", [(field.name, Any, None) for field in fields], omit_defaults=True)


def _render_labels(fields: Sequence[EventField], labels: ExchangeLabels) -> Raw:
    """Return these fields as JSON without the name of the first, which the line has."""
    line = _line_type(fields)(*(getattr(labels, field.attribute) for field in fields))
    labels.json_text = raw = Raw(_ENCODER.encode(line)[len(fields[0].name) + len('{"":') : -len("}")])
    return raw


def _json_value(kind: FieldType, value: Any) -> Any:  # Any: as in Values
    if value is None:
        return None
    convert = _CONVERTED.get(kind)
    return convert(value) if convert else round(value, 3) if kind is FieldType.NUMBER else value


def _shorten(value: Any) -> Any:  # Any: as in Values
    if isinstance(value, str) and not isinstance(value, Enum):
        return _truncate(value, MAX_TEXT)
    return tuple([_truncate(name, MAX_NAME) for name in value]) if isinstance(value, tuple) else value


def _truncate(text: str, length: int) -> str:
    if len(text) > length:
        text = text[:length] + ELLIPSIS
    return text.encode("utf-8", "replace").decode()


_CONVERTED: Final[dict[FieldType, Callable[[Any], Any]]] = {
    FieldType.TIME: timestamp,
    FieldType.MONEY: lambda nanodollars: Raw(usd_text(nanodollars)),
}
"""How JSON has the values of these types; numbers are rounded where that is asked."""
_COST: Final = UsageEvent.__struct_fields__.index("cost_usd")
_encode_values: Final = line_encoder(FIELDS)
encode_settled: Final = settled_encoder(FIELDS)
