"""TLS before a port that speaks none, for clients that take nothing else."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from queue import SimpleQueue
from threading import Thread

from tests.support.certificates import Authority, issue
from tests.support.waiting import WAIT_SECONDS


@asynccontextmanager
async def tls_front(port: int, ca: Authority) -> AsyncIterator[int]:
    """Listen with a certificate for localhost, and pass what comes on to ``port``; yields our port."""
    issued = issue(ca, "localhost")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(issued.cert_file, issued.key_file)
    open_writers: list[asyncio.StreamWriter] = []

    async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
        writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        upstream_reader, upstream_writer = await asyncio.open_connection("127.0.0.1", port)
        open_writers.extend((writer, upstream_writer))
        await asyncio.gather(
            pass_on(reader, upstream_writer), pass_on(upstream_reader, writer), return_exceptions=True
        )

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        for writer in open_writers:
            writer.close()
        server.close()
        await server.wait_closed()


def trusting(ca: Authority) -> ssl.SSLContext:
    """What trusts the authority, and nothing else."""
    return ssl.create_default_context(cafile=str(ca.ca_file))


@contextmanager
def start_tls_front(port: int, ca: Authority) -> Iterator[int]:
    """The same in a thread of its own, for what is no coroutine."""
    ports: SimpleQueue[int] = SimpleQueue()
    loop = asyncio.new_event_loop()
    stop = asyncio.Event()

    async def serve() -> None:
        async with tls_front(port, ca) as own_port:
            ports.put(own_port)
            await stop.wait()

    thread = Thread(target=loop.run_until_complete, args=(serve(),))
    thread.start()
    try:
        yield ports.get(timeout=WAIT_SECONDS)
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()
        loop.close()
