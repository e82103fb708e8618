"""The undelivered events of a process: its own SQLite file, and those of processes that have died.

::

    <spool.dir>/events/outbox.db            of the process that came first
    <spool.dir>/events/outbox-1.db          of another that runs at the same time, and so on
    <spool.dir>/events/outbox.db.damaged    what was left of a file that could not be read

A process takes the first file that nobody has locked, with all batches in it, or makes one.  The files of
those that die later are taken over as well: their batches are delivered from where they are.  Several
outboxes of a process share its files; each batch belongs to the one that has stored it or taken it over,
until that is closed.

The directory has mode 0700, files 0600.  All of this may block, so it runs on a thread of its own.
"""

from __future__ import annotations

import errno
import os
import re
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, TypeVar

from msgspec import Struct

from mgw.usage.old_batches import import_batches
from mgw.usage.spool_database import (
    Piece,
    SpoolDatabase,
    StoredBatch,
    is_damaged,
    open_spool,
    reason_of,
    rescue,
)

T = TypeVar("T")

EVENTS: Final = "events"
"""The name of the directory below ``spool.dir``."""
_NAME: Final = re.compile(r"outbox(?:-([1-9][0-9]{0,5}))?\.db")
TAKEN_AT_ONCE: Final = 5000
"""The most batches that an outbox is told of at once: millions of events may wait, one in each."""
_NEW_NAMES: Final = 16
"""How many names are tried for a new file while others start at the same time."""


class TakenOver(Struct, frozen=True):
    """What an outbox has now."""

    batches: list[StoredBatch]
    """The oldest first."""
    lost: int
    """How many of its events a damaged file had and nobody can read."""
    problems: list[str]
    """What went wrong meanwhile, for the log."""
    is_all: bool = True
    """Whether there are no more of them just now."""


@dataclass(slots=True, eq=False)
class SpoolFiles:
    """The files of one process; what fails raises ``sqlite3.Error`` or ``OSError``."""

    spool_directory: str
    _files: list[SpoolDatabase] = field(default_factory=list, repr=False)
    """The first one is the process's own: new batches go there."""
    _owners: dict[str, SinkSpool] = field(default_factory=dict, repr=False)
    """The owners of batches, by key."""
    _outboxes: set[SinkSpool] = field(default_factory=set, repr=False)
    _damaged: set[str] = field(default_factory=set, repr=False)
    """Files that are to be moved aside."""
    _lost: dict[str, int] = field(default_factory=dict, repr=False)
    """Events that nobody has counted yet, by sink."""
    _problems: list[str] = field(default_factory=list, repr=False)

    def of_sink(self, sink: str) -> SinkSpool:
        """Return the batches of one outbox of a sink."""
        return SinkSpool(self, sink)

    def add(self, owner: SinkSpool, pieces: Sequence[Piece]) -> None:
        """Store lines of batches: all, or none."""
        self._outboxes.add(owner)
        self._try(lambda: self._own().add(pieces))
        self._owners.update(dict.fromkeys((piece.key for piece in pieces), owner))

    def read(self, key: str) -> list[bytes]:
        """Return the lines of a batch; none if somebody has deleted its file."""
        return self._try(lambda: [line for file in self._in_place() for line in file.read(key)])

    def remove(self, keys: Sequence[str]) -> None:
        """Delete batches."""
        for key in keys:
            self._owners.pop(key, None)
        self._try(lambda: self._remove(keys))

    def _remove(self, keys: Sequence[str]) -> None:
        for file in self._in_place():
            file.remove(keys)

    def take_over(self, owner: SinkSpool) -> TakenOver:
        """Give an outbox the batches of its sink that have no owner."""
        self._outboxes.add(owner)
        if not owner.left:
            owner.left = self._look(owner)
        batches, owner.left = owner.left[:TAKEN_AT_ONCE], owner.left[TAKEN_AT_ONCE:]
        problems, self._problems = self._problems, []
        return TakenOver(batches, self._lost.pop(owner.sink, 0), problems, is_all=not owner.left)

    def _look(self, owner: SinkSpool) -> list[StoredBatch]:
        """Return the batches of a sink that had no owner, and now have this one."""
        directory = self._directory
        if os.path.isdir(directory):
            self._open_all()
            try:
                import_batches(directory, owner.sink, lambda piece: self._own().add([piece]))
            except (sqlite3.Error, OSError) as error:
                self._problems.append(reason_of(error))
        found = self._try(lambda: [batch for file in self._in_place() for batch in file.find(owner.sink)])
        batches = sorted((each for each in found if each.key not in self._owners), key=lambda each: each.key)
        self._owners.update(dict.fromkeys((batch.key for batch in batches), owner))
        return batches

    def release(self, owner: SinkSpool) -> None:
        """Let go of an outbox's batches; with the last outbox, of the files."""
        self._outboxes.discard(owner)
        self._owners = {key: other for key, other in self._owners.items() if other is not owner}
        if not self._outboxes:
            while self._files:
                self._files.pop().close()

    @property
    def _directory(self) -> str:
        return os.path.join(self.spool_directory, EVENTS)

    def _try(self, work: Callable[[], T]) -> T:
        """Do some work, and once more where a damaged file was put aside."""
        try:
            return work()
        except sqlite3.DatabaseError as error:
            if not is_damaged(error):
                raise
            self._put_damaged_aside()
            return work()

    def _put_damaged_aside(self) -> None:
        """Close the files that cannot be read, and keep what can be found in them."""
        for file in list(self._files):
            if not file.is_sound:
                self._files.remove(file)
                file.close()
                self._damaged.add(file.path)
        self._rescue()

    def _in_place(self) -> list[SpoolDatabase]:
        """Return the open files, without those that somebody has renamed or deleted."""
        for file in [file for file in self._files if not file.is_in_place]:
            self._files.remove(file)
            file.close()
        return self._files

    def _own(self) -> SpoolDatabase:
        """Return the process's own file, which is made when it is first needed."""
        if not self._in_place():
            os.makedirs(self.spool_directory, 0o700, exist_ok=True)
            with suppress(FileExistsError):
                os.mkdir(self._directory, 0o700)
            self._open_all()
        if not self._files:
            self._open_new()
        return self._files[0]

    def _open_all(self) -> None:
        """Open every file that nobody else has; one without batches stays closed, unless it is the first."""
        for path in self._paths():
            if all(file.path != path for file in self._files):
                self._open(path)
        for file in [file for file in self._in_place()[1:] if file.is_empty]:
            self._files.remove(file)
            file.close()
        if self._damaged:
            self._rescue()

    def _open(self, path: str) -> None:
        try:
            found = open_spool(path)
        except (sqlite3.Error, OSError) as error:
            if is_damaged(error):
                self._damaged.add(path)
            else:
                self._problems.append(reason_of(error))
        else:
            if found is not None:
                self._files.append(found)

    def _open_new(self) -> None:
        for path in self._new_paths():
            found = open_spool(path)
            if found is not None:
                self._files.append(found)
                return
        raise OSError(errno.EAGAIN, "no file can be made for them")

    def _paths(self) -> list[str]:
        """Return the files that are there, in the order of their numbers."""
        found = [match for match in map(_NAME.fullmatch, os.listdir(self._directory)) if match is not None]
        found.sort(key=lambda match: int(match[1] or 0))
        return [os.path.join(self._directory, match[0]) for match in found]

    def _new_paths(self) -> Iterator[str]:
        """Yield names that no file has yet."""
        before = set(self._paths())
        names = ("outbox.db", *(f"outbox-{number}.db" for number in range(1, len(before) + _NEW_NAMES)))
        for name in names:
            path = os.path.join(self._directory, name)
            if path not in before:
                yield path

    def _rescue(self) -> None:
        """Keep what damaged files still have, and move them aside."""
        if not self._files:
            self._open_new()
        own = self._files[0]
        for path in sorted(self._damaged):
            lost = rescue(path, own.add)
            self._damaged.discard(path)
            if lost is None:
                continue
            for piece in lost:
                if piece.key not in self._owners:  # else whoever has it counts what is missing
                    self._lost[piece.sink] = self._lost.get(piece.sink, 0) + piece.count
            self._problems.append(f"{os.path.basename(path)} was damaged and is {path}.damaged now")


@dataclass(slots=True, eq=False)
class SinkSpool:
    """The batches of one outbox."""

    files: SpoolFiles
    sink: str
    left: list[StoredBatch] = field(default_factory=list, repr=False)
    """Batches that the outbox is to be told of next."""

    def add(self, pieces: Sequence[Piece]) -> None:
        """Add lines to batches, which need not exist; all of them are there afterwards, or none."""
        self.files.add(self, pieces)

    def read(self, key: str) -> list[bytes]:
        """Return the lines of a batch."""
        return self.files.read(key)

    def remove(self, keys: Sequence[str]) -> None:
        """Delete batches; those that are not there are no error."""
        self.files.remove(keys)

    def take_over(self) -> TakenOver:
        """Take over what others have left."""
        return self.files.take_over(self)

    def close(self) -> None:
        """Let go: what is left is taken over by the next owner."""
        self.files.release(self)
