"""How an answer reaches the client: as a stream of pieces, or whole, once all of it is known.

A plan says one of the three: :class:`Streamed` for what is handed on piece by piece, :class:`Gathered` for
what must be read to its end before the first byte of the answer is known, and :class:`Whole` for an answer
that needs no provider at all.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Final, Protocol

from msgspec import Struct
from twisted.internet.defer import Deferred

from mgw.bodies.gathered import Gathered as GatheredBytes
from mgw.canonical.reply import NO_USAGE, TokenUsage
from mgw.credentials.provider import Credential
from mgw.errors import Cause, GatewayError, Reason
from mgw.exchange.aside import CODED_BYTES, LARGE_BYTES, done
from mgw.exchange.client import Client
from mgw.exchange.exchange import Exchange
from mgw.exchange.relay import BodyFilter, HeldHead, relay
from mgw.http.response_writer import date_header
from mgw.routing.resolve import Target
from mgw.upstream.client import Answer, UpstreamRequest
from mgw.wire.headers import RawHeaders

MAX_ANSWER_BYTES: Final = 64 * 1024 * 1024
"""What is kept of an answer that has to be whole: some pictures in base64, and no more."""
_NO_STORE: Final = (b"Cache-Control", b"no-store")
SLICE_BYTES: Final = 256 * 1024
"""An answer above this size is written in slices of it, as fast as the client takes them."""


def _nothing() -> None:
    """Nothing was found beside."""


class Whole(Struct, frozen=True):
    """A complete answer."""

    status: int
    headers: RawHeaders
    body: bytes
    usage: TokenUsage = NO_USAGE
    stream: bool = False


class Unbegun(Struct, frozen=True):
    """What becomes of a stream that breaks before its first event: an answer with a status of its own."""

    unsaid: Callable[[], bool]
    """Whether no event has come."""
    refuse: Callable[[GatewayError], Whole]
    """Makes the answer of what broke the stream; raises it where it is the gateway's own error."""


class Streamed(Struct, frozen=True):
    """The head of an answer, and what its body walks through."""

    status: int
    reason: bytes
    headers: RawHeaders
    body_filter: BodyFilter
    stream: bool
    keepalive_seconds: float | None = None
    unbegun: Unbegun | None = None
    """``None``: the head goes out at once.  Else it waits for the first event, or for a sign of life."""


class Gathered(Struct, frozen=True):
    """What makes an answer of the provider's body, once it is whole."""

    complete: Callable[[bytes], Whole]
    """May run in any thread; raises :class:`GatewayError`."""
    afterwards: Callable[[], None] = _nothing
    """Tells the reactor's thread what :attr:`complete` found beside."""
    coded: bool = False
    """Whether the body has a content coding, and may swell."""
    max_bytes: int | None = None
    """Of the provider's body; ``None``: :data:`MAX_ANSWER_BYTES`."""


class Plan(Protocol):
    """What goes up, and how the answer comes down."""

    @property
    def target(self) -> Target:
        """Where the request goes."""
        ...

    def upstream_request(self, credential: Credential) -> UpstreamRequest:
        """Return the request to send with one credential."""
        ...

    def delivery(self, answer: Answer) -> Streamed | Gathered:
        """Say how an answer reaches the client.

        :raises GatewayError: where it cannot.
        """
        ...


async def deliver(exchange: Exchange, answer: Answer, how: Streamed | Gathered, client: Client) -> None:
    """Bring an answer to the client.

    :raises GatewayError: what broke it; the client was shown it, if anything was sent.
    """
    if isinstance(how, Gathered):
        body = await gather(exchange, answer, how.max_bytes)
        large = len(body) > (CODED_BYTES if how.coded else LARGE_BYTES)
        complete = partial(how.complete, body)
        del body
        whole = await done(exchange.aside, complete, large=large)
        del complete
        how.afterwards()
        await give(exchange, whole, client)
        return

    def begin() -> None:
        _start(exchange, how.status, how.reason, how.headers, client)
        exchange.stream = how.stream

    if how.unbegun is None:
        begin()
        await relay(exchange, answer, how.body_filter, client, how.keepalive_seconds)
        return
    held = HeldHead(begin, how.unbegun.unsaid)
    try:
        await relay(exchange, answer, how.body_filter, client, how.keepalive_seconds, held)
        return
    except GatewayError as error:
        if client.started:
            raise
        refusal = how.unbegun.refuse(error)
        exchange.unbegun = error
    await give(exchange, refusal, client)


async def give(exchange: Exchange, whole: Whole, client: Client) -> None:
    """Send a complete answer, at the client's pace."""
    exchange.usage = lambda: whole.usage
    exchange.stream = whole.stream
    length = (b"Content-Length", b"%d" % len(whole.body))
    _start(exchange, whole.status, b"", [*whole.headers, length], client)
    if len(whole.body) <= SLICE_BYTES:
        client.write(whole.body)
        client.finish()
        return
    with suppress(GatewayError):  # the head is out; its room was there a moment ago
        exchange.hold(len(whole.body))
    giving = _Giving(client, whole.body)
    client.register(giving)
    giving.resume()
    await giving.done


def _start(exchange: Exchange, status: int, reason: bytes, headers: RawHeaders, client: Client) -> None:
    exchange.http_status = status
    own: RawHeaders = [(b"X-Gateway-Request-Id", exchange.request_id.encode())]
    if exchange.translated:  # an answer of the same family is the provider's, its date included
        own.append(date_header(exchange.now()))
        if status >= 400:
            own.append(_NO_STORE)
    client.start(status, reason, [*headers, *own])


@dataclass(slots=True)
class _Giving:
    """A large answer on its way, slice by slice; ``done`` fires behind the last."""

    client: Client
    body: bytes = field(repr=False)
    done: Deferred[None] = field(init=False)
    _position: int = 0
    _paused: bool = True
    _writing: bool = False

    def __post_init__(self) -> None:
        self.done = Deferred(lambda _: self.pause())

    def pause(self) -> None:
        self._paused = True

    def resume(self) -> None:
        self._paused = False
        if self._writing:
            return  # the loop below goes on
        self._writing = True
        while not self._paused and self._position < len(self.body):
            begin, self._position = self._position, self._position + SLICE_BYTES
            self.client.write(self.body[begin : self._position])
        self._writing = False
        if self._position >= len(self.body) and not self.done.called:
            self.client.unregister()
            self.client.finish()
            self.done.callback(None)


@dataclass(slots=True)
class _Gathering:
    exchange: Exchange
    answer: Answer
    max_bytes: int | None
    done: Deferred[bytes] = field(init=False)
    _kept: GatheredBytes = field(default_factory=GatheredBytes)
    _size: int = 0

    def __post_init__(self) -> None:
        self.done = Deferred(lambda _: self.answer.abandon())

    def body_arrived(self, data: bytes) -> None:
        if self.exchange.first_byte_at is None:
            self.exchange.first_byte_at = self.exchange.clock.seconds()
        self._kept.keep(data)
        self._size += len(data)
        try:
            most = MAX_ANSWER_BYTES if self.max_bytes is None else self.max_bytes
            if self._size > most:
                message = f"the upstream's response has more than {most} bytes"
                raise GatewayError(Reason.UPSTREAM_BROKEN, message).because(Cause.LIMIT)
            self.exchange.hold(len(data))
        except GatewayError as error:
            self._kept.clear()
            self.answer.abandon()
            self.done.errback(error)

    def body_ended(self) -> None:
        self.done.callback(self._kept.whole())

    def body_broke(self, error: GatewayError) -> None:
        self._kept.clear()
        self.done.errback(error)


def gather(exchange: Exchange, answer: Answer, max_bytes: int | None) -> Deferred[bytes]:
    """Read an answer to its end; cancel to stop.

    The Deferred fails with a :class:`GatewayError` where the body breaks or is too large.
    """
    gathering = _Gathering(exchange, answer, max_bytes)
    answer.deliver_to(gathering)
    return gathering.done
