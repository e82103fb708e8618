"""Plain sockets for tests of faults: a client that sends any bytes, and a provider that answers by script.

Nothing here shares code with the gateway: what both sides got wrong alike would go unseen.  Every wait has a
deadline, and what happens is told by threads and conditions, never by the clock.
"""

from __future__ import annotations

import json
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final, Self

from tests.support.gateway import GatewayProcess
from tests.support.patience import PATIENCE

"""How long anything may take that is sure to happen."""
HOST: Final = b"Host: gateway"
CHAT: Final = "/v1/chat/completions"
_POLL_SECONDS: Final = 0.005


@dataclass(frozen=True)
class RawAnswer:
    """One answer as it came over the wire, its chunks joined."""

    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes
    whole: bool
    """Whether the body ended as the head had announced."""
    interim: list[int] = field(default_factory=list)
    """The statuses of the 1xx answers before it."""

    def values(self, lower_name: bytes) -> list[bytes]:
        """Return every value of a header, in order."""
        return [value for name, value in self.headers if name.lower() == lower_name]

    def value(self, lower_name: bytes) -> bytes | None:
        """Return the first value of a header, or ``None``."""
        return next(iter(self.values(lower_name)), None)

    def json(self) -> Any:
        """Return the body, parsed."""
        return json.loads(self.body)


class Incoming:
    """What arrives on a socket, cut as HTTP/1.1 says; ``ended`` once nothing more can come."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._held = bytearray()
        self.ended = False
        self.reset = False

    def more(self) -> bool:
        """Wait for more bytes; say whether any came before the end of the connection."""
        if self.ended:
            return False
        try:
            data = self._socket.recv(65536)
        except (ConnectionResetError, BrokenPipeError):
            self.ended = self.reset = True
            return False
        except TimeoutError:
            raise AssertionError(f"nothing more came behind {bytes(self._held[-200:])!r}") from None
        self._held += data
        self.ended = not data
        return not self.ended

    def until(self, end: bytes) -> bytes | None:
        """Take what comes up to and with ``end``; ``None`` where the connection ends before it."""
        while (at := self._held.find(end)) < 0:
            if not self.more():
                return None
        return self._take(at + len(end))

    def up_to(self, count: int) -> bytes:
        """Take ``count`` bytes, or fewer where the connection ends before them."""
        while len(self._held) < count and self.more():
            pass
        return self._take(min(count, len(self._held)))

    def rest(self) -> bytes:
        """Take everything up to the end of the connection."""
        while self.more():
            pass
        return self._take(len(self._held))

    def head(self) -> tuple[bytes, list[tuple[bytes, bytes]]] | None:
        """Take a first line and its headers; ``None`` where the connection ends before they are complete."""
        block = self.until(b"\r\n\r\n")
        if block is None:
            return None
        first, *lines = block[:-4].split(b"\r\n")
        pairs = [line.partition(b":") for line in lines]
        return first, [(name, value.strip()) for name, _, value in pairs]

    def chunks(self) -> tuple[bytes, bool]:
        """Take a chunked body; return it, and whether its last chunk came."""
        pieces: list[bytes] = []
        while (line := self.until(b"\r\n")) is not None:
            size = int(line, 16)
            if not size:
                return b"".join(pieces), self.until(b"\r\n") == b"\r\n"
            pieces.append(self.up_to(size))
            if self.up_to(2) != b"\r\n":
                break
        return b"".join(pieces), False

    def _take(self, count: int) -> bytes:
        taken = bytes(self._held[:count])
        del self._held[:count]
        return taken


def _find(headers: list[tuple[bytes, bytes]], lower_name: bytes) -> bytes | None:
    return next((value for name, value in headers if name.lower() == lower_name), None)


class RawClient:
    """A client's connection; leaving the ``with`` block closes it.

    :param receive_buffer: bytes of the kernel's receive buffer, for a client that takes little.
    """

    def __init__(self, port: int, *, receive_buffer: int | None = None) -> None:
        self.socket = socket.socket()
        self.socket.settimeout(PATIENCE)
        if receive_buffer is not None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.connect(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.incoming = Incoming(self.socket)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, data: bytes) -> bool:
        """Send it all; say whether the other side let us."""
        try:
            self.socket.sendall(data)
        except (ConnectionResetError, BrokenPipeError):
            return False
        return True

    def answer(self, method: str = "POST") -> RawAnswer:
        """Take the next answer, to a request of this method."""
        interim: list[int] = []
        while True:
            found = self.incoming.head()
            assert found is not None, "the connection ended before an answer"
            first, headers = found
            status = int(first.split(b" ")[1])
            if status >= 200:
                return self._with_body(status, headers, interim, bodiless=method == "HEAD")
            interim.append(status)

    def no_answer(self) -> bool:
        """Wait for the end of the connection; say whether nothing came before it."""
        return self.incoming.rest() == b""

    def half_close(self) -> None:
        """Say that nothing more will be sent, and go on listening."""
        self.socket.shutdown(socket.SHUT_WR)

    def reset(self) -> None:
        """Break the connection."""
        _reset(self.socket)

    def _with_body(
        self, status: int, headers: list[tuple[bytes, bytes]], interim: list[int], *, bodiless: bool
    ) -> RawAnswer:
        length = _find(headers, b"content-length")
        whole = True
        if bodiless or status in (204, 304):
            body = b""
        elif length is not None:
            body = self.incoming.up_to(int(length))
            whole = len(body) == int(length)
        elif _find(headers, b"transfer-encoding") is not None:
            body, whole = self.incoming.chunks()
        else:
            body = self.incoming.rest()
            whole = not self.incoming.reset
        return RawAnswer(status, headers, body, whole, interim)


def request(
    body: bytes | None, *headers: bytes, path: str = CHAT, method: str = "POST", version: str = "1.1"
) -> bytes:
    """Return a request; its length is told where it has a body."""
    lines = [f"{method} {path} HTTP/{version}".encode(), HOST, *headers]
    if body is not None:
        lines.append(b"Content-Length: %d" % len(body))
    return b"\r\n".join([*lines, b"", body or b""])


def asking(model: str, **fields: Any) -> bytes:
    """Return the body of a chat request to a model."""
    return json.dumps({"model": model, "messages": [{"role": "user", "content": "hi"}], **fields}).encode()


def chat(model: str, *headers: bytes, version: str = "1.1", **fields: Any) -> bytes:
    """Return a whole chat request to a model."""
    return request(asking(model, **fields), b"Content-Type: application/json", *headers, version=version)


def counted(body: bytes, *headers: bytes, status: int = 200) -> bytes:
    """Return an answer whose length is told."""
    lines = [b"HTTP/1.1 %d Whatever" % status, b"Content-Length: %d" % len(body), *headers]
    return b"\r\n".join([*lines, b"", body])


def chunk(piece: bytes) -> bytes:
    """Return one chunk; an empty piece makes the last one."""
    return b"%x\r\n%b\r\n" % (len(piece), piece)


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
        return _find(self.headers, lower_name)

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

    def push(self, piece: bytes, silent_seconds: float) -> int:
        """Send a piece over and over until the other side takes no byte of it any more; return how much."""
        sent = 0
        self._socket.settimeout(silent_seconds)
        try:
            while True:
                sent += self._socket.send(memoryview(piece)[sent % len(piece) :])
        except TimeoutError:
            return sent
        finally:
            self._socket.settimeout(PATIENCE)

    def close(self) -> None:
        """Close in order."""
        self.closed = True
        self._socket.shutdown(socket.SHUT_WR)

    def reset(self) -> None:
        """Break the connection."""
        self.closed = True
        _reset(self._socket)

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
            assert self._changed.wait_for(condition, PATIENCE), f"waited in vain for {what}"

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


def _patiently(
    connection: socket.socket, incoming: Incoming
) -> tuple[bytes, list[tuple[bytes, bytes]]] | None:
    """Wait for the next request for as long as the connection lasts."""
    connection.settimeout(None)
    found = incoming.head()
    connection.settimeout(PATIENCE)
    return found


@contextmanager
def start_upstream() -> Iterator[RawUpstream]:
    """Start a scripted provider; it is ended at the end of the block."""
    upstream = RawUpstream()
    try:
        yield upstream
    finally:
        upstream.close()


def _reset(connection: socket.socket) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


@dataclass
class Ledger:
    """What a gateway records while one test runs: every event is asked for, and none comes twice."""

    gateway: GatewayProcess
    _taken: int = field(init=False)

    def __post_init__(self) -> None:
        self._taken = self.gateway.stdout.data.count(b"\n")

    def take(self, count: int = 1) -> list[dict[str, Any]]:
        """Wait for the next usage events."""
        events = self.gateway.events(self._taken + count, PATIENCE)
        events = events[self._taken : self._taken + count]
        self._taken += count
        return events

    def one(self, **expected: Any) -> dict[str, Any]:
        """Wait for the next usage event; it must say what is expected (``None``: the field is absent)."""
        (event,) = self.take()
        assert {name: event.get(name) for name in expected} == expected, event
        assert event["request_id"].startswith("req_")
        assert event["latency_ms"] >= event.get("ttft_ms", 0)
        return event

    def balance(self, model: str) -> None:
        """The gateway answers the next request, and its event is the only one that was not asked for yet."""
        assert self.rest(model) == []

    def rest(self, model: str) -> list[dict[str, Any]]:
        """The gateway answers the next request; return the events before its own that nobody asked for."""
        with RawClient(self.gateway.port) as client:
            client.send(chat(model))
            answer = client.answer()
        assert (answer.status, answer.whole) == (200, True), answer
        last = event_of(self.gateway, answer)
        assert (last["status"], last["http_status"], last["model"]) == ("ok", 200, model), last
        events = self.gateway.events()[self._taken :]
        self._taken += len(events)
        assert events.pop() == last
        return events


def event_of(gateway: GatewayProcess, answer: RawAnswer) -> dict[str, Any]:
    """Wait for the usage event of an answer."""
    request_id = answer.value(b"x-gateway-request-id")
    assert request_id is not None
    mark = b'"request_id":"%b"' % request_id
    lines: bytes = gateway.stdout.wait_for(
        lambda data: mark in data[: data.rfind(b"\n") + 1] and data, PATIENCE, "the event of an answer"
    )
    (event,) = [json.loads(line) for line in lines.splitlines() if mark in line]
    assert isinstance(event, dict)
    return event


def eventually(condition: Callable[[], bool], what: str) -> None:
    """Wait until something is true that no event tells of, such as a number in ``/proc``."""
    pause = threading.Event()
    for _ in range(int(PATIENCE / _POLL_SECONDS)):
        if condition():
            return
        pause.wait(_POLL_SECONDS)
    raise AssertionError(f"waited in vain for {what}")
