"""systemd is told when the gateway is ready, reloads and stops, and that it lives."""

from __future__ import annotations

import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.support.gateway import start_gateway
from tests.support.waiting import WAIT_SECONDS

CONFIG: Final = """
providers:
  main: {kind: openai, base_url: "http://127.0.0.1:9/v1", api_key: sk-canary}
drain_seconds: 7
"""


class Manager:
    """The end of the socket that systemd has."""

    def __init__(self, path: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(str(path))
        self._socket.settimeout(WAIT_SECONDS)

    def next(self) -> dict[str, str]:
        """Return the assignments of the next message."""
        lines = self._socket.recv(4096).decode().splitlines()
        return dict(line.split("=", 1) for line in lines)

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[Manager]:
    manager = Manager(tmp_path / "notify")
    yield manager
    manager.close()


def test_the_service_manager_follows_a_life(manager: Manager, tmp_path: Path) -> None:
    environ = {"NOTIFY_SOCKET": str(tmp_path / "notify")}
    with start_gateway(CONFIG, environ) as gateway:
        assert manager.next() == {"READY": "1", "STATUS": f"serves 127.0.0.1:{gateway.port}"}
        gateway.signal(signal.SIGHUP)
        assert list(manager.next()) == ["RELOADING", "MONOTONIC_USEC"]
        assert manager.next()["STATUS"] == f"generation 2; serves 127.0.0.1:{gateway.port}"
        gateway.rewrite("providers: {}")
        gateway.signal(signal.SIGHUP)
        assert list(manager.next()) == ["RELOADING", "MONOTONIC_USEC"]
        assert manager.next() == {"READY": "1", "STATUS": f"generation 2; serves 127.0.0.1:{gateway.port}"}
        gateway.signal(signal.SIGTERM)
        assert manager.next() == {"STOPPING": "1", "EXTEND_TIMEOUT_USEC": "52000000"}


def test_the_watchdog_is_fed_while_the_event_loop_turns(manager: Manager, tmp_path: Path) -> None:
    environ = {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "200000"}
    with start_gateway(CONFIG, environ):
        assert "READY" in manager.next()
        assert [manager.next() for _ in range(3)] == [{"WATCHDOG": "1"}] * 3
