"""A webhook's receiver on a real socket, and clients that leave usage events behind, for tests and the bench.

Nothing here shares code with the gateway.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.support.raw_client import RawClient, chat

SECRET = "canary-webhook-secret"
TOKEN = "canary-webhook-token"


@dataclass
class Receiver:
    """What was posted; ``answer`` decides the status of each post, and may take its time."""

    answer: Callable[[int], int] = lambda _: 200
    """Gets the number of the post, counted from 0."""
    batches: list[tuple[str, list[dict[str, Any]]]] = field(default_factory=list)
    """The key and the events of each post that was answered with 2xx."""
    posts: int = 0
    faults: list[str] = field(default_factory=list)
    port: int = 0
    _changed: threading.Condition = field(default_factory=threading.Condition)
    _server: ThreadingHTTPServer | None = None

    def start(self) -> None:
        """Listen, at the same port as before."""
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                status = receiver.take(self.path, dict(self.headers.items()), body)
                self.send_response(status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *args: object) -> None:
                """Say nothing."""

            def handle(self) -> None:
                with suppress(ConnectionError, TimeoutError):
                    super().handle()

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            block_on_close = False

            def shutdown_request(self, request: Any) -> None:
                receiver.connections.discard(request)
                super().shutdown_request(request)

            def get_request(self) -> tuple[socket.socket, Any]:
                found = super().get_request()
                receiver.connections.add(found[0])
                return found

        self.connections: set[socket.socket] = set()
        self._server = Server(("127.0.0.1", self.port), Handler)
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def stop(self) -> None:
        """Die: nobody listens, and every connection breaks."""
        assert self._server is not None
        self._server.shutdown()
        self._server.server_close()
        for connection in list(self.connections):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def take(self, path: str, headers: dict[str, str], body: bytes) -> int:
        """Check a post, and return the status that it is answered with."""
        with self._changed:
            number = self.posts
            self.posts += 1
        status = self.answer(number)
        expected = "sha256=" + hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()
        if headers.get("X-Gateway-Signature") != expected:
            self.faults.append("signature")
        if headers.get("Authorization") != f"Bearer {TOKEN}" or not path.endswith("?key=canary"):
            self.faults.append("headers")
        if 200 <= status < 300:
            with self._changed:
                self.batches.append((headers["Idempotency-Key"], json.loads(body)))
                self._changed.notify_all()
        return status

    @property
    def ids(self) -> list[str]:
        """The ids of all events that were taken, in order."""
        with self._changed:
            return [event["request_id"] for _, events in self.batches for event in events]

    def wait_for(self, ids: set[str], seconds: float) -> None:
        """Wait until these events were taken."""
        with self._changed:
            found = self._changed.wait_for(
                lambda: ids <= {event["request_id"] for _, events in self.batches for event in events},
                seconds,
            )
        assert found, f"{len(ids - set(self.ids))} of {len(ids)} events did not arrive"

    def check(self) -> None:
        """Fail where a post was wrong, or a key named two batches."""
        assert not self.faults, self.faults[:3]
        seen: dict[str, list[str]] = {}
        for key, events in self.batches:
            ids = [event["request_id"] for event in events]
            assert seen.setdefault(key, ids) == ids, f"{key} names two batches"

    def settings(self, **more: object) -> str:
        """The block ``webhook`` for this receiver."""
        return json.dumps(
            {
                "url": f"http://127.0.0.1:{self.port}/in?key=canary",
                "headers": {"Authorization": {"env": "WEBHOOK_AUTHORIZATION"}},
                "secret": SECRET,
                "flush_seconds": 0.1,
                **more,
            }
        )


ENVIRON = {"WEBHOOK_AUTHORIZATION": f"Bearer {TOKEN}"}


@contextmanager
def start_receiver() -> Iterator[Receiver]:
    """Start one; it is checked at the end of the block."""
    receiver = Receiver()
    receiver.start()
    try:
        yield receiver
        receiver.check()
    finally:
        receiver.stop()


def leave_events(port: int, count: int, ids: set[str], *, at_once: int = 20) -> None:
    """Send requests that are refused, and note the id of each that was answered.

    The other side may go away at any moment.
    """
    with RawClient(port) as client:
        left = count
        while left:
            now = min(at_once, left)
            left -= now
            if not client.send(chat("nobody/nothing") * now):
                return
            for _ in range(now):
                found = client.incoming.head()
                if found is None:
                    return
                headers = {name.lower(): value for name, value in found[1]}
                if len(client.incoming.up_to(int(headers[b"content-length"]))) < int(
                    headers[b"content-length"]
                ):
                    return
                ids.add(headers[b"x-gateway-request-id"].decode())
