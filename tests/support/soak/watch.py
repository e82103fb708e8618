"""What a long soak looks at: memory, files and CPU of the gateway, and the times of the probe.

The first minutes warm everything up; what is compared are the minutes behind them and the last ones.
"""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass, field
from statistics import quantiles
from threading import Thread
from typing import IO

from bench.machines import ROOT, cpu_seconds, resident_bytes
from bench.processes import environment
from tests.support.soak.probe import FAILED
from tests.support.waiting import WAIT_SECONDS


@dataclass(frozen=True, slots=True)
class Sample:
    """What was found at the end of one part of the run."""

    seconds: float
    """Since the run began."""
    memory: int
    files: int
    cpu_share: float
    """Of one core, since the last sample."""
    times: tuple[float, ...]
    """Of the probe's answers, in microseconds."""


@dataclass(frozen=True, slots=True)
class Summary:
    """The end of a run beside its beginning."""

    memory_early: int
    memory_late: int
    p99_early: float
    p99_late: float

    def text(self) -> str:
        """Return it in words."""
        early, late = self.memory_early / 2**20, self.memory_late / 2**20
        return (
            f"memory {early:.1f} MiB after the warm-up, {late:.1f} MiB at the end ({late / early:.2f} x); "
            f"p99 of the probe {self.p99_early / 1000:.1f} ms behind the warm-up, "
            f"{self.p99_late / 1000:.1f} ms at the end"
        )


def summary(samples: list[Sample], window_seconds: float) -> Summary | None:
    """Compare the part behind the warm-up with the last one; ``None`` where there are too few samples.

    :param window_seconds: the length of the warm-up, and of each of the parts.
    """
    if len(samples) < 2:
        return None
    end = samples[-1].seconds
    warm = min(window_seconds, end / 3)
    early = [one for one in samples if warm < one.seconds <= 2 * warm] or samples[:1]
    late = [one for one in samples if one.seconds > end - warm] or samples[-1:]
    first = next((one for one in samples if one.seconds >= warm), samples[0])
    return Summary(
        first.memory, samples[-1].memory, percentile(_times(early), 99), percentile(_times(late), 99)
    )


def percentile(times: list[float], percent: int) -> float:
    """Return a percentile; not a number where there are no times."""
    if not times:
        return float("nan")
    return times[0] if len(times) == 1 else quantiles(times, n=100, method="inclusive")[percent - 1]


def _times(samples: list[Sample]) -> list[float]:
    return [time for one in samples for time in one.times]


@dataclass(slots=True)
class Watch:
    """Watches one gateway process, and asks it by a probe."""

    pid: int
    port: int
    samples: list[Sample] = field(default_factory=list)
    answered: int = 0
    failed: int = 0
    _lines: list[str] = field(default_factory=list)
    _cpu: float = 0.0
    _probe: subprocess.Popen[str] | None = None
    _reader: Thread | None = None

    def start(self) -> None:
        """Begin to ask."""
        self._cpu = cpu_seconds(self.pid)
        self._probe = subprocess.Popen(
            [sys.executable, "-m", "tests.support.soak.probe", str(self.port)],
            cwd=ROOT,
            env=environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._probe.stdout is not None
        self._reader = Thread(target=self._read, args=(self._probe.stdout,), daemon=True)
        self._reader.start()

    def stop(self) -> None:
        """Ask no more, and count the last answers."""
        probe, reader = self._probe, self._reader
        if probe is None or reader is None or probe.stdin is None:
            return
        probe.stdin.close()
        probe.wait(WAIT_SECONDS + 10)
        reader.join(WAIT_SECONDS)
        self._take()

    def sample(self, seconds: float) -> Sample:
        """Look at the gateway now."""
        before = self.samples[-1].seconds if self.samples else 0.0
        used, self._cpu = self._cpu, cpu_seconds(self.pid)
        files = len(os.listdir(f"/proc/{self.pid}/fd"))
        share = (self._cpu - used) / max(seconds - before, 0.001)
        self.samples.append(Sample(seconds, resident_bytes(self.pid), files, share, self._take()))
        return self.samples[-1]

    def _take(self) -> tuple[float, ...]:
        lines, self._lines = self._lines, []
        times = tuple(float(line) for line in lines if line != FAILED)
        self.answered += len(times)
        self.failed += len(lines) - len(times)
        return times

    def _read(self, pipe: IO[str]) -> None:
        for line in pipe:
            self._lines.append(line.strip())
