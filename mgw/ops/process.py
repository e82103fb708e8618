"""Values from the operating system: file descriptors and signals, and when objects are collected."""

from __future__ import annotations

import gc
import resource
import signal
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from twisted.internet.interfaces import IReactorFromThreads
from twisted.logger import ILogObserver, LogEvent, LogLevel
from zope.interface import implementer

from mgw.reactor.rate_limited_log import RateLimitedLog

_NAMESPACE: Final = "twisted.internet.tcp.Port"
_FORMATS: Final = (
    "Could not accept new connection",
    "EMFILE",
    "Re-reserving EMFILE",
    "Could not reserve EMFILE",
)
_WARNING: Final = (
    "a connection could not be accepted: the process or the machine is out of file descriptors or memory "
    "({before} more since the last warning); lower max_clients or raise the limit"
)
COLLECTED_AFTER: Final = (700, 10, 100)
"""The thresholds of the garbage collector: Python's own, but for a full collection after ten times as much.

In numbers: 700,000 more objects than before it, which is about what 17,000 more open streams have.
"""
LEAST_RESERVE: Final = 128
"""Files reserved for listeners, logs, sinks, idle connections, and clients that are being turned away."""
_RESERVED_SHARE: Final = 8
"""One file in so many is reserved where that is more: large uploads and spare connections take them."""
FILES_PER_CLIENT: Final = 2
"""The files that a client takes: its own connection, and one to a provider."""
LEAST_CLIENTS: Final = 16
_UNLIMITED: Final = 1024 * 1024


@implementer(ILogObserver)
@dataclass(slots=True, eq=False, repr=False)
class AcceptErrorObserver:
    """A log observer that reports once a minute that no connection could be accepted, and passes on all else.

    With no file descriptor left, each attempt fails.  Twisted then closes what it cannot serve, and writes
    some lines for every such client.
    """

    inner: Callable[[LogEvent], None]
    rate_limit: RateLimitedLog

    def __call__(self, event: LogEvent) -> None:
        """Pass an event on, or keep it back."""
        if event.get("log_namespace") != _NAMESPACE or not str(event.get("log_format")).startswith(_FORMATS):
            self.inner(event)
        elif self.rate_limit.is_due():
            before = self.rate_limit.take_suppressed()
            warning = {"log_level": LogLevel.warn, "log_format": _WARNING, "before": before}
            self.inner({**event, **warning})


def collect_rarely() -> None:
    """Have the garbage collector never look at what is there by now, and rarely at all that comes later.

    A full collection looks at every object of every open request, 10 µs for a stream, while everything else
    waits; and as the number of streams grows, there is one for each quarter that it has grown by.  What ends
    in order leaves nothing to collect.  What does not is found by the two younger generations, or else later.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECTED_AFTER)


def file_limit() -> int:
    """Return how many files and sockets the process may have open."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _UNLIMITED if soft == resource.RLIM_INFINITY else min(soft, _UNLIMITED)


def max_clients_for(files: int) -> int:
    """Return how many clients so many files are enough for."""
    reserve = max(LEAST_RESERVE, files // _RESERVED_SHARE)
    return max(LEAST_CLIENTS, (files - reserve) // FILES_PER_CLIENT)


def on_signals(reactor: IReactorFromThreads, action: Callable[[], None], *names: str) -> None:
    """Do ``action``, on the reactor's turn, upon these signals, as far as there are any.

    The reactor's own handlers of SIGINT and SIGTERM end the process by the signal; with ours in place it
    ends with exit code 0.  A SIGINT that was ignored from the start stays so: a shell does that for a job in
    the background, which Ctrl-C is not meant for.
    """
    for name in names:
        number = getattr(signal, name, None)
        if number is None or (name == "SIGINT" and signal.getsignal(number) is signal.SIG_IGN):
            continue
        signal.signal(number, lambda *_: reactor.callFromThread(action))
