"""Destinations of lines: a file, or a descriptor of the process.

These calls may block, so they are made on a thread of their own (:mod:`mgw.reactor.daemon_threads`), never on
the reactor's.  An output says how many bytes it took; who calls it deals with the rest.
"""

from __future__ import annotations

import os
import select
import stat
from contextlib import suppress
from threading import RLock
from typing import Final, Protocol

STDOUT: Final = 1
STDERR: Final = 2
SHARED_BYTES: Final = 64 * 1024
"""Others wait while so much is written, and the rest of the last line; a pipe takes as much at once."""


class Output(Protocol):
    """Where bytes go."""

    @property
    def mid_line(self) -> bool:
        """Whether what was there before we opened it ends in a torn line."""
        ...

    def write(self, data: memoryview) -> int:
        """Write some of ``data``, wait if need be, and return how many bytes went out.

        :raises OSError: nothing of ``data`` was written.
        """
        ...

    def close(self) -> None:
        """Close what we opened ourselves."""
        ...


class DescriptorOutput:
    """A descriptor that is open already, as standard output is; it is left open."""

    __slots__ = ("_descriptor",)

    mid_line = False

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def write(self, data: memoryview) -> int:
        """Write some bytes."""
        return _write(self._descriptor, data)

    def close(self) -> None:
        """Do nothing: others write there too."""


class FileOutput:
    """A file that is appended to; made with mode 0600 if it is not there."""

    __slots__ = ("_descriptor", "is_regular", "mid_line", "size")

    def __init__(self, path: str) -> None:
        # O_NONBLOCK keeps a named pipe without a reader from holding us; for files it means nothing.
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK
        self._descriptor = os.open(path, flags, 0o600)
        found = os.fstat(self._descriptor)
        self.is_regular = stat.S_ISREG(found.st_mode)
        self.size = found.st_size
        """The size of the file when it was opened."""
        self.mid_line = self.is_regular and _ends_mid_line(path, self.size)

    def write(self, data: memoryview) -> int:
        """Write some bytes."""
        return _write(self._descriptor, data)

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)


class SharedOutput:
    """An output beside which others write to the same place: each writes whole lines while it has the lock.

    A pipe takes a long text in pieces, between which it would take another writer's line.
    """

    __slots__ = ("_lock", "_output")

    def __init__(self, output: Output, lock: RLock) -> None:
        self._output = output
        self._lock = lock

    @property
    def mid_line(self) -> bool:
        """Whether what was there before ends in a torn line."""
        return self._output.mid_line

    def write(self, data: memoryview) -> int:
        """Write about :data:`SHARED_BYTES`, up to the end of a line.

        :raises OSError: nothing was written.
        """
        end = len(data) if len(data) <= SHARED_BYTES else _end_of_lines(data)
        with self._lock:
            written = self._output.write(data[:end])
            with suppress(OSError):  # the next write finds that again
                while written < end:
                    written += self._output.write(data[written:end])
        return written

    def close(self) -> None:
        """Close the output."""
        self._output.close()


def _end_of_lines(data: memoryview) -> int:
    start = SHARED_BYTES
    while start < len(data):
        newline = bytes(data[start - 1 : start - 1 + SHARED_BYTES]).find(b"\n")
        if newline >= 0:
            return start + newline
        start += SHARED_BYTES
    return len(data)


def _write(descriptor: int, data: memoryview) -> int:
    while True:
        try:
            return os.write(descriptor, data)
        except BlockingIOError:  # somebody has made the pipe non-blocking
            waiter = select.poll()
            waiter.register(descriptor, select.POLLOUT)
            waiter.poll()


def _ends_mid_line(path: str, size: int) -> bool:
    if size == 0:
        return False
    with suppress(OSError):  # one that may be written but not read
        reader = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            return os.pread(reader, 1, size - 1) != b"\n"
        finally:
            os.close(reader)
    return False
