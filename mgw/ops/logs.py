"""The plain lines of the process log: ``usage`` for an event, ``http`` for a request (contract 7.6).

They go to the stream of the process log, beside twistd's own lines and not through its observers, which take
ten times as long.  A value with a blank, a quote, ``=`` or anything that does not print is written as a JSON
string, and none is longer than 256 characters, so a line can be taken apart at its blanks.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from json import dumps
from typing import Final

from twisted.internet.defer import Deferred

from mgw.ops.redaction import without_patterns
from mgw.usage.event import ELLIPSIS, UsageEvent, timestamp
from mgw.usage.lines import LineWriter

MAX_VALUE: Final = 256
UNKNOWN: Final = "-"
UNLOGGED_PATHS: Final = frozenset({"/healthz", "/metrics"})
"""What access logging skips (contract 7.6)."""

_plain: Final = re.compile(r"(?!-\Z)[!#-&(-<>-~]{1,256}\Z").match  # visible ASCII without quotes and "="

_COUNTS: Final = (
    "cache_read_tokens",
    "cache_write_tokens",
    "reasoning_tokens",
    "attempts",
    "bytes_in",
    "bytes_out",
    "frames_in",
    "frames_out",
)


def shown(value: str | None) -> str:
    """Return a value as it stands in a line; ``-`` where it is unknown."""
    if value is None:
        return UNKNOWN
    return value if _plain(value) else _quoted(value)


def usage_line(event: UsageEvent) -> str:
    """Return the line of an event; what is above the blank line below is in every one of them."""
    tokens_in, tokens_out, status = event.tokens_in, event.tokens_out, event.http_status
    line = (
        f"usage time={timestamp(event.time)} status={UNKNOWN if status is None else status} "
        f"outcome={event.status.value} dialect={event.dialect} route={event.route} "
        f"provider={shown(event.provider)} model={shown(event.model)} "
        f"upstream_model={shown(event.upstream_model)} "
        f"tokens_in={UNKNOWN if tokens_in is None else tokens_in} "
        f"tokens_out={UNKNOWN if tokens_out is None else tokens_out} "
        f"latency_ms={event.latency_ms:.1f} request_id={shown(event.request_id)}"
    )

    if event.error is not None:
        line += f" error={shown(event.error)}"
    if event.ttft_ms is not None:
        line += f" ttft_ms={event.ttft_ms:.1f}"
    if event.stream:
        line += " stream=true"
    for name in _COUNTS:
        value = getattr(event, name)
        if value is not None:
            line += f" {name}={value}"
    if event.session_minutes is not None:
        line += f" session_minutes={event.session_minutes:.3f}"
    if event.key_hash is not None:
        line += f" key_hash={shown(event.key_hash)}"
    if event.upstream_request_id is not None:
        line += f" upstream_request_id={shown(event.upstream_request_id)}"
    if event.dropped_fields:
        line += f" dropped_fields={shown(','.join(event.dropped_fields))}"
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
        :param seconds: from the complete head to the end of the answer.
        :param error: why it did not end well.
        """
        path = None if raw_path is None else raw_path.partition("?")[0]
        if path in UNLOGGED_PATHS:
            return
        why = "" if error is None else f" error={shown(error)}"
        self.lines.write(
            f"http time={timestamp(self.wall())} status={status} method={shown(method)} path={shown(path)} "
            f"latency_ms={seconds * 1000:.1f} request_id={request_id}{why}\n".encode()
        )


def _quoted(value: str) -> str:
    if len(value) > MAX_VALUE:
        value = value[:MAX_VALUE] + ELLIPSIS
    value = without_patterns(value)
    bare = value.isprintable() and not any(mark in value for mark in " \"'=")
    return value if bare and value not in ("", UNKNOWN) else dumps(value)
