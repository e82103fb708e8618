"""One body on disk: an unnamed file that nobody else can open, and that disappears with its descriptor.

All that touches the disk runs in a thread.  The descriptor is closed only when no thread is at it any more:
its number may be another file's the moment after.

Nobody waits for ever for a disk that hangs: the wait fails after :data:`DISK_SECONDS`, the thread stays where
it is.  Work that no thread has begun holds nothing of a body that is over.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from tempfile import mkstemp
from typing import Final, Protocol, TypeVar

from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.interfaces import IReactorTime
from twisted.python.failure import Failure

from mgw.bodies.budget import Reservation
from mgw.bodies.source import BodyGoneError
from mgw.reactor.daemon_threads import ThreadRunner

T = TypeVar("T")


class Hash(Protocol):
    """A hash object, as :mod:`hashlib` makes them."""

    def update(self, data: memoryview, /) -> None:
        """Take more."""

    def digest(self) -> bytes:
        """Return the digest of what it has taken."""


DISK_SECONDS: Final = 30.0
"""How long the disk may take for one piece, the time in line for a thread included."""
_O_TMPFILE: Final = getattr(os, "O_TMPFILE", 0)  # Linux alone has it
_UNSUPPORTED: Final = frozenset({errno.EOPNOTSUPP, errno.EISDIR})  # open(2), O_TMPFILE


@dataclass(slots=True, eq=False, repr=False)
class SpoolFile:
    """A body on disk (:class:`mgw.bodies.source.BodySource`); its file is made when it is first needed."""

    directory: str
    run: ThreadRunner
    clock: IReactorTime
    reservation: Reservation
    """The body's room on the disk, released when the file is gone."""
    report: Callable[[OSError], None]
    """Told what the disk says."""
    hashed: Hash | None = None
    """Takes what is written, in the thread that writes it; ``None``: nobody needs a digest."""
    size: int = 0
    _unwritten: bytes | bytearray = b""
    """What a thread will take and write, unless the file is closed before."""
    _descriptor: int | None = None
    _threads_busy: int = 0
    """How many threads are at the file."""
    _closed: bool = False

    async def append(self, data: bytes | bytearray) -> None:
        """Add to the body; one at a time, and not cancelled.  Behind a failure the file can only be closed.

        :raises GatewayError: ``OVERLOADED``: there is no room left on the disk that bodies may take.
        :raises OSError: it cannot be written, or not in time.
        """
        assert not self._closed
        size = len(data)
        self.reservation.reserve(size)
        self._unwritten = data
        del data  # so that closing releases it
        await self._run_limited(partial(self._write, self.size))
        self.size += size

    @property
    def digest(self) -> bytes | None:
        """The SHA-256 of what was appended, if it was asked for."""
        return None if self.hashed is None else self.hashed.digest()

    def read(self, position: int, size: int) -> Deferred[bytes]:
        """Fire with bytes of the body; see :meth:`mgw.bodies.source.BodySource.read`."""
        if self._closed:
            return fail(BodyGoneError())
        size = min(size, self.size - position)
        if size <= 0:
            return succeed(b"")
        assert self._descriptor is not None
        return self._run_limited(partial(_read, self._descriptor, position, size))

    def close(self) -> None:
        """Close the file, at any moment: what a thread is doing with it is finished first."""
        if not self._closed:
            self._closed = True
            self._unwritten = b""
            self._close_if_idle()

    def _write(self, position: int) -> None:
        """Write from a thread.  The reactor looks at the descriptor only when no thread is at work."""
        data, self._unwritten = self._unwritten, b""
        if self._closed:
            return
        if self._descriptor is None:
            self._descriptor = open_nameless(self.directory)
        with memoryview(data) as left:
            done = 0
            while done < len(left) and not self._closed:
                done += os.pwrite(self._descriptor, left[done:], position + done)
            if self.hashed is not None:
                self.hashed.update(left)

    def _run_limited(self, work: Callable[[], T]) -> Deferred[T]:
        """Run ``work`` in a thread, for somebody who waits only so long."""
        return self._run(work).addTimeout(DISK_SECONDS, self.clock, self._on_timeout)

    def _on_timeout(self, _: T | Failure, __: float) -> Failure:
        error = OSError(errno.ETIMEDOUT, "the disk is not responding")
        self.report(error)
        return Failure(error)

    def _run(self, work: Callable[[], T]) -> Deferred[T]:
        """Run ``work`` in a thread; whoever asked may leave before it is done."""
        self._threads_busy += 1
        asked: Deferred[T] = Deferred(_ignore_cancel)
        _ = Deferred.fromCoroutine(self._finish_work(work, asked))
        return asked

    async def _finish_work(self, work: Callable[[], T], asked: Deferred[T]) -> None:
        result: T | Failure
        try:
            result = await self.run(work)
        except Exception as error:  # whatever it is goes to whoever asked
            result = Failure()
            if isinstance(error, OSError):
                self.report(error)
        self._threads_busy -= 1
        self._close_if_idle()
        if asked.called:
            return
        if isinstance(result, Failure):
            asked.errback(result)
        else:
            asked.callback(result)

    def _close_if_idle(self) -> None:
        if not self._closed or self._threads_busy:
            return
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is None:
            self.reservation.release_all()
        else:  # in a thread too: the kernel frees the blocks of a large file while it closes
            _ = self._run(partial(os.close, descriptor)).addErrback(_swallow)


def _ignore_cancel(_: Deferred[T]) -> None:
    """A thread cannot be called back: it goes on, and nobody hears what came of it."""


def _swallow(_: Failure) -> None:
    """The disk's words have been reported."""


def _read(descriptor: int, position: int, size: int) -> bytes:
    """Return exactly ``size`` bytes; called in a thread."""
    pieces: list[bytes] = []
    while size:  # one read is all it takes below 2 GiB (read(2))
        piece = os.pread(descriptor, size, position)
        if not piece:
            raise OSError(errno.EIO, "a spooled body is shorter than what was written")
        pieces.append(piece)
        position += len(piece)
        size -= len(piece)
    return b"".join(pieces)


def open_nameless(directory: str) -> int:
    """Open a new file that has no name in ``directory``, which is made first if need be; for the owner alone.

    :raises OSError: the directory cannot be made or used.
    """
    try:
        return _open_in(directory)
    except FileNotFoundError:
        make_private(directory)
        return _open_in(directory)


def make_private(directory: str) -> None:
    """Make ``directory`` and what is missing above it, for the owner alone; what exists stays as it is."""
    above = os.path.dirname(os.path.abspath(directory))
    if not os.path.isdir(above):
        make_private(above)
    try:
        os.mkdir(directory, 0o700)
    except FileExistsError:  # another body was first
        if not os.path.isdir(directory):
            raise


def _open_in(directory: str) -> int:
    if _O_TMPFILE:
        try:  # exclusive: it can never be given a name (open(2))
            return os.open(directory, _O_TMPFILE | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600)
        except OSError as error:
            if error.errno not in _UNSUPPORTED:
                raise
    return open_unlinked(directory)


def open_unlinked(directory: str) -> int:
    """Do the same where the filesystem has only files with names."""
    descriptor, name = mkstemp(dir=directory)  # mode 0600, exclusive
    try:
        os.unlink(name)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor
