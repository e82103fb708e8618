"""A process that is killed before any of its statements forgets neither requests nor what they hold."""

from __future__ import annotations

import os
import signal
import sqlite3
from pathlib import Path

import pytest
from twisted.internet.task import Clock

from mgw.clients.limits import Permit, Taken
from mgw.clients.local_counts import LocalCounts
from mgw.identity.limit_file import open_file
from mgw.identity.limit_store import GATHER_SECONDS, LimitStore
from tests.support.counting import answer_of, decision_of
from tests.support.counting_law import row_of
from tests.support.usage import AtOnce

NOW = 1_800_000_000.0
ROWS = (row_of("usd_per_month", 100, "gateway", is_reserved=True), row_of("requests_per_day", 100, "alice"))
ADMITTED, ENDED = b"a", b"e"
REQUESTS = 3


def clock_now() -> Clock:
    clock = Clock()
    clock.advance(NOW)
    return clock


def serve(path: str, statements: int, output: int) -> None:
    """Serve requests one after the other, and be killed before the statement of this number."""
    left = iter(range(statements))

    def kill(_: str) -> None:
        if next(left, None) is None:
            os.kill(os.getpid(), signal.SIGKILL)

    def connect(path: str) -> sqlite3.Connection:
        connection = open_file(path)
        connection.set_trace_callback(kill)
        return connection

    clock = clock_now()
    counts = LocalCounts(clock.seconds, LimitStore(path, AtOnce(), clock, connect))
    for _ in range(REQUESTS):
        permit = decision_of(counts.begin(ROWS, Taken(1, 0, 3)))
        assert isinstance(permit, Permit)
        os.write(output, ADMITTED)
        answer_of(counts.end(permit, Taken(1, 0, 1)))
        clock.advance(GATHER_SECONDS)
        os.write(output, ENDED)


def serve_in_another_process(path: str, statements: int) -> tuple[bytes, bool]:
    """Return what a process has said, and whether it was killed."""
    reader, writer = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            serve(path, statements, writer)
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as said:
        found = said.read()
    _, status = os.waitpid(pid, 0)
    return found, os.WIFSIGNALED(status)


@pytest.mark.parametrize("first", range(10))
def test_nothing_that_was_admitted_is_forgotten(tmp_path: Path, first: int) -> None:
    is_killed, statements = True, first
    while is_killed:
        path = str(tmp_path / f"{statements}" / "limits.db")
        said, is_killed = serve_in_another_process(path, statements)
        admitted, ended = said.count(ADMITTED), said.count(ENDED)
        clock = clock_now()
        counts = LocalCounts(clock.seconds, LimitStore(path, AtOnce(), clock))
        permit = decision_of(counts.begin(ROWS, Taken(1, 0, 0)))
        assert isinstance(permit, Permit)
        (money, held), (requests, own) = [(row.used, row.reserved) for row in answer_of(counts.state())]
        assert (held, own) == (0, 1)
        assert requests in ({admitted, admitted + 1} if is_killed else {REQUESTS})
        settled = {ended + 3 * (admitted - ended), admitted, admitted + 3 * (admitted == ended)}
        assert money in (settled if is_killed else {REQUESTS})
        statements += 10
    assert statements > 20, "many statements are run"
