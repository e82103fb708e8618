"""A receiver of batches in memory, and outboxes that deliver to it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from twisted.internet.defer import Deferred, succeed
from twisted.internet.task import Clock

from mgw.reactor.daemon_threads import SerialRunner
from mgw.usage.outbox import DELIVERED, Outbox, OutboxOptions, Result, Verdict
from tests.support.stored_events import MIB, spool_in, stored_lines
from tests.support.usage import AtOnce


def line(number: int) -> bytes:
    """An event of this number; all are equally long."""
    return b'{"request_id":"%06d"}\n' % number


@dataclass
class MemoryReceiver:
    """Whoever gets batches; it answers as the test says."""

    tries: list[tuple[str, list[bytes]]] = field(default_factory=list)
    delivered: list[tuple[str, list[bytes]]] = field(default_factory=list)
    refused: int = 0
    """Events that it did not want."""
    verdict: Verdict = Verdict.DELIVERED
    hanging: bool = False
    """Whether it answers when the test says so."""
    waiting: list[Deferred[Result]] = field(default_factory=list)

    def deliver(self, key: str, lines: list[bytes]) -> Deferred[Result]:
        self.tries.append((key, lines))
        if self.hanging:
            waiting: Deferred[Result] = Deferred()
            self.waiting.append(waiting)
            return waiting
        return succeed(self.answer())

    def answer(self) -> Result:
        """What it says to the newest try."""
        if self.verdict is Verdict.DELIVERED:
            self.delivered.append(self.tries[-1])
            return DELIVERED
        if self.verdict is Verdict.REFUSED:
            self.refused += len(self.tries[-1][1])
        return Result(self.verdict, "it said no")

    def go_on(self) -> None:
        """Answer the newest try."""
        self.waiting.pop().callback(self.answer())

    @property
    def lines(self) -> list[bytes]:
        """Everything that was delivered."""
        return [line for _, lines in self.delivered for line in lines]

    @property
    def keys(self) -> list[str]:
        """The keys of all tries."""
        return [key for key, _ in self.tries]


@dataclass
class OutboxHarness:
    """An outbox over a directory; :meth:`restart` makes the next one."""

    folder: Path
    batch_max: int = 10
    save_first: bool = True
    max_bytes: int = MIB
    clock: Clock = field(default_factory=Clock)
    receiver: MemoryReceiver = field(default_factory=MemoryReceiver)
    runner: SerialRunner = field(default_factory=AtOnce)
    lost: int = 0
    """What the outboxes before this one counted as dropped."""
    outbox: Outbox = field(init=False)
    _asked: int = 0

    def __post_init__(self) -> None:
        self._open()

    def _open(self) -> None:
        spool = spool_in(self.folder, self.max_bytes, self.runner)
        self.room = spool.room
        self.outbox = Outbox(
            "test",
            self.clock,
            self._wall,
            spool.runner,
            spool.files.of_sink("test"),
            spool.room,
            self.receiver.deliver,
            OutboxOptions(self.batch_max, 1.0, self.save_first),
        )
        self.outbox.start()

    def _wall(self) -> float:
        self._asked += 1
        return 1_764_000_000 + self.clock.seconds() + self._asked / 100_000  # no moment comes twice

    def record(self, first: int, count: int = 1) -> None:
        """Record events with the numbers from ``first`` on."""
        self.outbox.record_lines([line(number) for number in range(first, first + count)])

    def turn(self, seconds: float = 0.0) -> None:
        """Let time pass, and do all that follows at once."""
        self.clock.advance(seconds)
        while any(call.getTime() <= self.clock.seconds() for call in self.clock.getDelayedCalls()):
            self.clock.advance(0)

    def stop(self) -> None:
        """Stop as an operator stops a gateway."""
        closed = self.outbox.close()
        for _ in range(100):
            if closed.called:
                break
            self.turn(0.1)
        assert closed.called
        self.lost += self.outbox.dropped

    def crash(self) -> None:
        """End as a process that is killed: its locks are free, and nothing else happens."""
        for call in list(self.clock.getDelayedCalls()):
            call.cancel()
        self.outbox.spool.files.close()

    def restart(self) -> None:
        """Start anew over the same directory."""
        self._open()

    def stored(self) -> list[bytes]:
        """The lines that are on the disk, oldest first."""
        return stored_lines(self.folder)
