"""The gateway as an operator runs it: a process of twistd's, for tests over real sockets.

Every key in a test's configuration or client contains the word ``canary``.  When a gateway stops, all that
it has written (standard output, standard error, and the log) is searched for that word.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any, Final

from tests.support.fork_server import Process, Start, fork_program
from tests.support.waiting import WAIT_SECONDS

CANARY = b"canary"
TWISTD: Final = str(Path(sys.executable).parent / "twistd")
_SERVES = re.compile(rb"mgw serves (https?)://(\S+):(\d+)")


@dataclass
class Collected:
    """What a process writes, as it comes."""

    stream: IO[bytes]
    _data: bytearray = field(default_factory=bytearray)
    _changed: threading.Condition = field(default_factory=threading.Condition)
    _ended: bool = False

    def __post_init__(self) -> None:
        threading.Thread(target=self._collect, daemon=True).start()

    @property
    def data(self) -> bytes:
        """Everything so far."""
        with self._changed:
            return bytes(self._data)

    def wait_for(self, condition: Callable[[bytes], Any], seconds: float, what: str) -> Any:
        """Wait until a condition on everything so far is true, and return its value."""
        with self._changed:
            found = self._changed.wait_for(lambda: condition(bytes(self._data)) or self._ended, seconds)
            result = condition(bytes(self._data))
        assert found, f"waited {seconds} s for {what}; there is:\n{self.data.decode(errors='replace')}"
        assert result, f"ended before {what}; there is:\n{self.data.decode(errors='replace')}"
        return result

    def whole(self, seconds: float) -> bytes:
        """Wait for the end of the stream, and return everything."""
        with self._changed:
            assert self._changed.wait_for(lambda: self._ended, seconds), "the stream goes on"
        return self.data

    def _collect(self) -> None:
        while piece := os.read(self.stream.fileno(), 65536):
            with self._changed:
                self._data += piece
                self._changed.notify_all()
        with self._changed:
            self._ended = True
            self._changed.notify_all()


@dataclass
class GatewayProcess:
    """A running gateway."""

    process: Process
    config_file: Path
    stdout: Collected
    stderr: Collected
    url: str = ""
    port: int = 0

    def events(self, count: int = 1, seconds: float = WAIT_SECONDS) -> list[dict[str, Any]]:
        """Return all usage events, once there are at least ``count``; they are on standard output."""
        lines = self.stdout.wait_for(
            lambda data: data.count(b"\n") >= count and data, seconds, f"{count} usage events"
        )
        return [json.loads(line) for line in lines.splitlines()[: lines.count(b"\n")]]

    def event(self) -> dict[str, Any]:
        """Return the only usage event."""
        (event,) = self.events()
        return event

    def log(self, words: bytes, seconds: float = WAIT_SECONDS) -> bytes:
        """Wait for words in the process log, and return all of it."""
        data: bytes = self.stderr.wait_for(lambda data: words in data and data, seconds, repr(words))
        return data

    def get(self, path: str, headers: Mapping[str, str] | None = None) -> bytes:
        """Fetch a path with GET."""
        request = urllib.request.Request(self.url + path, headers=dict(headers or {}))
        with urllib.request.urlopen(request, timeout=WAIT_SECONDS) as answer:
            body: bytes = answer.read()
        return body

    def metric(self, line_start: str, headers: Mapping[str, str] | None = None) -> float:
        """Return the sum of all samples whose line begins so."""
        text = self.get("/metrics", headers).decode()
        return sum(
            float(line.rpartition(" ")[2]) for line in text.splitlines() if line.startswith(line_start)
        )

    def signal(self, number: signal.Signals) -> None:
        """Send a signal."""
        self.process.send_signal(number)

    def rewrite(self, text: str) -> None:
        """Change the configuration file."""
        self.config_file.write_text(text, encoding="utf-8")

    def stop(self, seconds: float = WAIT_SECONDS) -> int:
        """End it as an init system would, and search all that it wrote for keys."""
        if self.process.poll() is None:
            self.process.terminate()
        try:
            status = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError(f"the gateway did not stop:\n{self.stderr.data.decode()}") from None
        self.search_for_keys()
        return status

    def search_for_keys(self) -> None:
        """Fail where a key of a test was written anywhere."""
        for name, data in (("stdout", self.stdout.data), ("stderr", self.stderr.data)):
            at = data.find(CANARY)
            assert at < 0, f"a key is in {name}: {data[max(0, at - 200) : at + 60]!r}"
        assert b"Traceback" not in self.stderr.data, self.stderr.data.decode(errors="replace")


@contextmanager
def start_gateway(
    config: str,
    environ: Mapping[str, str] | None = None,
    arguments: tuple[str, ...] = (),
    *,
    start: Start = fork_program,
) -> Iterator[GatewayProcess]:
    """Start a gateway on a free port; it is stopped, and its output searched, at the end of the block.

    :param config: its YAML; a line ``listen: 127.0.0.1:0`` is added where there is none, and usage events go
        to standard output unless it says otherwise.
    """
    if "\nlisten:" not in f"\n{config}":
        config += "\nlisten: 127.0.0.1:0\n"
    if "\nhooks:" not in f"\n{config}":
        config += "\nhooks: {jsonl: {output: stdout}}\n"
    with TemporaryDirectory(prefix="mgw-test-") as folder:
        file = Path(folder) / "mgw.yaml"
        file.write_text(config, encoding="utf-8")
        command = [TWISTD, "-n", "--pidfile=", *arguments, "mgw", "-c", str(file)]
        process = start(command, file.parent, environ or {})
        assert process.stdout is not None
        assert process.stderr is not None
        gateway = GatewayProcess(process, file, Collected(process.stdout), Collected(process.stderr))
        try:
            found = gateway.stderr.wait_for(_SERVES.search, WAIT_SECONDS, "the gateway to serve")
            scheme, host, port = (group.decode() for group in found.groups())
            gateway.url, gateway.port = f"{scheme}://{host}:{port}", int(port)
            yield gateway
        finally:
            if process.poll() is None:
                process.terminate()
            try:
                process.wait(WAIT_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        gateway.search_for_keys()
