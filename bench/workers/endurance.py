"""What becomes of requests while workers are killed, and while the configuration is reloaded."""

from __future__ import annotations

import os
import select
import signal
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from bench.workers.gateways import Gateway, Gateways, clients_of, request
from bench.workers.paced import Outcome, PacedClient
from bench.workers.report import Section

RATE: Final = 200
CONNECTIONS: Final = 64
USES: Final = 50
"""Requests of a connection: new ones are opened all the time."""
STREAM: Final = "bench-stream-10-20"
"""Takes 0.2 seconds, so that some are always under way."""
KILL_WORKERS: Final = 4
KILL_SECONDS: Final = 15.0
LOST_SECONDS: Final = 0.25
"""What was answered so long before a kill may have no event: it waits in the worker for 20 ms at most, and
on a busy machine until the worker has its turn.  What was on its way to the client comes after the kill."""
RELOADS: Final = 20
RELOAD_SECONDS: Final = 0.3
"""Between two of them, once the first is done."""
_RELOADED: Final = "the configuration was reloaded"


@dataclass(frozen=True, slots=True)
class _Kill:
    moment: float
    clients: set[int]
    """Ports of the clients that the worker had."""
    busy: set[int]
    """Of those whose requests were under way, in any worker."""


@dataclass(slots=True)
class _Killer:
    """Kills a worker every second."""

    gateway: Gateway
    client: PacedClient
    until: float
    kills: list[_Kill] = field(default_factory=list)
    _next: float = field(default_factory=lambda: time.monotonic() + 1.0)

    def between(self) -> bool:
        """Kill one if it is time; return whether the last is."""
        now = time.monotonic()
        if now >= self._next and now < self.until:
            self._next += 1.0
            self._kill()
        return now >= self.until

    def _kill(self) -> None:
        workers = self.gateway.workers_by_pid()
        held = {pid: clients_of(pid, self.gateway.server.port) for pid in workers}
        if not any(held.values()):
            return
        pid = max(held, key=lambda pid: len(held[pid] & self.client.busy_ports) * 1000 + len(held[pid]))
        os.kill(pid, signal.SIGSTOP)  # so that it has no other clients when it dies than are counted here
        clients = clients_of(pid, self.gateway.server.port)
        end = os.pidfd_open(pid)
        self.kills.append(_Kill(time.monotonic(), clients, self.client.busy_ports))
        os.kill(pid, signal.SIGKILL)
        select.select([end], [], [], 5)
        os.close(end)
        while self.client.read(0):  # before anything more is sent over what is closed now
            pass


def kill_workers(gateways: Gateways) -> Section:
    """Kill a worker every second under load, and look at each request that failed."""
    gateway = gateways.start("kills", KILL_WORKERS)
    with PacedClient(gateway.address, [request(), request(STREAM, stream=True)], CONNECTIONS, USES) as client:
        killer = _Killer(gateway, client, time.monotonic() + KILL_SECONDS)
        outcome = client.run(RATE, KILL_SECONDS, killer.between)
    restarts = gateway.log().count(") is ready") - KILL_WORKERS
    gateways.stop(gateway)
    section = Section(
        f"a worker of {KILL_WORKERS} is killed every second, {RATE} requests/s, half of them streams",
        ("", "found"),
    )
    section.rows += [
        ("workers killed", f"{len(killer.kills)}"),
        ("workers that took their place", f"{restarts}"),
        ("requests", f"{outcome.sent:,}"),
        ("answered", f"{len(outcome.answered):,}"),
        ("cut off", f"{len(outcome.failures)}"),
        ("p50, p99, worst latency, ms", _latency(outcome)),
    ]
    _judge_failures(section, outcome, killer.kills)
    _judge_events(section, gateway, outcome, killer.kills)
    return section


def _judge_failures(section: Section, outcome: Outcome, kills: list[_Kill]) -> None:
    expected = sum(len(kill.clients & kill.busy) for kill in kills)
    explained = [
        failure
        for failure in outcome.failures
        if any(failure.port in kill.clients and failure.sent <= kill.moment <= failure.seen for kill in kills)
    ]
    kinds = Counter(failure.what for failure in outcome.failures)
    section.notes.append(
        f"{expected} requests were under way in workers as they were killed; how clients learned of it: "
        + (", ".join(f"{kind} {count}" for kind, count in kinds.items()) or "no request was")
    )
    others = len(outcome.failures) - len(explained)
    section.promise(
        f"only requests under way in a killed worker fail: {others} others did",
        is_kept=not others and bool(kills),
    )
    whole = outcome.sent == len(outcome.answered) + len(outcome.failures)
    section.promise("each request is either answered or cut off, once", is_kept=whole)


def _judge_events(section: Section, gateway: Gateway, outcome: Outcome, kills: list[_Kill]) -> None:
    events = gateway.events()
    missing = [outcome.answered[one] for one in outcome.answered.keys() - set(events)]
    taken = [
        kill.moment - moment
        for moment, port in missing
        for kill in kills
        if port in kill.clients and kill.moment - moment < LOST_SECONDS
    ]
    section.rows.append(("answered, without a usage event", f"{len(missing)}"))
    if taken:
        section.notes.append(f"the oldest of these was read {max(0, *taken) * 1e3:.0f} ms before the kill")
    others = len(missing) - len(taken)
    section.promise(
        f"events are missing only of what a killed worker answered at last: {others} others",
        is_kept=not others,
    )
    twice = len(events) - len(set(events))
    section.promise(f"no event is written twice: {twice} are", is_kept=not twice)


@dataclass(slots=True)
class _Reloader:
    """Reloads again and again."""

    gateway: Gateway
    asked: int = 0
    done: int = 0
    seconds: list[float] = field(default_factory=list)
    """How long each took."""
    _moment: float = field(default_factory=time.monotonic)
    _look: float = 0.0

    def between(self) -> bool:
        """Send the signal, or look whether it was obeyed; return whether all were."""
        now = time.monotonic()
        if self.done == RELOADS or now < self._look:
            return self.done == RELOADS
        self._look = now + 0.02
        if self.asked == self.done:
            if now >= self._moment + RELOAD_SECONDS:
                self.asked += 1
                self._moment = now
                self.gateway.reload()
        elif self.gateway.log().count(_RELOADED) > self.done:
            self.done += 1
            self.seconds.append(now - self._moment)
            self._moment = now
        return False


def reload_often(gateways: Gateways) -> Section:
    """Reload the configuration under load."""
    gateway = gateways.start("reloads", 2)
    with PacedClient(gateway.address, [request(), request(STREAM, stream=True)], CONNECTIONS, USES) as client:
        reloader = _Reloader(gateway)
        outcome = client.run(RATE, 1.0, reloader.between)
    gateways.stop(gateway)
    section = Section(
        f"{RELOADS} reloads of 2 workers, {RATE} requests/s, half of them streams", ("", "found")
    )
    section.rows += [
        ("reloads", f"{reloader.done}"),
        ("longest reload, ms", f"{max(reloader.seconds) * 1e3:.0f}"),
        ("requests", f"{outcome.sent:,}"),
        ("answered", f"{len(outcome.answered):,}"),
        ("p50, p99, worst latency, ms", _latency(outcome)),
    ]
    failed = outcome.sent - len(outcome.answered)
    section.promise(f"no request fails: {failed} did", is_kept=not failed)
    missing = len(outcome.answered.keys() - set(gateway.events()))
    section.promise(f"each answer has its usage event: {missing} have none", is_kept=not missing)
    return section


def _latency(outcome: Outcome) -> str:
    most = max(outcome.seconds)
    numbers = (outcome.percentile(50), outcome.percentile(99), most)
    return ", ".join(f"{one * 1e3:.1f}" for one in numbers)
