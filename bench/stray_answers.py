"""Check that a response that nobody asked for never reaches the next client::

    python -m bench.stray_answers --answers 10000 [--tls] [--every 3]

A provider in its own process sends a complete second response after each response (or after one in every N),
at once or up to five milliseconds later.  Meanwhile, clients request numbered responses and check that each
one is theirs.  The last line counts those that were not; the exit status is 1 if there were any.
"""

from __future__ import annotations

import asyncio
import ssl
import sys
from argparse import ArgumentParser, Namespace
from collections import Counter
from collections.abc import Callable
from itertools import count
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any, Final

from twisted.internet.defer import Deferred, gatherResults
from twisted.internet.task import deferLater, react

from mgw.upstream.client import (
    Upstream,
    UpstreamFailure,
    UpstreamLimits,
    UpstreamRequest,
    UpstreamResponse,
    build_upstream,
)

MOST_BEHIND_SECONDS: Final = 0.005
LATE_SECONDS: Final = 0.01
"""On a machine that is too busy to be in time a second answer is left out, and not counted."""
MOST_PAUSE_SECONDS: Final = 0.008
LIMITS: Final = UpstreamLimits(connect=10.0, first_byte=30.0, idle=30.0)


def provide(pipe: Connection, certificate: tuple[str, str] | None, every: int) -> None:
    """Serve until the pipe says otherwise; tells the port first, and how many second answers it sent last."""
    asyncio.run(_provide(pipe, certificate, every))


async def _provide(pipe: Connection, certificate: tuple[str, str] | None, every: int) -> None:
    random, sent, numbers = Random(1), Counter[str](), count(1)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                number = head.split(b" ", 2)[1][1:]
                stray = next(numbers) % every == 0
                behind = random.choice((0.0, random.uniform(0.0, MOST_BEHIND_SECONDS)))
                second = _answer(b"stray after " + number) if stray else b""
                writer.write(_answer(number) + (b"" if behind else second))
                began = perf_counter()
                await writer.drain()
                if stray and behind:
                    await asyncio.sleep(behind)
                    if perf_counter() - began > LATE_SECONDS:
                        sent["late"] += 1
                        continue
                    writer.write(second)
                sent["stray"] += stray
        except (asyncio.IncompleteReadError, asyncio.CancelledError, OSError):
            pass
        finally:
            writer.close()

    context = None
    if certificate is not None:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(*certificate)
    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    stop = asyncio.Event()
    asyncio.get_running_loop().add_reader(pipe.fileno(), stop.set)
    pipe.send(server.sockets[0].getsockname()[1])
    await stop.wait()
    pipe.send(dict(sent))


def _answer(body: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)


class _Body:
    """A sink whose body can be awaited."""

    def __init__(self, answer: UpstreamResponse) -> None:
        self.whole: Deferred[bytes] = Deferred()
        self._pieces: list[bytes] = []
        answer.deliver_body(self)

    def on_body_data(self, data: bytes) -> None:
        self._pieces.append(data)

    def on_body_end(self) -> None:
        self.whole.callback(b"".join(self._pieces))

    def on_body_error(self, error: Exception) -> None:
        self.whole.errback(error)


async def _ask(upstream: Upstream, number: int) -> str:
    try:
        answer = await upstream.open(UpstreamRequest(b"GET", b"/%d" % number, []))
        body = await _Body(answer).whole
    except UpstreamFailure:
        return "refused"
    return "own" if body == b"%d" % number else "strange"


async def _clients(reactor: Any, upstream: Upstream, enough: Callable[[], bool]) -> Counter[str]:
    random, numbers, found = Random(2), count(1), Counter[str]()

    async def client() -> None:
        while not enough():
            found[await _ask(upstream, next(numbers))] += 1
            await deferLater(reactor, random.choice((0.0, random.uniform(0.0, MOST_PAUSE_SECONDS))))

    await gatherResults([Deferred.fromCoroutine(client()) for _ in range(8)])
    return found


async def run(reactor: Any, options: Namespace, folder: Path) -> int:
    """Run one provider and its clients; return how many answers went to a stranger."""
    certificate, ca_file = _certificate(folder) if options.tls else (None, None)
    ours, its = get_context("spawn").Pipe()
    provider = get_context("spawn").Process(
        target=provide, args=(its, certificate, options.every), daemon=True
    )
    provider.start()
    port: int = ours.recv()
    base_url = f"http{'s' if options.tls else ''}://localhost:{port}"
    upstream = build_upstream("main", base_url, LIMITS, reactor, ca_file)
    asked = count()
    requests = options.answers * options.every
    found = await _clients(reactor, upstream, lambda: next(asked) >= requests)
    ours.send("stop")
    sent: dict[str, int] = ours.recv()
    upstream.close()
    provider.join(10)
    print(
        f"{'TLS' if options.tls else 'TCP'}: {found.total()} requests on {upstream.opened_total} connections"
    )
    print(f"second answers: {sent.get('stray', 0)} sent, {sent.get('late', 0)} left out as late")
    print(f"own answers: {found['own']}, refused: {found['refused']}, to a stranger: {found['strange']}")
    return found["strange"]


def _certificate(folder: Path) -> tuple[tuple[str, str], str]:
    from tests.support.certificates import authority, issue  # only TLS needs the tests' own authority

    ca = authority(folder)
    issued = issue(ca, "localhost")
    return (str(issued.cert_file), str(issued.key_file)), str(ca.ca_file)


def main() -> None:
    """Read the command line and run."""
    parser = ArgumentParser(prog="python -m bench.stray_answers", description=__doc__)
    parser.add_argument("--answers", type=int, default=10_000, help="number of second answers (10000)")
    parser.add_argument("--every", type=int, default=1, help="send one after every N answers (1)")
    parser.add_argument("--tls", action="store_true", help="connect to the provider over TLS")
    options = parser.parse_args()
    strange: list[int] = []

    async def work(reactor: Any) -> None:
        with TemporaryDirectory() as folder:
            strange.append(await run(reactor, options, Path(folder)))

    try:
        react(work)
    except SystemExit as error:
        sys.exit(error.code or bool(strange[0]))


if __name__ == "__main__":
    main()
