"""Say seldom that no connection could be accepted: with no file descriptor left, each attempt fails.

Twisted then closes what it cannot serve, and writes some lines for every such client.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from twisted.logger import ILogObserver, LogEvent, LogLevel
from zope.interface import implementer

from mgw.reactor.rate_limited_log import RateLimitedLog

_NAMESPACE: Final = "twisted.internet.tcp.Port"
_MARKS: Final = (
    "Could not accept new connection",
    "EMFILE",
    "Re-reserving EMFILE",
    "Could not reserve EMFILE",
)
_WORDS: Final = (
    "a connection could not be accepted: the process or the machine has no file descriptors or memory left "
    "({before} more since the last warning); lower max_clients or raise the limit"
)


@implementer(ILogObserver)
@dataclass(slots=True)
class AcceptErrors:
    """An observer that passes on one line a minute of those, and all others."""

    inner: Callable[[LogEvent], None]
    rate_limit: RateLimitedLog

    def __call__(self, event: LogEvent) -> None:
        """Pass an event on, or keep it back."""
        if event.get("log_namespace") != _NAMESPACE or not str(event.get("log_format")).startswith(_MARKS):
            self.inner(event)
        elif self.rate_limit.is_due():
            before = self.rate_limit.take_suppressed()
            said = {"log_level": LogLevel.warn, "log_format": _WORDS, "before": before}
            self.inner({**event, **said})
