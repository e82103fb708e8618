"""Bodies for tests: a disk that does one thing when told, a source in memory, and a client that is paused."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.python.failure import Failure

from mgw.bodies.budget import BodyBudget, Reservation
from mgw.bodies.source import PIECE_BYTES, BodyGoneError, BodySource
from mgw.bodies.spool import Spool, SpooledBody
from mgw.nouns.errors import GatewayError
from tests.support.deferreds import result_of

T = TypeVar("T")


@dataclass(slots=True)
class SteppedDisk:
    """A runner of blocking work that does it when the test says so; the oldest first, or any."""

    waiting: deque[tuple[Callable[[], Any], Deferred[Any]]] = field(default_factory=deque)  # Any: any work's
    done: int = 0

    def __call__(self, work: Callable[[], T], /) -> Deferred[T]:
        """Keep ``work`` for later; as with threads, cancelling does not stop it."""
        fired: Deferred[T] = Deferred()
        self.waiting.append((work, fired))
        return fired

    def step(self, index: int = 0) -> None:
        """Do one thing."""
        work, fired = self._taken(index)
        try:
            result = work()
        except Exception:
            fired.errback(Failure())
        else:
            fired.callback(result)

    def fail(self, error: OSError) -> None:
        """Do the oldest thing, and yet say that it failed: nobody knows how far it came."""
        work, fired = self._taken(0)
        work()
        fired.errback(error)

    def run(self) -> None:
        """Do all there is, and all that follows from it."""
        while self.waiting:
            self.step()

    def _taken(self, index: int) -> tuple[Callable[[], Any], Deferred[Any]]:
        self.done += 1
        taken = self.waiting[index]
        del self.waiting[index]
        return taken


@dataclass(slots=True, eq=False)
class MemorySource:
    """A body in memory as a source; ``held`` reads stay pending until the test lets them through."""

    data: bytes
    held: bool = False
    closed: bool = False
    reads: list[tuple[int, int]] = field(default_factory=list)
    pending: deque[tuple[int, int, Deferred[bytes]]] = field(default_factory=deque)
    digest: bytes | None = None
    cancelled: int = 0
    most_pending: int = 0

    @property
    def size(self) -> int:
        """How many bytes it has."""
        return len(self.data)

    @property
    def total_read(self) -> int:
        """How many bytes were asked for."""
        return sum(min(size, self.size - position) for position, size in self.reads)

    def read(self, position: int, size: int) -> Deferred[bytes]:
        """Fire with a piece, now or later."""
        self.reads.append((position, size))
        fired: Deferred[bytes] = Deferred(self._count)
        self.pending.append((position, size, fired))
        self.most_pending = max(self.most_pending, len(self.pending))
        if not self.held:
            self.step()
        return fired

    def step(self) -> None:
        """Let the oldest read through, unless nobody waits for it."""
        position, size, fired = self.pending.popleft()
        if fired.called:
            return
        if self.closed:
            fired.errback(BodyGoneError())
        else:
            fired.callback(self.data[position : position + size])

    def fail(self, error: Exception) -> None:
        """Let the oldest read fail."""
        self.pending.popleft()[2].errback(error)

    def _count(self, _: Deferred[bytes]) -> None:
        self.cancelled += 1


@dataclass(slots=True)
class Uploader:
    """A client whose body is spooled, its disk and its budgets."""

    directory: str
    disk: SteppedDisk = field(default_factory=SteppedDisk)
    clock: Clock = field(default_factory=Clock)
    memory: BodyBudget = field(default_factory=lambda: BodyBudget(1 << 30))
    room: BodyBudget = field(default_factory=lambda: BodyBudget(1 << 30, place="on disk"))
    paused: bool = False
    pauses: int = 0
    errors: list[GatewayError] = field(default_factory=list)
    on_resume: Callable[[], None] | None = None
    hashes: bool = False
    spool: Spool = field(init=False)
    body: SpooledBody = field(init=False)

    def __post_init__(self) -> None:
        self.spool = Spool(self.directory, self.disk, self.room, self.clock, hashes=self.hashes)
        self.body = self.begin()

    def begin(self) -> SpooledBody:
        """Begin another body of the same client."""
        return self.spool.begin(
            pause=self.pause, resume=self.resume, failed=self.errors.append, memory=Reservation(self.memory)
        )

    def pause(self) -> None:
        """Note that nothing more is wanted."""
        assert not self.paused
        self.paused = True
        self.pauses += 1

    def resume(self) -> None:
        """Note that more is wanted, and send it where the test says so."""
        assert self.paused
        self.paused = False
        if self.on_resume is not None:
            self.on_resume()

    def send(self, *pieces: bytes) -> None:
        """Send pieces, whether paused or not."""
        for piece in pieces:
            self.body.write(piece)

    def finished(self) -> bytes | BodySource:
        """End the body, let the disk work, and return what became of it."""
        waiting = self.body.finish()
        self.disk.run()
        return result_of(waiting)

    def all_of(self, source: BodySource) -> bytes:
        """Read a body back from the disk."""
        waiting = source.read(0, source.size)
        self.disk.run()
        return result_of(waiting)

    @property
    def held(self) -> tuple[int, int]:
        """The room that is taken, in memory and on disk."""
        return self.memory.held, self.room.held


_PATTERN: Final = bytearray()
"""As much of the pattern as was asked for so far: numbering takes a hundred times as long as copying."""


def patterned(size: int) -> bytes:
    """Return bytes of which no two pieces are alike."""
    while len(_PATTERN) < size:
        first = len(_PATTERN) // 8
        _PATTERN.extend(b"".join(b"%07x\n" % number for number in range(first, max(2 * first, 1024))))
    return bytes(memoryview(_PATTERN)[:size])


def spooled(directory: Path) -> set[int]:
    """Return the descriptors of what is open in ``directory``, though it has no name any more."""
    found = set()
    for entry in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # the listing's own
            if os.readlink(entry).startswith(f"{directory}/"):
                found.add(int(entry.name))
    return found


LARGE = patterned(3 * PIECE_BYTES + 1000)


def is_source(body: bytes | BodySource) -> BodySource:
    """Insist on a body that is not in memory."""
    assert not isinstance(body, bytes)
    return body
