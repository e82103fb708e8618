"""What a burst of large requests has left goes back to the system, and nothing is asked for twice."""

from __future__ import annotations

import ctypes
import platform
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from twisted.internet.task import Clock

from mgw.ops import heap
from mgw.ops.heap import GROWN_BYTES, INTERVAL, LARGE_BYTES, HeapTrimmer, trim_heap, tune_heap
from mgw.reactor.twisted_fast.tcp_transport import LARGE_READ

IS_GLIBC = platform.libc_ver()[0] == "glibc"
HOLES = """
from mgw.ops.heap import resident_bytes, trim_heap
blocks = [bytearray(b"x" * 100_000) for _ in range(400)]
del blocks[::2], blocks[1::50]
held = resident_bytes()
trim_heap()
print(held, resident_bytes())
"""
"""For a process of its own: the heap of another one has holes already, in which blocks may find room."""


@dataclass
class Process:
    """A process whose memory is what the test says."""

    used: int = 0
    left: int = 0
    """What is free, and has not gone back."""
    busy: bool = False
    trims: int = 0
    clock: Clock = field(default_factory=Clock)

    def trim(self) -> None:
        self.trims += 1
        self.left = 0

    def trimmer(self) -> HeapTrimmer:
        made = HeapTrimmer(self.clock, lambda: self.busy, lambda: self.used + self.left, self.trim)
        made.start()
        return made


@pytest.fixture
def without_glibc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    heap._function.cache_clear()
    monkeypatch.setattr(ctypes, "PyDLL", lambda _: object())
    yield
    heap._function.cache_clear()


def test_glibc_takes_the_settings() -> None:
    assert tune_heap() is IS_GLIBC


@pytest.mark.usefixtures("without_glibc")
def test_another_library_is_left_alone() -> None:
    assert tune_heap() is False
    trim_heap()


@pytest.mark.skipif(not IS_GLIBC, reason="glibc's")
def test_holes_between_what_is_in_use_go_back() -> None:
    found = subprocess.run([sys.executable, "-c", HOLES], capture_output=True, text=True, check=True)
    held, left = map(int, found.stdout.split())
    assert left < held - 10_000_000


def test_what_a_burst_has_left_goes_back_once_it_is_over() -> None:
    process = Process(used=100)
    process.trimmer()
    process.busy, process.left = True, 3 * GROWN_BYTES
    process.clock.advance(INTERVAL)
    assert process.trims == 0
    process.busy = False
    process.clock.advance(INTERVAL - 1)
    assert process.trims == 0
    process.clock.advance(1)
    assert (process.trims, process.left) == (1, 0)
    process.left = GROWN_BYTES + 1
    process.clock.advance(INTERVAL)
    assert process.trims == 2


def test_a_little_is_kept() -> None:
    process = Process(used=100)
    process.trimmer()
    process.left = GROWN_BYTES
    process.clock.pump([INTERVAL] * 10)
    assert process.trims == 0


def test_what_is_in_use_is_trimmed_once_and_not_again_before_it_has_grown_as_much() -> None:
    process = Process()
    process.trimmer()
    for grown in (1, 2, 3):
        process.used = grown * (GROWN_BYTES + 1)
        process.clock.pump([INTERVAL] * 10)
        assert process.trims == grown


def test_after_a_quiet_time_the_least_is_what_counts() -> None:
    process = Process(used=2 * GROWN_BYTES)
    process.trimmer()
    process.used = 0
    process.clock.advance(INTERVAL)
    process.left = GROWN_BYTES + 1
    process.clock.advance(INTERVAL)
    assert process.trims == 1


def test_it_stops() -> None:
    process = Process()
    trimmer = process.trimmer()
    trimmer.stop()
    trimmer.stop()
    assert process.clock.getDelayedCalls() == []


def test_what_is_read_at_once_is_not_too_large_for_the_heap() -> None:
    assert sys.getsizeof(bytes(LARGE_READ)) < LARGE_BYTES
