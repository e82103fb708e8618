"""twistd as an operator calls it: to its end, or as a process that serves in a way of its own."""

from __future__ import annotations

import resource
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from tests.support.fork_server import Process, Start, Streams, fork_program
from tests.support.gateway import TWISTD, Collected
from tests.support.raw_client import RawClient, RawResponse, request
from tests.support.waiting import WAIT_SECONDS

ROOT: Final = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Finished:
    """A process that has ended by itself."""

    status: int
    stdout: str
    stderr: str


@dataclass
class Daemon:
    """A process that runs, and what it writes to the streams that were not sent elsewhere."""

    process: Process
    stdout: Collected | None
    stderr: Collected | None


def twistd(
    *arguments: str,
    folder: Path,
    environ: Mapping[str, str] | None = None,
    start: Start = fork_program,
) -> Finished:
    """Run twistd in the foreground until it ends by itself."""
    with start_twistd(*arguments, folder=folder, environ=environ, start=start) as daemon:
        assert daemon.stdout is not None
        assert daemon.stderr is not None
        status = daemon.process.wait(WAIT_SECONDS)
        stdout, stderr = (stream.whole(WAIT_SECONDS) for stream in (daemon.stdout, daemon.stderr))
    return Finished(status, stdout.decode(), stderr.decode())


@contextmanager
def start_twistd(
    *arguments: str,
    folder: Path,
    environ: Mapping[str, str] | None = None,
    stdout: int = subprocess.PIPE,
    stderr: int = subprocess.PIPE,
    start: Start = fork_program,
) -> Iterator[Daemon]:
    """Start twistd in the foreground; it is ended at the end of the block."""
    command = [TWISTD, "-n", "--pidfile=", *arguments]
    process = start(command, folder, environ or {}, Streams(stdout=stdout, stderr=stderr))
    daemon = Daemon(process, _collected(process.stdout), _collected(process.stderr))
    try:
        yield daemon
    finally:
        if process.poll() is None:
            process.terminate()
        try:
            process.wait(WAIT_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def ask(
    port: int, path: str, *headers: bytes, body: bytes | None = None, method: str | None = None
) -> RawResponse:
    """Send one request on a connection of its own: GET, or POST of JSON where it has a body."""
    if body is not None:
        headers = (b"Content-Type: application/json", *headers)
    method = method or ("GET" if body is None else "POST")
    with RawClient(port) as client:
        client.send(request(body, *headers, path=path, method=method))
        return client.read_response(method)


def cpu_of_children() -> float:
    """Return the CPU seconds of all processes that this one started and that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def write_config(folder: Path, text: str) -> Path:
    """Write a configuration that listens on a free port unless it says otherwise."""
    if "\nlisten:" not in f"\n{text}":
        text += "\nlisten: 127.0.0.1:0\n"
    file = folder / "mgw.yaml"
    file.write_text(text, encoding="utf-8")
    return file


def _collected(stream: IO[bytes] | None) -> Collected | None:
    return None if stream is None else Collected(stream)
