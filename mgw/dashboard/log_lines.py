"""The latest lines of the process log, for the dashboard and its feed.

What comes here went through the redaction of the log (:class:`mgw.ops.logs.RedactingObserver`): finished text
without secrets.  The plain ``usage`` and ``http`` lines never come here.

Threads log as well, and whoever is told of lines is told in the reactor's thread, in a later turn: a line
that is logged while others are told cannot lead to itself.  What the dashboard logs is shown with the other
lines and not told at all, so that an error in telling is not told for ever.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from threading import Lock
from typing import Final

from msgspec import Struct
from twisted.logger import ILogObserver, LogEvent, LogLevel
from zope.interface import implementer

from mgw.usage.event import timestamp

MAX_LINES: Final = 1000
MAX_CHARS: Final = 1024 * 1024
"""The most characters of all lines together; beyond it the oldest go."""
TOLD_CHARS: Final = 64 * 1024
"""About so much is told in one turn of the reactor."""
DEFAULT_LINES: Final = 100
_LINE_CHARS: Final = 256
"""What a line costs beside its text, in characters of one."""
_OWN_NAMESPACE: Final = "mgw.dashboard"


class LogLine(Struct, frozen=True):
    """One event of the log; a traceback has line ends in its text."""

    time: str
    """RFC 3339 in UTC."""
    level: str
    text: str


def _ignore(_: Sequence[LogLine]) -> None:
    """Nobody wants to know."""


@implementer(ILogObserver)
@dataclass(slots=True, eq=False, repr=False)
class LogLines:
    """An observer that keeps the last lines."""

    in_reactor: Callable[[Callable[[], None]], object]
    """Runs what it is given in the reactor's thread, in a later turn (``callFromThread``)."""
    publish: Callable[[Sequence[LogLine]], None] = _ignore
    """Takes new lines, in the reactor's thread."""
    _lines: deque[LogLine] = field(default_factory=deque)
    _chars: int = 0
    _untold: deque[LogLine] = field(default_factory=deque)
    """The oldest go where a thread logs faster than the reactor turns."""
    _untold_chars: int = 0
    _lock: Lock = field(default_factory=Lock)

    def __call__(self, event: LogEvent) -> None:
        """Keep a line."""
        if "log_text" not in event:  # of a publisher itself, past the redaction
            return
        line = _line_of(event)
        with self._lock:
            self._keep(line)
            if str(event.get("log_namespace", "")).startswith(_OWN_NAMESPACE):
                return
            is_first = not self._untold
            self._untold.append(line)
            self._untold_chars += len(line.text)
            while len(self._untold) > MAX_LINES or (self._untold_chars > MAX_CHARS and len(self._untold) > 1):
                self._untold_chars -= len(self._untold.popleft().text)
        if is_first:
            self.in_reactor(self._tell)

    def last(self, count: int = DEFAULT_LINES) -> list[LogLine]:
        """Return the newest lines, of which the newest comes last."""
        with self._lock:
            return list(islice(self._lines, max(0, len(self._lines) - max(0, count)), None))

    def _keep(self, line: LogLine) -> None:
        self._lines.append(line)
        self._chars += len(line.text)
        while len(self._lines) > MAX_LINES or (self._chars > MAX_CHARS and len(self._lines) > 1):
            self._chars -= len(self._lines.popleft().text)

    def _tell(self) -> None:
        lines: list[LogLine] = []
        told = 0
        with self._lock:
            while self._untold and told < TOLD_CHARS:
                line = self._untold.popleft()
                lines.append(line)
                told += len(line.text) + _LINE_CHARS
                self._untold_chars -= len(line.text)
            is_more = bool(self._untold)
        if is_more:  # before they are told: what is logged meanwhile asks for no turn of its own
            self.in_reactor(self._tell)
        self.publish(lines)


def _line_of(event: LogEvent) -> LogLine:
    level = event.get("log_level")
    text = str(event["log_text"])
    return LogLine(
        timestamp(float(event.get("log_time", 0.0))),
        level.name if level is not None else LogLevel.info.name,
        text.encode("utf-8", "replace").decode(),  # JSON has no halves of surrogate pairs
    )
