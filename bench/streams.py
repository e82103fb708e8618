"""What an open stream costs in memory: ``python -m bench.streams [--open N]``.

A gateway with everything on gets N streams at a time, once passed through and once for each translation.
Each has received its head and its first event and is then silent, as the stream of a model that thinks is.
The growth of the process, divided by N, is the cost of one. Every row has a gateway of its own, so that
nothing hides in memory that an earlier row has left. Both ends of the streams are in this process; all
listens on the loopback address and ends with the run.
"""

from __future__ import annotations

import argparse
import resource
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from bench.load import EDGE_KEY, PATHS
from bench.machines import description, resident_bytes
from bench.processes import bound_run, serving_gateway
from bench.sides import PREFIXES
from tests.support.raw_client import RawClient, chunk, request
from tests.support.raw_upstream import STREAM_HEAD, Script, Turn, start_upstream
from tests.support.talks import Assistant
from tests.support.wires import ANTHROPIC, CHAT, GEMINI, WIRES, sized_request, stream

LIMIT_SECONDS: Final = 300
WARM_STREAMS: Final = 50
"""Opened and closed before the starting level is taken: caches and pools are not the cost of a stream."""
FILES_FOR_A_STREAM: Final = 4
NAMES: Final = {CHAT: "OpenAI", ANTHROPIC: "Anthropic", GEMINI: "Gemini"}
_SAID: Final = "Hey!"
_HEADERS: Final = b"".join(b"X-Header-%d: some value of it\r\n" % number for number in range(18))
"""With two more, as many as the vendors send."""


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
    model = f"{PREFIXES[provider]}m"
    path = PATHS[client].format(model=model, method="streamGenerateContent?alt=sse")
    asking = request(
        sized_request(client, model, 256, stream=True),
        b"Authorization: Bearer " + EDGE_KEY.encode(),
        path=path,
    )
    with start_upstream() as upstream, tempfile.TemporaryDirectory(prefix="mgw-bench-") as name:
        upstream.begin(_beginning(provider))
        with serving_gateway(Path(name), upstream_port=str(upstream.port)) as server:
            with _open(server.port, asking, WARM_STREAMS):
                pass
            before = _settled(server.pid)
            with _open(server.port, asking, number):
                return (_settled(server.pid) - before) / 1024 / number


def _beginning(wire: str) -> Script:
    """Return what begins a stream, with its first text, and then says nothing."""
    pieces = stream(wire, Assistant(_SAID))
    first = next(at for at, piece in enumerate(pieces) if _SAID.encode() in piece)
    head = STREAM_HEAD.replace(b"\r\n", b"\r\n" + _HEADERS, 1)

    def script(turn: Turn) -> None:
        assert turn.body is not None
        turn.send(head + chunk(b"".join(pieces[: first + 1])))
        turn.wait_until_left()

    return script


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


@contextmanager
def _open(port: int, asking: bytes, number: int) -> Iterator[None]:
    """Hold so many streams open, opened one after the other."""
    with ExitStack() as held:
        for _ in range(number):
            client = held.enter_context(RawClient(port))
            client.send(asking)
            assert client.incoming.until(_SAID.encode()), "a stream has ended before its time"
        yield


if __name__ == "__main__":
    sys.exit(main())
