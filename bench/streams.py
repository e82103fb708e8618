"""What an open stream costs in memory: ``python -m bench.streams [--open N]``.

A gateway with everything on gets N streams at a time, once passed through and once for each translation.
Each has received its head and its first event and is then silent, as the stream of a model that thinks is.
The growth of the process, divided by N, is the cost of one. Every row has a gateway of its own, so that
nothing hides in memory that an earlier row has left. Both ends of the streams are in this process; all
listens on the loopback address and ends with the run.
"""

from __future__ import annotations

import argparse
import json
import resource
import socket
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.load import EDGE_KEY
from bench.machines import description, resident_bytes
from bench.plain import gateway
from bench.processes import HERE, bound_run
from bench.translation.wires import ANTHROPIC, CHAT, GEMINI

LIMIT_SECONDS: Final = 300
WARM_STREAMS: Final = 50
"""Opened and closed before the starting level is taken: caches and pools are not the cost of a stream."""
ANSWER_SECONDS: Final = 20.0
FILES_FOR_A_STREAM: Final = 4
_HEADERS: Final = 20
"""As many as the vendors send."""


@dataclass(frozen=True, slots=True)
class Wire:
    """How a client asks for a stream, and how a provider begins one."""

    path: str
    body: dict[str, object]
    first_event: bytes


_MESSAGES: Final = [{"role": "user", "content": "Hello"}]
WIRES: Final = {
    CHAT: Wire(
        "/v1/chat/completions",
        {"messages": _MESSAGES, "stream": True},
        b'data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":'
        b'[{"index":0,"delta":{"role":"assistant","content":"Hello"},"finish_reason":null}]}\n\n',
    ),
    ANTHROPIC: Wire(
        "/v1/messages",
        {"messages": _MESSAGES, "max_tokens": 100, "stream": True},
        b'event: message_start\ndata: {"type":"message_start","message":{"id":"m","type":"message",'
        b'"role":"assistant","model":"m","content":[],"stop_reason":null,"stop_sequence":null,'
        b'"usage":{"input_tokens":1,"output_tokens":1}}}\n\nevent: content_block_start\ndata: {"type":'
        b'"content_block_start","index":0,"content_block":{"type":"text","text":""}}\n\nevent: '
        b'content_block_delta\ndata: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta",'
        b'"text":"Hello"}}\n\n',
    ),
    GEMINI: Wire(
        "/v1beta/models/{model}:streamGenerateContent?alt=sse",
        {"contents": [{"role": "user", "parts": [{"text": "Hello"}]}]},
        b'data: {"candidates":[{"content":{"role":"model","parts":[{"text":"Hello"}]},"index":0}],'
        b'"modelVersion":"m"}\r\n\r\n',
    ),
}
NAMES: Final = {CHAT: "OpenAI", ANTHROPIC: "Anthropic", GEMINI: "Gemini"}
PREFIXES: Final = {CHAT: "up/", ANTHROPIC: "messages/", GEMINI: "contents/"}
"""Of models, by the wire of their provider in ``bench/mgw.yaml``."""


def main() -> int:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(prog="bench.streams", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--open", type=int, default=1000, metavar="N", help="streams at a time (1000)")
    parser.add_argument("--only", default="", help="only rows with this in their name")
    options = parser.parse_args()
    number = options.open
    bound_run(LIMIT_SECONDS, on_one_core=False)
    _allow_files(number)
    print(f"{'KiB for each of ' + format(number, ',') + ' open streams':44} {'KiB':>6}")
    for client in WIRES:
        for provider in WIRES:
            how = "passed through" if client == provider else f"translated for {NAMES[provider]}"
            row = f"{NAMES[client]} client, {how}"
            if options.only in row:
                print(f"{row:44} {_kib_per_stream(client, provider, number):6.1f}", flush=True)
    facts = description()
    print(f"\n{facts['cores']} cores, {facts['cpu']}, Linux {facts['kernel']}, {facts['python']}")
    return 0


def _allow_files(number: int) -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if most < FILES_FOR_A_STREAM * number:
        needed = FILES_FOR_A_STREAM * number
        sys.exit(f"{number} streams need {needed} files, and {most} are allowed (ulimit -Hn)")
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _kib_per_stream(client: str, provider: str, number: int) -> float:
    with tempfile.TemporaryDirectory(prefix="mgw-bench-") as name, _listener() as upstream:
        folder = Path(name)
        with gateway(folder, _config(folder, upstream)) as server:
            request = _request(WIRES[client], PREFIXES[provider])
            streams = Streams(upstream, server.port, request, WIRES[provider].first_event)
            with streams.open(WARM_STREAMS):
                pass
            before = _settled(server.pid)
            with streams.open(number):
                return (_settled(server.pid) - before) / 1024 / number


def _config(folder: Path, upstream: socket.socket) -> str:
    """Fill ``bench/mgw.yaml`` in: the edge key, the credential, events, metrics and logs, all on."""
    fill = {"temp": str(folder), "upstream_port": str(upstream.getsockname()[1]), "scheme": "http"}
    fill |= {"ca_file": "", "other_keys": "", "aliases": ""}
    text = (HERE / "mgw.yaml").read_text()
    for name, value in fill.items():
        text = text.replace(f"${name}", value)
    return text


@contextmanager
def _listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0), backlog=1024) as listener:
        listener.settimeout(ANSWER_SECONDS)
        yield listener


def _request(wire: Wire, prefix: str) -> bytes:
    named = wire.body if "{model}" in wire.path else {"model": f"{prefix}m", **wire.body}
    body = json.dumps(named).encode()
    head = (
        f"POST {wire.path.format(model=f'{prefix}m')} HTTP/1.1\r\nHost: bench\r\n"
        f"Authorization: Bearer {EDGE_KEY}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def _settled(pid: int) -> int:
    """Return the resident memory once it has stopped growing; records are written some moments later."""
    seen = resident_bytes(pid)
    for _ in range(20):
        time.sleep(0.3)
        now = resident_bytes(pid)
        if now <= seen:
            return now
        seen = now
    return seen


@dataclass(frozen=True, slots=True)
class Streams:
    """Opens streams through a gateway, one after the other, and plays their provider."""

    upstream: socket.socket
    port: int
    request: bytes
    first_event: bytes

    @contextmanager
    def open(self, number: int) -> Iterator[None]:
        """Hold so many open."""
        with ExitStack() as held:
            for _ in range(number):
                self._open_one(held)
            yield

    def _open_one(self, held: ExitStack) -> None:
        client = held.enter_context(socket.create_connection(("127.0.0.1", self.port), ANSWER_SECONDS))
        client.sendall(self.request)
        provider = held.enter_context(self.upstream.accept()[0])
        provider.settimeout(ANSWER_SECONDS)
        _read_request(provider)
        more = "".join(f"X-Header-{number}: some value of it\r\n" for number in range(_HEADERS - 2))
        head = (
            f"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n{more}Transfer-Encoding: chunked\r\n\r\n"
        )
        event = self.first_event
        provider.sendall(f"{head}{len(event):x}\r\n".encode() + event + b"\r\n")
        _read_until(client, b"Hello")


def _read_request(provider: socket.socket) -> None:
    """Read a request with its body, and do not keep it."""
    held = _read_until(provider, b"\r\n\r\n")
    head, _, rest = held.partition(b"\r\n\r\n")
    _, _, length = head.lower().partition(b"content-length:")
    left = int(length.split(b"\r\n", 1)[0]) - len(rest)
    while left > 0:
        left -= len(_received(provider))


def _read_until(connection: socket.socket, mark: bytes) -> bytes:
    held = b""
    while mark not in held:
        held += _received(connection)
    return held


def _received(connection: socket.socket) -> bytes:
    data = connection.recv(65536)
    if not data:
        raise ConnectionError("closed before its time")
    return data


if __name__ == "__main__":
    sys.exit(main())
