"""The process log: its file, its plain lines, and the redaction of everything else.

:mod:`mgw.ops.json_lines` has the same lines as JSON, and :mod:`mgw.ops.request_lines` says which are written.

The plain lines, ``usage`` for an event and ``http`` for a request (contract 7.6), go to the stream of the log
beside twistd's own and not through its observers, which take ten times as long.  A value with a blank, a
quote, ``=`` or anything that does not print is written as a JSON string, and none is longer than 256
characters, so a line can be taken apart at its blanks.

A key of ours lives in a :class:`~mgw.nouns.secret.Secret` and does not print.  What redaction guards against
is text made elsewhere: an exception of a library that quotes an address with ``?key=``, or a header.  The
observer here formats each event itself and passes on the finished text alone, so that no observer behind it
can print a field that was not looked at.  Tracebacks are those without local variables.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from json import dumps
from operator import attrgetter
from threading import RLock
from types import MappingProxyType
from typing import Any, Final

from msgspec.structs import replace
from twisted.internet.defer import Deferred
from twisted.logger import ILogObserver, LogEvent, eventAsText, formatEvent, textFileLogObserver
from zope.interface import implementer

from mgw.nouns.secret import CREDENTIAL_STARTS, Secret, redact_patterns, redact_secrets
from mgw.nouns.token_flaw import TokenFlaw
from mgw.ops.metrics import Metrics
from mgw.usage.event import (
    ELLIPSIS,
    FIELDS,
    MILLISECONDS,
    SessionCounts,
    SettledExchange,
    second_text,
    timestamp,
    timestamps,
    usd_text,
)
from mgw.usage.event_field import EventField, FieldType
from mgw.usage.labels import ExchangeLabels
from mgw.usage.line_writer import LineWriter
from mgw.usage.output import STDERR, DescriptorOutput, FileOutput, Output, SharedOutput
from mgw.usage.record import EndedRequest
from mgw.usage.record_queue import RecordQueue

MAX_TEXT: Final = 64 * 1024
_PASSED_FIELDS: Final = ("log_time", "log_level", "log_namespace", "log_system", "log_trace")

MAX_VALUE: Final = 256
UNKNOWN: Final = "-"
UNLOGGED_PATHS: Final = frozenset({"/healthz", "/metrics"})
"""The paths that access logging skips (contract 7.6)."""

_PLACED: Final = frozenset(
    (
        *("time", "http_status", "status", "dialect", "route", "provider", "model", "upstream_model"),
        *("tokens_in", "tokens_out", "latency_ms", "request_id", "error", "ttft_ms", "stream"),
        *("cache_read_tokens", "cache_write_tokens", "reasoning_tokens", "attempts", "session_minutes"),
        *("bytes_in", "bytes_out", "frames_in", "frames_out", "cost_usd", "key_hash", "client"),
        *("upstream_request_id", "dropped_fields", "client_groups", "tags", "tokens_in_estimated"),
        *("tokens_out_estimated", "charged_usd"),
    )
)
"""The fields that have a place in a line; others follow at its end."""
_WRITERS: Final[Mapping[FieldType, Callable[[Any], str]]] = MappingProxyType(
    {
        FieldType.TIME: timestamp,
        FieldType.COUNT: str,
        FieldType.NUMBER: "{:.3f}".format,
        FieldType.MONEY: usd_text,
        FieldType.FLAG: lambda flag: "true" if flag else "false",
        FieldType.NAMES: lambda names: format_value(",".join(names)),
    }
)
_is_bare: Final = re.compile(
    rf"(?!-\Z)(?=.{{1,256}}\Z)(?!{CREDENTIAL_STARTS})[A-Za-z0-9_-]*+"
    rf"(?:[!#-&(-<>-~](?!{CREDENTIAL_STARTS})[A-Za-z0-9_-]*+)*+\Z",
    re.ASCII,
).match
"""Whether a value is visible ASCII without quotes and ``=``, and no part of it can be a credential."""
_time_of: Final = attrgetter("time")
MAX_SHARED_PATH: Final = 256
"""The longest path, in bytes, whose text is kept for requests to come."""


@implementer(ILogObserver)
class RedactingObserver:
    """An observer that shows another one, such as twistd's, each event as text without secrets.

    The text of a failure ends in its traceback, with a line end before it: ``log_message_length`` says where.

    :param secrets: returns the secrets known at the moment; asked for every line.
    """

    def __init__(self, inner: Callable[[LogEvent], None], secrets: Callable[[], Iterable[Secret]]) -> None:
        self._inner = inner
        self._secrets = secrets

    def __call__(self, event: LogEvent) -> None:
        """Show the event's text."""
        text = eventAsText(event, includeTimestamp=False, includeSystem=False)
        if not text:
            return
        text = self._redact(text)
        shown: LogEvent = {key: event[key] for key in _PASSED_FIELDS if key in event}
        if "log_failure" in event:
            message = self._redact(formatEvent(event))
            if text.startswith(f"{message}\n"):
                shown["log_message_length"] = len(message)
        self._inner({**shown, "log_format": "{log_text}", "log_text": text})

    def _redact(self, text: str) -> str:
        return redact_patterns(redact_secrets(text[:MAX_TEXT], self._secrets()))


def format_value(value: str | None) -> str:
    """Return a value as it stands in a line; ``-`` where it is unknown."""
    if value is None:
        return UNKNOWN
    return value if _is_bare(value) else _quote(value)


def hide_credentials(value: str) -> str:
    """Return a value as any line shows it: cut, and without whatever looks like a credential."""
    if _is_bare(value):
        return value
    return redact_patterns(value if len(value) <= MAX_VALUE else value[:MAX_VALUE] + ELLIPSIS)


_Further = Sequence[tuple[str, Callable[[SettledExchange], Any], Callable[[Any], str]]]  # Any: any field's
"""Fields without a place of their own: how a line names each, what reads it, and what writes it."""


def _lines_with(further: _Further, rows: Iterable[SettledExchange]) -> Iterator[bytes]:
    """Yield the line of each exchange; what comes after its id, which is ours, is left out where unknown."""
    second, start = -1, ""
    for settled in rows:  # a call of a function for each field or time would take longer than the rest
        labels, usage, session = settled.labels, settled.usage, settled.session
        names, keys = labels.log_text or _render_labels(labels)
        status, error, ttft_ms, cost = settled.http_status, settled.error, settled.ttft_ms, settled.cost
        tokens_in, tokens_out, attempts = usage.tokens_in, usage.tokens_out, settled.attempts
        read, written, reasoning = usage.cache_read, usage.cache_write, usage.reasoning
        upstream_id, milliseconds = settled.upstream_request_id, int(settled.time * 1000)
        dropped = settled.dropped_fields
        if milliseconds // 1000 != second:
            second = milliseconds // 1000
            start = second_text(second)
        if upstream_id is not None and not _is_bare(upstream_id):
            upstream_id = format_value(upstream_id)
        more = "" if session is None else _session_fields(session)
        ending = "" if not dropped else f" dropped_fields={format_value(','.join(dropped))}"
        if not settled.tokens_in_estimated is settled.tokens_out_estimated is settled.charged is None:
            ending += _counted_fields(settled)
        for name, read_field, write_value in further:
            value = read_field(settled)
            if value is not None:
                ending += name + write_value(value)
        yield (
            f"usage time={start}{MILLISECONDS[milliseconds % 1000]} "
            f"status={UNKNOWN if status is None else status} outcome={settled.outcome!s} {names} "
            f"tokens_in={UNKNOWN if tokens_in is None else tokens_in} "
            f"tokens_out={UNKNOWN if tokens_out is None else tokens_out} "
            f"latency_ms={settled.latency_ms:.1f} request_id={settled.request_id}"
            f"{'' if error is None else f' error={format_value(error)}'}"
            f"{'' if ttft_ms is None else f' ttft_ms={ttft_ms:.1f}'}"
            f"{' stream=true' if settled.stream else ''}"
            f"{'' if read is None else f' cache_read_tokens={read}'}"
            f"{'' if written is None else f' cache_write_tokens={written}'}"
            f"{'' if reasoning is None else f' reasoning_tokens={reasoning}'}"
            f"{'' if attempts is None else f' attempts={attempts}'}{more}"
            f"{'' if cost is None else f' cost_usd={usd_text(cost)}'}{keys}"
            f"{'' if upstream_id is None else f' upstream_request_id={upstream_id}'}{ending}\n"
        ).encode()


def usage_writer(fields: Sequence[EventField]) -> Callable[[Iterable[SettledExchange]], Iterator[bytes]]:
    """Return what writes the lines of exchanges: the fields that have a place there, and then any others."""
    further = [
        (f" {field.log_name}=", field.reader(), _WRITERS.get(field.type, format_value))
        for field in fields
        if field.name not in _PLACED and field.log_name is not None
    ]
    return partial(_lines_with, further)


usage_lines: Final = usage_writer(FIELDS)


def usage_line(settled: SettledExchange) -> bytes:
    """Return the line of an exchange."""
    (line,) = usage_lines((settled,))
    return line


def joined_line(settled: SettledExchange, ended: EndedRequest) -> bytes:
    """Return one line for a request and its exchange."""
    if settled.http_status is None:
        settled = replace(settled, http_status=ended.status)
    request = _request_text(ended)
    return usage_line(settled) if request is None else usage_line(settled)[:-1] + f" {request}\n".encode()


def _counted_fields(settled: SettledExchange) -> str:
    """Return what a request counts against limits, where that is not what the provider has told."""
    text = ""
    for name in ("tokens_in_estimated", "tokens_out_estimated"):
        value = getattr(settled, name)
        if value is not None:
            text += f" {name}={value}"
    estimated = " estimated=true" if text else ""
    charged = "" if settled.charged is None else f" charged_usd={usd_text(settled.charged)}"
    return text + charged + estimated


def _session_fields(session: SessionCounts) -> str:
    text = ""
    for name in ("bytes_in", "bytes_out", "frames_in", "frames_out"):
        value = getattr(session, name)
        if value is not None:
            text += f" {name}={value}"
    return text if session.minutes is None else f"{text} session_minutes={session.minutes:.3f}"


def _render_labels(labels: ExchangeLabels) -> tuple[str, str]:
    names = (
        f"dialect={labels.dialect} route={labels.route} provider={format_value(labels.provider)} "
        f"model={format_value(labels.model)} upstream_model={format_value(labels.upstream_model)}"
    )
    keys = "" if labels.key_hash is None else f" key_hash={format_value(labels.key_hash)}"
    keys += "" if labels.client is None else f" client={format_value(labels.client)}"
    if labels.client_groups:
        keys += f" client_groups={format_value(','.join(labels.client_groups))}"
    if labels.tags:
        keys += f" tags={format_value(','.join([f'{name}={text}' for name, text in labels.tags.items()]))}"
    labels.log_text = names, keys
    return labels.log_text


@dataclass(slots=True, eq=False, repr=False)
class UsageLog:
    """A usage sink that writes the ``usage`` lines."""

    lines: LineWriter
    render: Callable[[Iterable[SettledExchange]], Iterator[bytes]] = usage_lines
    """Yields a line for each exchange."""
    divert: Callable[[Iterable[SettledExchange]], None] | None = None
    """Takes the exchanges where the configuration asks for other lines."""
    name: str = field(default="log", init=False)

    @property
    def errors(self) -> int:
        """How many writes failed."""
        return self.lines.errors

    @property
    def dropped(self) -> int:
        """How many lines, of both kinds, went because the stream was too slow or failed."""
        return self.lines.dropped

    @property
    def waiting(self) -> int:
        """How many lines, of both kinds, are not written yet."""
        return self.lines.waiting

    def record_all(self, rows: Iterator[SettledExchange]) -> None:
        """Write the lines of exchanges."""
        if self.divert is not None:
            self.divert(rows)
            return
        lines: list[bytes] = []
        try:
            lines.extend(self.render(rows))
        finally:
            self.lines.write_block(b"".join(lines))

    def flush(self) -> None:
        """Begin to write what waits."""
        self.lines.flush()

    def reopen(self) -> None:
        """Do nothing: twistd's log file is opened anew by its owner."""

    def close(self) -> Deferred[None]:
        """Write what waits."""
        return self.lines.close()


@dataclass(slots=True, eq=False, repr=False)
class AccessLog:
    """The ``http`` lines, one per request that was answered."""

    lines: LineWriter
    divert: Callable[[Iterable[EndedRequest]], None] | None = None
    """Takes the requests where the configuration asks for other lines."""

    def record_all(self, requests: Iterable[EndedRequest]) -> None:
        """Write the lines of requests, but for the routes that are asked all the time."""
        if self.divert is not None:
            self.divert(requests)
            return
        lines: list[bytes] = []
        for ended, time in zip(requests, timestamps(map(_time_of, requests)), strict=True):
            path = ended.raw_path
            render = _render_request if path is not None and len(path) > MAX_SHARED_PATH else _shared_request
            request = render(ended.method, path)
            if request is None:
                continue
            why = "" if ended.error is None else f" error={format_value(ended.error)}"
            lines.append(
                f"http time={time} status={ended.status} {request} "
                f"latency_ms={ended.seconds * 1000:.1f} request_id={ended.request_id}{why}\n".encode()
            )
        self.lines.write_block(b"".join(lines))


def _request_text(ended: EndedRequest) -> str | None:
    path = ended.raw_path
    is_long = path is not None and len(path) > MAX_SHARED_PATH
    return (_render_request if is_long else _shared_request)(ended.method, path)


def _render_request(method: bytes | None, raw_path: bytes | None) -> str | None:
    """Return the method and the path as they stand in a line; ``None`` for what is not logged."""
    path = None if raw_path is None else raw_path.partition(b"?")[0].decode("latin-1")  # it may hold a key
    if path in UNLOGGED_PATHS:
        return None
    name = None if method is None else method.decode("latin-1")
    return f"method={format_value(name)} path={format_value(path)}"


_shared_request: Final = lru_cache(maxsize=512)(_render_request)


def _quote(value: str) -> str:
    if len(value) > MAX_VALUE:
        value = value[:MAX_VALUE] + ELLIPSIS
    value = redact_patterns(value)
    bare = value.isprintable() and not any(mark in value for mark in " \"'=")
    return value if bare and value not in ("", UNKNOWN) else dumps(value)


@dataclass(slots=True, eq=False, repr=False)
class LogFile:
    """The stream behind twistd's observer: standard error, or a file that can be opened anew after logrotate.

    :param path: of the file; ``None``: standard error, whatever becomes of ``sys.stderr``.
    """

    path: str | None
    _descriptor: int = STDERR
    _lock: RLock = field(default_factory=RLock)
    """The lock that a writer holds until its line ends."""

    def __post_init__(self) -> None:
        self.reopen()

    def reopen(self) -> None:
        """Open the file anew.

        :raises OSError: it cannot be opened; the old one stays in use.
        """
        if self.path is None:
            return
        opened = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o640)
        before, self._descriptor = self._descriptor, opened
        if before != STDERR:
            os.close(before)

    def write(self, text: str) -> None:
        """Append a text."""
        with self._lock:
            os.write(self._descriptor, text.encode("utf-8", "replace"))

    def flush(self) -> None:
        """Nothing is held back."""

    def output(self) -> Output:
        """Return the output for plain lines, which lie beside the observer's."""
        output = DescriptorOutput(STDERR) if self.path is None else FileOutput(self.path)
        return SharedOutput(output, self._lock)


@implementer(ILogObserver)
@dataclass(slots=True, eq=False, repr=False)
class MessageWriter:
    """An observer that writes messages to the stream of the log, as text or in another form.

    :param render: makes the line of an event; ``None``: the text that twistd's own observer writes.
    """

    stream: LogFile
    render: Callable[[LogEvent], bytes] | None = None
    _as_text: ILogObserver = field(init=False)

    def __post_init__(self) -> None:
        stream: Any = self.stream  # Any: it has what the observer calls, not all of IO
        self._as_text = textFileLogObserver(stream)

    def __call__(self, event: LogEvent) -> None:
        """Write an event whose text is finished."""
        if self.render is None:
            self._as_text(event)
        else:
            self.stream.write(self.render(event).decode())


@dataclass(slots=True, eq=False, repr=False)
class AccessObserver:
    """Counts and stores what clients ask for: the records and the metrics as one."""

    records: RecordQueue
    metrics: Metrics
    record: Callable[[EndedRequest], None] = field(init=False)

    def __post_init__(self) -> None:
        self.record = self.records.record  # bound here: one call less for every request

    def edge_rejected(self, reason: str = "key") -> None:
        """Count a request without a fitting key."""
        self.metrics.edge_rejected(reason)

    def token_rejected(self, issuer: str, flaw: TokenFlaw) -> None:
        """Count and log a token that is refused."""
        self.metrics.token_rejections.add(issuer, flaw)

    def malformed(self) -> None:
        """Count an input that is no HTTP."""
        self.metrics.malformed()
