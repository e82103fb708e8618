"""The process from which workers are forked, from the supervisor's side.

It is forked itself, from this one, before there is a thread and before the reactor runs: so workers share the
memory of all that was imported by then, and come up within milliseconds.
"""

from __future__ import annotations

import gc
import os
import signal
import socket
import threading
from collections import deque
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.interfaces import IReadDescriptor
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from mgw.workers.forked_process import MAX_MESSAGE_BYTES, WorkerStart, find_reactor_names, serve_forks

__all__ = ["ForkError", "ForkServer", "ForkedProcess", "ProcessEnding", "WorkerStart"]

_log: Final = Logger()


class ForkError(Exception):
    """No process could be forked; the text says why."""


@dataclass(frozen=True, slots=True)
class ForkedProcess:
    """A worker's process, and our end of the connection with it."""

    pid: int
    end: socket.socket


@dataclass(frozen=True, slots=True)
class ProcessEnding:
    """How a process ended; as text, the words of a log line."""

    status: int | None
    """The exit code, below zero for the signal that ended it; ``None`` where nobody could see it."""

    def __str__(self) -> str:
        if self.status is None:
            return "exit code unknown"
        if self.status >= 0:
            return f"exit code {self.status}"
        try:
            return signal.Signals(-self.status).name
        except ValueError:  # one of the real-time signals
            return f"signal {-self.status}"

    @property
    def is_orderly(self) -> bool:
        """Whether it exited by itself, with code 0."""
        return self.status == 0


def _ignore_exit(pid: int, ending: ProcessEnding) -> None:
    """Nobody wants to know."""


def _ignore_loss() -> None:
    """Nobody wants to know."""


@implementer(IReadDescriptor)
@dataclass(slots=True, eq=False)
class _Readable:
    """Has the reactor call ``on_readable`` whenever there is something to read."""

    number: int
    on_readable: Callable[[], object]

    def fileno(self) -> int:
        """Return the file's number."""
        return self.number

    def doRead(self) -> None:
        """Tell."""
        self.on_readable()

    def connectionLost(self, reason: Failure) -> None:
        """Nothing to do: whoever has it closes it."""

    def logPrefix(self) -> str:
        """Return the words that log lines begin with."""
        return "fork server"


@dataclass(slots=True, eq=False)
class ForkServer:
    """The fork server; :meth:`start` makes one."""

    reactor: Any  # any that can read files
    pid: int
    control: socket.socket
    _on_exit: Callable[[int, ProcessEnding], None] = field(default=_ignore_exit)
    _on_lost: Callable[[], None] = field(default=_ignore_loss)
    _waiting: deque[tuple[Deferred[ForkedProcess], socket.socket]] = field(default_factory=deque)
    """Requests in order, which is that of the answers."""
    _forks: dict[int, int] = field(default_factory=dict)
    """Files that stand for the forks that live (``pidfd_open(2)``), by pid."""
    _watched: dict[int, _Readable] = field(default_factory=dict)
    """What tells of the ends of forks whose parent has gone, by pid."""
    _own: int = -1
    """The file that stands for the server."""
    _is_lost: bool = False
    _stopped: Deferred[None] | None = None
    _control_reader: _Readable = field(init=False)
    _own_reader: _Readable = field(init=False)

    @classmethod
    def start(
        cls, run_worker: Callable[[WorkerStart], int], reactor: Any, keep: Collection[int] = ()
    ) -> ForkServer:
        """Fork the server now.

        :param run_worker: is called in each process that is forked and returns its exit code.
        :param reactor: that of this process; it need not run yet.
        :param keep: open files that workers are to have, such as listening sockets.
        :raises RuntimeError: there are other threads already, whose locks no fork would ever get.
        :raises OSError: the system gives no process.
        """
        if threading.active_count() > 1:
            names = ", ".join(thread.name for thread in threading.enumerate())
            raise RuntimeError(f"the fork server must be forked before threads are started: {names}")
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        reactor_names = find_reactor_names()
        # A collection in a fork would copy the memory that all share.  One just before the fork would leave
        # holes there, and each fork writes to the pages whose holes it fills: 3 MiB in a worker.
        gc.freeze()
        pid = os.fork()
        if not pid:
            try:
                serve_forks(theirs, keep, run_worker, reactor_names)
            finally:
                os._exit(1)  # whatever happened, nothing that called this may go on in the fork
        theirs.close()
        ours.settimeout(0)
        server = cls(reactor, pid, ours)
        server._watch()
        return server

    def listen(self, on_exit: Callable[[int, ProcessEnding], None], on_lost: Callable[[], None]) -> None:
        """Say who is told of ends.

        :param on_exit: is called when a process has ended that was forked: which one, and how.
        :param on_lost: is called when the server has ended that nobody stopped: its forks go on.
        """
        self._on_exit, self._on_lost = on_exit, on_lost

    def fork(self, slot: int) -> Deferred[ForkedProcess]:
        """Fire with a new process, whose :class:`WorkerStart` has the number ``slot``.

        Fails with :class:`ForkError`.
        """
        if self._is_lost or self._stopped is not None:
            return fail(ForkError("the fork server has exited"))
        ours, theirs = socket.socketpair()
        forked: Deferred[ForkedProcess] = Deferred()
        self._waiting.append((forked, ours))
        with theirs:
            try:
                socket.send_fds(self.control, [b"%d" % slot], [theirs.fileno()])
            except OSError as error:
                self._waiting.pop()
                ours.close()
                return fail(ForkError(f"the fork server cannot be reached: {error.strerror}"))
        return forked

    def kill(self, pid: int, number: int) -> None:
        """Send a signal to a process that was forked; nothing happens where it has ended."""
        if pid in self._forks:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._forks[pid], number)

    def stop(self) -> Deferred[None]:
        """End the server; fire when it has ended.  Its forks go on, and nothing tells of their ends."""
        if self._is_lost:
            for pid in list(self._forks):
                self._forget(pid)
            return succeed(None)
        if self._stopped is None:
            self._stopped = Deferred()
            self._close()
            for pid in list(self._forks):
                self._forget(pid)
            signal.pidfd_send_signal(self._own, signal.SIGKILL)  # it has no state that could be torn
        return self._stopped

    def _watch(self) -> None:
        self._own = os.pidfd_open(self.pid)
        self._control_reader = _Readable(self.control.fileno(), self._read)
        self._own_reader = _Readable(self._own, self._on_end)
        self.reactor.addReader(self._control_reader)
        self.reactor.addReader(self._own_reader)

    def _read(self) -> bool:
        """Take what the server says next, and return whether there was anything."""
        try:
            text, files, _, _ = socket.recv_fds(self.control, MAX_MESSAGE_BYTES, 1, socket.MSG_CMSG_CLOEXEC)
        except OSError:
            return False
        match text.split():
            case [b"forked", pid]:
                self._on_forked(int(pid), files[0])
            case [b"failed", error]:
                self._fail_next(f"the system could not create a process: {os.strerror(int(error))}")
            case [b"exited", pid, status]:
                self._forget(int(pid))
                self._on_exit(int(pid), ProcessEnding(int(status)))
            case _:
                self.reactor.removeReader(self._control_reader)  # its end, which the other reader tells of
                return False
        return True

    def _on_forked(self, pid: int, alive: int) -> None:
        self._forks[pid] = alive
        forked, end = self._waiting.popleft()
        forked.callback(ForkedProcess(pid, end))

    def _fail_next(self, reason: str) -> None:
        forked, end = self._waiting.popleft()
        end.close()
        forked.errback(ForkError(reason))

    def _forget(self, pid: int) -> None:
        watched = self._watched.pop(pid, None)
        if watched is not None:
            self.reactor.removeReader(watched)
        if (alive := self._forks.pop(pid, None)) is not None:
            os.close(alive)

    def _close(self) -> None:
        self.reactor.removeReader(self._control_reader)
        self.control.close()
        while self._waiting:
            self._fail_next("the fork server has exited")

    def _on_end(self) -> None:
        """Take notice that the server has ended, asked to or not."""
        self.reactor.removeReader(self._own_reader)
        os.close(self._own)
        with suppress(ChildProcessError):  # somebody else has waited for it
            os.waitpid(self.pid, 0)
        self._is_lost = True
        if self._stopped is not None:
            self._stopped.callback(None)
            return
        _log.error("the fork server has exited: workers can no longer be started")
        while self._read():
            pass
        self._close()
        for pid, alive in self._forks.items():
            self._watched[pid] = reader = _Readable(alive, partial(self._on_orphan_end, pid))
            self.reactor.addReader(reader)
        self._on_lost()

    def _on_orphan_end(self, pid: int) -> None:
        self._forget(pid)
        self._on_exit(pid, ProcessEnding(None))
