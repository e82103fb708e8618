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

from bench.bodies import agent_request
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
LARGE_ANSWERS = {"embed": ("/v1/embeddings", "input"), "image": ("/v1/images/generations", "prompt")}
"""Where embeddings and images are asked for, and what the text is called there."""
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


def path_of(server: Server, model: str, *, stream: bool = False) -> str:
    """Return where its clients ask for a model."""
    method = "streamGenerateContent?alt=sse" if stream else "generateContent"
    return server.path_prefix + PATHS[server.wire].format(model=server.model_prefix + model, method=method)


def key_line(server: Server) -> str:
    """Return the key, and the header lines that stand behind it."""
    return "\r\n".join((EDGE_KEY, *server.more_headers))


def result(line: str | bytes) -> dict[str, float]:
    """Read the line of JSON that a load program has written.

    :raises NothingMeasuredError: it is none.
    """
    try:
        found: dict[str, float] = json.loads(line)
    except ValueError:
        raise NothingMeasuredError(line) from None
    return found


@cache
def body_file(folder: Path, wire: str, model: str, kib: int) -> Path:
    """Write a short chat of a size into the folder, once."""
    path = folder / f"body-{wire}-{model.replace('/', '-')}-{kib}k.json"
    path.write_bytes(sized_request(wire, model, kib * 1024))
    return path


@cache
def agent_file(folder: Path, model: str, kib: int) -> Path:
    """Write the request of an agent, for a chat provider, of a size into the folder, once."""
    path = folder / f"agent-{model.replace('/', '-')}-{kib}k.json"
    path.write_bytes(agent_request(model, kib * 1024))
    return path


def unary(
    server: Server,
    folder: Path,
    kib: int,
    connections: int,
    seconds: int,
    own_header: str = "",
    up_kib: int = 0,
) -> Unary:
    """Post bodies and take answers of ``kib`` KiB, as fast as they come.

    :param own_header: a header that has another value in each request.
    :param up_kib: the size of the bodies, which are an agent's, if other than that of the answers.
    """
    model = f"bench-{kib}k"
    named = server.model_prefix + model
    asking = agent_file(folder, named, up_kib) if up_kib else body_file(folder, server.wire, named, kib)
    return _posted(server, asking, path_of(server, model), connections, seconds, own_header)


def large_answer(server: Server, folder: Path, kind: str, kib: int, connections: int, seconds: int) -> Unary:
    """Ask for an embedding or an image of ``kib`` KiB with a short text, as fast as it comes.

    :param kind: one of :data:`LARGE_ANSWERS`.
    """
    path, name = LARGE_ANSWERS[kind]
    asking = folder / f"{kind}-{server.model_prefix.strip('/')}-{kib}k.json"
    asking.write_text(json.dumps({"model": f"{server.model_prefix}bench-{kind}-{kib}k", name: "lorem ipsum"}))
    return _posted(server, asking, path, connections, seconds)


def _posted(
    server: Server, body: Path, path: str, connections: int, seconds: int, own_header: str = ""
) -> Unary:
    url = f"http://127.0.0.1:{server.port}{path}"
    wrk = [
        "wrk",
        "-t1",
        f"-c{connections}",
        f"-d{seconds}s",
        "--timeout",
        "10s",
        "-s",
        str(HERE / "post.lua"),
        url,
    ]
    before = tree_cpu_seconds(server.pid)
    done = subprocess.run(
        pinned(LOAD_CORE, *wrk, "--", str(body), key_line(server), *filter(None, [own_header])),
        capture_output=True,
        text=True,
        check=False,
        timeout=seconds + 20,
    )
    used = tree_cpu_seconds(server.pid) - before
    found = result(
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


def streams_command(server: Server, folder: Path, count: int, model: str, *options: str) -> list[str]:
    """Return the command that opens so many streams of a model."""
    asking = sized_request(server.wire, server.model_prefix + model, 1024, stream=True).decode()
    to = (str(server.port), path_of(server, model, stream=True), END_MARKS[server.wire])
    return pinned(LOAD_CORE, str(folder / "streams"), *options, *to, str(count), key_line(server), asking)


def streams(
    server: Server, folder: Path, count: int, chunks: int, interval_ms: int, opened_per_second: int = 0
) -> Streams:
    """Open ``count`` streams; what is used counts from when all of them have begun.

    :param opened_per_second: 0: all at once.
    """
    rate = ("-r", str(opened_per_second)) if opened_per_second else ()
    command = streams_command(server, folder, count, f"bench-stream-{chunks}-{interval_ms}", *rate)
    memory = resident_bytes(server.pid)
    with subprocess.Popen(command, stdout=subprocess.PIPE) as client:
        assert client.stdout is not None
        began_at = result(client.stdout.readline())
        before, began = tree_cpu_seconds(server.pid), time.perf_counter()
        memory = resident_bytes(server.pid) - memory
        found = result(client.stdout.readline())
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
    command = streams_command(server, folder, count, "bench-idle", "-i", *options)
    with subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.PIPE) as client:
        assert client.stdout is not None
        yield int(result(client.stdout.readline())["open"])
        client.communicate()


def idle(server: Server, folder: Path, count: int, settle_seconds: float) -> Memory:
    """Hold ``count`` streams that have begun and fallen silent, and look at the memory."""
    before = resident_bytes(server.pid)
    with open_streams(server, folder, count) as opened:
        time.sleep(settle_seconds)
        now = resident_bytes(server.pid)
    per_stream = (now - before) / 1024 / max(opened, 1)
    return Memory(before / 2**20, now / 2**20, per_stream, opened, count - opened)
