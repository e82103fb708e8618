"""A real Redis for tests: on a UNIX socket, with a password, and nothing on disk."""

from __future__ import annotations

import shutil
import socket
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from signal import SIGCONT, SIGSTOP
from types import TracebackType
from typing import Final

import pytest

from mgw.config.load import parse
from mgw.config.settings import Config
from tests.support.waiting import wait_until

PROGRAM: Final = shutil.which("redis-server")
PASSWORD: Final = "canary-of-redis"
needs_redis = pytest.mark.skipif(
    PROGRAM is None, reason="redis-server is not installed (apt install redis-server)"
)


class RedisServer:
    """A Redis that can be killed and started again, empty."""

    def __init__(self, more: Mapping[str, str] | None = None) -> None:
        self._more = more or {}
        self._folder = Path(tempfile.mkdtemp(prefix="redis-"))  # short, as the paths of sockets have to be
        self.path = self._folder / "s"
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> RedisServer:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
        shutil.rmtree(self._folder)

    def start(self) -> None:
        """Start it, and wait until it takes connections."""
        assert PROGRAM is not None, "tests with a Redis are skipped without it"
        settings = {
            "port": "0",
            "unixsocket": str(self.path),
            "requirepass": PASSWORD,
            "dir": str(self._folder),
            **self._more,
        }
        words = [word for name, value in settings.items() for word in (f"--{name}", value)]
        self._process = subprocess.Popen([PROGRAM, *words, "--save", ""], stdout=subprocess.DEVNULL)
        wait_until(self._takes_connections, "Redis takes connections")

    def kill(self) -> None:
        """End it at once."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def hang(self) -> None:
        """Let it answer nothing for a while."""
        assert self._process is not None
        self._process.send_signal(SIGSTOP)

    def go_on(self) -> None:
        """Let it answer again."""
        assert self._process is not None
        self._process.send_signal(SIGCONT)

    def config(self, more: str = "", url: str | None = None) -> Config:
        """Return the configuration of a host that uses it."""
        url = url or f"unix://:{PASSWORD}@{self.path}?db=1"
        text = f"providers: {{a: {{kind: openai}}}}\nfleet: {{redis: {{url: '{url}'}}}}\n{more}"
        return parse(text, "f", {})

    def _takes_connections(self) -> bool:
        with socket.socket(socket.AF_UNIX) as client:
            return client.connect_ex(str(self.path)) == 0
