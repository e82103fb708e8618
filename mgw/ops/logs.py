"""The process log: its file, its plain lines, and the redaction of all others.

The plain lines, ``usage`` for an event and ``http`` for a request (contract 7.6), go to the stream of the log
beside twistd's own and not through its observers, which take ten times as long.  A value with a blank, a
quote, ``=`` or anything that does not print is written as a JSON string, and none is longer than 256
characters, so a line can be taken apart at its blanks.

A key of ours lives in a :class:`~mgw.secret.Secret` and does not print.  What redaction guards against is
text made elsewhere: an exception of a library that quotes an address with ``?key=``, or a header.  The
observer here formats each event itself and passes on the finished text alone, so that no observer behind it
can print a field that was not looked at.  Tracebacks are those without local variables.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from json import dumps
from typing import Final

from twisted.internet.defer import Deferred
from twisted.logger import ILogObserver, LogEvent, eventAsText
from zope.interface import implementer

from mgw.ops.metrics import Metrics
from mgw.secret import Secret, without
from mgw.usage.event import ELLIPSIS, UsageEvent, timestamp
from mgw.usage.journal import Journal
from mgw.usage.line_writer import LineWriter
from mgw.usage.output import STDERR, DescriptorOutput, FileOutput, Output

REDACTED: Final = "[redacted]"
MAX_TEXT: Final = 64 * 1024
_PASSED_FIELDS: Final = ("log_time", "log_level", "log_namespace", "log_system", "log_trace")

_CREDENTIAL_PATTERNS: Final = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        r"(?<![\w-])([\w-]*(?:key|token|secret|password)(?:=|%3d))[^\s&\"'<>;,)]+",  # of a query or a form
        r"(?<![\w-])((?:proxy-)?authorization[\"']*\s*[:,=]\s*b?[\"']?(?:[a-z]+ +)?)[^\s\"',;)]+",
        r"(?<![\w-])(x-(?:goog-)?api-key[\"']*\s*[:,=]\s*b?[\"']?)[^\s\"',;)]+",
        r"(?<!\w)((?:bearer|token)\s+)[\w.~+/=-]{8,}",
        r"(?<![\w-])()(?:sk-[\w-]{8,}|AIza[\w-]{10,}|ya29\.[\w.-]{10,}|eyJ[\w-]{8,}\.[\w-]+\.[\w-]*)",
    )
)
"""The first group of each stays."""
MAX_VALUE: Final = 256
UNKNOWN: Final = "-"
UNLOGGED_PATHS: Final = frozenset({"/healthz", "/metrics"})
"""What access logging skips (contract 7.6)."""

_plain: Final = re.compile(r"(?!-\Z)[!#-&(-<>-~]{1,256}\Z").match  # visible ASCII without quotes and "="

_COUNT_FIELDS: Final = (
    "cache_read_tokens",
    "cache_write_tokens",
    "reasoning_tokens",
    "attempts",
    "bytes_in",
    "bytes_out",
    "frames_in",
    "frames_out",
)


def redact_patterns(text: str) -> str:
    """Return the text without whatever looks like a credential."""
    for pattern in _CREDENTIAL_PATTERNS:
        text = pattern.sub(rf"\1{REDACTED}", text)
    return text


def redact_secrets(text: str, secrets: Iterable[Secret]) -> str:
    """Return the text without these values, however it spells them."""
    return without(text, secrets, lambda _: REDACTED)


@implementer(ILogObserver)
class RedactingObserver:
    """An observer that shows another one, such as twistd's, each event as text without secrets.

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
        text = redact_patterns(redact_secrets(text[:MAX_TEXT], self._secrets()))
        shown: LogEvent = {key: event[key] for key in _PASSED_FIELDS if key in event}
        self._inner({**shown, "log_format": "{log_text}", "log_text": text})


def format_value(value: str | None) -> str:
    """Return a value as it stands in a line; ``-`` where it is unknown."""
    if value is None:
        return UNKNOWN
    return value if _plain(value) else _quote(value)


def usage_line(event: UsageEvent) -> str:
    """Return the line of an event; what is above the blank line below is in every one of them."""
    tokens_in, tokens_out, status = event.tokens_in, event.tokens_out, event.http_status
    line = (
        f"usage time={timestamp(event.time)} status={UNKNOWN if status is None else status} "
        f"outcome={event.status.value} dialect={event.dialect} route={event.route} "
        f"provider={format_value(event.provider)} model={format_value(event.model)} "
        f"upstream_model={format_value(event.upstream_model)} "
        f"tokens_in={UNKNOWN if tokens_in is None else tokens_in} "
        f"tokens_out={UNKNOWN if tokens_out is None else tokens_out} "
        f"latency_ms={event.latency_ms:.1f} request_id={format_value(event.request_id)}"
    )

    if event.error is not None:
        line += f" error={format_value(event.error)}"
    if event.ttft_ms is not None:
        line += f" ttft_ms={event.ttft_ms:.1f}"
    if event.stream:
        line += " stream=true"
    for name in _COUNT_FIELDS:
        value = getattr(event, name)
        if value is not None:
            line += f" {name}={value}"
    if event.session_minutes is not None:
        line += f" session_minutes={event.session_minutes:.3f}"
    if event.key_hash is not None:
        line += f" key_hash={format_value(event.key_hash)}"
    if event.upstream_request_id is not None:
        line += f" upstream_request_id={format_value(event.upstream_request_id)}"
    if event.dropped_fields:
        line += f" dropped_fields={format_value(','.join(event.dropped_fields))}"
    return line


@dataclass(slots=True)
class UsageLog:
    """A usage sink that writes the ``usage`` lines."""

    lines: LineWriter
    name: str = field(default="log", init=False)

    @property
    def errors(self) -> int:
        """How many writes failed."""
        return self.lines.errors

    @property
    def dropped(self) -> int:
        """How many lines, of both kinds, went because the stream was too slow or failed."""
        return self.lines.dropped

    def record(self, event: UsageEvent) -> None:
        """Write the event's line."""
        self.lines.write(f"{usage_line(event)}\n".encode())

    def flush(self) -> None:
        """Begin to write what waits."""
        self.lines.flush()

    def reopen(self) -> None:
        """Do nothing: twistd's log file is opened anew by its owner."""

    def close(self) -> Deferred[None]:
        """Write what waits."""
        return self.lines.close()


@dataclass(slots=True)
class AccessLog:
    """The ``http`` lines, one per request that was answered."""

    lines: LineWriter
    wall: Callable[[], float]
    """Unix seconds."""

    def line(
        self,
        method: str | None,
        raw_path: str | None,
        status: int,
        seconds: float,
        request_id: str,
        error: str | None = None,
    ) -> None:
        """Write a request's line, but for the routes that are asked all the time.

        :param method: ``None`` where the request could not be read so far.
        :param raw_path: what stands behind a ``?`` in it is not written: it may hold a key.
        :param seconds: from the complete head to the end of the response.
        :param error: why it did not end well.
        """
        path = None if raw_path is None else raw_path.partition("?")[0]
        if path in UNLOGGED_PATHS:
            return
        why = "" if error is None else f" error={format_value(error)}"
        self.lines.write(
            f"http time={timestamp(self.wall())} status={status} "
            f"method={format_value(method)} path={format_value(path)} "
            f"latency_ms={seconds * 1000:.1f} request_id={request_id}{why}\n".encode()
        )


def _quote(value: str) -> str:
    if len(value) > MAX_VALUE:
        value = value[:MAX_VALUE] + ELLIPSIS
    value = redact_patterns(value)
    bare = value.isprintable() and not any(mark in value for mark in " \"'=")
    return value if bare and value not in ("", UNKNOWN) else dumps(value)


@dataclass(slots=True)
class LogFile:
    """The stream behind twistd's observer: standard error, or a file that can be opened anew after logrotate.

    :param path: of the file; ``None``: standard error, whatever becomes of ``sys.stderr``.
    """

    path: str | None
    _descriptor: int = field(default=STDERR, repr=False)

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
        os.write(self._descriptor, text.encode("utf-8", "replace"))

    def flush(self) -> None:
        """Nothing is held back."""

    def output(self) -> Output:
        """Return the output for plain lines, which lie beside the observer's."""
        return DescriptorOutput(STDERR) if self.path is None else FileOutput(self.path)


@dataclass(slots=True)
class AccessObserver:
    """Counts and logs what clients ask for: the journal, the access log and the metrics as one."""

    journal: Journal
    access_log: AccessLog
    metrics: Metrics
    record: Callable[[UsageEvent], None] = field(init=False, repr=False)
    access: Callable[..., None] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.record = self.journal.record  # bound here: one call less for every request
        self.access = self.access_log.line

    def edge_rejected(self) -> None:
        """Count a request without a fitting key."""
        self.metrics.edge_rejected()

    def malformed(self) -> None:
        """Count an input that is no HTTP."""
        self.metrics.malformed()
