"""A port that systemd opens stays open through a restart of the gateway (sd_listen_fds(3))."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from tests.support.gateway import TWISTD
from tests.support.waiting import WAIT_SECONDS

CONFIG: Final = """
listen: "systemd:domain=INET:index=0"
providers: {main: {kind: openai, base_url: "http://127.0.0.1:9/v1", api_key: sk-canary}}
dashboard: {enabled: false}
"""
# As systemd does it: the socket is descriptor 3, and the variables name this very process.
ACTIVATE: Final = (
    "import os, sys; os.dup2(int(sys.argv[1]), 3); os.environ['LISTEN_PID'] = str(os.getpid()); "
    "os.execv(sys.executable, [sys.executable, *sys.argv[2:]])"
)
REQUEST: Final = b"GET /healthz HTTP/1.1\r\nHost: gw\r\nConnection: close\r\n\r\n"


@contextmanager
def activated_gateway(file: Path, listener: socket.socket) -> Iterator[None]:
    arguments = [TWISTD, "-n", "--pidfile=", "mgw", "-c", str(file)]
    process = subprocess.Popen(
        [sys.executable, "-c", ACTIVATE, str(listener.fileno()), *arguments],
        pass_fds=[listener.fileno()],
        env={**os.environ, "LISTEN_FDS": "1", "LISTEN_FDNAMES": "mgw.socket"},
        cwd=file.parent,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield
    finally:
        process.terminate()
        process.wait(WAIT_SECONDS)


def answer_on(client: socket.socket) -> bytes:
    found = b""
    while piece := client.recv(4096):
        found += piece
    return found


@pytest.mark.parametrize("workers", ["", "workers: 2\n"])
def test_a_client_that_comes_during_a_restart_waits_and_is_served(tmp_path: Path, workers: str) -> None:
    file = tmp_path / "mgw.yaml"
    file.write_text(CONFIG + workers, encoding="utf-8")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        for _ in range(2):  # each client is there before its gateway
            with socket.create_connection(listener.getsockname(), WAIT_SECONDS) as client:
                client.sendall(REQUEST)
                with activated_gateway(file, listener):
                    assert answer_on(client).startswith(b"HTTP/1.1 200 ")
                    client.close()  # or the gateway waits for that at its end
