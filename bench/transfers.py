"""Measure what large files cost the gateway: ``python -m bench.transfers [--quick]``.

Files of 30 MiB go up and come down, alone and eight at a time, fast and with a slow client or provider.
Everything listens on the loopback address, nothing outlives the run, nothing is asserted.  The results go to
``bench/results``.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from hashlib import sha256
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path

from bench.load import EDGE_KEY
from bench.machines import cpu_seconds, peak_bytes, reset_peak
from bench.processes import Server, serving_gateway
from bench.results import Report, measuring, progress
from bench.steps import wait_until_quiet
from bench.table import Table, number
from tests.support.raw_client import RawClient, request
from tests.support.raw_upstream import JSON, Turn, counted, start_upstream
from tests.support.transfers import FORM, MIB, file_of, form

LIMIT_SECONDS = 60
BEGIN_UNTIL_SECONDS = 42.0
"""No case begins later than this: a busy machine gets fewer of them."""
DISK = "/var/tmp"
"""Where the bodies wait: a disk, not memory (file hierarchy standard, 5.15)."""
PIECE = 64 * 1024
"""Of a file; and the receive buffer of whoever is slow: the kernel must not take the file for it."""
SLOW_SECONDS = 1.5
"""How long whoever is slow takes for a file."""
REPEATS = 4
FILE = file_of(30 * MIB)
SMALL = FILE[:MIB]
UPLOADS = {
    "upload": ("/v1/files", form(("purpose", b"user_data"), ("file", FILE))),
    "upload, model last": ("/v1/audio/transcriptions", form(("file", FILE), ("model", b"whisper-1"))),
}
_KEY = b"Authorization: Bearer " + EDGE_KEY.encode()
_CONFIG = """
listen: "127.0.0.1:$port"
providers:
  files: {kind: openai, base_url: "http://127.0.0.1:$upstream_port/v1", api_key: bench-upstream-key}
defaults: {openai_dialect: files}
edge_auth: {enabled: true, keys: [bench-edge-key]}
spool: {dir: "$temp/spool"}
hooks: {jsonl: {output: "$temp/usage.jsonl"}}
"""


@dataclass(frozen=True, slots=True)
class Case:
    """What goes which way, how many at a time, and who takes time for it."""

    what: str
    at_once: int
    slow: str = ""

    def __str__(self) -> str:
        pace = f"slow {self.slow}" if self.slow else "at full speed"
        return f"{self.what}, {self.at_once} at a time, {pace}"


CASES = [
    Case(what, at_once, slow)
    for what in (*UPLOADS, "download")
    for at_once in (1, 8)
    for slow in ("", "provider", "client")
]


class WrongBytesError(Exception):
    """What arrived is not what was sent."""


def main() -> int:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(prog="bench.transfers", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="only at full speed, about 10 s")
    cases = [case for case in CASES if not (parser.parse_args().quick and case.slow)]
    columns = ["extra memory, MiB/file", "throughput, MB/s", "direct, MB/s", "CPU, ms/file"]
    with measuring("transfers", LIMIT_SECONDS, on_one_core=False) as report:
        report.tables.append(Table(["30 MiB", *columns]))
        for what in dict.fromkeys(case.what for case in cases):
            _measure([case for case in cases if case.what == what], report)
    return 0


@dataclass(slots=True)
class Provider:
    """A provider in a process of its own."""

    port: int
    _pipe: Connection

    def take(self, seconds: float) -> None:
        """Have it take so long for each file."""
        self._pipe.send(seconds)
        self._pipe.recv()


@contextmanager
def _provider() -> Iterator[Provider]:
    ours, its = get_context("fork").Pipe()
    process = get_context("fork").Process(target=_serve, args=(its,), daemon=True)
    process.start()
    yield Provider(ours.recv(), ours)
    process.terminate()
    process.join()


def _serve(pipe: Connection) -> None:
    with start_upstream() as upstream:
        pipe.send(upstream.port)
        while True:
            upstream.begin(partial(_provide, seconds=pipe.recv()))
            pipe.send(None)


def _measure(cases: list[Case], report: Report) -> None:
    """Measure some cases on a gateway of their own, which has seen a small file each way."""
    began = time.monotonic()
    with (
        tempfile.TemporaryDirectory(prefix="mgw-bench-", dir=DISK) as name,
        _provider() as provider,
        serving_gateway(Path(name), _CONFIG, upstream_port=str(provider.port)) as gateway,
    ):
        provider.take(0.0)
        _upload(gateway.port, "/v1/files", form(("purpose", b"user_data"), ("file", SMALL)), 0.0)
        _download(gateway.port, SMALL, 0.0)
        wait_until_quiet(gateway)
        reset_peak(gateway.pid)
        young = peak_bytes(gateway.pid)
        for case in cases:
            if time.monotonic() - began > BEGIN_UNTIL_SECONDS / 3:
                report.notes.append(f"out of time: {case}")
                continue
            progress(str(case))
            report.tables[0].rows.append(_measure_one(case, gateway, provider, young))


def _measure_one(case: Case, gateway: Server, provider: Provider, young: int) -> list[str]:
    files = case.at_once * (1 if case.slow or case.at_once > 1 else REPEATS)
    provider.take(SLOW_SECONDS if case.slow == "provider" else 0.0)
    wait_until_quiet(gateway)
    reset_peak(gateway.pid)
    used = cpu_seconds(gateway.pid)
    per_second = _transfer(case, gateway.port, files)
    used, extra = cpu_seconds(gateway.pid) - used, (peak_bytes(gateway.pid) - young) / case.at_once / MIB
    direct = None if case.slow else _transfer(case, provider.port, files)
    numbers = [number(extra, 1), number(per_second), number(direct), number(used / files * 1e3)]
    return [str(case), *numbers]


def _transfer(case: Case, port: int, files: int) -> float:
    """Pass so many files; return how many megabytes passed in a second."""
    seconds = SLOW_SECONDS if case.slow == "client" else 0.0
    one = partial(_download, port, FILE, seconds)
    if case.what in UPLOADS:
        one = partial(_upload, port, *UPLOADS[case.what], seconds)
    began = time.perf_counter()
    with ThreadPoolExecutor(case.at_once) as clients:
        for done in [clients.submit(one) for _ in range(files)]:
            done.result()
    return files * len(FILE) / (time.perf_counter() - began) / 1e6


def _provide(turn: Turn, seconds: float) -> None:
    """Take a body and tell its hash, or give a file, in so many seconds."""
    if turn.method == "GET":
        file = SMALL if "small" in turn.target else FILE
        head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(file)
        turn.send(head, *_paced(_pieces(file), seconds, len(file)))
        return
    size, digest = int(turn.value(b"content-length") or 0), sha256()
    reads = (turn.read(min(PIECE, size - at)) for at in range(0, size, PIECE))
    for piece in _paced(reads, seconds, size):
        digest.update(piece)
    turn.has_body_read()
    turn.send(counted(digest.hexdigest().encode(), JSON))


def _pieces(data: bytes) -> Iterator[bytes]:
    return (data[at : at + PIECE] for at in range(0, len(data), PIECE))


def _paced(pieces: Iterator[bytes], seconds: float, size: int) -> Iterator[bytes]:
    """Give pieces on so that all of them take so many seconds."""
    began, passed = time.perf_counter(), 0
    for piece in pieces:
        yield piece
        passed += len(piece)
        time.sleep(max(0.0, began + seconds * passed / size - time.perf_counter()))


@cache
def _digest(data: bytes) -> str:
    return sha256(data).hexdigest()


def _upload(port: int, path: str, body: bytes, seconds: float) -> None:
    with RawClient(port) as client:
        head = request(body, _KEY, FORM, path=path)[: -len(body)]
        client.send(head)
        for piece in _paced(_pieces(body), seconds, len(body)):
            client.send(piece)
        if client.read_response().body.decode() != _digest(body):
            raise WrongBytesError(path)


def _download(port: int, file: bytes, seconds: float) -> None:
    path = f"/v1/files/file-{'small' if file is SMALL else 'whole'}/content"
    with RawClient(port, receive_buffer=PIECE if seconds else None) as client:
        client.send(request(None, _KEY, path=path, method="GET"))
        client.incoming.until(b"\r\n\r\n")
        digest = sha256()
        reads = (client.incoming.up_to(min(PIECE, len(file) - at)) for at in range(0, len(file), PIECE))
        for piece in _paced(reads, seconds, len(file)):
            digest.update(piece)
        if digest.hexdigest() != _digest(file):
            raise WrongBytesError(path)


if __name__ == "__main__":
    sys.exit(main())
