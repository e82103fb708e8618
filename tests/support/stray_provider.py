"""A provider in a process of its own that sends responses that nobody asked for.

A complete second response follows a response (or one of every N), at once or up to five milliseconds later.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from multiprocessing import get_context
from multiprocessing.connection import Connection
from random import Random
from time import perf_counter
from typing import Final

from tests.support.certificates import Issued

MOST_BEHIND_SECONDS: Final = 0.005
LATE_SECONDS: Final = 0.01
"""On a machine that is too busy to be in time a second response is left out, and not counted."""


@dataclass
class StrayProvider:
    """What was started."""

    port: int
    sent: Counter[str] = field(default_factory=Counter)
    """How many second responses were sent (``stray``) and left out (``late``), once it has stopped."""


@contextmanager
def start_stray_provider(issued: Issued | None, every: int) -> Iterator[StrayProvider]:
    """Run the provider within the block.

    :param issued: its certificate, where it speaks TLS.
    :param every: 1 sends a second response after each, 5 after each fifth.
    """
    certificate = None if issued is None else (str(issued.cert_file), str(issued.key_file))
    ours, its = get_context("spawn").Pipe()
    process = get_context("spawn").Process(target=_provide, args=(its, certificate, every), daemon=True)
    process.start()
    provider = StrayProvider(ours.recv())
    try:
        yield provider
    finally:
        ours.send("stop")
        provider.sent.update(ours.recv())
        process.join(10)


def _provide(pipe: Connection, certificate: tuple[str, str] | None, every: int) -> None:
    asyncio.run(_serve(pipe, certificate, every))


async def _serve(pipe: Connection, certificate: tuple[str, str] | None, every: int) -> None:
    random, sent, numbers = Random(1), Counter[str](), count(1)

    async def respond(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                number = head.split(b" ", 2)[1][1:]
                is_stray = next(numbers) % every == 0
                behind = random.choice((0.0, random.uniform(0.0, MOST_BEHIND_SECONDS)))
                second = _response(b"stray after " + number) if is_stray else b""
                writer.write(_response(number) + (b"" if behind else second))
                began = perf_counter()
                await writer.drain()
                if is_stray and behind:
                    await asyncio.sleep(behind)
                    if perf_counter() - began > LATE_SECONDS:
                        sent["late"] += 1
                        continue
                    writer.write(second)
                sent["stray"] += is_stray
        except (asyncio.IncompleteReadError, asyncio.CancelledError, OSError):
            pass
        finally:
            writer.close()

    context = None
    if certificate is not None:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(*certificate)
    server = await asyncio.start_server(respond, "127.0.0.1", 0, ssl=context)
    stop = asyncio.Event()
    asyncio.get_running_loop().add_reader(pipe.fileno(), stop.set)
    pipe.send(server.sockets[0].getsockname()[1])
    await stop.wait()
    pipe.send(dict(sent))


def _response(body: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)
