"""A gateway goes on as one without Redis where what runs at its address is none that can be understood."""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import pytest
from hiredis import Reader

from mgw.redis.scripts import BEGIN
from tests.support.fake_redis import Command, commands_in, usual
from tests.support.gateway import start_gateway
from tests.support.raw_client import RawClient, chat
from tests.support.raw_upstream import start_upstream
from tests.support.waiting import WAIT_SECONDS

KEY: Final = b"edge-canary-limited"


@contextmanager
def redis_that_decides(decision: bytes) -> Iterator[int]:
    """Run a Redis that answers all but what begins; gives its port."""

    def answer(command: Command) -> bytes:
        return decision if command[1:2] == [BEGIN.digest.encode()] else usual(command)

    def serve(connection: socket.socket) -> None:
        reader = Reader()
        with connection, suppress(OSError):
            while data := connection.recv(65536):
                for command in commands_in(reader, data):
                    connection.sendall(answer(command))

    def accept() -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=serve, args=listening.accept()[:1], daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=accept, daemon=True).start()
        yield listening.getsockname()[1]
        listening.shutdown(socket.SHUT_RDWR)


def most_memory(pid: int) -> int:
    """Return how many KiB a process has had in memory at most."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found is not None
    return int(found[1])


@pytest.mark.parametrize(
    "decision",
    [b"*1000000000\r\n", b"$900000000\r\n" + b"x" * 8_000_000, b"_\r\n", b"*3\r\n:0\r\n$3\r\nfoo\r\n:10\r\n"],
    ids=["a billion elements", "a text without end", "nothing", "a limit that nobody has"],
)
def test_an_unreadable_decision_refuses_nobody(decision: bytes) -> None:
    with start_upstream() as upstream, redis_that_decides(decision) as port:
        upstream.begin()
        config = f"""
providers:
  main: {{kind: openai, base_url: "{upstream.url}/v1", api_key: sk-canary}}
defaults: {{openai_dialect: main}}
edge_auth:
  enabled: true
  keys: [{{name: alice, key: {KEY.decode()}, max_in_flight: 9, requests_per_minute: 900}}]
fleet: {{redis: {{url: "redis://127.0.0.1:{port}"}}}}
"""
        with start_gateway(config) as gateway:
            gateway.log(b"limits are shared through Redis by 3 hosts")
            before = most_memory(gateway.process.pid)
            for _ in range(10):
                with RawClient(gateway.port) as client:
                    client.send(chat("gpt-1", b"Authorization: Bearer " + KEY))
                    assert client.read_response().status == 200
            log = gateway.log(b"Redis is unavailable (its reply cannot be read)", WAIT_SECONDS)
            assert b"Traceback" not in log
            assert log.count(b"Redis is unavailable") == 1
            assert most_memory(gateway.process.pid) - before < 100 * 1024
