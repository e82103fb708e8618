"""Deliver usage events in batches, store undelivered ones on disk, and never block a request.

::

    record_lines -> waiting lines -- every flush_seconds, or batch_max of them --> batches, oldest first
                                                                                    |            |
                                                       disk (BatchStore) <----------+   deliver, one at a time

The rules (contract 9.7, 9.8):

- A batch has a key, which is the same in each try, also after a restart.  Nothing is added to one that has
  been tried.
- Batches are tried in order.  After a failure the same one is tried again, first after 1 s, then after twice
  as long each time, up to 5 min.
- A batch is stored before it is tried (``save_first``), or else as soon as it has to wait.
- ``spool.max_bytes`` limits all stored batches together; beyond it the oldest ones go.  What is not stored,
  because the disk fails, is limited too.  ``dropped`` counts every event that goes in this way.
- Whoever closes an outbox waits a few seconds for deliveries; what is left then is stored.  What the dead
  have left is taken over.

All state belongs to the reactor's thread.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from typing import Final

from msgspec import Struct
from twisted.internet.defer import CancelledError, Deferred, succeed
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure

from mgw.reactor.daemon_threads import SerialRunner
from mgw.reactor.rate_limited_log import RateLimitedLog
from mgw.usage.batch_store import Batch, BatchStore, new_key
from mgw.usage.spool_files import SinkSpool
from mgw.usage.spool_room import SpoolRoom

FIRST_RETRY: Final = 1.0
"""Seconds before the first retry."""
MAX_RETRY: Final = 300.0
TAKE_OVER_SECONDS: Final = 30.0
"""The interval of the checks whether an owner of batches has died."""
MAX_BATCH_BYTES: Final = 4 * 1024 * 1024
MAX_HELD_BYTES: Final = 8 * 1024 * 1024
"""How many bytes may wait in memory; beyond it, the oldest events go."""
MAX_HELD_EVENTS: Final = 20_000
DELIVER_SECONDS: Final = 4.0
"""How long deliveries go on after :meth:`Outbox.close`."""
CLOSE_SECONDS: Final = 5.0
"""How long :meth:`Outbox.close` takes at the most, whatever the disk does."""

_log: Final = Logger()


class Verdict(Enum):
    """What became of a try."""

    DELIVERED = "delivered"
    RETRY = "retry"
    REFUSED = "refused"
    """The receiver wants this batch no more."""


class Result(Struct, frozen=True):
    """How a try ended."""

    verdict: Verdict
    reason: str = ""
    """Why the attempt failed, for the log, without anything secret."""
    lost: int = 0
    """How many events of a delivered batch were not accepted."""


DELIVERED: Final = Result(Verdict.DELIVERED)


class OutboxOptions(Struct, frozen=True):
    """How a sink wants its batches."""

    batch_max: int
    """How many events a batch holds at the most."""
    flush_seconds: float
    save_first: bool
    """Whether a batch is stored before it is tried; else only while it has to wait."""


@dataclass(slots=True, eq=False, repr=False)
class Outbox:
    """The batches of one sink; the module states their rules."""

    name: str
    """The name of the outbox in the log."""
    clock: IReactorTime
    wall: Callable[[], float]
    """Returns Unix seconds."""
    runner: SerialRunner
    spool: SinkSpool
    room: SpoolRoom
    deliver: Callable[[str, list[bytes]], Deferred[Result]]
    """Tries a batch: its key and its lines.  Cancelling ends the try."""
    options: OutboxOptions
    dropped: int = 0
    """How many events were lost."""
    errors: int = 0
    """How many attempts to deliver, and operations on the disk, failed."""
    _waiting: list[bytes] = field(default_factory=list)
    _waiting_bytes: int = 0
    _held_bytes: int = 0
    _held_events: int = 0
    _batched_events: int = 0
    """The number of events in all batches."""
    _batches: deque[Batch] = field(default_factory=deque)
    _in_flight: Batch | None = None
    _try: Deferred[Result] | None = None
    _retry_seconds: float = FIRST_RETRY
    _last_key: int = 0
    _flush_timer: IDelayedCall | None = None
    _retry_timer: IDelayedCall | None = None
    _take_over_timer: IDelayedCall | None = None
    _close_timer: IDelayedCall | None = None
    _closed: bool = False
    _delivering: bool = True
    """Whether batches are still tried."""
    _ended: bool = False
    _waiters: list[Deferred[None]] = field(default_factory=list)
    _reports: RateLimitedLog = field(init=False)
    _store: BatchStore = field(init=False)

    def __post_init__(self) -> None:
        self._reports = RateLimitedLog(self.clock)
        self._store = BatchStore(
            self.clock,
            self.runner,
            self.spool,
            self.room,
            on_stored=self._on_stored,
            on_idle=self._on_stored_idle,
            on_error=self._on_disk_error,
        )

    def start(self) -> None:
        """Take over what others have left, and deliver."""
        self.room.outboxes.append(self)
        self._take_over()

    def record_lines(self, lines: Sequence[bytes]) -> None:
        """Take events, one line of JSON each."""
        if self._closed:
            self.dropped += len(lines)
            return
        self._waiting.extend(lines)
        self._waiting_bytes += self._hold(lines)
        if self._has_full_batch():
            self._cut(everything=False)
        if self._waiting and self._flush_timer is None:
            self._flush_timer = self.clock.callLater(self.options.flush_seconds, self._on_flush)

    def flush(self) -> None:
        """Deliver what waits without waiting for more."""
        self._cut(everything=True)

    def close(self) -> Deferred[None]:
        """Deliver what waits, and store what cannot be delivered."""
        if self._ended and not self._waiters:
            return succeed(None)
        waiter: Deferred[None] = Deferred(self._waiters.remove)
        self._waiters.append(waiter)
        if not self._closed:
            self._closed = True
            self._close_timer = self.clock.callLater(DELIVER_SECONDS, self._store_rest)
            self._cut(everything=True)
            if self._retry_timer is not None:
                self._store_rest()
        return waiter

    @property
    def oldest_stored(self) -> str | None:
        """The key of the oldest batch that is stored and can be dropped."""
        return next((batch.key for batch in self._batches if self._can_drop(batch)), None)

    def drop_oldest_stored(self) -> None:
        """Make room on the disk."""
        batch = next(batch for batch in self._batches if self._can_drop(batch))
        self.dropped += batch.count
        self._finish(batch)

    @property
    def waiting(self) -> int:
        """How many events have not been delivered."""
        return len(self._waiting) + self._batched_events

    # Batches.

    def _on_flush(self) -> None:
        self._flush_timer = None
        self._cut(everything=True)

    def _has_full_batch(self) -> bool:
        return len(self._waiting) >= self.options.batch_max or self._waiting_bytes >= MAX_BATCH_BYTES

    def _cut(self, *, everything: bool) -> None:
        """Make batches of the lines that wait."""
        while self._waiting and (everything or self._has_full_batch()):
            count = size = 0
            for line in self._waiting[: self.options.batch_max]:
                if count and size + len(line) > MAX_BATCH_BYTES:
                    break
                count += 1
                size += len(line)
            self._add(self._waiting[:count], size)
            del self._waiting[:count]
            self._waiting_bytes -= size
        if not self._waiting and self._flush_timer is not None:
            self._flush_timer.cancel()
            self._flush_timer = None
        self._limit_memory()
        self._advance()

    def _add(self, lines: list[bytes], size: int) -> None:
        """Put lines into the newest batch, if that is still open, or into one of their own."""
        batch = self._batches[-1] if self._batches else None
        if (
            batch is None
            or batch.tried
            or batch.count + len(lines) > self.options.batch_max
            or batch.size + size > MAX_BATCH_BYTES
        ):
            self._last_key = max(self._last_key + 1, int(self.wall() * 1_000_000))
            batch = Batch(new_key(self._last_key))
            self._batches.append(batch)
        batch.unsaved += lines
        batch.count += len(lines)
        self._batched_events += len(lines)
        batch.size += size
        if self.options.save_first or len(self._batches) > 1 or self._retry_timer is not None:
            self._store.save(batch)

    def _hold(self, lines: Sequence[bytes]) -> int:
        """Count lines that are in memory alone; return their bytes."""
        size = sum(map(len, lines))
        self._held_bytes += size
        self._held_events += len(lines)
        return size

    def _release(self, lines: Sequence[bytes]) -> int:
        """Count lines no more; return their bytes."""
        size = sum(map(len, lines))
        self._held_bytes -= size
        self._held_events -= len(lines)
        return size

    def _limit_memory(self) -> None:
        for batch in list(self._batches):
            if self._held_bytes <= MAX_HELD_BYTES and self._held_events <= MAX_HELD_EVENTS:
                return
            if batch.unsaved and batch is not self._in_flight and batch not in self._store.saving:
                self._lose_unsaved(batch)

    def _lose_unsaved(self, batch: Batch) -> None:
        """Give up what is not stored of a batch."""
        lines, batch.unsaved = batch.unsaved, []
        batch.size -= self._release(lines)
        batch.count -= len(lines)
        self._batched_events -= len(lines)
        self.dropped += len(lines)
        if not batch.count:
            self._finish(batch)

    def _finish(self, batch: Batch) -> None:
        """Forget a batch, and delete what is stored of it."""
        self._batches.remove(batch)
        self._batched_events -= batch.count
        self._release(batch.unsaved)
        batch.unsaved = []
        self._store.remove(batch)

    # Deliveries.

    def _advance(self) -> None:
        """Try the oldest batch, unless another is being tried or it is not the time yet."""
        if self._in_flight is not None or self._retry_timer is not None or self._ended:
            return
        if not self._delivering or not self._batches:
            if self._closed:
                self._end_when_stored()
            return
        batch = self._in_flight = self._batches[0]
        batch.tried = True
        if batch.stored:
            self._store.read(batch, partial(self._on_read, batch))
        else:
            self._begin(batch, list(batch.unsaved))

    def _on_read(self, batch: Batch, result: list[bytes] | Exception) -> None:
        if isinstance(result, Exception):
            self._on_result(batch, Result(Verdict.RETRY, "a stored batch cannot be read"))
            return
        lines = result + batch.unsaved
        self.dropped += max(0, batch.count - len(lines))
        self._batched_events += len(lines) - batch.count
        batch.count = len(lines)
        if lines:
            self._begin(batch, lines)
        else:
            self._on_result(batch, DELIVERED)

    def _begin(self, batch: Batch, lines: list[bytes]) -> None:
        if not self._delivering:  # closed while it was read
            self._on_result(batch, Result(Verdict.RETRY))
            return
        self._try = self.deliver(batch.key, lines)
        _ = self._try.addErrback(_describe).addCallback(partial(self._on_result, batch))

    def _on_result(self, batch: Batch, result: Result) -> None:
        self._in_flight = self._try = None
        if result.verdict is Verdict.RETRY:
            self._on_failed_try(result)
            return
        self.dropped += batch.count if result.verdict is Verdict.REFUSED else result.lost
        if result.verdict is Verdict.REFUSED or result.lost:
            self._report(result.reason)
        self._retry_seconds = FIRST_RETRY
        self._finish(batch)
        if self._batches or self._closed:
            self.clock.callLater(0, self._advance)

    def _on_failed_try(self, result: Result) -> None:
        if self._closed:
            self._store_rest()
            self._end_when_stored()
            return
        self.errors += 1
        self._retry_timer = self.clock.callLater(self._retry_seconds, self._on_retry)
        self._retry_seconds = min(self._retry_seconds * 2, MAX_RETRY)
        self._save_all()
        self._report(result.reason)

    def _on_retry(self) -> None:
        self._retry_timer = None
        self._advance()

    # The disk.

    def _save_all(self) -> None:
        for batch in list(self._batches):
            self._store.save(batch)

    def _take_over(self) -> None:
        self._take_over_timer = self.clock.callLater(TAKE_OVER_SECONDS, self._take_over)
        self._store.take_over(self._on_taken_over)

    def _on_taken_over(self, found: list[Batch]) -> None:
        if self._ended:
            return
        self._batches = deque(sorted([*self._batches, *found], key=lambda batch: batch.key))
        self._batched_events += sum(batch.count for batch in found)
        self.room.add(sum(batch.reserved for batch in found))
        self._advance()

    def _on_stored(self, lines: list[bytes]) -> None:
        self._release(lines)

    def _on_stored_idle(self) -> None:
        if not self._delivering:
            self._end_when_stored()

    def _on_disk_error(self, reason: str) -> None:
        self.errors += 1
        self._report(reason)

    # The end.

    def _store_rest(self) -> None:
        """Try no further; what is left is stored."""
        if self._ended:
            self._let_go()
        if not self._delivering or self._ended:
            return
        self._delivering = False
        if self._close_timer is not None and self._close_timer.active():
            self._close_timer.reset(CLOSE_SECONDS - DELIVER_SECONDS)
        else:
            self._close_timer = self.clock.callLater(CLOSE_SECONDS - DELIVER_SECONDS, self._end)
        self._save_all()
        if self._try is not None:
            self._try.cancel()
        self._end_when_stored()

    def _end_when_stored(self) -> None:
        """End if nothing is under way any more."""
        if self._in_flight is None and not self._store.saving:
            self._end()

    def _end(self) -> None:
        if self._ended:
            return
        self._ended = True
        for timer in (self._flush_timer, self._retry_timer, self._take_over_timer):
            if timer is not None and timer.active():
                timer.cancel()
        for batch in self._batches:
            self.dropped += len(batch.unsaved)
            self.room.release(batch.reserved)
        self._batches.clear()
        self._batched_events = 0
        self.room.outboxes.remove(self)
        self._store.close(self._let_go)
        if self._close_timer is None or not self._close_timer.active():
            self._let_go()

    def _let_go(self) -> None:
        """Tell who waits: what was delivered is deleted, or the disk has had its time."""
        if self._close_timer is not None and self._close_timer.active():
            self._close_timer.cancel()
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            waiter.callback(None)

    def _can_drop(self, batch: Batch) -> bool:
        return batch.stored > 0 and batch is not self._in_flight and batch not in self._store.saving

    def _report(self, reason: str) -> None:
        if self._reports.is_due():
            _log.error(
                "{name}: {reason}; {waiting} events are waiting, {dropped} were lost",
                name=self.name,
                reason=reason,
                waiting=self.waiting,
                dropped=self.dropped,
            )


def _describe(failure: Failure) -> Result:
    """A try that was ended, or a bug; of the error only its kind is told."""
    if not failure.check(CancelledError):
        _log.error(
            "internal error: a batch of usage events could not be sent: {kind}",
            kind=type(failure.value).__name__,
        )
    return Result(Verdict.RETRY, "internal error")
