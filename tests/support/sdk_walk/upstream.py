"""An upstream that takes whatever comes, keeps it as it came, and answers so that an SDK can go on."""

from __future__ import annotations

import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import BinaryIO, cast

from tests.support.sdk_walk.answers import answer_to
from tests.support.sdk_walk.records import Recorded


@dataclass
class Upstream:
    """A recording server on a port of its own."""

    name: str
    port: int = 0
    _records: list[Recorded] = field(default_factory=list)

    @property
    def url(self) -> str:
        """Its origin."""
        return f"http://127.0.0.1:{self.port}"

    def add(self, record: Recorded) -> None:
        """Keep a request."""
        self._records.append(record)

    def taken(self) -> list[Recorded]:
        """Return what came since the last time."""
        taken, self._records = self._records, []
        return taken


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    block_on_close = False
    allow_reuse_address = True
    request_queue_size = 64

    def __init__(self, upstream: Upstream) -> None:
        super().__init__(("127.0.0.1", 0), _Connection)
        self.upstream = upstream
        upstream.port = self.server_address[1]


class _Connection(socketserver.StreamRequestHandler):
    """One connection: requests one after another, until the client leaves."""

    disable_nagle_algorithm = True
    rbufsize = 65536

    def handle(self) -> None:
        upstream = cast(_Server, self.server).upstream
        try:
            while (record := _read(cast(BinaryIO, self.rfile))) is not None:
                upstream.add(record)
                self.connection.sendall(answer_to(record, upstream.url))
        except ConnectionError:
            return


def _read(stream: BinaryIO) -> Recorded | None:
    line = stream.readline()
    if not line:
        return None
    method, target, _ = line.decode("latin-1").split(" ", 2)
    headers: list[tuple[str, str]] = []
    while line := stream.readline().rstrip(b"\r\n"):
        name, _, value = line.decode("latin-1").partition(":")
        headers.append((name, value.strip()))
    return Recorded(method, target, tuple(headers), _body(stream, headers))


def _body(stream: BinaryIO, headers: list[tuple[str, str]]) -> bytes:
    framing = {name.lower(): value.lower() for name, value in headers}
    if framing.get("transfer-encoding") != "chunked":
        return stream.read(int(framing.get("content-length", 0)))
    pieces = []
    while size := int(stream.readline().split(b";")[0], 16):
        pieces.append(stream.read(size))
        stream.readline()
    stream.readline()
    return b"".join(pieces)


@contextmanager
def recording_upstream(name: str) -> Iterator[Upstream]:
    """Run an upstream for the length of a block."""
    upstream = Upstream(name)
    with _Server(upstream) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        try:
            yield upstream
        finally:
            server.shutdown()
            thread.join()
