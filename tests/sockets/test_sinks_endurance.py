"""Usage events survive a receiver that dies, a locked database, and a gateway that is stopped and killed.

``MGW_SINK_ROUNDS=100`` makes the run a long one: each round leaves about a thousand events.
"""

from __future__ import annotations

import json
import os
import signal
import sqlite3
from contextlib import closing
from pathlib import Path
from random import Random
from time import monotonic
from typing import Final

import pytest

from tests.sockets.test_sinks import gateway_for, in_table, send_until
from tests.support.gateway import GatewayProcess
from tests.support.receivers import Receiver, leave_events, start_receiver
from tests.support.waiting import WAIT_SECONDS, wait_until

ROUNDS: Final = int(os.environ.get("MGW_SINK_ROUNDS", "6"))
KILL_TAKES_SECONDS: Final = 2.0
"""What was answered so long before a kill may be lost: the longest interval of a sink, and some more."""


class Answered(set[str]):
    """The ids of answered requests, and when each was answered."""

    def __init__(self) -> None:
        super().__init__()
        self.moments: dict[str, float] = {}

    def add(self, request_id: str) -> None:
        """Note one."""
        self.moments[request_id] = monotonic()
        super().add(request_id)


@pytest.mark.slow
@pytest.mark.timeout(60 * ROUNDS)
def test_each_sink_has_every_event_that_no_kill_can_have_taken(tmp_path: Path) -> None:
    random, safe = Random(1), set[str]()
    with start_receiver() as receiver:
        receiver.answer = lambda _: random.choices([200, 503, 302], [40, 2, 1])[0]
        for number in range(ROUNDS):
            safe |= endure(receiver, tmp_path, random, is_killed=number % 3 == 1)
        receiver.answer = lambda _: 200
        with gateway_for(receiver, tmp_path):
            receiver.wait_for(safe, WAIT_SECONDS)
            wait_until(lambda: safe <= set(in_table(tmp_path)), "the rows")
    assert safe <= whole_lines(tmp_path)
    with closing(sqlite3.connect(tmp_path / "usage.db")) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def endure(receiver: Receiver, folder: Path, random: Random, *, is_killed: bool) -> set[str]:
    """Run a gateway from its start to its end; return the events that must not be lost."""
    answered = Answered()
    with gateway_for(receiver, folder) as gateway:
        leave_events(gateway.port, 200, answered)
        clients = send_until(gateway, answered, 250)
        disturb(receiver, folder, random, answered)
        goal = len(answered) + random.randrange(20, 500)
        wait_until(
            lambda: len(answered) >= goal or not any(client.is_alive() for client in clients), "answers"
        )
        moment = end(gateway, is_killed=is_killed)
        for client in clients:
            client.join(WAIT_SECONDS)
    if is_killed:
        return {one for one, when in answered.moments.items() if when < moment - KILL_TAKES_SECONDS}
    return set(answered)


def disturb(receiver: Receiver, folder: Path, random: Random, answered: set[str]) -> None:
    """Have the receiver die and come back, or lock the database while some more are answered."""
    if random.random() < 0.6 or not (folder / "usage.db").exists():
        receiver.stop()
        receiver.start()
        return
    with closing(sqlite3.connect(folder / "usage.db", isolation_level=None, timeout=30)) as locking:
        locking.execute("BEGIN IMMEDIATE")
        goal = len(answered) + 100
        wait_until(lambda: len(answered) >= goal, "answers while the database is locked")
        locking.execute("ROLLBACK")


def end(gateway: GatewayProcess, *, is_killed: bool) -> float:
    """Kill a gateway, or have it stop; return when."""
    moment = monotonic()
    gateway.signal(signal.SIGKILL if is_killed else signal.SIGTERM)
    gateway.process.wait(WAIT_SECONDS)
    return moment


def whole_lines(folder: Path) -> set[str]:
    """Return the ids in the files of lines, but for lines that a kill has torn."""
    lines = b"".join(file.read_bytes() for file in folder.glob("usage.jsonl*")).splitlines()
    return {json.loads(line)["request_id"] for line in lines if line.startswith(b"{") and line.endswith(b"}")}
