"""Store the bodies of large requests on disk as they arrive (contract 2.11).

A small body stays in memory.  One that outgrows :data:`~mgw.bodies.source.PIECE_BYTES` goes to a file, piece
by piece, one write at a time::

    write ──> waiting ── more than a piece, or the end ──> in flight ──> the file
                 └── more than WAITING_BYTES with what is in flight: the client pauses

So a body costs a bounded amount of memory, whatever the client sends and however slow the disk is.  A client
that is paused is not read, and so cannot be seen to leave: a write that does not come back in time
(:data:`~mgw.bodies.file.DISK_SECONDS`) fails its body.

::

    arriving ── finish ──> ending ── all written ──> there ──┐
        └───── failed ───────┴──────────── close ────────────┴──> over: nothing held, in memory or on disk
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256
from math import inf
from typing import Final, TypeVar

from twisted.internet.defer import Deferred, fail, maybeDeferred, succeed
from twisted.internet.interfaces import IReactorFromThreads, IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure

from mgw.bodies.budget import RETRY_SECONDS, BodyBudget, Budget, Reservation
from mgw.bodies.file import SpoolFile
from mgw.bodies.source import PIECE_BYTES, BodyGoneError, BodySource
from mgw.nouns.errors import GatewayError, Reason
from mgw.reactor.daemon_threads import DaemonThreads, ThreadRunner

WAITING_BYTES: Final = 1024 * 1024
"""How much of one body may wait for the disk before its client pauses; it goes on at half of that."""
REPORT_SECONDS: Final = 60.0
"""A disk that fails, fails with every body: one log line in this time."""

_log: Final = Logger()
T = TypeVar("T")

THREADS: Final = 4
"""A disk serves a few at a time; what comes later waits in line."""


@dataclass(slots=True, eq=False, repr=False)
class Spool:
    """Where large bodies are kept."""

    directory: str
    run: ThreadRunner
    """Runs in a thread what touches the disk."""
    disk: BodyBudget
    clock: IReactorTime
    piece_bytes: int = PIECE_BYTES
    """The largest body that stays in memory, and how much of a larger one is written at a time."""
    hashes: bool = False
    """Whether bodies are hashed as they are written, since a signature may need that."""
    _quiet_until: float = -inf

    def begin(
        self,
        *,
        pause: Callable[[], None],
        resume: Callable[[], None],
        failed: Callable[[GatewayError], None],
        memory: Budget,
    ) -> SpooledBody:
        """Take a new body.

        :param pause: asks the client to send nothing more for now.
        :param resume: lets it go on.  Not called once the body is over.
        :param failed: told, once, why the body cannot be kept: the body has released everything by then.
        :param memory: what is in memory is reserved there.
        """
        file = SpoolFile(self.directory, self.run, self.clock, Reservation(self.disk), self.report)
        if self.hashes:
            file.hashed = sha256()
        return SpooledBody(file, self.piece_bytes, pause, resume, failed, memory)

    def report(self, error: OSError) -> None:
        """Log what the disk says, unless that was done a moment ago."""
        now = self.clock.seconds()
        if now < self._quiet_until:
            return
        self._quiet_until = now + REPORT_SECONDS
        _log.error(
            "large request bodies cannot be stored in {directory}: {reason}",
            directory=self.directory,
            reason=error.strerror or type(error).__name__,
        )


@dataclass(slots=True, eq=False, repr=False)
class SpooledBody:
    """One body on its way in, and then where it lies; :meth:`close` must be called in the end."""

    _file: SpoolFile
    _piece_bytes: int
    _pause: Callable[[], None]
    _resume: Callable[[], None]
    _failed: Callable[[GatewayError], None]
    _memory: Budget
    _waiting: bytearray = field(default_factory=bytearray)
    _in_flight: int = 0
    _spilled: bool = False
    """Whether any of it went to the file: then all of it does."""
    _writing: bool = False
    _paused: bool = False
    _ended: bool = False
    _closed: bool = False
    _finished: Deferred[bytes | BodySource] | None = None

    @property
    def held(self) -> int:
        """How many bytes of it are in memory."""
        return len(self._waiting) + self._in_flight

    def write(self, data: bytes) -> None:
        """Keep the next bytes.  Never raises: what goes wrong is told by ``failed``."""
        if self._closed:
            return
        assert not self._ended
        try:
            self._memory.reserve(len(data))
        except GatewayError as error:
            self._fail(error)
            return
        self._waiting += data
        if self._has_work():
            self._start_writing()
        if self.held > WAITING_BYTES and not (self._paused or self._closed):
            self._paused = True
            self._pause()

    def finish(self) -> Deferred[bytes | BodySource]:
        """Fire with the whole body, once: its bytes where they stayed in memory, else where to read it.

        The room that bytes take in memory is the caller's from then on.  From this call on a failure is told
        here, as a :class:`GatewayError`, and no longer by ``failed``.  Fails with :class:`BodyGoneError`
        where the body is over before.
        """
        assert not self._ended
        self._ended = True
        if self._closed:
            return fail(BodyGoneError())
        if not self._spilled:
            body, self._waiting = bytes(self._waiting), bytearray()
            return succeed(body)
        finished = self._finished = Deferred(self._on_cancel)
        self._start_writing()
        return finished

    def close(self) -> None:
        """Release the body, at any moment; twice does no harm."""
        self._release()
        finished, self._finished = self._finished, None
        if finished is not None:
            finished.errback(BodyGoneError())

    def _has_work(self) -> bool:
        """Say whether there is something to write now."""
        return len(self._waiting) > (0 if self._ended else self._piece_bytes)

    def _start_writing(self) -> None:
        if not self._writing:
            self._writing = self._spilled = True
            _ = Deferred.fromCoroutine(self._write_out()).addErrback(self._write_failed)

    async def _write_out(self) -> None:
        """Write until less waits than a piece, or in the end until nothing does."""
        try:
            while self._has_work():
                await self._write_piece()
        finally:
            self._writing = False
        if self._finished is not None:
            finished, self._finished = self._finished, None
            finished.callback(self._file)

    async def _write_piece(self) -> None:
        size = self._in_flight = min(len(self._waiting), self._piece_bytes)
        try:
            await self._file.append(self._take(size))  # which alone holds it
        finally:
            self._in_flight = 0
            self._memory.release(size)
        if self._paused and not self._closed and self.held <= WAITING_BYTES // 2:
            self._paused = False
            self._resume()  # the client may write and finish in here

    def _take(self, size: int) -> bytearray:
        piece = self._waiting[:size]
        del self._waiting[:size]
        return piece

    def _write_failed(self, failure: Failure) -> None:
        error = failure.value
        if isinstance(error, GatewayError):
            self._fail(error)
        elif isinstance(error, OSError):
            message = "the gateway cannot store the request body on disk; try again"
            self._fail(GatewayError(Reason.OVERLOADED, message, retry_after=RETRY_SECONDS))
        else:
            _log.failure("internal error: a request body could not be stored", failure)
            self._fail(GatewayError(Reason.INTERNAL, "internal gateway error; see the gateway's log"))

    def _fail(self, error: GatewayError) -> None:
        if self._closed:
            return
        self._release()
        finished, self._finished = self._finished, None
        if finished is not None:
            finished.errback(error)
        elif not self._ended:
            self._failed(error)

    def _release(self) -> None:
        if self._closed:
            return
        self._closed = True
        waiting, self._waiting = self._waiting, bytearray()
        self._memory.release(len(waiting))
        self._file.close()

    def _on_cancel(self, _: Deferred[bytes | BodySource]) -> None:
        """Whoever waited for the end has left; whoever began the body closes it."""
        self._finished = None


class DiskThreads:
    """Where a :class:`Spool` has its work done."""

    def __init__(self, reactor: IReactorFromThreads) -> None:
        self._threads = DaemonThreads(reactor, "mgw-spool", THREADS)
        self._stopped = False

    def run(self, work: Callable[[], T], /) -> Deferred[T]:
        """Run ``work`` in one of the threads; after :meth:`stop`, when little is left to close, here.

        Fails with :class:`OSError` where the system gives no thread at all.
        """
        return maybeDeferred(work) if self._stopped else self._threads.defer(work)

    def stop(self) -> None:
        """Let the threads end when they have done what was given so far."""
        self._stopped = True
        self._threads.stop()
