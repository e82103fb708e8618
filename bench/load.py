"""The load: compiled clients on the load core, and what the server used meanwhile."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from bench.machines import resident_bytes, tree_cpu_seconds
from bench.processes import HERE, LOAD_CORE, Server, pinned
from tests.support.wires import sized_request

EDGE_KEY = "bench-edge-key"
PATHS = {
    "chat": "/v1/chat/completions",
    "anthropic": "/v1/messages",
    "gemini": "/v1beta/models/{model}:{method}",
}
"""Where the clients of each wire ask."""
END_MARKS = {"chat": "data: [DONE]", "anthropic": "event: message_stop", "gemini": '"finishReason":"STOP"'}
"""What the end of a stream has in it."""


class NothingMeasuredError(Exception):
    """The load program ended without a result; the server has most likely hung or gone."""


@dataclass(frozen=True, slots=True)
class Unary:
    """One run of whole answers; times in microseconds."""

    per_second: float
    cpu_us: float
    busy: float
    p50_us: float
    p99_us: float
    requests: float
    failed: float

    @property
    def whole(self) -> float:
        """How many responses came as they should."""
        return self.requests - self.failed


@dataclass(frozen=True, slots=True)
class Streams:
    """One run of event streams; times in microseconds."""

    chunks_per_second: float
    cpu_us: float
    busy: float
    p50_us: float
    p99_us: float
    chunks: float
    failed: float
    first_p99_us: float
    """From opening a stream to its first event."""
    kib_per_stream: float
    """Resident memory that the open streams added."""

    @property
    def whole(self) -> float:
        """How many chunks came; fewer than there are failed streams is nothing."""
        return self.chunks - self.failed


@dataclass(frozen=True, slots=True)
class Memory:
    """Resident memory without and with idle streams."""

    mib_before: float
    mib: float
    kib_per_stream: float
    whole: float
    """How many streams were open."""
    failed: float = 0.0


def _path(server: Server, model: str, *, stream: bool) -> str:
    method = "streamGenerateContent?alt=sse" if stream else "generateContent"
    return PATHS[server.wire].format(model=server.model_prefix + model, method=method)


def _key_line(server: Server) -> str:
    """The key, and the header lines that stand behind it."""
    return "\r\n".join((EDGE_KEY, *server.more_headers))


def _result(line: str | bytes) -> dict[str, float]:
    try:
        found: dict[str, float] = json.loads(line)
    except ValueError:
        raise NothingMeasuredError(line) from None
    return found


@cache
def _body_file(folder: Path, wire: str, prefix: str, kib: int) -> Path:
    path = folder / f"body-{wire}-{prefix.strip('/')}-{kib}k.json"
    path.write_bytes(sized_request(wire, f"{prefix}bench-{kib}k", kib * 1024))
    return path


def unary(
    server: Server, folder: Path, kib: int, connections: int, seconds: int, own_header: str = ""
) -> Unary:
    """Post bodies of ``kib`` KiB and take answers of the same size, as fast as they come.

    :param own_header: a header that has another value in each request.
    """
    asking = _body_file(folder, server.wire, server.model_prefix, kib)
    url = f"http://127.0.0.1:{server.port}{_path(server, f'bench-{kib}k', stream=False)}"
    wrk = ["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "-s", str(HERE / "post.lua"), url]
    before = tree_cpu_seconds(server.pid)
    done = subprocess.run(
        pinned(LOAD_CORE, *wrk, "--", str(asking), _key_line(server), *filter(None, [own_header])),
        capture_output=True,
        text=True,
        check=False,
        timeout=seconds + 20,
    )
    used = tree_cpu_seconds(server.pid) - before
    found = _result(
        next((line[5:] for line in done.stdout.splitlines() if line.startswith("JSON ")), done.stderr)
    )
    requests = max(found["requests"], 1)
    return Unary(
        per_second=found["requests"] / found["seconds"],
        cpu_us=used / requests * 1e6,
        busy=used / found["seconds"],
        p50_us=found["p50_us"],
        p99_us=found["p99_us"],
        requests=found["requests"],
        failed=found["failed"],
    )


def _streams_command(server: Server, folder: Path, count: int, model: str, *options: str) -> list[str]:
    asking = sized_request(server.wire, server.model_prefix + model, 1024, stream=True).decode()
    to = (str(server.port), _path(server, model, stream=True), END_MARKS[server.wire])
    return pinned(LOAD_CORE, str(folder / "streams"), *options, *to, str(count), _key_line(server), asking)


def streams(
    server: Server, folder: Path, count: int, chunks: int, interval_ms: int, opened_per_second: int = 0
) -> Streams:
    """Open ``count`` streams; what is used counts from when all of them have begun.

    :param opened_per_second: 0: all at once.
    """
    rate = ("-r", str(opened_per_second)) if opened_per_second else ()
    command = _streams_command(server, folder, count, f"bench-stream-{chunks}-{interval_ms}", *rate)
    memory = resident_bytes(server.pid)
    with subprocess.Popen(command, stdout=subprocess.PIPE) as client:
        assert client.stdout is not None
        began_at = _result(client.stdout.readline())
        before, began = tree_cpu_seconds(server.pid), time.perf_counter()
        memory = resident_bytes(server.pid) - memory
        found = _result(client.stdout.readline())
        used, elapsed = tree_cpu_seconds(server.pid) - before, time.perf_counter() - began
    relayed = max(found["events"] - began_at["events"], 1)
    return Streams(
        chunks_per_second=found["events"] / found["seconds"],
        cpu_us=used / relayed * 1e6,
        busy=used / elapsed,
        p50_us=found["delay_p50_us"],
        p99_us=found["delay_p99_us"],
        chunks=found["events"],
        failed=found["failed"],
        first_p99_us=found["first_p99_us"],
        kib_per_stream=memory / 1024 / max(began_at["open"], 1),
    )


@contextmanager
def open_streams(server: Server, folder: Path, count: int, *options: str) -> Iterator[int]:
    """Hold ``count`` streams that have begun and fallen silent; yields how many there are."""
    command = _streams_command(server, folder, count, "bench-idle", "-i", *options)
    with subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.PIPE) as client:
        assert client.stdout is not None
        yield int(_result(client.stdout.readline())["open"])
        client.communicate()


def idle(server: Server, folder: Path, count: int, settle_seconds: float) -> Memory:
    """Hold ``count`` streams that have begun and fallen silent, and look at the memory."""
    before = resident_bytes(server.pid)
    with open_streams(server, folder, count) as opened:
        time.sleep(settle_seconds)
        now = resident_bytes(server.pid)
    per_stream = (now - before) / 1024 / max(opened, 1)
    return Memory(before / 2**20, now / 2**20, per_stream, opened, count - opened)
