"""What a request leaves behind, as lines of JSON.

A request that ends stores one :class:`EndedRequest`: what the access log says of it, and the
:class:`~mgw.usage.event.SettledExchange`, if it has a usage event.  :mod:`mgw.usage.record_queue` hands them
on in batches.  What exchanges share, their labels, is rendered once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
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
    MONEY,
    Outcome,
    SettledExchange,
    UsageEvent,
    nanodollars_of,
    timestamp,
    timestamps,
    usd_text,
)
from mgw.usage.event_field import EventField, FieldType
from mgw.usage.labels import ExchangeLabels

_ENCODER: Final = Encoder()

Values = list[Any]  # Any: the fields of an exchange by their places, as the exchange has them

_Places = tuple[int, ...]
_Form = tuple[Callable[[SettledExchange], Iterable[Any]], Callable[..., Struct], _Places, _Places, _Places]
"""How lines with some fields are made: what reads the values, the type that is encoded, and the places of
times, of numbers and of amounts, which are converted in between."""


_time_of: Final = attrgetter("time")
_latency_of: Final = attrgetter("latency_ms")
_ttft_of: Final = attrgetter("ttft_ms")
_session_of: Final = attrgetter("session")
_WORDS: Final = {outcome: outcome.value for outcome in Outcome}
_PLACED: Final = (
    *("request_id", "time", "dialect", "tokens_in", "tokens_out", "cache_read_tokens"),
    *("cache_write_tokens", "reasoning_tokens", "cost_usd", "stream", "status", "http_status", "latency_ms"),
    *("ttft_ms", "attempts", "key_hash", "dropped_fields", "client", "error", "error_message"),
    *("upstream_request_id", "client_groups", "tags", "tokens_in_estimated", "tokens_out_estimated"),
    *("charged_usd", "limit_warnings", "service_tier", "price_tier", "body_rules"),
)
"""The fields that :class:`_BlockEncoder` reads by name, in the order of the table; others follow."""


class EndedRequest(Struct, frozen=True, gc=False):
    """A request that has ended: what the access log says of it, and its exchange.

    The exchange is an object of its own: sinks may keep it, and must not keep the path, which may hold a key.
    """

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
    settled: SettledExchange | None = None
    """The exchange; ``None``: the request leaves no usage event."""


def exchanges_of(requests: Iterable[EndedRequest]) -> list[SettledExchange]:
    """Return the exchanges of these requests, in their order."""
    return [ended.settled for ended in requests if ended.settled is not None]


def settled_encoder(fields: Sequence[EventField]) -> Callable[[SettledExchange], bytes]:
    """Return what makes the line of JSON of an exchange, with the fields of a table.

    The labels that stand next to one another in the table are encoded once for all exchanges that share them.
    Lines with unusual texts are made another way (:func:`line_encoder`).  Loops, not functions, convert
    values: each exchange has some.
    """
    first, shared = _shared_labels(fields)
    of_session = _form(fields, first, len(shared))
    usual = _form([field for field in fields if not field.is_of_session], first, len(shared))
    encode_json, encode_unusual = _ENCODER.encode, _unusual_encoder(fields)

    def encode_settled(settled: SettledExchange) -> bytes:
        """Return the line of JSON of an exchange: that of its event (:func:`encode`)."""
        read, line_type, times, numbers, amounts = usual if settled.session is None else of_session
        values = [*read(settled)]
        for at in times:
            if (value := values[at]) is not None:
                values[at] = timestamp(value)
        for at in numbers:
            if (value := values[at]) is not None:
                near = value * 1000
                whole = (near + 0.5) // 1  # what round() says, in a third of the time, if it is not half way
                values[at] = whole / 1000 if -0.49 < near - whole < 0.49 else round(value, 3)
        for at in amounts:
            if (value := values[at]) is not None:
                values[at] = Raw(usd_text(value))
        try:
            values[first] = values[first] or _render_labels(shared, settled.labels)
            line = encode_json(line_type(*values))
        except UnicodeEncodeError:  # a model name may hold half of a surrogate pair
            return encode_unusual(settled)
        return line + b"\n" if len(line) < MAX_LINE_BYTES else encode_unusual(settled)

    return encode_settled


class _BlockEncoder:
    """Makes the lines of many exchanges, with the fields of a table, in one piece.

    The lines are those of :func:`settled_encoder`.  Usual ones take three fifths of the time: their values
    are read by name, and the encoder is called once for all.
    """

    def __init__(self, fields: Sequence[EventField]) -> None:
        _, self._shared = _shared_labels(fields)
        usual = [field for field in fields if not (field.is_of_session or field in self._shared[1:])]
        assert [field.name for field in usual[: len(_PLACED)]] == list(_PLACED), "the table begins otherwise"
        self._line_type, self._encode_each = _line_type(usual), settled_encoder(fields)
        self._further = [(field.name, field.type, field.reader()) for field in usual[len(_PLACED) :]]

    def encode(self, rows: Sequence[SettledExchange]) -> bytes:
        """Return the lines of exchanges (:func:`encode_settled`), one after the other."""
        block = b""
        if len(rows) > 1 and not any(map(_session_of, rows)):
            with suppress(UnicodeEncodeError):
                block = _ENCODER.encode_lines(self._lines(rows))
            if len(block) > MAX_LINE_BYTES and max(map(len, block.split(b"\n"))) >= MAX_LINE_BYTES:
                block = b""
        return block or b"".join(map(self._encode_each, rows))

    def _lines(self, rows: Sequence[SettledExchange]) -> list[Struct]:
        lines, line_type, shared = list[Struct](), self._line_type, self._shared
        for settled, time, latency_ms, ttft_ms in _with_times(rows):
            labels, usage, cost, charged = settled.labels, settled.usage, settled.cost, settled.charged
            line = line_type(
                settled.request_id,
                time,
                labels.json_text or _render_labels(shared, labels),
                usage.tokens_in,
                usage.tokens_out,
                usage.cache_read,
                usage.cache_write,
                usage.reasoning,
                None if cost is None else Raw(usd_text(cost)),
                settled.stream,
                _WORDS[settled.outcome],
                settled.http_status,
                latency_ms,
                ttft_ms,
                settled.attempts,
                labels.key_hash,
                settled.dropped_fields,
                labels.client,
                settled.error,
                settled.error_message,
                settled.upstream_request_id,
                *(labels.client_json or _render_client(labels)),
                settled.tokens_in_estimated,
                settled.tokens_out_estimated,
                None if charged is None else Raw(usd_text(charged)),
                settled.limit_warnings,
                settled.service_tier,
                settled.price_tier,
                settled.body_rules,
            )
            for name, kind, read in self._further:
                setattr(line, name, _json_value(kind, read(settled)))
            lines.append(line)
        return lines


def block_encoder(fields: Sequence[EventField]) -> Callable[[Sequence[SettledExchange]], bytes]:
    """Return what makes the lines of many exchanges, with the fields of a table, in one piece."""
    return _BlockEncoder(fields).encode


def _with_times(
    rows: Sequence[SettledExchange],
) -> Iterable[tuple[SettledExchange, str, float | None, float | None]]:
    """Return exchanges, each with its times as a line has them."""
    times = timestamps(map(_time_of, rows))
    latencies, first_bytes = _rounded(map(_latency_of, rows)), _rounded(map(_ttft_of, rows))
    return zip(rows, times, latencies, first_bytes, strict=True)


def _rounded(numbers: Iterable[float | None]) -> list[float | None]:
    """Return numbers with three decimals, as :func:`settled_encoder` writes them."""
    found = []
    for number in numbers:
        if number is not None:
            near = number * 1000
            whole = (near + 0.5) // 1
            number = whole / 1000 if -0.49 < near - whole < 0.49 else round(number, 3)  # noqa: PLW2901
        found.append(number)
    return found


def _unusual_encoder(fields: Sequence[EventField]) -> Callable[[SettledExchange], bytes]:
    encode_values, readers = line_encoder(fields), [field.reader() for field in fields]
    return lambda settled: encode_values([read(settled) for read in readers])


def _form(fields: Sequence[EventField], first: int, count: int) -> _Form:
    """Return the form of these fields, where one text stands for so many labels from the first one on."""
    fields = [*fields[: first + 1], *fields[first + count :]]
    sources = [field.source for field in fields]
    sources[first] = "labels.json_text"
    times, numbers, amounts = (
        tuple(at for at, field in enumerate(fields) if field.type is kind and at != first)
        for kind in (FieldType.TIME, FieldType.NUMBER, FieldType.MONEY)
    )
    return attrgetter(*sources), _line_type(fields), times, numbers, amounts


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
    for at in _AMOUNTS:
        if values[at] is not None:
            values[at] = nanodollars_of(values[at])
    return _encode_values(values)


def _line_type(fields: Sequence[EventField]) -> Callable[..., Struct]:
    # Any: the encoder looks at the values alone, and some of them are text that is written as it stands.
    return defstruct("_Line", [(field.name, Any, None) for field in fields], omit_defaults=True)


def _render_labels(fields: Sequence[EventField], labels: ExchangeLabels) -> Raw:
    """Return these fields as JSON without the name of the first, which the line has."""
    line = _line_type(fields)(*(getattr(labels, field.attribute) for field in fields))
    labels.json_text = raw = Raw(_ENCODER.encode(line)[len(fields[0].name) + len('{"":') : -len("}")])
    return raw


def _render_client(labels: ExchangeLabels) -> tuple[Raw | None, Raw | None]:
    """Return the groups and the tags of a client as JSON."""
    groups, tags = labels.client_groups, labels.tags
    labels.client_json = rendered = (
        None if groups is None else Raw(_ENCODER.encode(groups)),
        None if tags is None else Raw(_ENCODER.encode(tags)),
    )
    return rendered


def _json_value(kind: FieldType, value: Any) -> Any:  # Any: as in Values
    if value is None:
        return None
    if kind is FieldType.TIME:
        return timestamp(value)
    if kind is FieldType.MONEY:
        return Raw(usd_text(value))
    return round(value, 3) if kind is FieldType.NUMBER else value


def _shorten(value: Any) -> Any:  # Any: as in Values
    if isinstance(value, str) and not isinstance(value, Enum):
        return _truncate(value, MAX_TEXT)
    if isinstance(value, dict):
        return {_truncate(name, MAX_NAME): _truncate(text, MAX_NAME) for name, text in value.items()}
    return tuple([_truncate(name, MAX_NAME) for name in value]) if isinstance(value, tuple) else value


def _truncate(text: str, length: int) -> str:
    if len(text) > length:
        text = text[:length] + ELLIPSIS
    return text.encode("utf-8", "replace").decode()


_AMOUNTS: Final = tuple(UsageEvent.__struct_fields__.index(name) for name in MONEY)
_encode_values: Final = line_encoder(FIELDS)
encode_settled: Final = settled_encoder(FIELDS)
encode_block: Final = block_encoder(FIELDS)
