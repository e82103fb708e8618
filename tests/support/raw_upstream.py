"""A provider on plain sockets that responds by script."""

from __future__ import annotations

import base64
import hashlib
import json
import select
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final

from tests.support.raw_client import Incoming, find_value, push, reset_connection
from tests.support.waiting import WAIT_SECONDS


def counted(body: bytes, *headers: bytes, status: int = 200) -> bytes:
    """Return an answer whose length is told."""
    lines = [b"HTTP/1.1 %d Whatever" % status, b"Content-Length: %d" % len(body), *headers]
    return b"\r\n".join([*lines, b"", body])


COMPLETION: Final = json.dumps(
    {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "gpt-real",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "hi"}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10},
    }
).encode()
JSON: Final = b"Content-Type: application/json"
EVENTS: Final = b"Content-Type: text/event-stream"
STREAM_HEAD: Final = b"\r\n".join([b"HTTP/1.1 200 OK", EVENTS, b"Transfer-Encoding: chunked", b"", b""])


@dataclass
class Turn:
    """One request that a :class:`RawUpstream` got, and the connection to answer it on."""

    method: str
    target: str
    headers: list[tuple[bytes, bytes]]
    connection: int
    """The connection's number, from 1."""
    number: int
    """The request's number on its connection, from 1."""
    _upstream: RawUpstream = field(repr=False)
    _socket: socket.socket = field(repr=False)
    _incoming: Incoming = field(repr=False)
    _body: bytes | None = field(default=None, repr=False)
    closed: bool = False

    def value(self, lower_name: bytes) -> bytes | None:
        """Return the first value of a header, or ``None``."""
        return find_value(self.headers, lower_name)

    @property
    def body(self) -> bytes:
        """The body; the first look waits for all of it."""
        if self._body is None:
            length = int(self.value(b"content-length") or 0)
            self._body = self._incoming.up_to(length)
            assert len(self._body) == length or self._incoming.ended
        return self._body

    def model(self) -> Any:
        """Return the model that the body names."""
        return json.loads(self.body)["model"]

    def send(self, *pieces: bytes) -> None:
        """Send each piece as a write of its own.

        :raises OSError: the gateway has closed the connection.
        """
        for piece in pieces:
            self._socket.sendall(piece)

    def read(self, count: int) -> bytes:
        """Return the next bytes of a body, or behind an upgrade; wait for them."""
        return self._incoming.up_to(count)

    def has_body_read(self) -> None:
        """Say that the script has read all of the body by itself."""
        self._body = b""

    def has_more(self, seconds: float) -> bool:
        """Say whether the gateway sends more, or leaves, within so many seconds."""
        return bool(select.select([self._socket], [], [], seconds)[0])

    def push(self, piece: bytes, silent_seconds: float) -> int:
        """Send a piece over and over until the other side takes no byte of it any more; return how much."""
        return push(self._socket, piece, silent_seconds)

    def switch_protocols(self, *headers: bytes, more: bytes = b"") -> None:
        """Accept the WebSocket that was asked for, with ``more`` right behind the 101."""
        key = (self.value(b"sec-websocket-key") or b"") + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
        accept = base64.b64encode(hashlib.sha1(key).digest())
        lines = [b"HTTP/1.1 101 Go", b"Upgrade: websocket", b"Connection: Upgrade", *headers]
        self.send(b"\r\n".join([*lines, b"Sec-WebSocket-Accept: " + accept, b"", more]))

    def tunnel_to(self, port: int, head: bytes = b"HTTP/1.1 200 Connection established\r\n\r\n") -> None:
        """Be a proxy that was asked for a tunnel: pass on bytes in both directions until both have ended."""
        with socket.create_connection(("127.0.0.1", port)) as provider:
            self.send(head)
            back = threading.Thread(target=_pass_on, args=(provider, self._socket), daemon=True)
            back.start()
            _pass_on(self._socket, provider)
            back.join()
        self.closed = True

    def close(self) -> None:
        """Close in order."""
        self.closed = True
        self._socket.shutdown(socket.SHUT_WR)

    def reset(self) -> None:
        """Break the connection."""
        self.closed = True
        reset_connection(self._socket)

    def wait_until_left(self) -> None:
        """Wait until the gateway has closed the connection."""
        self._incoming.rest()
        self._upstream.note_left()


Script = Callable[[Turn], None]


def complete(turn: Turn) -> None:
    """Answer with a whole completion."""
    assert turn.body is not None
    turn.send(counted(COMPLETION, JSON))


class RawUpstream:
    """A provider on the loopback; ``script`` is called for each request once its head has come.

    A script that does not look at the body has it read behind its answer.  It ends with the gateway's
    leaving: what it then sends raises ``OSError``, which is no failure.  Any other exception fails the test
    that closes the provider.
    """

    def __init__(self) -> None:
        self.script: Script = complete
        self.turns: list[Turn] = []
        self.accepted = 0
        self.left = 0
        """How often a script has seen the gateway leave."""
        self._changed = threading.Condition()
        self._failures: list[BaseException] = []
        self._sockets: set[socket.socket] = set()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port: int = self._listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        threading.Thread(target=self._accept, daemon=True).start()

    def wait_for(self, condition: Callable[[], bool], what: str) -> None:
        """Wait until something about this provider is true."""
        with self._changed:
            assert self._changed.wait_for(condition, WAIT_SECONDS), f"waited in vain for {what}"

    def wait_until_left(self, times: int = 1) -> None:
        """Wait until scripts have seen the gateway leave so often."""
        self.wait_for(lambda: self.left >= times, "the gateway to leave")

    def begin(self, script: Script = complete) -> None:
        """Answer by another script, and forget what was asked until now."""
        self.script = script
        with self._changed:
            self.turns.clear()
            self.left = 0

    def close(self) -> None:
        """End it; fail where a script has failed."""
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # which wakes whoever accepts
        self._listener.close()
        with self._changed:
            for connection in self._sockets:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
        for failure in self._failures:
            raise failure

    def note_left(self) -> None:
        """A script has seen the gateway leave."""
        with self._changed:
            self.left += 1
            self._changed.notify_all()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:  # closed
                return
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self._changed:
                self.accepted += 1
                self._sockets.add(connection)
                self._changed.notify_all()
            threading.Thread(target=self._serve, args=(connection, self.accepted), daemon=True).start()

    def _serve(self, connection: socket.socket, number: int) -> None:
        try:
            self._take_turns(connection, number)
        except OSError:
            pass
        except BaseException as failure:  # told by close()
            self._failures.append(failure)
        finally:
            with self._changed:
                self._sockets.discard(connection)
            connection.close()

    def _take_turns(self, connection: socket.socket, number: int) -> None:
        incoming = Incoming(connection)
        taken = 0
        while (found := _patiently(connection, incoming)) is not None:
            taken += 1
            method, target, _ = found[0].decode("latin-1").split(" ")
            turn = Turn(method, target, found[1], number, taken, self, connection, incoming)
            with self._changed:
                self.turns.append(turn)
                self._changed.notify_all()
            self.script(turn)
            if turn.closed:
                if connection.fileno() >= 0:
                    incoming.rest()
                return
            assert turn.body is not None


def _pass_on(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            sink.sendall(data)
    with suppress(OSError):
        sink.shutdown(socket.SHUT_WR)


def _patiently(
    connection: socket.socket, incoming: Incoming
) -> tuple[bytes, list[tuple[bytes, bytes]]] | None:
    """Wait for the next request for as long as the connection lasts."""
    connection.settimeout(None)
    found = incoming.head()
    connection.settimeout(WAIT_SECONDS)
    return found


@contextmanager
def start_upstream() -> Iterator[RawUpstream]:
    """Start a scripted provider; it is ended at the end of the block."""
    upstream = RawUpstream()
    try:
        yield upstream
    finally:
        upstream.close()
