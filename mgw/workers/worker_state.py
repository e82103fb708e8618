"""Current numbers: what each worker reports, and their totals.

A counter never goes down: what a worker had counted stays in the sum when it has ended, and so does what it
had counted before a reload, where its own count begins anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter, itemgetter
from os import listdir, sysconf
from pathlib import Path
from typing import Any, Final

from msgspec import convert
from twisted.internet.defer import Deferred

from mgw.dashboard.session_list import SessionRow
from mgw.ops import prometheus
from mgw.ops.combining import COMBINATIONS, Combination, Row
from mgw.ops.exposition import Labels
from mgw.ops.metrics import Metrics
from mgw.reactor.single_flight import gather
from mgw.workers.channel import ChannelError, RequestSender
from mgw.workers.messages import StateQuestion, WorkerState

ANSWER_SECONDS: Final = 1.0
"""How long a worker has to answer; one that has not keeps the numbers it gave before."""
STATES: Final = ("serving", "starting", "draining")
Json = dict[str, Any]  # Any: JSON
_Numbers = tuple[float, ...]
_Tables = dict[str, dict[Labels, _Numbers]]
_DROPPED: Final = "mgw_worker_records_dropped"
_PROC: Final = Path("/proc")


def collect_state(
    metrics: Metrics, facts: Mapping[str, int], requests: list[Json], sessions: list[Json], dropped: int = 0
) -> WorkerState:
    """Return the state of this worker.

    :param facts: how many requests and sessions are under way.
    :param requests: rows of those under way, as the dashboard shows them, likewise ``sessions``.
    :param dropped: the records that could not be sent (:attr:`mgw.workers.rows.RowWriter.dropped`).
    """
    tables = [
        (name, [(labels, tuple(map(float, numbers))) for labels, numbers in rows])
        for name, rows in metrics.own_rows()
    ]
    tables.append((_DROPPED, [((), (float(dropped),))]))
    return WorkerState(tables, dict(facts), requests, sessions)


def _none() -> Mapping[str, int]:
    return {}


def _zero() -> int:
    return 0


def _no_processes() -> Mapping[int, int]:
    return {}


@dataclass(slots=True)
class WorkersState:
    """What all workers have told, by the slot of each (:class:`~mgw.ops.combining.OtherProcesses`)."""

    count_by_state: Callable[[], Mapping[str, int]] = _none
    """How many workers are in each of :data:`STATES`."""
    restarts: Callable[[], int] = _zero
    """How many workers have replaced one that had ended unasked."""
    processes: Callable[[], Mapping[int, int]] = _no_processes
    """The process id of each slot's worker."""
    proc: Path = _PROC
    _channels: dict[int, RequestSender] = field(default_factory=dict, repr=False)
    _states: dict[int, WorkerState] = field(default_factory=dict, repr=False)
    _tables: dict[int, _Tables] = field(default_factory=dict, repr=False)
    _past: _Tables = field(default_factory=dict, repr=False)
    """What was counted before the last numbers of each worker began."""

    def refresh(self, channels: Mapping[int, RequestSender]) -> Deferred[None]:
        """Ask all workers at once; it fires when each has answered, or has had its time, and never fails.

        :param channels: of all workers that there are, by slot; others have ended.
        """
        for slot in [slot for slot, channel in self._channels.items() if channels.get(slot) is not channel]:
            self.ended(slot)
        self._channels.update(channels)
        return Deferred.fromCoroutine(self._ask_all(dict(channels)))

    def ended(self, slot: int) -> None:
        """A worker has ended; what it had counted stays."""
        self._channels.pop(slot, None)
        self._states.pop(slot, None)
        for name, rows in self._tables.pop(slot, {}).items():
            if COMBINATIONS.get(name) is Combination.TOTAL:
                for labels, numbers in rows.items():
                    self._keep(name, labels, numbers)

    def combine(self, name: str, own: Iterable[Row]) -> list[Row]:
        """Return the rows of a family with those of the workers."""
        combination = COMBINATIONS.get(name)
        found: dict[Labels, _Numbers] = {labels: tuple(numbers) for labels, numbers in own}
        if combination is None:
            return list(found.items())
        several = [tables.get(name, {}) for tables in self._tables.values()]
        if combination is Combination.TOTAL:
            several.append(self._past.get(name, {}))
        for rows in several:
            for labels, numbers in rows.items():
                before = found.get(labels)
                found[labels] = numbers if before is None else _combined(combination, before, numbers)
        return list(found.items())

    def families(self) -> Iterator[prometheus.Metric]:
        """Yield what there is to say of the workers themselves."""
        workers = prometheus.GaugeMetricFamily("mgw_workers", "Workers, by state.", labels=("state",))
        counts = self.count_by_state()
        for state in STATES:
            workers.add_metric((state,), counts.get(state, 0))
        yield workers
        yield prometheus.CounterMetricFamily(
            "mgw_worker_restarts", "Workers started to replace one that exited unexpectedly.", self.restarts()
        )
        yield prometheus.CounterMetricFamily(
            _DROPPED,
            "Request records that workers could not pass on, so no sink has them.",
            self.records_dropped,
        )
        yield from self._process_families()

    @property
    def records_dropped(self) -> int:
        """How many records of requests workers could not hand over, as far as they have told."""
        ((_, (dropped,)),) = self.combine(_DROPPED, [((), (0.0,))])
        return int(dropped)

    def fact(self, name: str) -> int:
        """Return the sum of a fact over all workers."""
        return sum(state.facts.get(name, 0) for state in self._states.values())

    def requests(self) -> tuple[int, list[Json]]:
        """Return how many requests are under way, and rows of them, of which the oldest comes first."""
        rows = [row for state in self._states.values() for row in state.requests]
        return self.fact("in_flight"), sorted(rows, key=itemgetter("time"))

    def sessions(self) -> list[SessionRow]:
        """Return the open sessions, of which the oldest comes first."""
        rows = [convert(row, SessionRow) for state in self._states.values() for row in state.sessions]
        return sorted(rows, key=attrgetter("time"))

    async def _ask_all(self, channels: Mapping[int, RequestSender]) -> None:
        await gather(self._ask(slot, channel) for slot, channel in channels.items())

    async def _ask(self, slot: int, channel: RequestSender) -> None:
        try:
            state = await channel.ask(StateQuestion(), ANSWER_SECONDS)
        except ChannelError:
            return
        if isinstance(state, WorkerState) and self._channels.get(slot) is channel:
            self.note(slot, state)

    def note(self, slot: int, state: WorkerState) -> None:
        """Take the numbers of a worker."""
        tables: _Tables = {name: dict(rows) for name, rows in state.tables}
        for name, rows in self._tables.get(slot, {}).items():
            if COMBINATIONS.get(name) is not Combination.TOTAL:
                continue
            now = tables.get(name, {})
            for labels, numbers in rows.items():
                if labels not in now or any(a < b for a, b in zip(now[labels], numbers, strict=True)):
                    self._keep(name, labels, numbers)  # a reload: the worker counts from zero again
        self._states[slot], self._tables[slot] = state, tables

    def _keep(self, name: str, labels: Labels, numbers: _Numbers) -> None:
        rows = self._past.setdefault(name, {})
        before = rows.get(labels)
        rows[labels] = numbers if before is None else _combined(Combination.TOTAL, before, numbers)

    def _process_families(self) -> Iterator[prometheus.Metric]:
        label = ("worker",)
        resident = prometheus.GaugeMetricFamily(
            "mgw_worker_resident_bytes", "Resident memory of a worker.", labels=label
        )
        cpu = prometheus.CounterMetricFamily("mgw_worker_cpu_seconds", "CPU time of a worker.", labels=label)
        fds = prometheus.GaugeMetricFamily(
            "mgw_worker_open_fds", "Open file descriptors of a worker.", labels=label
        )
        for slot, pid in sorted(self.processes().items()):
            try:
                held, seconds, files = _process_numbers(self.proc / str(pid))
            except (OSError, ValueError, IndexError):  # it has just ended
                continue
            labels = (str(slot),)
            resident.add_metric(labels, held)
            cpu.add_metric(labels, seconds)
            fds.add_metric(labels, files)
        yield from (resident, cpu, fds)


def _combined(combination: Combination, one: Sequence[float], other: Sequence[float]) -> _Numbers:
    if combination is Combination.MOST:
        return tuple(map(max, one, other))
    return tuple(a + b for a, b in zip(one, other, strict=True))


def _process_numbers(folder: Path) -> tuple[int, float, int]:
    """Return the resident bytes, the seconds of CPU time and the open descriptors of a process (proc(5)).

    :raises OSError: there is none.
    """
    pages = int((folder / "statm").read_bytes().split()[1])
    stat = (
        (folder / "stat").read_bytes().rpartition(b")")[2].split()
    )  # behind the name, which may be anything
    ticks = int(stat[11]) + int(stat[12])
    return pages * sysconf("SC_PAGE_SIZE"), ticks / sysconf("SC_CLK_TCK"), len(listdir(folder / "fd"))
