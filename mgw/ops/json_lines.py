"""The lines of the process log as JSON: one object per line, for programs that collect logs.

Each has ``time``, ``level`` and ``kind``, which tells three kinds apart:

- ``usage``: the fields of a usage event under their names;
- ``http``: the end of a request; what it has in common with an event has the same name and type there;
- ``log``: anything else, with ``logger`` and ``message``, and maybe ``traceback`` and ``worker``.

Values are cut and redacted before they are encoded, as in the plain lines (:mod:`mgw.ops.logs`).  What does
not print is escaped, so that no value can do anything to a terminal, or break a line where a reader takes
other characters than a newline for its end.  A line has at most :data:`MAX_LINE` bytes, which journald and
the log drivers of containers take in one piece or put together again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace as replace_labels
from functools import lru_cache
from json import dumps
from typing import Any, Final

from msgspec import Struct
from msgspec.json import Encoder
from msgspec.structs import replace
from twisted.logger import LogEvent, eventAsText

from mgw.nouns.secret import redact_patterns
from mgw.ops.logs import MAX_SHARED_PATH, UNKNOWN, UNLOGGED_PATHS, hide_credentials
from mgw.usage.event import ELLIPSIS, FIELDS, MAX_NAME, SettledExchange, timestamp
from mgw.usage.event_field import EventField, FieldType
from mgw.usage.labels import ExchangeLabels
from mgw.usage.record import EndedRequest, settled_encoder

MAX_LINE: Final = 32 * 1024
_MESSAGE_CHARS: Final = (24 * 1024, 8 * 1024, 2 * 1024)
"""How much of a message or traceback is kept: less where a longer line would have too many bytes."""
_FEW_NAMES: Final = 16
_WHOLE: Final = frozenset({"error_message"})
"""Texts that are not cut here, since they are never long."""
_ENCODER: Final = Encoder()


class _Message(Struct, omit_defaults=True):
    """A line that is not about one request."""

    time: str
    level: str
    kind: str
    logger: str
    message: str
    traceback: str | None = None
    worker: int | None = None


class JsonForm(Struct, frozen=True):
    """How exchanges are written, and what has to be redacted before."""

    encode: Callable[[SettledExchange], bytes]
    labels: tuple[EventField, ...]
    """The labels of which somebody else chose the text."""
    texts: tuple[EventField, ...]
    """The same of an exchange alone."""


def json_form(fields: Sequence[EventField]) -> JsonForm:
    """Return the form for exchanges with the fields of a table."""
    foreign = [field for field in fields if field.type in _TEXTS and not field.about.is_ours]
    labels = tuple(field for field in foreign if field.is_label)
    return JsonForm(settled_encoder(fields), labels, tuple(field for field in foreign if not field.is_label))


_TEXTS: Final = (FieldType.TEXT, FieldType.NAMES, FieldType.TAGS)
_FORM: Final = json_form(FIELDS)


def usage_json(settled: SettledExchange, form: JsonForm = _FORM) -> bytes:
    """Return the line of an exchange."""
    return _usage_json(settled, b"", form)


def joined_json(settled: SettledExchange, ended: EndedRequest, form: JsonForm = _FORM) -> bytes:
    """Return one line for a request and its exchange."""
    if settled.http_status is None:
        settled = replace(settled, http_status=ended.status)
    request = _request_of(ended)
    return _usage_json(settled, b"" if request is None else b"," + request.encode(), form)


def access_json(requests: Iterable[EndedRequest]) -> list[bytes]:
    """Return the lines of requests, but for the routes that are asked all the time."""
    lines: list[bytes] = []
    for ended in requests:
        request = _request_of(ended)
        if request is not None:
            why = "" if ended.error is None else f',"error":{dumps(hide_credentials(ended.error))}'
            lines.append(
                f'{{"time":"{timestamp(ended.time)}","level":"info","kind":"http",'
                f'"request_id":{dumps(ended.request_id)},"http_status":{ended.status},{request},'
                f'"latency_ms":{ended.seconds * 1000:.3f}{why}}}\n'.encode()
            )
    return lines


def message_json(event: LogEvent) -> bytes:
    """Return the line of an event whose text is finished; see :class:`~mgw.ops.logs.RedactingObserver`."""
    message, traceback = _message_of(event)
    level, worker = event.get("log_level"), event.get("log_worker")
    line = b""
    for most in _MESSAGE_CHARS:
        line = _ENCODER.encode(
            _Message(
                timestamp(float(event.get("log_time") or 0.0)),
                "info" if level is None else level.name,
                "log",
                _whole_characters(_logger_of(event)[:MAX_NAME]),
                _cut(message, most),
                None if traceback is None else _cut(traceback, most),
                worker,
            )
        )
        line = _escape(line)
        if len(line) < MAX_LINE:
            break
    return line + b"\n"


def _usage_json(settled: SettledExchange, more: bytes, form: JsonForm) -> bytes:
    settled = _shown(settled, form)
    line = form.encode(settled)
    if len(line) > MAX_LINE // 2 and settled.dropped_fields is not None:
        few = (*settled.dropped_fields[:_FEW_NAMES], ELLIPSIS)
        line = form.encode(replace(settled, dropped_fields=few))
    # The line begins {"request_id":"…","time":"…","dialect":…; no text in it has a quote that is not escaped.
    time, rest = line.index(b',"time":'), line.index(b',"dialect":')
    return b"".join(
        (
            *(b"{", line[time + 1 : rest], b',"level":"info","kind":"usage",'),
            *(line[1:time], _escape(line[rest:-2]), more, b"}\n"),
        )
    )


def _shown(settled: SettledExchange, form: JsonForm) -> SettledExchange:
    """Return an exchange without what the log does not show; itself, where it has none of that."""
    labels = settled.labels
    if labels.is_shown is None:
        labels.shown = _hide_labels(labels, form)
        labels.is_shown = labels.shown is None
    changed: dict[str, Any] = {} if labels.shown is None else {"labels": labels.shown}
    for field in form.texts:
        value = getattr(settled, field.source)
        if value is not None and (shown := _hide(field, value)) != value:
            changed[field.source] = shown
    return replace(settled, **changed) if changed else settled


def _hide_labels(labels: ExchangeLabels, form: JsonForm) -> ExchangeLabels | None:
    """Return what the log shows in place of these labels; ``None``: they may be shown."""
    changed: dict[str, Any] = {}
    for field in form.labels:
        value = getattr(labels, field.attribute)
        if value is not None and (shown := _hide(field, value)) != value:
            changed[field.attribute] = shown
    return replace_labels(labels, **changed) if changed else None


def _hide(field: EventField, value: Any) -> Any:  # Any: a text, or several
    if field.type is FieldType.NAMES:
        return tuple([hide_credentials(name[:MAX_NAME]) for name in value])
    if field.type is FieldType.TAGS:
        return {hide_credentials(name): hide_credentials(text) for name, text in value.items()}
    return redact_patterns(value) if field.name in _WHOLE else hide_credentials(value)


def _request_of(ended: EndedRequest) -> str | None:
    path = ended.raw_path
    is_long = path is not None and len(path) > MAX_SHARED_PATH
    return (_render_request if is_long else _shared_request)(ended.method, path)


def _render_request(method: bytes | None, raw_path: bytes | None) -> str | None:
    """Return the fields of method and path; ``None`` for what is not logged."""
    path = None if raw_path is None else raw_path.partition(b"?")[0].decode("latin-1")
    if path in UNLOGGED_PATHS:
        return None
    fields = []
    for name, value in (("method", None if method is None else method.decode("latin-1")), ("path", path)):
        if value is not None:
            fields.append(f'"{name}":{_quote(hide_credentials(value))}')
    return ",".join(fields) or '"method":null'


_shared_request: Final = lru_cache(maxsize=512)(_render_request)


def _quote(text: str) -> str:
    return _escape(_ENCODER.encode(_whole_characters(text))).decode()


def _logger_of(event: LogEvent) -> str:
    """Return what an event comes from; in a worker, if it has one."""
    names = ("log_worker_namespace", "log_namespace", "log_system")
    return str(next((event[name] for name in names if event.get(name)), UNKNOWN))


def _message_of(event: LogEvent) -> tuple[str, str | None]:
    if "log_text" not in event:  # of a publisher itself, past the redaction
        return redact_patterns(eventAsText(event, includeTimestamp=False, includeSystem=False)), None
    text, length = str(event["log_text"]), event.get("log_message_length")
    if length is None:
        return text, None
    return text[:length], text[length:].strip("\n")


def _cut(text: str, most: int) -> str:
    return _whole_characters(text if len(text) <= most else text[:most] + ELLIPSIS)


def _whole_characters(text: str) -> str:
    """Return a text without halves of surrogate pairs, which JSON in UTF-8 has not."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def _escape(line: bytes) -> bytes:
    """Return JSON in which everything prints."""
    if line.isascii() and b"\x7f" not in line:  # the encoder has escaped what is below a blank
        return line
    text = line.decode()
    if text.isprintable():
        return line
    return "".join([one if one.isprintable() else dumps(one)[1:-1] for one in text]).encode()
