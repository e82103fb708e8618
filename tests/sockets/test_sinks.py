"""All sinks together: each has every event, also when the gateway is stopped or killed at any moment."""

from __future__ import annotations

import json
import signal
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing
from pathlib import Path
from random import Random

import pytest

from tests.support.gateway import GatewayProcess, start_gateway
from tests.support.receivers import ENVIRON, Receiver, leave_events, start_receiver
from tests.support.waiting import WAIT_SECONDS, wait_until


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with start_receiver() as found:
        yield found


def gateway_for(receiver: Receiver, folder: Path) -> AbstractContextManager[GatewayProcess]:
    config = f"""
providers: {{main: {{kind: openai, base_url: "http://127.0.0.1:9/v1", api_key: sk-canary}}}}
hooks:
  jsonl: {{output: {folder}/usage.jsonl, rotate_bytes: 50000}}
  webhook: {receiver.settings(batch_max=50)}
  sqlite: {{path: {folder}/usage.db, retention_days: 1}}
spool: {{dir: {folder}/spool}}
"""
    return start_gateway(config, ENVIRON)


def in_table(folder: Path) -> list[str]:
    """The ids in the table, as another process reads them."""
    if not (folder / "usage.db").exists():
        return []
    with closing(sqlite3.connect(f"file:{folder}/usage.db?mode=ro", uri=True, timeout=30)) as connection:
        try:
            return [row[0] for row in connection.execute("SELECT request_id FROM usage_events")]
        except sqlite3.OperationalError:  # no table yet
            return []


def in_lines(folder: Path) -> list[str]:
    """The ids in the files of lines, all of which are whole."""
    files = [*sorted(folder.glob("usage.jsonl.*")), folder / "usage.jsonl"]
    return [json.loads(line)["request_id"] for file in files for line in file.read_bytes().splitlines()]


def send_until(gateway: GatewayProcess, ids: set[str], goal: int) -> list[threading.Thread]:
    """Have two clients leave events until so many are answered; they go on after that."""
    clients = [threading.Thread(target=leave_events, args=(gateway.port, 600, ids)) for _ in range(2)]
    for client in clients:
        client.start()
    wait_until(lambda: len(ids) >= goal, "some answers")
    return clients


def test_each_sink_has_every_event_once(receiver: Receiver, tmp_path: Path) -> None:
    ids: set[str] = set()
    with gateway_for(receiver, tmp_path) as gateway:
        leave_events(gateway.port, 1000, ids)
        receiver.wait_for(ids, WAIT_SECONDS)
        wait_until(lambda: set(in_table(tmp_path)) == ids, "the rows, while the gateway runs")
        assert gateway.metric("mgw_usage_events_dropped_total") == 0
        assert gateway.metric('mgw_usage_events_total{sink="sqlite"}') == 1000
    assert sorted(in_lines(tmp_path)) == sorted(receiver.ids) == sorted(in_table(tmp_path)) == sorted(ids)
    assert list(tmp_path.glob("usage.jsonl.*"))


def test_a_locked_table_delays_no_request_and_gets_every_event_later(
    receiver: Receiver, tmp_path: Path
) -> None:
    ids: set[str] = set()
    with gateway_for(receiver, tmp_path) as gateway:
        leave_events(gateway.port, 100, ids)
        wait_until(lambda: set(in_table(tmp_path)) == ids, "the rows")
        with closing(sqlite3.connect(tmp_path / "usage.db", isolation_level=None, timeout=30)) as locking:
            locking.execute("BEGIN IMMEDIATE")
            leave_events(gateway.port, 500, ids)
            gateway.log(b"usage events to hooks.sqlite: database is locked")
            locking.execute("ROLLBACK")
        wait_until(lambda: set(in_table(tmp_path)) == ids, "the rows that had to wait")
        assert gateway.metric('mgw_usage_events_dropped_total{sink="sqlite"}') == 0


@pytest.mark.parametrize("seed", range(2))
def test_sigterm_at_any_moment_loses_nothing_in_any_sink(
    receiver: Receiver, tmp_path: Path, seed: int
) -> None:
    random = Random(seed)
    receiver.answer = lambda _: random.choice([200, 200, 503])
    ids: set[str] = set()
    with gateway_for(receiver, tmp_path) as gateway:
        clients = send_until(gateway, ids, random.randrange(50, 1000))
        gateway.signal(signal.SIGTERM)
        for client in clients:
            client.join(WAIT_SECONDS)
        assert gateway.stop() == 0
    assert ids <= set(in_lines(tmp_path))
    receiver.answer = lambda _: 200
    with gateway_for(receiver, tmp_path):
        receiver.wait_for(ids, WAIT_SECONDS)
        wait_until(lambda: ids <= set(in_table(tmp_path)), "rows that a slow machine had to store")


@pytest.mark.parametrize("seed", range(2))
def test_sigkill_at_any_moment_takes_at_most_the_last_interval_from_any_sink(
    receiver: Receiver, tmp_path: Path, seed: int
) -> None:
    random = Random(seed)
    safe: set[str] = set()
    with gateway_for(receiver, tmp_path) as gateway:
        leave_events(gateway.port, random.randrange(50, 1000), safe)
        wait_until(lambda: safe <= set(in_table(tmp_path)), "the interval to pass")
        receiver.wait_for(safe, WAIT_SECONDS)
        late: set[str] = set()
        clients = send_until(gateway, late, random.randrange(50, 1000))
        gateway.process.kill()
        for client in clients:
            client.join(WAIT_SECONDS)
    assert safe <= set(in_table(tmp_path))
    more: set[str] = set()
    with gateway_for(receiver, tmp_path) as gateway:
        leave_events(gateway.port, 50, more)
        receiver.wait_for(safe | more, WAIT_SECONDS)
        wait_until(lambda: safe | more <= set(in_table(tmp_path)), "the rows")
    with closing(sqlite3.connect(tmp_path / "usage.db")) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    lines = b"".join(file.read_bytes() for file in tmp_path.glob("usage.jsonl*")).splitlines()
    whole = {json.loads(line)["request_id"] for line in lines if line.endswith(b"}")}
    assert safe | more <= whole


def test_mgw_usage_reads_the_table_of_a_running_gateway(
    receiver: Receiver, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from mgw.cli.main import main

    ids: set[str] = set()
    with gateway_for(receiver, tmp_path) as gateway:
        leave_events(gateway.port, 100, ids)
        wait_until(lambda: set(in_table(tmp_path)) == ids, "the rows")
        assert main(["usage", "-c", str(gateway.config_file), "--by", "status", "--format", "json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["status"], row["requests"], row["rejected"], row["failed"]) == ("rejected", 100, 100, 0)
