"""The load: compiled clients on the load core, and what the server used meanwhile."""

from __future__ import annotations

import json
import subprocess
import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from bench.machines import cpu_seconds, resident_bytes
from bench.processes import HERE, LOAD_CORE, Server, pinned

EDGE_KEY = "bench-edge-key"
PATH = "/v1/chat/completions"


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


@dataclass(frozen=True, slots=True)
class Memory:
    """Resident bytes without and with idle streams."""

    before: int
    with_streams: int
    streams: float


def chat_body(model: str, size: int, *, stream: bool = False) -> bytes:
    """A chat request of exactly ``size`` bytes, ``model`` first as OpenAI's SDK writes it."""
    options = {"stream": True, "stream_options": {"include_usage": True}} if stream else {}
    messages = [{"role": "system", "content": "You are terse."}, {"role": "user", "content": ""}]
    body = {"model": model, "messages": messages, **options}
    words = "lorem ipsum dolor sit amet " * (size // 27 + 1)
    messages[1]["content"] = words[: size - len(json.dumps(body))]
    return json.dumps(body).encode()


def _result(line: str | bytes) -> dict[str, float]:
    try:
        found: dict[str, float] = json.loads(line)
    except ValueError:
        raise NothingMeasuredError(line) from None
    return found


@cache
def _body_file(folder: Path, prefix: str, kib: int) -> Path:
    path = folder / f"body-{prefix.strip('/')}-{kib}k.json"
    path.write_bytes(chat_body(f"{prefix}bench-{kib}k", kib * 1024))
    return path


def unary(server: Server, folder: Path, kib: int, connections: int, seconds: int) -> Unary:
    """Post bodies of ``kib`` KiB and take answers of the same size, as fast as they come."""
    body = _body_file(folder, server.model_prefix, kib)
    url = f"http://127.0.0.1:{server.port}{PATH}"
    wrk = ["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "-s", str(HERE / "post.lua"), url]
    before = cpu_seconds(server.pid)
    done = subprocess.run(
        pinned(LOAD_CORE, *wrk, "--", str(body), EDGE_KEY),
        capture_output=True,
        text=True,
        check=False,
        timeout=seconds + 20,
    )
    used = cpu_seconds(server.pid) - before
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
    body = chat_body(server.model_prefix + model, 1024, stream=True).decode()
    command = [str(folder / "streams"), *options, str(server.port), str(count), EDGE_KEY, body]
    return pinned(LOAD_CORE, *command)


def streams(server: Server, folder: Path, count: int, chunks: int, interval_ms: int) -> Streams:
    """Open ``count`` streams; what is used counts from when all of them have begun."""
    command = _streams_command(server, folder, count, f"bench-stream-{chunks}-{interval_ms}")
    with subprocess.Popen(command, stdout=subprocess.PIPE) as client:
        assert client.stdout is not None
        began_at = _result(client.stdout.readline())
        before, began = cpu_seconds(server.pid), time.perf_counter()
        found = _result(client.stdout.readline())
        used, elapsed = cpu_seconds(server.pid) - before, time.perf_counter() - began
    relayed = max(found["events"] - began_at["events"], 1)
    return Streams(
        chunks_per_second=found["events"] / found["seconds"],
        cpu_us=used / relayed * 1e6,
        busy=used / elapsed,
        p50_us=found["delay_p50_us"],
        p99_us=found["delay_p99_us"],
        chunks=found["events"],
        failed=found["failed"],
    )


def idle(server: Server, folder: Path, count: int, settle_seconds: float) -> Memory:
    """Hold ``count`` streams that have begun and fallen silent, and look at the memory."""
    before = resident_bytes(server.pid)
    command = _streams_command(server, folder, count, "bench-idle", "-i")
    with subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.PIPE) as client:
        assert client.stdout is not None
        opened = _result(client.stdout.readline())
        time.sleep(settle_seconds)
        held = resident_bytes(server.pid)
        client.communicate()
    return Memory(before, held, opened["open"])
