"""A gateway that could not keep usage events when it stopped says how many, and its exit status is not 0."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Final

import pytest

from tests.support.gateway import GatewayProcess, start_gateway
from tests.support.raw_client import RawClient, chat
from tests.support.receivers import ENVIRON, start_receiver
from tests.support.waiting import WAIT_SECONDS

PROVIDER: Final = "providers: {main: {kind: openai, base_url: 'http://127.0.0.1:9/v1', api_key: sk-canary}}\n"
WORKERS: Final = pytest.mark.parametrize("workers", ["", "workers: 2\n"], ids=["one process", "workers"])


def last_line(gateway: GatewayProcess) -> bytes:
    """Return the last line that says something of a sink."""
    found = [line for line in gateway.stderr.data.splitlines() if b"hooks." in line]
    return found[-1] if found else b""


def leave(gateway: GatewayProcess, count: int) -> None:
    """Leave so many events behind: requests that are refused before anything is sent."""
    for _ in range(count):
        with RawClient(gateway.port) as client:
            client.send(chat("nobody/has-this"))
            assert client.read_response().status in (400, 404)


@WORKERS
def test_events_on_a_full_disk_are_said_with_their_number_at_the_end(workers: str) -> None:
    with start_gateway(f"{PROVIDER}{workers}hooks: {{jsonl: {{output: /dev/full}}}}\n") as gateway:
        leave(gateway, 3)
        gateway.process.send_signal(signal.SIGTERM)
        status = gateway.process.wait(WAIT_SECONDS)
        gateway.stderr.whole(WAIT_SECONDS)
        assert b"hooks.jsonl: 3 usage events could not be stored and were lost" in last_line(gateway)
        assert status == 1


@WORKERS
def test_events_without_room_in_the_spool_are_said_with_their_number_at_the_end(
    tmp_path: Path, workers: str
) -> None:
    with start_receiver() as receiver:
        receiver.stop()
        hooks = f"hooks: {{webhook: {receiver.settings()}}}\nspool: {{dir: {tmp_path}, max_bytes: 100}}\n"
        with start_gateway(f"{PROVIDER}{workers}{hooks}", ENVIRON) as gateway:
            leave(gateway, 4)
            gateway.process.send_signal(signal.SIGTERM)
            status = gateway.process.wait(WAIT_SECONDS)
            gateway.stderr.whole(WAIT_SECONDS)
            assert b"hooks.webhook: 4 usage events could not be stored and were lost" in last_line(gateway)
            assert status == 1


@WORKERS
def test_events_that_wait_in_files_are_not_lost(tmp_path: Path, workers: str) -> None:
    with start_receiver() as receiver:
        receiver.stop()
        hooks = f"hooks: {{webhook: {receiver.settings()}}}\nspool: {{dir: {tmp_path}}}\n"
        with start_gateway(f"{PROVIDER}{workers}{hooks}", ENVIRON) as gateway:
            leave(gateway, 4)
            assert gateway.stop() == 0
            assert b"could not be stored" not in gateway.stderr.data
