"""Write lines to something that may be slow, full or broken, without blocking anyone.

::

    write_block(lines)  ->  waiting blocks  -- every 50 ms, one batch at a time -->  thread: output
                                ^                                                       |
                                +---- what was not written comes back to the front -----+

A block is the bytes of whole lines, each of which ends in the only newline that it has.  Nothing is done for
each line, until one is dropped or torn: then its newlines tell where lines end and how many there are.

All state but the output belongs to the reactor's thread, so there is no lock.  The rules:

- order is kept;
- at most ``max_bytes`` are held; beyond that the oldest waiting lines go, and ``dropped`` counts them;
- after an error the rest is tried again every second, and ``errors`` counts the tries that failed;
- a line that was written in part is completed by the next write.  Where its rest is no longer there, or the
  file ended so when it was opened, a newline comes before anything else: a reader loses one line at most;
- :meth:`LineWriter.reopen` opens anew before it closes the old one, and keeps the old one if it cannot.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from msgspec import Struct
from twisted.internet.defer import Deferred, succeed
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure

from mgw.reactor.daemon_threads import SerialRunner
from mgw.reactor.rate_limited_log import RateLimitedLog
from mgw.usage.output import Output

INTERVAL: Final = 0.05
"""Seconds that a line waits for others."""
RETRY: Final = 1.0
"""Seconds between two tries of an output that fails."""
MAX_BYTES: Final = 4 * 1024 * 1024
BATCH_BYTES: Final = 256 * 1024
CLOSE_SECONDS: Final = 5.0
_LINE_END: Final = b"\n"

_log: Final = Logger()


class WriteResult(Struct, frozen=True):
    """The result of writing a batch."""

    size: int
    """The bytes of the batch that are written, those of earlier tries included."""
    error: OSError | None


@dataclass(slots=True, eq=False, repr=False)
class ReopenableOutput:
    """The thread's side of a :class:`LineWriter`: an output, opened anew on demand, and how it ends."""

    open_output: Callable[[], Output]
    _output: Output | None = None
    _stale: bool = True
    _mid_line: bool = False

    def open(self) -> None:
        """Open, or open anew and close the old one.

        :raises OSError: the old one, if any, is still in use.
        """
        before, self._output = self._output, self.open_output()
        self._mid_line = self._output.mid_line
        self._stale = False
        if before is not None:
            with suppress(OSError):  # what it took it has taken
                before.close()

    def write(self, data: bytes, start: int, *, reopen: bool) -> WriteResult:
        """Write ``data`` from ``start`` on, and all of it where the output is a new one."""
        failure: OSError | None = None
        self._stale = self._stale or reopen
        if self._stale:
            try:
                self.open()
                start = 0
            except OSError as error:
                failure = error
        if self._output is None:
            return WriteResult(start, failure)
        try:
            if self._mid_line and start == 0:
                self._output.write(memoryview(b"\n"))
                self._mid_line = False
            view = memoryview(data)
            while start < len(data):
                start += self._output.write(view[start:])
                self._mid_line = data[start - 1] != _LINE_END[0]
        except OSError as error:
            failure = error
        return WriteResult(start, failure)

    def close(self) -> None:
        """Close the output."""
        if self._output is not None:
            output, self._output, self._stale = self._output, None, True
            output.close()


@dataclass(slots=True, eq=False, repr=False)
class LineWriter:
    """Lines to one output; the module states its rules."""

    name: str
    clock: IReactorTime
    runner: SerialRunner
    open_output: Callable[[], Output]
    max_bytes: int = MAX_BYTES
    interval: float = INTERVAL
    batch_bytes: int = BATCH_BYTES
    dropped: int = 0
    """How many lines were dropped because the output was too slow or failed."""
    errors: int = 0
    """How many attempts to write or open failed."""
    _blocks: deque[bytes] = field(default_factory=deque)
    _held: int = 0  # bytes, in flight or not
    _sent_bytes: int = 0  # bytes of the first line that are out already
    _in_flight: bytes = b""
    _writing: bool = False
    _reopen_next: bool = False
    _urgent: bool = False
    _closed: bool = False
    _ended: bool = False
    _timer: IDelayedCall | None = None
    _close_timer: IDelayedCall | None = None
    _waiters: list[Deferred[None]] = field(default_factory=list)
    _reports: RateLimitedLog = field(init=False)
    _output: ReopenableOutput = field(init=False)

    def __post_init__(self) -> None:
        self._reports = RateLimitedLog(self.clock)
        self._output = ReopenableOutput(self.open_output)

    @property
    def waiting(self) -> int:
        """How many lines are not written yet."""
        return self._count_waiting() + self._in_flight.count(_LINE_END)

    def open(self) -> None:
        """Open the output now rather than with the first line, so that a bad path is known at start.

        :raises OSError: it cannot be opened.
        """
        self._output.open()

    def write_block(self, block: bytes) -> None:
        """Take lines, each of which ends in a newline; there may be none."""
        if not block:
            return
        if self._closed:
            self.dropped += block.count(_LINE_END)
            return
        self._blocks.append(block)
        self._held += len(block)
        if self._held > self.max_bytes:
            self._drop_oldest()
        if self._timer is None and not self._writing:
            self._timer = self.clock.callLater(self.interval, self._send)

    def flush(self) -> None:
        """Write what waits without waiting for more."""
        if self._blocks or self._writing:
            self._urgent = True
            self._send_soon(0)

    def reopen(self) -> None:
        """Open the output anew: its file was renamed."""
        self._reopen_next = True
        self._send_soon(0)

    def note_error(self, error: OSError) -> None:
        """Count and report what went wrong beside the lines, of which none is lost."""
        self._on_error(error)

    def close(self, within: float = CLOSE_SECONDS) -> Deferred[None]:
        """Write what waits and close; the rest is dropped after ``within`` seconds, or at the first error."""
        if self._ended:
            return succeed(None)
        waiter: Deferred[None] = Deferred(self._waiters.remove)
        self._waiters.append(waiter)
        if not self._closed:
            self._closed = True
            self._close_timer = self.clock.callLater(within, self._abandon)
            self._send_soon(0)
        return waiter

    def _send_soon(self, seconds: float) -> None:
        if self._writing:
            return
        if self._timer is None:
            self._timer = self.clock.callLater(seconds, self._send)
        elif self._timer.getTime() > self.clock.seconds() + seconds:
            self._timer.reset(seconds)

    def _send(self) -> None:
        self._timer = None
        if not self._blocks and not self._reopen_next:
            if self._closed:
                self._writing = True
                self.runner.run(self._output.close, lambda _: self._finish())
            return
        self._writing = True
        if self._held <= self.batch_bytes:
            data = b"".join(self._blocks)
            self._blocks.clear()
        else:
            data = self._take_batch()
        self._in_flight = data
        start, reopen, output = self._sent_bytes, self._reopen_next, self._output
        self._reopen_next = False
        self.runner.run(lambda: output.write(data, start, reopen=reopen), self._on_written)

    def _take_batch(self) -> bytes:
        """Take waiting lines until there are :attr:`batch_bytes` of them; the last one may go beyond."""
        size, batch = 0, []
        while self._blocks and size < self.batch_bytes:
            lines = self._take_lines(self.batch_bytes - size)
            batch.append(lines)
            size += len(lines)
        return b"".join(batch)

    def _take_lines(self, size: int) -> bytes:
        """Take the first lines of the first block, until there are so many bytes of them."""
        block = self._blocks.popleft()
        if size >= len(block):
            return block
        end = block.index(_LINE_END, size - 1) + 1
        if end < len(block):
            self._blocks.appendleft(block[end:])
        return block[:end]

    def _on_written(self, result: WriteResult | Exception) -> None:
        self._writing = False
        if isinstance(result, Exception):
            result = self._on_bug(result)
        self._requeue(result.size)
        if result.error is not None:
            self._on_error(result.error)
        if self._ended:
            self._drop_waiting()
        elif result.error is not None:
            self._after_error()
        elif self._blocks or self._reopen_next or self._closed:
            at_once = self._urgent or self._reopen_next or self._closed or self._held > self.batch_bytes
            self._send_soon(0 if at_once else self.interval)
        else:
            self._urgent = False

    def _requeue(self, size: int) -> None:
        batch, self._in_flight = self._in_flight, b""
        end = batch.rfind(_LINE_END, 0, size) + 1 if size < len(batch) else len(batch)
        if end < len(batch):
            self._blocks.appendleft(batch[end:])
        self._held -= end
        self._sent_bytes = size - end

    def _after_error(self) -> None:
        self._urgent = False
        if self._closed:
            self._abandon()
        elif self._blocks or self._reopen_next:
            self._send_soon(RETRY)

    def _on_bug(self, error: Exception) -> WriteResult:
        failure = Failure(error)
        _log.failure("internal error: lines of {name} were not written", failure=failure, name=self.name)
        self.dropped += self._in_flight.count(_LINE_END)
        return WriteResult(len(self._in_flight), None)

    def _on_error(self, error: OSError) -> None:
        self.errors += 1
        if self._reports.is_due():
            _log.error(
                "{name}: cannot write: {error}; {waiting} lines are waiting, {dropped} were dropped",
                name=self.name,
                error=error.strerror or str(error),
                waiting=self._count_waiting(),
                dropped=self.dropped,
            )

    def _count_waiting(self) -> int:
        return sum([block.count(_LINE_END) for block in self._blocks])

    def _drop_oldest(self) -> None:
        while self._held > self.max_bytes and self._blocks:
            lines = self._take_lines(self._held - self.max_bytes)
            self._held -= len(lines)
            self.dropped += lines.count(_LINE_END)
            self._sent_bytes = 0  # the rest of a torn line is gone

    def _drop_waiting(self) -> None:
        self.dropped += self._count_waiting()
        self._blocks.clear()

    def _abandon(self) -> None:
        self._drop_waiting()
        self.runner.run(self._output.close, lambda _: None)  # after whatever holds the thread
        self._finish()

    def _finish(self) -> None:
        self._ended = True
        for timer in (self._close_timer, self._timer):
            if timer is not None and timer.active():
                timer.cancel()
        self._timer = self._close_timer = None
        self.runner.stop()
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            waiter.callback(None)
