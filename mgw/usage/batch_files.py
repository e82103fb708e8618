"""Batches of usage events in files, while their receiver is unavailable.

::

    <spool.dir>/events/<sink>/lock                   held while directories are made or taken over
    <spool.dir>/events/<sink>/<owner>/lock           held as long as the owner lives
    <spool.dir>/events/<sink>/<owner>/<key>.jsonl    a batch

Each owner has a directory of its own.  The lock of one that has died is free (flock(2)), so the next owner
takes its batches over, and no batch ever has two owners.  A key names its batch for good and sorts by time.

Directories have mode 0700, files 0600.  All of this may block, so it runs on a thread of its own.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from fcntl import LOCK_EX, LOCK_NB, flock
from secrets import token_hex
from typing import Final

from msgspec import Struct

EVENTS: Final = "events"
"""The name of the directory below ``spool.dir``."""
_LOCK: Final = "lock"
_ENDING: Final = ".jsonl"
_KEY: Final = re.compile(r"[0-9a-f]{24}")
_FLAGS: Final = os.O_CLOEXEC | os.O_NOFOLLOW


class StoredBatch(Struct, frozen=True):
    """A batch that was found in a file."""

    key: str
    count: int
    size: int
    """The size of the file in bytes."""


def new_key(microseconds: int) -> str:
    """Return a key for a batch that begins at this Unix time."""
    return f"{microseconds:016x}{token_hex(4)}"


@dataclass(slots=True)
class BatchFiles:
    """The files of one owner; all that it raises is ``OSError``."""

    spool_directory: str
    sink: str
    _own: str | None = field(default=None, repr=False)
    _lock: int = -1

    def append(self, key: str, data: bytes) -> None:
        """Add lines to a batch, which need not exist; all of them are there afterwards, or none."""
        descriptor = os.open(self._path(key), _FLAGS | os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            before = os.fstat(descriptor).st_size
            try:
                _write_all(descriptor, data)
            except OSError:
                os.ftruncate(descriptor, before)
                raise
        finally:
            os.close(descriptor)

    def read(self, key: str) -> list[bytes]:
        """Return the lines of a batch; one that a dying process wrote in part is left out."""
        descriptor = os.open(self._path(key), _FLAGS | os.O_RDONLY)
        with os.fdopen(descriptor, "rb") as file:
            return [line for line in file.read().splitlines(keepends=True) if line.endswith(b"\n")]

    def remove(self, key: str) -> None:
        """Delete a batch; one that is not there is no error."""
        with suppress(FileNotFoundError):
            os.unlink(self._path(key))

    def take_over(self) -> list[StoredBatch]:
        """Take over the batches of owners that have died, and return them, oldest first."""
        place = self._place
        if not os.path.isdir(place):
            return []
        taken: list[str] = []
        with _locked(place):
            for name in os.listdir(place):
                path = os.path.join(place, name)
                if path != self._own and os.path.isdir(path):
                    taken += self._take(path)
        return [stored for key in sorted(taken) if (stored := self._look_at(key)) is not None]

    def close(self) -> None:
        """Let go: what is left is taken over by the next owner."""
        if self._own is None:
            return
        with _locked(self._place):
            _remove_if_empty(self._own)
            os.close(self._lock)
        self._own, self._lock = None, -1

    @property
    def _place(self) -> str:
        return os.path.join(self.spool_directory, EVENTS, self.sink)

    def _path(self, key: str) -> str:
        return os.path.join(self._directory(), key + _ENDING)

    def _directory(self) -> str:
        """Return the owner's directory, which is made when it is first needed, or has been deleted."""
        if self._own is not None and os.path.isdir(self._own):
            return self._own
        os.makedirs(self.spool_directory, 0o700, exist_ok=True)
        for above in (os.path.join(self.spool_directory, EVENTS), self._place):
            with suppress(FileExistsError):
                os.mkdir(above, 0o700)
        with _locked(self._place):
            return self._make_own()

    def _make_own(self) -> str:
        """Make the owner's directory; the lock of all directories is held."""
        own = os.path.join(self._place, token_hex(8))
        os.mkdir(own, 0o700)
        lock = _open_lock(own)
        flock(lock, LOCK_EX | LOCK_NB)
        if self._lock >= 0:
            os.close(self._lock)
        self._own, self._lock = own, lock
        return own

    def _take(self, directory: str) -> list[str]:
        """Move all batches of a directory here, if its owner has died; return their keys."""
        try:
            lock = _open_lock(directory)
        except OSError:  # of another user
            return []
        try:
            flock(lock, LOCK_EX | LOCK_NB)
            keys = [name.removesuffix(_ENDING) for name in os.listdir(directory) if name.endswith(_ENDING)]
            keys = list(filter(_KEY.fullmatch, keys))
            own = (self._own or self._make_own()) if keys else directory
            for key in keys:
                os.rename(os.path.join(directory, key + _ENDING), os.path.join(own, key + _ENDING))
            _remove_if_empty(directory)
        except BlockingIOError:
            return []
        finally:
            os.close(lock)
        return keys

    def _look_at(self, key: str) -> StoredBatch | None:
        lines = self.read(key)
        if not lines:
            self.remove(key)
            return None
        return StoredBatch(key, len(lines), sum(map(len, lines)))


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _open_lock(directory: str) -> int:
    return os.open(os.path.join(directory, _LOCK), _FLAGS | os.O_RDWR | os.O_CREAT, 0o600)


@contextmanager
def _locked(directory: str) -> Iterator[None]:
    lock = _open_lock(directory)
    try:
        flock(lock, LOCK_EX)
        yield
    finally:
        os.close(lock)


def _remove_if_empty(directory: str) -> None:
    """Remove an owner's directory if there is nothing in it but its lock."""
    if os.listdir(directory) == [_LOCK]:
        os.unlink(os.path.join(directory, _LOCK))
        os.rmdir(directory)
