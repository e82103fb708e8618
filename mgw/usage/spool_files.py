"""The undelivered events of a process, in an SQLite file of its own.

::

    <spool.dir>/events/outbox.db            of the process that came first
    <spool.dir>/events/outbox-1.db          of another that runs at the same time, and so on
    <spool.dir>/events/outbox.db.damaged    what was left of a file that could not be read

A process takes the first file that nobody has locked, with all batches in it, or makes one.  It moves the
batches of those that die later into its own.  Several outboxes of a process share the file; each batch
belongs to the one that has stored it or taken it over, until that is closed.

The directory has mode 0700, files 0600.  All of this may block, so it runs on a thread of its own.
"""

from __future__ import annotations

import errno
import os
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, TypeVar

from msgspec import Struct

from mgw.usage.old_batches import import_batches
from mgw.usage.spool_database import Piece, SpoolDatabase, StoredBatch, is_damaged, open_spool, reason_of

T = TypeVar("T")

EVENTS: Final = "events"
"""The name of the directory below ``spool.dir``."""
_NAMES: Final = ("outbox.db", *(f"outbox-{number}.db" for number in range(1, 64)))
TAKEN_AT_ONCE: Final = 5000
"""The most batches that an outbox is told of at once: millions of events may wait, one in each."""


class TakenOver(Struct, frozen=True):
    """What an outbox has now."""

    batches: list[StoredBatch]
    """The oldest first; none if there are no more just now."""
    problems: list[str]
    """What went wrong meanwhile, for the log."""


@dataclass(slots=True, eq=False, repr=False)
class SpoolFiles:
    """The file of one process; what fails raises ``sqlite3.Error`` or ``OSError``."""

    spool_directory: str
    owners: dict[str, SinkSpool] = field(default_factory=dict)
    """The owners of batches, by key."""
    outboxes: set[SinkSpool] = field(default_factory=set)
    problems: list[str] = field(default_factory=list)
    """What went wrong, and was not said yet."""
    _own: SpoolDatabase | None = None

    def of_sink(self, sink: str) -> SinkSpool:
        """Return the batches of one outbox of a sink."""
        return SinkSpool(self, sink)

    @property
    def directory(self) -> str:
        """Where the files are."""
        return os.path.join(self.spool_directory, EVENTS)

    def use(self, work: Callable[[SpoolDatabase], T]) -> T:
        """Do some work with the process's own file, and once more with another if the file is damaged."""
        own = self._open()
        try:
            return work(own)
        except sqlite3.DatabaseError as error:
            if not is_damaged(error):
                raise
            self.close()
            other = self._open(without=own.path)
            self._rescue(other, own.path)
            return work(other)

    def gather(self, own: SpoolDatabase) -> None:
        """Move here what the dead have left in other files."""
        for path in self._paths():
            if path != own.path and os.path.isfile(path) and not os.path.islink(path):
                try:
                    own.take_from(path)
                except (sqlite3.Error, OSError) as error:
                    if is_damaged(error):
                        self._rescue(own, path)
                    else:
                        self.problems.append(reason_of(error))

    def close(self) -> None:
        """Let go of the file."""
        if self._own is not None:
            self._own.close()
            self._own = None

    def _open(self, without: str | None = None) -> SpoolDatabase:
        """Return the process's own file, which is made when it is first needed, or gone."""
        if self._own is not None and self._own.is_in_place:
            return self._own
        self.close()
        os.makedirs(self.spool_directory, 0o700, exist_ok=True)
        with suppress(FileExistsError):
            os.mkdir(self.directory, 0o700)
        for path in sorted(self._paths(), key=lambda path: not os.path.lexists(path)):
            try:
                self._own = open_spool(path) if path != without else None
            except sqlite3.Error as error:
                if not is_damaged(error):
                    raise
            if self._own is not None:
                return self._own
        raise OSError(errno.EAGAIN, "no file can be made for them")

    def _paths(self) -> list[str]:
        return [os.path.join(self.directory, name) for name in _NAMES]

    def _rescue(self, own: SpoolDatabase, path: str) -> None:
        if own.rescue(path):
            self.problems.append(f"{os.path.basename(path)} was damaged and is {path}.damaged now")


@dataclass(slots=True, eq=False, repr=False)
class SinkSpool:
    """The batches of one outbox."""

    files: SpoolFiles
    sink: str
    _left: list[StoredBatch] = field(default_factory=list)
    """Batches that the outbox is to be told of next."""

    def add(self, pieces: Sequence[Piece]) -> None:
        """Add lines to batches, which need not exist; all of them are there afterwards, or none."""
        self.files.outboxes.add(self)
        self.files.use(lambda own: own.add(pieces))
        self.files.owners.update(dict.fromkeys((piece.key for piece in pieces), self))

    def read(self, key: str) -> list[bytes]:
        """Return the lines of a batch; none if somebody has deleted its file."""
        return self.files.use(lambda own: own.read(key))

    def remove(self, keys: Sequence[str]) -> None:
        """Delete batches; those that are not there are no error."""
        for key in keys:
            self.files.owners.pop(key, None)
        self.files.use(lambda own: own.remove(keys))

    def take_over(self) -> TakenOver:
        """Take over the batches of the sink that have no owner."""
        self.files.outboxes.add(self)
        if not self._left and os.path.isdir(self.files.directory):
            self._left = self.files.use(self._look)
        batches, self._left = self._left[:TAKEN_AT_ONCE], self._left[TAKEN_AT_ONCE:]
        problems, self.files.problems = self.files.problems, []
        return TakenOver(batches, problems)

    def close(self) -> None:
        """Let go: what is left is taken over by the next owner."""
        files = self.files
        files.outboxes.discard(self)
        files.owners = {key: other for key, other in files.owners.items() if other is not self}
        if not files.outboxes:
            files.close()

    def _look(self, own: SpoolDatabase) -> list[StoredBatch]:
        files = self.files
        files.gather(own)
        try:
            import_batches(files.directory, self.sink, lambda piece: own.add([piece]))
        except OSError as error:
            files.problems.append(reason_of(error))
        found = [batch for batch in own.find(self.sink) if batch.key not in files.owners]
        files.owners.update(dict.fromkeys((batch.key for batch in found), self))
        return found
