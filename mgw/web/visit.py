"""One request behind the channel: its body, its Klein endpoint, and its one answer.

::

    opened ── on_body_data* ── on_body_end ── endpoint ── answered ──┐
       │            │                           │                   ├── over: line, budget
       └────────────┴── refused (4xx, 5xx) ─────┤                   │
                                  left, cut ────┴── cancelled ──────┘
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from twisted.internet.defer import CancelledError, Deferred
from twisted.logger import Logger

from mgw.bodies.budget import Reservation
from mgw.bodies.buffer import BodyBuffer
from mgw.bodies.source import BodySource
from mgw.bodies.spool import SpooledBody
from mgw.dialects.refusal import word_of
from mgw.errors import CLIENT_CLOSED, Cause, GatewayError, Reason, forget_frames
from mgw.exchange.exchange import Exchange
from mgw.exchange.request import ClientRequest, Producer
from mgw.http.request_head import RequestHead
from mgw.http.response_writer import reason_phrase
from mgw.routing.match import MatchedRoute
from mgw.routing.route import BodyStorage
from mgw.web.answers import refuse
from mgw.web.channel import GatewayChannel
from mgw.web.edge_auth import Caller
from mgw.web.own_address import own_address
from mgw.wire.headers import RawHeaders

if TYPE_CHECKING:
    from mgw.web.site import Site

_log: Final = Logger()


@dataclass(slots=True)
class ChannelClient:
    """The client at the other end of a channel, for the length of one request."""

    channel: GatewayChannel
    begun: Callable[[], None] = field(repr=False)
    """Called when the answer begins."""
    started: bool = False
    status: int | None = None
    write: Callable[[bytes], None] = field(init=False, repr=False)
    flush: Callable[[], None] = field(init=False, repr=False)
    finish: Callable[[], None] = field(init=False, repr=False)
    unregister: Callable[[], None] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.write = self.channel.write  # bound here: one call less for every chunk
        self.flush = self.channel.flush
        self.finish = self.channel.finish
        self.unregister = self.channel.unregister

    def start(self, status: int, reason: bytes, headers: RawHeaders) -> None:
        """Send the head of the answer."""
        self.started = True
        self.status = status
        self.begun()
        self.channel.start(status, reason or reason_phrase(status), headers)

    def abort(self) -> None:
        """End the connection visibly broken, behind what was written."""
        self.channel.truncate()

    def register(self, source: Producer) -> None:
        """Name what is to pause while the client reads slowly."""
        self.channel.register(source)


@dataclass(slots=True)
class RequestVisit:
    """A request on its way through the HTTP face."""

    site: Site
    channel: GatewayChannel
    head: RequestHead
    request_id: str
    matched: MatchedRoute
    caller: Caller
    exchange: Exchange | None
    """``None`` for what leaves no usage event: the catalog and the operational routes."""
    raw_path: bytes
    client: ChannelClient = field(init=False)
    started: float = field(init=False)
    _gathered: BodyBuffer = field(default_factory=BodyBuffer, repr=False)
    """What has come of a body that is kept in memory."""
    _spooled: SpooledBody | None = field(default=None, repr=False)
    """Takes its place where a large body is kept on disk."""
    _body: bytes | BodySource = field(default=b"", repr=False)
    _size: int = 0
    _reservation: Reservation = field(init=False)
    _work: Deferred[None] | None = field(default=None, repr=False)
    _over: bool = False
    _error: str | None = None

    def __post_init__(self) -> None:
        self.started = self.site.clock.seconds()
        self.client = ChannelClient(self.channel, self.let_go)
        self._reservation = Reservation(self.site.budget)
        if self.exchange is not None:
            self.exchange.hold = self.hold
            self.exchange.offload = self.site.offload
        if self.matched.route.body is BodyStorage.SPOOL and self.head.has_body:
            self._spooled = self.site.spool.begin(
                pause=self.channel.pause_body,
                resume=self.channel.resume_body,
                failed=self.refuse,
                memory=self._reservation,
            )

    def invite(self) -> None:
        """Refuse a body that is announced too large, and let a waiting client send any other.

        :raises GatewayError: ``BODY_TOO_LARGE``.
        """
        length = self.head.content_length
        if length is not None and length > self._max_body_bytes():
            raise self._too_large()
        if self.head.expects_continue and self.head.has_body:
            self.channel.send_continue()

    def on_body_data(self, data: bytes) -> None:
        """Keep a piece of the body."""
        if self._over:
            return
        self._size += len(data)
        try:
            if self._size > self._max_body_bytes():
                raise self._too_large()
            if self._spooled is not None:
                self._spooled.write(data)
                return
            self.hold(len(data))
            self._gathered.append(data)
        except GatewayError as error:
            self.refuse(error)

    def on_body_end(self) -> None:
        """Hand the request to its Klein endpoint."""
        if not self._over:
            if self._spooled is None:
                self._body = self._gathered.take()
            self._work = Deferred.fromCoroutine(self._run())

    def left(self) -> None:
        """The client went away: stop its request at once."""
        if self._work is not None:
            self._work.cancel()
        if not self._over:
            if self.exchange is not None:
                self.exchange.client_left()
            self._error = Cause.CLIENT_ABORT.value
            status = None if self.exchange is None else self.exchange.http_status
            self._end(status or CLIENT_CLOSED)

    def too_slow(self) -> None:
        """The client stopped in the middle of its body."""
        self.refuse(GatewayError(Reason.CLIENT_TOO_SLOW, "the request body stopped arriving"))

    def broken(self, error: GatewayError) -> None:
        """The body of the request is no HTTP."""
        self.refuse(error)

    def cut(self) -> None:
        """The drain has run out: refuse the request, or break the answer that has begun."""
        if self._over:
            return
        error = GatewayError(
            Reason.DRAINING, "the gateway has shut down; try another instance", retry_after=1.0
        )
        if self.exchange is not None:
            self.exchange.refused(error)
        if self._work is None:
            self.channel.close_after()
        else:
            self._work.cancel()
        status = self.client.status or error.status
        self._say(error)
        self._end(status)

    def hold(self, size: int) -> None:
        """Take room for bytes of a body.

        :raises GatewayError: ``OVERLOADED``.
        """
        self._reservation.reserve(size)

    def let_go(self) -> None:
        """Give the room back: the answer has begun, so nothing will be sent again."""
        self._reservation.release_all()

    def request(self) -> ClientRequest:
        """Return the request as the exchange sees it; its body is no longer here."""
        body, self._body = self._body, b""
        return ClientRequest(
            request_id=self.request_id,
            method=self.head.method,
            raw_path=self.raw_path,
            raw_query=self.caller.raw_query,
            headers=self.caller.headers,
            body=body,
            path_model=self.matched.model,
            version=self.matched.version,
            key=self.caller.key,
            own_address=self._own_address(),
        )

    def refuse(self, error: GatewayError) -> None:
        """Answer with a refusal, and close the connection where more of the body may come."""
        if self._over:
            return
        if self.exchange is not None:
            self.exchange.refused(error)
        if self._work is None:
            self.channel.close_after()
        self._say(error)
        self._end(error.status)

    async def _run(self) -> None:
        try:
            if self._spooled is not None:
                self._body = await self._spooled.finish()
            await self.site.execute(self)
        except GatewayError as error:
            forget_frames(error)
            self._failed(error)
        except CancelledError as error:
            forget_frames(error)
            return  # whoever cancelled has settled the exchange and ends the visit
        except Exception:
            _log.failure("a bug: request {request_id} failed", request_id=self.request_id)
            self._failed(
                GatewayError(
                    Reason.INTERNAL, "internal error of the gateway; find the request's id in its log"
                )
            )
        self._end(self.client.status or CLIENT_CLOSED)

    def _own_address(self) -> str | None:
        """Return the gateway's address as the client knows it, where the answer may have to tell it."""
        if self.matched.route.url_rewrite is None or self.exchange is None:
            return None
        config = self.exchange.generation.config
        return own_address(config, self.head.headers, self.channel.peer, secure=self.channel.is_secure)

    def _failed(self, error: GatewayError) -> None:
        if error.reason is Reason.NO_PROVIDER_KEY and self.caller.flaw is not None:
            error = GatewayError(error.reason, f"{error.message}; {self.caller.flaw}", code=error.code)
        if self.exchange is not None:
            self.exchange.refused(error)  # nothing happens where it is settled, as it is behind a pipeline
        self._say(error)

    @property
    def error(self) -> str | None:
        """Why the request did not end well, as its event has it."""
        return self._error if self.exchange is None else self.exchange.error

    def _say(self, error: GatewayError) -> None:
        self._error = word_of(error)
        if self.client.started:
            self.client.abort()
        else:
            refuse(self.client, error, self.matched.route.dialect, self.request_id, self.site.wall())

    def _too_large(self) -> GatewayError:
        limit = self._max_body_bytes()
        whose = "the limit of this route" if limit == self.matched.route.max_body_bytes else "max_body_bytes"
        return GatewayError(Reason.BODY_TOO_LARGE, f"the body is larger than {whose}, {limit} bytes")

    def _max_body_bytes(self) -> int:
        exchange = self.exchange
        generation = self.site.generation if exchange is None else exchange.generation
        limit = generation.config.max_body_bytes
        own = self.matched.route.max_body_bytes
        return limit if own is None else min(limit, own)

    def _end(self, status: int) -> None:
        if self._over:
            return
        self._over = True
        self._gathered.clear()
        if self._spooled is not None:
            self._spooled.close()
        self.let_go()
        self.site.ended(self, status)
