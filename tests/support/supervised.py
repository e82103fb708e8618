"""A gateway with several workers, as tests over sockets see it: its processes, and each worker by itself.

All workers accept from one socket, and whoever comes first gets the connection.  A test that wants a certain
worker has the others stand still (SIGSTOP) until that one has answered on the connection.
"""

from __future__ import annotations

import os
import re
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.support.gateway import GatewayProcess
from tests.support.raw_client import RawClient, RawResponse, chat, request
from tests.support.raw_upstream import COMPLETION, JSON, RawUpstream, Turn, counted
from tests.support.waiting import WAIT_SECONDS, wait_until

HEALTH: Final = request(None, path="/healthz", method="GET")
_SERVES: Final = re.compile(rb"worker (\d+) \(pid (\d+)\) is ready")


@dataclass(frozen=True)
class Workers:
    """The workers of a gateway."""

    gateway: GatewayProcess

    @property
    def pids(self) -> dict[int, int]:
        """The process of each slot that serves, as the log says."""
        found = _SERVES.findall(self.gateway.stderr.data)
        return {slot: pid for slot, pid in sorted((int(slot), int(pid)) for slot, pid in found) if alive(pid)}

    def processes(self) -> list[int]:
        """All processes of the gateway: its own, the fork server, the workers."""
        return [self.gateway.process.pid, *_descendants(self.gateway.process.pid)]

    def kill(self, slot: int) -> int:
        """Kill the worker of a slot; return its process id."""
        pid = self.pids[slot]
        os.kill(pid, signal.SIGKILL)
        return pid

    def wait_for_replacement(self, slot: int, killed: int) -> None:
        """Wait until another worker serves in a slot."""
        wait_until(lambda: self.pids.get(slot, killed) != killed, f"another worker {slot}")

    @contextmanager
    def only(self, slot: int) -> Iterator[None]:
        """Have all workers but one stand still within the block."""
        others = [pid for number, pid in self.pids.items() if number != slot]
        try:
            for pid in others:
                os.kill(pid, signal.SIGSTOP)
            for pid in others:
                wait_until(lambda pid=pid: _state(pid) == "T", "a worker to stand still")  # type: ignore[misc]  # bound now
            yield
        finally:
            for pid in others:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)

    def connect(self, slot: int) -> RawClient:
        """Connect to the worker of a slot."""
        with self.only(slot):
            client = RawClient(self.gateway.port)
            client.send(HEALTH)
            assert client.read_response("GET").status == 200
        return client


@dataclass
class Load:
    """Requests of several clients, one after another, each on a connection of its own."""

    port: int
    headers: tuple[bytes, ...] = ()
    model: str = "gpt-1"
    clients: int = 4
    answered: list[str] = field(default_factory=list)
    """The ids of the requests that were answered."""
    failed: list[str] = field(default_factory=list)
    """What came of the others."""
    _is_over: threading.Event = field(default_factory=threading.Event)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Send them within the block; behind it, each that was sent has come to its end."""
        with ThreadPoolExecutor(self.clients) as threads:
            running = [threads.submit(self._run) for _ in range(self.clients)]
            try:
                yield
            finally:
                self._is_over.set()
            for one in running:
                one.result(WAIT_SECONDS)

    def wait_for_more(self, count: int) -> None:
        """Wait until so many more are answered."""
        wanted = len(self.answered) + count
        wait_until(lambda: len(self.answered) >= wanted, "requests to be answered")

    def _run(self) -> None:
        while not self._is_over.is_set():
            with RawClient(self.port) as client:
                client.send(chat(self.model, *self.headers))
                if not client.incoming.more():
                    self.failed.append("no answer")
                    continue
                response = client.read_response()
                if response.whole and response.status == 200:
                    self.answered.append(request_id(response))
                else:
                    self.failed.append(f"{response.status}, whole: {response.whole}")


def request_id(response: RawResponse) -> str:
    """Return the id of the request that was answered."""
    found = response.value(b"x-gateway-request-id")
    assert found is not None
    return found.decode()


@contextmanager
def holding(upstream: RawUpstream) -> Iterator[threading.Event]:
    """Have the provider answer no request for the model ``held`` until the event is set."""
    go_on = threading.Event()

    def answer(turn: Turn) -> None:
        if turn.model() == "held":
            assert go_on.wait(WAIT_SECONDS)
        turn.send(counted(COMPLETION, JSON))

    upstream.begin(answer)
    try:
        yield go_on
    finally:
        go_on.set()


def held_turns(upstream: RawUpstream) -> int:
    """Return how many requests for that model have come."""
    return sum(turn.model() == "held" for turn in list(upstream.turns))


def alive(pid: int) -> bool:
    """Whether a process runs."""
    return _state(pid) not in {"", "Z"}


def _state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return ""


def _descendants(pid: int) -> list[int]:
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except (FileNotFoundError, ProcessLookupError):
        return []
    return [found for child in map(int, children) for found in (child, *_descendants(child))]
