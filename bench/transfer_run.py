"""One case of the transfers: a young gateway, its provider, and clients that send or take whole files."""

from __future__ import annotations

import http.client
import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

from bench.load import EDGE_KEY
from bench.machines import cpu_seconds
from bench.measure import wait_until_quiet
from bench.processes import (
    LOAD_CORE,
    PROXY_CORE,
    Server,
    environment,
    free_port,
    pinned,
    wait_until_answers,
    written,
)
from bench.transfer_files import (
    BOUNDARY,
    FILE_BYTES,
    PIECE_BYTES,
    SLOW_BUFFER,
    SLOW_SECONDS,
    SMALL_BYTES,
    Form,
    Pace,
    digest,
    file_form,
    file_pieces,
    transcription_form,
)

STALL_SECONDS = 10.0
"""How long a client waits for anything."""
REPEATS = 4
"""How many files pass one after the other, where one is measured at a time."""


@dataclass(frozen=True, slots=True)
class Case:
    """What passes, who is slow ("client", "provider", or nobody), and how many pass at a time."""

    what: str
    slow: str
    at_once: int

    @property
    def how(self) -> str:
        """How many pass at a time, and at whose pace."""
        return f"{self.at_once} at a time, {f'slow {self.slow}' if self.slow else 'at full speed'}"

    def __str__(self) -> str:
        return f"{self.what}, {self.how}"


@dataclass(frozen=True, slots=True)
class Measured:
    """What one case gave."""

    case: Case
    extra_bytes: float
    """For each of the files that pass at a time: what is resident at the peak, beyond the young gateway's."""
    bytes_per_second: float
    direct_bytes_per_second: float | None
    cpu_seconds: float
    files: int
    failures: list[str]


@dataclass(frozen=True, slots=True)
class Ground:
    """A gateway that has just started, and its providers: one that takes its time, and one that does not."""

    gateway: Server
    provider: Server
    young_bytes: int
    """What it has after a small file: what an earlier file of the run leaves in its memory is extra."""


@contextmanager
def providers() -> Iterator[tuple[Server, Server]]:
    """Run the fast provider and the slow one."""
    with _provider(0.0) as fast, _provider(SLOW_SECONDS) as slow:
        yield fast, slow


@contextmanager
def ground(folder: Path, fast: Server, slow: Server) -> Iterator[Ground]:
    """Run a gateway before both providers."""
    with _gateway(folder, fast.port, slow.port) as gateway:
        _warm_up(gateway)
        yield Ground(gateway, fast, reset_peak(gateway.pid))


def measure(case: Case, on: Ground) -> Measured:
    """Run a case."""
    repeats = 1 if case.slow or case.at_once > 1 else REPEATS
    files = repeats * case.at_once
    pid = on.gateway.pid
    wait_until_quiet(on.gateway)
    reset_peak(pid)
    used, began = cpu_seconds(pid), time.perf_counter()
    failures = _transfers(case, on.gateway, repeats)
    elapsed, used = time.perf_counter() - began, cpu_seconds(pid) - used
    extra = peak_bytes(pid) - on.young_bytes
    direct = None
    if not case.slow:
        began = time.perf_counter()
        failures += _transfers(case, on.provider, repeats)
        direct = files * FILE_BYTES / (time.perf_counter() - began)
    return Measured(
        case=case,
        extra_bytes=extra / case.at_once,
        bytes_per_second=files * FILE_BYTES / elapsed,
        direct_bytes_per_second=direct,
        cpu_seconds=used / files,
        files=files,
        failures=failures,
    )


def reset_peak(pid: int) -> int:
    """Forget the peak of a process's resident memory, and return what it has now (proc(5), clear_refs)."""
    Path(f"/proc/{pid}/clear_refs").write_text("5")
    return peak_bytes(pid)


def peak_bytes(pid: int) -> int:
    """Return the most resident memory that a process has had; the kernel keeps count, no moment is missed."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))


@contextmanager
def _provider(seconds: float) -> Iterator[Server]:
    command = [sys.executable, "-m", "bench.transfer_upstream", str(seconds)]
    with subprocess.Popen(pinned(LOAD_CORE, *command), stdout=subprocess.PIPE, env=environment()) as process:
        assert process.stdout is not None
        try:
            yield Server("direct", process, int(process.stdout.readline()), 0.0)
        finally:
            process.kill()


@contextmanager
def _gateway(folder: Path, fast_port: int, slow_port: int) -> Iterator[Server]:
    port = free_port()
    ports = {"port": str(port), "fast_port": str(fast_port), "slow_port": str(slow_port)}
    twistd = [sys.executable, str(Path(sys.executable).with_name("twistd")), "-n", "--pidfile="]
    config = written(folder / "transfers.yaml", {"temp": str(folder), **ports})
    command = [*twistd, f"--logfile={folder / 'mgw.log'}", "mgw", "-c", str(config)]
    began = time.perf_counter()
    with (folder / "gateway.out").open("wb") as out:
        process = subprocess.Popen(
            pinned(PROXY_CORE, *command), stdout=out, stderr=out, cwd=folder, env=environment()
        )
    server = Server("gateway", process, port, 0.0, "fast/")
    try:
        wait_until_answers(server, began, folder)
        yield server
    finally:
        server.stop()


def _warm_up(gateway: Server) -> None:
    """Set off all that a first request and a first file set off, with a small file up and down."""
    form = file_form(SMALL_BYTES)
    _upload(gateway, "/v1/files", form, digest(form.pieces()), {}, 0.0)
    _download(gateway, "small", digest(file_pieces(SMALL_BYTES)), {}, 0.0)
    wait_until_quiet(gateway)


def _transfers(case: Case, server: Server, repeats: int) -> list[str]:
    """Run the transfers of a case, and return what failed."""
    seconds = SLOW_SECONDS if case.slow == "client" else 0.0
    prefix, headers = server.model_prefix, {}
    if case.slow == "provider":
        prefix, headers = "slow/", {"X-Provider": "slow"}
    if case.what == "download":
        one = partial(_download, server, "whole", _file_digest(), headers, seconds)
    elif case.what == "upload":
        one = partial(_upload, server, "/v1/files", file_form(), _form_digest(file_form()), headers, seconds)
    else:
        path, form = "/v1/audio/transcriptions", transcription_form(f"{prefix}whisper-1")
        one = partial(_upload, server, path, form, _form_digest(transcription_form("whisper-1")), {}, seconds)
    with ThreadPoolExecutor(case.at_once) as clients:
        done = [clients.submit(one) for _ in range(repeats * case.at_once)]
        problems = [transfer.exception() for transfer in done]
    return [f"{case}: {type(problem).__name__}: {problem}" for problem in problems if problem is not None]


@cache
def _file_digest() -> str:
    return digest(file_pieces(FILE_BYTES))


@cache
def _form_digest(form: Form) -> str:
    return digest(form.pieces())


def _upload(
    server: Server, path: str, form: Form, sha256: str, extra: dict[str, str], seconds: float
) -> None:
    headers = {
        "Authorization": f"Bearer {EDGE_KEY}",
        "Content-Type": f"multipart/form-data; boundary={BOUNDARY}",
        "Content-Length": str(form.size),
        **extra,
    }
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=STALL_SECONDS)
    try:
        connection.request("POST", path, Pace(seconds).over(form.pieces()), headers)
        found = json.loads(connection.getresponse().read())
    finally:
        connection.close()
    if found.get("sha256") != sha256:
        raise WrongBytesError(f"sent {sha256}, arrived {found}")


def _download(server: Server, name: str, sha256: str, extra: dict[str, str], seconds: float) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=STALL_SECONDS)
    try:
        connection.connect()
        if seconds:
            connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SLOW_BUFFER)
        headers = {"Authorization": f"Bearer {EDGE_KEY}", **extra}
        connection.request("GET", f"/v1/files/file-{name}/content", headers=headers)
        answer = connection.getresponse()
        found = digest(Pace(seconds).over(iter(partial(answer.read1, PIECE_BYTES), b"")))
    finally:
        connection.close()
    if found != sha256:
        raise WrongBytesError(f"sent {sha256}, arrived {found}")


class WrongBytesError(Exception):
    """What arrived is not what was sent."""
