"""The response to one request: relayed, an error in the client's dialect, or the gateway's own."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from typing import Final

from msgspec import Struct
from twisted.internet.defer import Deferred, succeed

from mgw.bodies.budget import Reservation
from mgw.dialects import dialect_of
from mgw.exchange.response_channel import Producer, ResponseChannel
from mgw.http.response_writer import RelayedHead, date_header, reason_phrase
from mgw.nouns.errors import GatewayError, Reason
from mgw.nouns.vocabulary import DialectName
from mgw.web.channel import GatewayChannel
from mgw.wire.headers import RawHeaders

JSON: Final = b"application/json"
SLICE_BYTES: Final = 128 * 1024
"""What is written at once of a body that comes in parts: the kernel takes it in less than a tenth of a ms."""
NO_STORE: Final = (b"Cache-Control", b"no-store")
_FINAL: Final = frozenset({400, 401, 403, 404, 405, 413, 421, 426, 501})
"""Refusals that a repetition cannot change; the vendors' SDKs repeat some of them unless they are told."""
_KEY_WANTED: Final = b'Bearer realm="mgw"'
_NO_RETRY: Final = (b"x-should-retry", b"false")


def _not_started(*_: object) -> None:
    raise RuntimeError("the response has not started")


class ServerResponse(Struct, eq=False):
    """A :class:`~mgw.exchange.response_channel.ResponseChannel` for the response to one request."""

    _channel: GatewayChannel
    _memory: Reservation
    """What the request has reserved; the response releases it when it starts."""
    status: int | None = None
    write: Callable[[bytes], None] = _not_started
    """Sends a piece of the body: the channel's own method, one call less for every chunk."""

    @property
    def started(self) -> bool:
        """Whether the head of a response is on its way."""
        return self.status is not None

    def start(self, status: int, reason: bytes, headers: RawHeaders) -> None:
        """Send the head of the response."""
        self.status, self.write = status, self._channel.write
        self._memory.release_all()
        self._channel.start(status, reason or reason_phrase(status), headers)

    def start_early(self, status: int, reason: bytes, headers: RawHeaders) -> None:
        """Send the head of the response while the request is still needed, whose memory stays reserved."""
        self.status, self.write = status, self._channel.write
        self._channel.start(status, reason or reason_phrase(status), headers)

    def forget_request(self) -> None:
        """Release the request's memory."""
        self._memory.release_all()

    def relay_head(self, head: RelayedHead, lines: bytes) -> None:
        """Send the head of a response that is passed on."""
        self.status, self.write = head.status, self._channel.write
        self._memory.release_all()
        self._channel.relay_head(head, lines)

    def relay_whole(self, head: RelayedHead, lines: bytes, body: bytes) -> None:
        """Send all of a response that is passed on."""
        self.status = head.status
        self._memory.release_all()
        self._channel.relay_whole(head, lines, body)

    def finish(self, last_piece: bytes = b"") -> None:
        """End the response behind a last piece of the body, if there is one."""
        self._channel.finish(last_piece)

    def chunk_writer(self) -> GatewayChannel:
        """Return the channel itself."""
        return self._channel

    def flush(self) -> None:
        """Send a head that waits for the first bytes of its body."""
        self._channel.flush()

    def abort(self) -> None:
        """End the connection visibly broken, behind what was written."""
        self._channel.truncate()

    def register(self, producer: Producer) -> None:
        """Name what is to pause while the client reads slowly."""
        self._channel.register(producer)

    def unregister(self) -> None:
        """There is nothing to pause any more."""
        self._channel.unregister()


def send_response(
    client: ResponseChannel, status: int, content_type: bytes, body: bytes, headers: RawHeaders
) -> None:
    """Send a whole response; its ``Date`` is among the headers."""
    head: RawHeaders = [
        (b"Content-Type", content_type),
        (b"Content-Length", b"%d" % len(body)),
        *headers,
    ]
    client.start(status, reason_phrase(status), head)
    client.write(body)
    client.finish()


async def send_parts(
    client: ResponseChannel,
    content_type: bytes,
    parts: list[bytes],
    headers: RawHeaders,
    pause: Callable[[], Awaitable[None]],
) -> None:
    """Send a whole response whose body is in parts: a slice each turn of the reactor, at the client's pace.

    :param pause: lets the reactor do other things.
    """
    length = (b"Content-Length", b"%d" % sum(map(len, parts)))
    client.start(200, reason_phrase(200), [(b"Content-Type", content_type), length, *headers])
    gate = _Gate()
    client.register(gate)
    try:
        for number, piece in enumerate(_slices(parts)):
            if number:
                await pause()
            await gate.when_open()
            client.write(piece)
    finally:
        client.unregister()
    client.finish()


def _slices(parts: list[bytes]) -> Iterator[bytes]:
    """Yield the bytes of the parts in pieces of about the same size, none of them larger."""
    held: list[bytes] = []
    room = SLICE_BYTES
    for part in parts:
        position = 0
        while len(part) - position > room:
            yield b"".join([*held, part[position : position + room]])
            position += room
            held, room = [], SLICE_BYTES
        held.append(part[position:])
        room -= len(part) - position
    yield b"".join(held)


class _Gate:
    """Open while the client takes what is written."""

    def __init__(self) -> None:
        self._closed = False
        self._waiter: Deferred[None] | None = None

    def pause(self) -> None:
        """Close."""
        self._closed = True

    def resume(self) -> None:
        """Open."""
        self._closed = False
        waiter, self._waiter = self._waiter, None
        if waiter is not None:
            waiter.callback(None)

    def when_open(self) -> Deferred[None]:
        """Fire when the gate is open; one at a time waits."""
        if not self._closed:
            return succeed(None)
        self._waiter = Deferred(self._forget)
        return self._waiter

    def _forget(self, _: Deferred[None]) -> None:
        self._waiter = None


def send_refusal(
    client: ResponseChannel, error: GatewayError, dialect: DialectName, request_id: str, wall: float
) -> None:
    """Send a refusal in the shape of a dialect (contract 6.1, 6.4).

    :param wall: unix seconds, now.
    """
    headers: RawHeaders = [(b"X-Gateway-Request-Id", request_id.encode()), date_header(wall), NO_STORE]
    if error.status in _FINAL or error.is_final:
        headers.append(_NO_RETRY)
    if error.retry_after is not None:
        headers.append((b"Retry-After", b"%d" % max(1, round(error.retry_after))))
    if error.allow:
        headers.append((b"Allow", ", ".join(error.allow).encode()))
    if error.reason is Reason.NO_WEBSOCKET:  # RFC 9110 15.5.22, 7.8: what is wanted instead
        headers += [(b"Upgrade", b"HTTP/1.1"), (b"Connection", b"Upgrade")]
    if error.reason is Reason.ONLY_WEBSOCKET:  # RFC 6455 4.2.2: the version as well
        headers += [
            (b"Upgrade", b"websocket"),
            (b"Connection", b"Upgrade"),
            (b"Sec-WebSocket-Version", b"13"),
        ]
    challenge = _KEY_WANTED if error.reason is Reason.EDGE_KEY else error.challenge
    if challenge is not None:
        headers.append((b"WWW-Authenticate", challenge))  # RFC 9110 15.5.2
    send_response(client, error.status, JSON, dialect_of(dialect).render_refusal(error, request_id), headers)
