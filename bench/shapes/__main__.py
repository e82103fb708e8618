"""Ask with each shape in turn, and say what it cost.

``python -m bench.shapes [--table] [PART OF A NAME]``; with ``--table`` the rows of
``docs/performance.rst`` come last.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.machines import cpu_seconds, peak_bytes, reset_peak, resident_bytes
from bench.processes import environment
from bench.shapes.client_shapes import SHAPES as OF_CLIENTS
from bench.shapes.provider_shapes import SHAPES as OF_PROVIDERS
from bench.shapes.shape import Shape
from bench.table import Table
from tests.support.raw_upstream import RawUpstream, Script, Turn, start_upstream
from tests.support.repeated import MIB

LIMIT_SECONDS = 120.0
MOST_MS = 250.0
MOST_TIMES = 12.0
SMALLEST = 8 * MIB
"""A body counts as at least so large: Python's objects for a few short values take some megabytes."""
NOTHING = Shape("nothing", "/v1/chat/completions", lambda: b'{"model":"openai/m"}')
_CONFIG = """
listen: 127.0.0.1:0
providers:
  openai: {{kind: openai, base_url: "http://127.0.0.1:{port}/v1", api_key: bench-bench}}
  anthropic: {{kind: anthropic, base_url: "http://127.0.0.1:{port}/v1", api_key: bench-bench}}
  gemini: {{kind: gemini, base_url: "http://127.0.0.1:{port}/v1beta", api_key: bench-bench}}
defaults: {{openai_dialect: openai, anthropic_dialect: anthropic, gemini_dialect: gemini}}
observe_dropped_fields: true
spool: {{dir: "{folder}/spool"}}
"""


@dataclass(frozen=True)
class Result:
    """What one shape cost."""

    name: str
    size: int
    status: str
    longest_ms: float
    cpu_ms: float
    peak_bytes: int

    @property
    def times(self) -> float:
        return self.peak_bytes / max(self.size, SMALLEST)

    @property
    def passed(self) -> bool:
        return self.longest_ms <= MOST_MS and self.times <= MOST_TIMES

    def __str__(self) -> str:
        mark, size, peak = " " if self.passed else "*", self.size / MIB, self.peak_bytes / MIB
        return (
            f"{mark} {self.name:58} {size:6.1f} MiB {self.status:4} {self.longest_ms:8.0f} ms at once "
            f"{self.cpu_ms:8.0f} ms {peak:7.0f} MiB {self.times:5.1f}x"
        )

    def cells(self) -> list[str]:
        """As the documents have it."""
        numbers = (f"{self.longest_ms:.0f}", f"{self.cpu_ms:,.0f}", f"{self.peak_bytes / MIB:.0f}")
        return [self.name, f"{self.size / MIB:.1f}", *numbers]


@dataclass
class Gateway:
    """The process that is watched; it ends with the block."""

    folder: str
    upstream: RawUpstream
    process: subprocess.Popen[bytes] = field(init=False)
    port: int = 0
    resident: int = 0

    def __enter__(self) -> Gateway:
        self.start()
        return self

    def start(self) -> None:
        file = Path(self.folder) / "mgw.yaml"
        file.write_text(_CONFIG.format(port=self.upstream.port, folder=self.folder))
        self.process = subprocess.Popen(
            [sys.executable, "-m", "bench.shapes.gateway", str(file)],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment(),
            cwd=self.folder,
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        while not line.startswith(b"["):
            line = self.process.stdout.readline()
        address, control = json.loads(line)
        self.port = int(address.rpartition(":")[2])
        self.control = socket.create_connection(("127.0.0.1", control)).makefile("rwb")
        threading.Thread(target=self.process.stdout.read, daemon=True).start()
        self.upstream.begin(responding(NOTHING))
        ask(self.port, NOTHING, NOTHING.body())
        self.resident = resident_bytes(self.process.pid)

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()
        self.control.close()

    def longest_ms(self) -> float:
        """Return the longest beat since the last call."""
        self.control.write(b"longest\n")
        self.control.flush()
        return float(self.control.readline())


def responding(shape: Shape) -> Script:
    """Return what reads a request to its end, sends what the shape's provider says, and closes."""
    pieces = tuple(shape.answer())

    def script(turn: Turn) -> None:
        assert turn.body is not None
        turn.send(*pieces)
        turn.close()

    return script


def ask(port: int, shape: Shape, body: bytes) -> str:
    """Send a request, and return the status of the answer when all of it has come."""
    headers = [("Host", "bench"), ("Content-Length", str(len(body))), ("Connection", "close"), *shape.headers]
    if not any(name == "Content-Type" for name, _ in headers):
        headers.append(("Content-Type", "application/json"))
    lines = [f"{shape.method} {shape.path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers)]
    with socket.create_connection(("127.0.0.1", port), timeout=LIMIT_SECONDS) as connection:
        status = b""
        with suppress(OSError):
            connection.sendall("\r\n".join(lines).encode() + b"\r\n\r\n")
            connection.sendall(body)
        try:
            while piece := connection.recv(MIB):
                status = status or piece[9:12]
        except OSError as error:
            return f"{status.decode()} {type(error).__name__}"
    return status.decode() or "closed"


def measure(gateway: Gateway, shape: Shape) -> Result:
    """Ask once; the process is warm."""
    body, pid = shape.body(), gateway.process.pid
    gateway.upstream.begin(responding(shape))
    gateway.longest_ms()
    reset_peak(pid)
    resident, cpu = resident_bytes(pid), cpu_seconds(pid)
    status = ask(gateway.port, shape, body)
    time.sleep(0.05)
    longest_ms, cpu_ms = gateway.longest_ms(), (cpu_seconds(pid) - cpu) * 1000.0
    peak = max(0, peak_bytes(pid) - resident)
    gateway.upstream.begin()
    size = shape.counted if shape.counted is not None else len(body)
    if resident_bytes(pid) > gateway.resident + 24 * MIB:  # what it keeps would not be counted again
        gateway.stop()
        gateway.start()
    return Result(shape.name, size, status, longest_ms, cpu_ms, peak)


def table(results: list[Result]) -> str:
    """The rows of the documents: what holds the reactor longest, and what takes most memory for its size."""
    longest = sorted(results, key=lambda result: -result.longest_ms)[:15]
    largest = sorted(results, key=lambda result: -result.times)[:10]
    header = ["shape", "MiB", "ms of CPU at once", "ms of CPU in all", "MiB taken"]
    rows = Table(header, [one.cells() for one in dict.fromkeys([*longest, *largest])])
    kept = sum(result.passed for result in results)
    packages = ", ".join(f"{name} {version(name)}" for name in ("Twisted", "msgspec"))
    machine = f"{os.cpu_count()} cores, Linux {platform.release()}, CPython {platform.python_version()}"
    return f"{rows.rst()}\n{kept} of {len(results)} shapes stay within the limits.\n{machine}, {packages}."


def main() -> int:
    """Print a line for each shape; the exit status says whether all keep within the bounds."""
    parser = argparse.ArgumentParser(prog="python -m bench.shapes")
    parser.add_argument("--table", action="store_true", help="print the worst results as a table")
    parser.add_argument("part", nargs="?", default="", help="measure only shapes whose name contains this")
    options = parser.parse_args()
    results: list[Result] = []
    with (
        TemporaryDirectory() as folder,
        start_upstream() as upstream,
        Gateway(folder, upstream) as gateway,
    ):
        for shape in [*OF_CLIENTS, *OF_PROVIDERS]:
            if options.part not in shape.name:
                continue
            try:
                results.append(measure(gateway, shape))
            except (ValueError, OSError):
                results.append(Result(shape.name, 0, "died", float("inf"), float("inf"), 0))
                gateway.stop()
                gateway.start()
            print(results[-1], flush=True)
    if options.table:
        print(table(results))
    return 0 if all(result.passed for result in results) else 1


if __name__ == "__main__":
    sys.exit(main())
