"""What the simulator saw: the last requests, a few counts, and the routes under ``/_sim/`` that show them."""

import base64
import hashlib
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.interfaces import IReactorTime

from mgw_sim.api import Response, UnaryResponse, json_response
from mgw_sim.http.parser import Head

MAX_REQUESTS: Final = 200
MAX_BYTES: Final = 256 * 1024 * 1024  # of bodies in all
MAX_BODY: Final = 1024 * 1024
"""Bytes of one body that are kept once it has been answered; of a longer one its length and digest tell."""
MAX_MESSAGES: Final = 1000
MAX_MESSAGE_BYTES: Final = 4 * 1024 * 1024  # of the messages of one WebSocket
_MAX_WAIT: Final = 60.0


def is_operation(target: str) -> bool:
    """Whether a target is the simulator's own and none of a vendor's."""
    return target == "/" or target.startswith(("/_sim/", "/sim/"))


@dataclass(slots=True)
class RecordedMessage:
    """What came through a WebSocket: ``text``, ``binary``, ``ping``, ``pong`` or ``close``."""

    kind: str
    data: bytes
    """The payload, as far as ``MAX_MESSAGE_BYTES`` of its WebSocket allow; of a close its reason."""
    frames: int = 1
    code: int | None = None
    """The code of a close frame."""
    size: int = field(init=False)
    sha256: str = field(init=False)

    def __post_init__(self) -> None:
        """Measure what may be shortened later."""
        self.size, self.sha256 = len(self.data), hashlib.sha256(self.data).hexdigest()

    def as_json(self) -> dict[str, Any]:
        """The message for ``GET /_sim/requests``."""
        return {
            "kind": self.kind,
            "data": base64.b64encode(self.data).decode("ascii"),
            "size": self.size,
            "sha256": self.sha256,
            "frames": self.frames,
            "code": self.code,
        }


@dataclass(slots=True, eq=False)
class RecordedRequest:
    """One request; it is recorded when its head has come, and fills up from there."""

    number: int
    connection: int
    head: Head
    body: bytearray = field(default_factory=bytearray)
    complete: bool = False
    status: int | None = None
    pieces_sent: int = 0
    bytes_sent: int = 0
    answered: bool = False
    client_left: bool = False
    counted: bool = True
    scheme: str = "http"
    whole_size: int | None = None
    """The length of a body that has been shortened."""
    whole_sha256: str | None = None
    messages: list[RecordedMessage] = field(default_factory=list)
    """The first ``MAX_MESSAGES`` messages of a WebSocket."""
    message_bytes: int = 0
    """How many bytes of them are kept."""

    @property
    def body_size(self) -> int:
        """How many bytes the body has, or has so far."""
        return len(self.body) if self.whole_size is None else self.whole_size

    @property
    def body_sha256(self) -> str:
        """The digest of the body, in hexadecimal."""
        return self.whole_sha256 or hashlib.sha256(self.body).hexdigest()

    def shorten(self) -> None:
        """Let go of what is too long to be kept, but for its length and digest."""
        if len(self.body) > MAX_BODY:
            self.whole_size, self.whole_sha256 = self.body_size, self.body_sha256
            self.body = self.body[:MAX_BODY]

    @property
    def method(self) -> str:
        """The method."""
        return self.head.method.decode("ascii")

    @property
    def target(self) -> str:
        """Raw path and query."""
        return self.head.target.decode("ascii")

    @property
    def headers(self) -> list[tuple[str, str]]:
        """Header pairs in order, names in the case that they came in."""
        return [(name.decode("latin-1"), value.decode("latin-1")) for name, value in self.head.headers]

    def as_json(self) -> dict[str, Any]:
        """The record for ``GET /_sim/requests``."""
        return {
            "number": self.number,
            "connection": self.connection,
            "method": self.method,
            "target": self.target,
            "version": self.head.version.decode("ascii"),
            "headers": self.headers,
            "body": base64.b64encode(self.body).decode("ascii"),
            "body_size": self.body_size,
            "body_sha256": self.body_sha256,
            "complete": self.complete,
            "status": self.status,
            "pieces_sent": self.pieces_sent,
            "bytes_sent": self.bytes_sent,
            "answered": self.answered,
            "client_left": self.client_left,
            "messages": [message.as_json() for message in self.messages],
        }


@dataclass(slots=True)
class Recorder:
    """The last requests (``KEPT`` and ``MOST_BYTES`` bound them) and the counts since the last ``clear``."""

    requests: deque[RecordedRequest] = field(default_factory=lambda: deque(maxlen=MAX_REQUESTS))
    received: int = 0
    answered: int = 0
    left: int = 0
    malformed: int = 0
    messages: int = 0
    connections: int = 0
    connections_open: int = 0
    failures: dict[str, int] = field(default_factory=dict)
    keeps_bodies: bool = False
    """Bodies stay whole, however long."""
    lenient: bool = False
    """Identifiers that nobody knows are taken for known ones."""
    _serial: int = 0
    _waiters: list[tuple[Callable[[], bool], Deferred[None]]] = field(default_factory=list)

    def begin(self, connection: int, head: Head) -> RecordedRequest:
        """Record a request whose head has come, but for those that ask for the records."""
        self._serial += 1
        request = RecordedRequest(self._serial, connection, head)
        request.counted = not is_operation(request.target)
        if request.counted:
            self.received += 1
            self.requests.append(request)
            while sum(len(recorded.body) for recorded in self.requests) > MAX_BYTES:
                self.requests.popleft()
        self.changed()
        return request

    def shorten(self, request: RecordedRequest) -> None:
        """Keep no more of a request's body than is to be shown: its answer is made."""
        if not self.keeps_bodies:
            request.shorten()

    def finish(self, request: RecordedRequest) -> None:
        """The response has been written to its end, as far as was asked."""
        request.answered = True
        self.answered += request.counted
        self.changed()

    def leave(self, request: RecordedRequest) -> None:
        """The client closed before its response was over."""
        request.client_left = True
        self.shorten(request)
        self.left += request.counted
        self.changed()

    def add_message(self, request: RecordedRequest, message: RecordedMessage) -> None:
        """Something came through a WebSocket."""
        if len(request.messages) < MAX_MESSAGES:
            message.data = message.data[: MAX_MESSAGE_BYTES - request.message_bytes]
            request.message_bytes += len(message.data)
            request.messages.append(message)
        self.messages += message.kind in {"text", "binary"}
        self.changed()

    def note_malformed(self) -> None:
        """What came is against the rules of HTTP, or of WebSockets."""
        self.malformed += 1
        self.changed()

    def fail_again(self, name: str, times: int) -> bool:
        """Whether ``name`` still has failures to give; counts this one."""
        self.failures[name] = self.failures.get(name, 0) + 1
        return self.failures[name] <= times

    def clear(self) -> None:
        """Forget requests and counts; open connections stay counted."""
        self.requests.clear()
        self.failures.clear()
        self.received = self.answered = self.left = self.malformed = self.messages = 0
        self.connections = 0

    def counters(self) -> dict[str, int]:
        """The counts for ``GET /_sim/counters``."""
        return {
            "received": self.received,
            "answered": self.answered,
            "client_left": self.left,
            "malformed": self.malformed,
            "messages": self.messages,
            "connections": self.connections,
            "connections_open": self.connections_open,
        }

    def when(self, holds: Callable[[], bool]) -> Deferred[None]:
        """Fire when ``holds()`` is true, asked now and after each change."""
        waiter: Deferred[None] = Deferred(self._forget)
        if holds():
            waiter.callback(None)
        else:
            self._waiters.append((holds, waiter))
        return waiter

    def _forget(self, waiter: Deferred[None]) -> None:
        self._waiters = [pair for pair in self._waiters if pair[1] is not waiter]

    def changed(self) -> None:
        """Ask again what the waiters wait for."""
        for pair in [pair for pair in self._waiters if pair[0]()]:
            if pair in self._waiters:
                self._waiters.remove(pair)
                pair[1].callback(None)


async def answer_operation(
    recorder: Recorder, reactor: IReactorTime, request: RecordedRequest, path: str, query: dict[str, str]
) -> Response:
    """Answer a request for ``/`` or below ``/_sim/``."""
    match request.method, path:
        case "GET" | "HEAD", "/":
            return json_response({"service": "mgw-sim"})
        case "GET", "/_sim/requests":
            return json_response([recorded.as_json() for recorded in recorder.requests])
        case "DELETE", "/_sim/requests":
            recorder.clear()
            return json_response({})
        case "PUT", "/_sim/settings":
            recorder.keeps_bodies = query.get("keep") == "all"
            recorder.lenient = query.get("lenient") == "on"
            return json_response({"keep": query.get("keep", "some"), "lenient": query.get("lenient", "off")})
        case "GET", "/_sim/counters":
            return json_response(recorder.counters())
        case "GET", "/_sim/wait":
            return await _wait(recorder, reactor, query)
    return UnaryResponse(b'{"error":"no such route"}', status=404)


async def _wait(recorder: Recorder, reactor: IReactorTime, query: dict[str, str]) -> Response:
    """Answer when a counter has come to a number: ``?counter=client_left&count=1&seconds=10``, else 504."""
    name, count = query.get("counter", "received"), int(query.get("count", "1"))
    if name not in recorder.counters():
        return UnaryResponse(b'{"error":"no such counter"}', status=400)
    seconds = float(query.get("seconds", "10"))
    if not await happens(recorder, reactor, lambda: recorder.counters()[name] >= count, seconds):
        return it_did_not_happen()
    return json_response(recorder.counters())


async def happens(
    recorder: Recorder, reactor: IReactorTime, holds: Callable[[], bool], seconds: float
) -> bool:
    """Whether something holds within so many seconds; it is asked again whenever a request moves on."""
    waiter = recorder.when(holds)
    limit = reactor.callLater(min(seconds, _MAX_WAIT), waiter.cancel)
    try:
        await waiter
    except CancelledError:
        if limit.active():  # the asker left
            limit.cancel()
            raise
        return False
    if limit.active():
        limit.cancel()
    return True


def it_did_not_happen() -> Response:
    """The answer to a request that waited in vain."""
    return UnaryResponse(b'{"error":"it did not happen"}', status=504)
