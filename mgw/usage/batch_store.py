"""Batches of usage events on their way to and from the disk, without waiting for it.

Batches that wait are stored together, since a disk takes as long for one as for many; but no more than
:data:`MAX_STORED_BYTES`, so that a disk that hangs does not hold more than that in memory.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from secrets import token_hex
from typing import Final, TypeVar

from twisted.internet.interfaces import IDelayedCall, IReactorTime

from mgw.reactor.daemon_threads import SerialRunner
from mgw.usage.spool_database import Piece, reason_of
from mgw.usage.spool_files import SinkSpool, TakenOver
from mgw.usage.spool_room import SpoolRoom

T = TypeVar("T")

MAX_STORED_BYTES: Final = 4 * 1024 * 1024
"""How much is stored at once; a batch is never larger."""
MAX_STORED_BATCHES: Final = 64
"""How many batches are stored at once."""
REMOVAL_SECONDS: Final = 0.1
"""The interval at which delivered batches are deleted; a killed process delivers those of one again."""


@dataclass(slots=True, eq=False, repr=False)
class Batch:
    """One batch: what is stored of it, and behind that what is not stored yet."""

    key: str
    count: int = 0
    """The number of events in the batch."""
    size: int = 0
    """The size of the batch in bytes."""
    stored: int = 0
    """The bytes of the batch that are on the disk."""
    reserved: int = 0
    """The bytes of room on the disk that the batch holds."""
    unsaved: list[bytes] = field(default_factory=list)
    queued: bool = False
    """Whether the batch waits to be written."""
    tried: bool = False
    over: bool = False


def new_key(microseconds: int) -> str:
    """Return a key for a batch that begins at this Unix time."""
    return f"{microseconds:016x}{token_hex(4)}"


@dataclass(slots=True, eq=False, repr=False)
class BatchStore:
    """The batches of one outbox on the disk; all state belongs to the reactor's thread."""

    clock: IReactorTime
    runner: SerialRunner
    spool: SinkSpool
    room: SpoolRoom
    on_stored: Callable[[list[bytes]], None]
    """Called with the lines that are stored now."""
    on_idle: Callable[[], None]
    """Called when nothing is being written any more."""
    on_error: Callable[[str], None]
    """Called with each error of the disk."""
    saving: list[Batch] = field(default_factory=list)
    """The batches that are being stored."""
    _removed: list[str] = field(default_factory=list)
    """The keys of batches that are to be deleted."""
    _removal: IDelayedCall | None = None
    """The next time that batches are deleted, after some were."""
    _queue: deque[Batch] = field(default_factory=deque)

    def save(self, batch: Batch) -> None:
        """Have stored what is not stored yet."""
        if batch.unsaved and not batch.queued:
            batch.queued = True
            self._queue.append(batch)
            self._save_next()

    def read(self, batch: Batch, then: Callable[[list[bytes] | Exception], None]) -> None:
        """Tell the lines that are stored of a batch; none if somebody has deleted the file."""

        def on_read(result: list[bytes] | Exception) -> None:
            self._note(result)
            then(result)

        self._run(partial(self.spool.read, batch.key), on_read)

    def remove(self, batch: Batch) -> None:
        """Delete a batch, behind whatever is still stored of it."""
        batch.over = True
        self.room.release(batch.reserved)
        if batch.reserved:
            self._removed.append(batch.key)
            if self._removal is None:
                self._remove_all()
        batch.reserved = 0

    def take_over(self, then: Callable[[list[Batch]], None]) -> None:
        """Tell which batches of others, who have died, are ours now."""

        def on_taken(result: TakenOver | Exception) -> None:
            if isinstance(result, Exception):
                self._note(result)
                return
            for problem in result.problems:
                self._report(problem)
            found = [
                Batch(each.key, each.count, each.size, stored=each.size, reserved=each.size, tried=True)
                for each in result.batches
            ]
            if found:
                then(found)
                self.take_over(then)  # there may be more than one is told of at once

        self._run(self.spool.take_over, on_taken)

    def close(self, then: Callable[[], None]) -> None:
        """Let go of the batches when all is done that was asked for, and say so."""
        self._remove_all()
        if self._removal is not None:
            self._removal.cancel()
            self._removal = None
        self._run(self.spool.close, lambda _: then())

    def _remove_all(self) -> None:
        """Delete what is to be deleted, and what comes soon after it together: each time costs two waits."""
        if self._removal is not None and self._removal.active():
            self._removal.cancel()
        self._removal = None
        if self._removed:
            keys, self._removed = self._removed, []
            self._removal = self.clock.callLater(REMOVAL_SECONDS, self._remove_all)
            self._run(partial(self.spool.remove, keys), self._note)

    def _save_next(self) -> None:
        if self.saving:
            return
        pieces, size = list[Piece](), 0
        while self._queue and len(pieces) < MAX_STORED_BATCHES:
            size += self._queue[0].size - self._queue[0].stored
            if pieces and size > MAX_STORED_BYTES:
                break
            piece = self._take(self._queue.popleft())
            if piece is not None:
                pieces.append(piece)
        if pieces:
            self._remove_all()  # there may be no room for them otherwise
            self._run(partial(self.spool.add, pieces), partial(self._on_saved, pieces))

    def _take(self, batch: Batch) -> Piece | None:
        """Return what is to be stored of a batch, if there is room for it."""
        batch.queued = False
        data = b"".join(batch.unsaved)
        if batch.over or not data or not self.room.reserve(len(data)):
            return None
        if batch.over:  # it was the oldest, and gave way to itself
            self.room.release(len(data))
            return None
        self.saving.append(batch)
        batch.reserved += len(data)
        return Piece(batch.key, batch.stored, self.spool.sink, len(batch.unsaved), data)

    def _on_saved(self, pieces: list[Piece], result: Exception | None) -> None:
        saved, self.saving = self.saving, []
        self._note(result)
        for batch, piece in zip(saved, pieces, strict=True):
            size = len(piece.lines)
            if result is None and not batch.over:
                lines, batch.unsaved = batch.unsaved[: piece.count], batch.unsaved[piece.count :]
                batch.stored += size
                self.on_stored(lines)
                self.save(batch)
            elif not batch.over:  # else its room has been given back, and its removal follows
                batch.reserved -= size
                self.room.release(size)
        if result is not None:  # the others would fail as well; the next failed try comes back to them
            for other in self._queue:
                other.queued = False
            self._queue.clear()
        self._save_next()
        if not self.saving:
            self.on_idle()

    def _note(self, result: object) -> None:
        if isinstance(result, Exception):
            self._report(reason_of(result))

    def _report(self, problem: str) -> None:
        self.on_error(f"its files in {self.spool.files.spool_directory}: {problem}")

    def _run(self, work: Callable[[], T], then: Callable[[T | Exception], None]) -> None:
        try:
            self.runner.run(work, then)
        except OSError as error:  # the system gives no thread
            self.clock.callLater(0, then, error)
