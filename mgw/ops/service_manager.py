"""Notify systemd about the state of the service: ready, reloading, stopping, and alive.

Without systemd, or with a unit that is not ``Type=notify``, nothing is said.

Sources: sd_notify(3), sd_watchdog_enabled(3), systemd.service(5) (``Type=notify``, ``WatchdogSec=``).
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from os import environ, getpid
from time import monotonic_ns
from typing import Final

from twisted.internet.interfaces import IDelayedCall, IReactorTime

SECONDS_BEHIND_DRAIN: Final = 45.0
"""The time after a drain for closing connections, refreshes, events and log lines, each with its limit."""
_MICROSECONDS: Final = 1_000_000
_PARTS: Final = 2
"""How often the watchdog is fed within its time: sd_watchdog_enabled(3) advises every half of it."""


@dataclass(slots=True, eq=False, repr=False)
class ServiceManager:
    """The service manager that started this process, if it wants to be told.

    :param send: sends one message; ``None`` where nobody listens.
    :param watchdog_seconds: after so long without a sign of life the process is killed; ``None`` for never.
    """

    clock: IReactorTime
    send: Callable[[bytes], None] | None = None
    watchdog_seconds: float | None = None
    monotonic_ns: Callable[[], int] = monotonic_ns
    _feeding: IDelayedCall | None = None

    def ready(self, status: str) -> None:
        """Say that requests are served, after a start or a reload; a line of text tells how."""
        self._say("READY=1", f"STATUS={' '.join(status.split())}")
        if self._feeding is None:
            self._feed()

    def reloading(self) -> None:
        """Say that the configuration is being read anew; :meth:`ready` follows."""
        self._say("RELOADING=1", f"MONOTONIC_USEC={self.monotonic_ns() // 1000}")

    def stopping(self, drain_seconds: float) -> None:
        """Say that the service stops, and how long it may take, whatever ``TimeoutStopSec`` says."""
        microseconds = int((drain_seconds + SECONDS_BEHIND_DRAIN) * _MICROSECONDS)
        self._say("STOPPING=1", f"EXTEND_TIMEOUT_USEC={microseconds}")

    def stop(self) -> None:
        """Say nothing more."""
        feeding, self._feeding = self._feeding, None
        if feeding is not None and feeding.active():
            feeding.cancel()
        self.send = None

    def _feed(self) -> None:
        if self.send is not None and self.watchdog_seconds is not None:
            self._say("WATCHDOG=1")
            self._feeding = self.clock.callLater(self.watchdog_seconds / _PARTS, self._feed)

    def _say(self, *assignments: str) -> None:
        if self.send is not None:
            with suppress(OSError):  # its socket is full, or gone: nothing here depends on it
                self.send("\n".join(assignments).encode())


def find_service_manager(
    clock: IReactorTime, environment: Mapping[str, str] = environ, pid: int | None = None
) -> ServiceManager:
    """Return the service manager that the environment of a process names.

    :param pid: the process's id, by default this one's: the watchdog may be another one's.
    """
    address = environment.get("NOTIFY_SOCKET", "")
    if not address.startswith(("/", "@")):
        return ServiceManager(clock)
    channel = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK)
    target = "\0" + address[1:] if address.startswith("@") else address

    def send(message: bytes) -> None:
        channel.sendto(message, target)

    return ServiceManager(clock, send, _watchdog_seconds(environment, pid or getpid()))


def _watchdog_seconds(environment: Mapping[str, str], pid: int) -> float | None:
    microseconds = environment.get("WATCHDOG_USEC", "")
    if environment.get("WATCHDOG_PID", str(pid)) != str(pid) or not microseconds.isdecimal():
        return None
    return int(microseconds) / _MICROSECONDS or None
