"""The provider of the transfers: takes files without keeping them, and gives files that it makes.

``python -m bench.transfer_upstream SECONDS`` takes so long for each file, and no longer than need be for 0.
Its port is the first line that it writes.
"""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from bench.transfer_files import (
    FILE_BYTES,
    PIECE_BYTES,
    SLOW_BUFFER,
    SMALL_BYTES,
    Pace,
    digest,
    file_pieces,
)


class Provider(ThreadingHTTPServer):
    """A thread for each connection."""

    request_queue_size = 64
    seconds: float = 0.0


class Exchange(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    server: Provider

    def do_POST(self) -> None:
        """Take a body, and tell what it was."""
        size = int(self.headers["Content-Length"])
        found = {"object": "file", "bytes": size, "sha256": digest(self._body(size))}
        answer = json.dumps(found).encode()
        self._begin("application/json", len(answer))
        self.wfile.write(answer)

    def do_GET(self) -> None:
        """Give a file."""
        size = SMALL_BYTES if "small" in self.path else FILE_BYTES
        self._begin("application/octet-stream", size)
        for piece in Pace(self.server.seconds).over(file_pieces(size)):
            self.wfile.write(piece)

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def _body(self, size: int) -> Iterator[bytes]:
        pace = Pace(self.server.seconds)
        while size and (piece := self.rfile.read1(min(size, PIECE_BYTES))):
            size -= len(piece)
            yield piece
            pace.passed(len(piece))

    def _begin(self, content_type: str, size: int) -> None:
        self.send_response(200)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(size))
        self.end_headers()


def main() -> None:
    """Serve until ended."""
    with Provider(("127.0.0.1", 0), Exchange) as provider:
        provider.seconds = float(sys.argv[1])
        if provider.seconds:  # what it accepts has the buffer of what listens
            provider.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SLOW_BUFFER)
        print(provider.server_port, flush=True)
        provider.serve_forever()


if __name__ == "__main__":
    main()
