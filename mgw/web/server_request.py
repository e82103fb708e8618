"""One request of a client: its body, what serves it, and its single response.

There is one way in for all rows with a provider: once the body is there, in memory or on disk, its exchange
runs.  What the gateway answers itself is handed to its application.

::

    opened ── on_body_data* ── on_body_end ── exchange or application ── response ──┐
       │            │                           │                                   ├── ended: access log,
       └────────────┴── refused (4xx, 5xx) ─────┤                                   │   body budget
                            on_disconnect, abort┴── cancelled ──────────────────────┘
"""

from __future__ import annotations

import re
from collections.abc import Awaitable
from typing import Final, Protocol

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure

from mgw.bodies.budget import BodyBudget, Reservation
from mgw.bodies.buffer import BodyBuffer
from mgw.bodies.source import BodySource
from mgw.bodies.spool import Spool, SpooledBody
from mgw.clients.peers import is_trusted
from mgw.config.settings import Config
from mgw.dialects.refusal import word_of
from mgw.exchange.exchange import Exchange
from mgw.exchange.offload import Offload
from mgw.exchange.pipeline import ExchangeRun
from mgw.exchange.untold import Estimates
from mgw.http.request_head import RequestHead
from mgw.memo.known_head import Caller, KnownHead
from mgw.nouns.errors import CLIENT_CLOSED, LIMIT_REASONS, Cause, GatewayError, Reason, forget_frames
from mgw.realtime.sessions import Sessions
from mgw.routing.match import MatchedRoute
from mgw.web.channel import GatewayChannel
from mgw.web.cors import CorsResponse
from mgw.web.interfaces import OpenRequest
from mgw.web.server_response import ServerResponse, send_refusal
from mgw.wire.headers import RawHeaders, value_of

_log: Final = Logger()
_AWAITED_BYTES: Final = 64 * 1024
"""The longest body that a refused client may send to keep its connection."""
_HOST: Final = re.compile(rb"(?:[A-Za-z0-9._-]{1,255}|\[[0-9A-Fa-f:.]{2,45}\])(?::[0-9]{1,5})?")


class LocalApp(Protocol):
    """Answers what the gateway serves itself."""

    def serve(self, request: ServerRequest) -> Awaitable[None]:
        """Send the response to a request whose body is there.

        :raises GatewayError: a refusal, which the caller says in the client's dialect.
        """
        ...


class RequestServer(Protocol):
    """What requests need of the server that they came to."""

    app: LocalApp
    clock: IReactorTime
    budget: BodyBudget
    spool: Spool
    offload: Offload
    estimates: Estimates | None
    sessions: Sessions

    def wall(self) -> float:
        """Return unix seconds."""
        ...

    def on_request_end(self, request: OpenRequest, status: int) -> None:
        """A request has ended."""
        ...


class ServerRequest:
    """One request of a client, from its head to the end of its response.

    :param exchange: ``None`` for what leaves no usage event: the catalog and the operational routes.
    :param content_length: of this very request; ``None`` without a body, and for a chunked one.
    """

    __slots__ = (
        *("_body", "_ended", "_gathered", "_limit", "_reservation", "_size", "_spooled", "_work"),
        *("known", "channel", "content_length", "exchange", "failure", "request_id", "response"),
        *("server", "started"),
    )

    def __init__(
        self,
        server: RequestServer,
        channel: GatewayChannel,
        known: KnownHead,
        request_id: str,
        exchange: Exchange | None,
        content_length: int | None,
    ) -> None:
        self.server = server
        self.channel = channel
        self.known = known
        self.request_id = request_id
        self.exchange = exchange
        self.content_length = content_length
        self.failure: str | None = None
        """Why the request did not end well; where there is an exchange, that knows it."""
        self._gathered: BodyBuffer | None = None
        """A body that is kept in memory, as far as it has come."""
        self._spooled: SpooledBody | None = None
        """A body that goes to disk if it is large, in place of the one in memory."""
        self._body = b""
        """The whole body, if the gateway itself answers and has not taken it yet."""
        self._size = 0
        self._work: Deferred[None] | Deferred[bytes | BodySource] | ExchangeRun | None = None
        """What serves the request, or waits for the disk to, once all of its body has come."""
        self._limit: GatewayError | None = None
        """The limit of the client that does not admit the request; it is said when the body has come."""
        self._ended = False
        self._reservation = reservation = Reservation(server.budget)
        # Both know the reservation itself: through this object they would make cycles.
        self.response = ServerResponse(channel, reservation)
        if known.cors is not None:
            self.response = CorsResponse(channel, reservation, cors=known.cors)
        self.started = server.clock.seconds() if exchange is None else exchange.started
        if exchange is not None:
            exchange.reserve = reservation.reserve
            exchange.offload, exchange.estimates = server.offload, server.estimates
        if known.matched.route.is_spooled and known.head.has_body:
            self._spooled = self._spool(channel, reservation)

    def _spool(self, channel: GatewayChannel, memory: Reservation) -> SpooledBody:
        """Return what takes the body to disk."""
        pause, resume = channel.pause_body, channel.resume_body
        return self.server.spool.begin(pause=pause, resume=resume, failed=self.refuse, memory=memory)

    @property
    def head(self) -> RequestHead:
        """The head, where the length of the body may be another request's."""
        return self.known.head

    @property
    def matched(self) -> MatchedRoute:
        """The row of the route table that serves it."""
        return self.known.matched

    @property
    def caller(self) -> Caller:
        """Who sent it."""
        return self.known.caller

    def admit_body(self) -> None:
        """Refuse a body that is announced too large, and let a waiting client send any other.

        :raises GatewayError: ``BODY_TOO_LARGE``.
        """
        length, head = self.content_length, self.known.head
        # Before the 100: a client that waits for it would send a body that is refused all the same.
        if length is not None and length > self.known.max_body_bytes:
            self.check_length(length)
        if head.expects_continue and head.has_body:
            self.channel.send_continue()

    def check_length(self, length: int) -> None:
        """Refuse a body that is too large.

        :raises GatewayError: ``BODY_TOO_LARGE``.
        """
        limit = self.known.max_body_bytes
        if length > limit:
            own = limit == self.matched.route.max_body_bytes
            whose = "the limit of this route" if own else "max_body_bytes"
            raise GatewayError(Reason.BODY_TOO_LARGE, f"the body is larger than {whose} ({limit} bytes)")

    def on_body_data(self, data: bytes) -> None:
        """Keep a piece of the body."""
        if self._ended or self._limit is not None:
            return
        self._size += len(data)
        try:
            self.check_length(self._size)
            if self._spooled is not None:
                self._spooled.write(data)
                return
            self._reservation.reserve(len(data))
            if self._gathered is None:
                self._gathered = BodyBuffer(self.content_length or 0)
            self._gathered.append(data)
        except GatewayError as error:
            self.refuse(error)

    def on_body_end(self) -> None:
        """Begin to serve the request."""
        if self._ended:
            return
        if self._limit is not None:
            self.refuse(self._limit)
        elif self._spooled is not None:
            # Kept first: a small body is there at once, and what serves it takes the place of the waiting.
            self._work = stored = self._spooled.finish()
            _ = stored.addCallback(self._serve).addErrback(self._on_not_stored)
        else:
            self._serve(b"" if self._gathered is None else self._gathered.take())

    def on_whole_body(self, content: bytes) -> None:
        """Begin to serve a request that came at once."""
        if self._ended:
            return
        if self._spooled is not None:
            self.on_body_data(content)
            self.on_body_end()
            return
        try:
            self._reservation.reserve(len(content))  # which pieces do as they come
        except GatewayError as error:
            self.refuse(error)
        else:
            self._serve(content)

    def _serve(self, body: bytes | BodySource) -> None:
        exchange = self.exchange
        if exchange is None:
            assert isinstance(body, bytes), "what the gateway itself answers keeps its bodies in memory"
            self._body = body
            self._work = Deferred.fromCoroutine(self._answer())
            return
        run = ExchangeRun(exchange, self.known.client_request, self.response, self._on_served)
        self._work = run
        run.start(body)

    def on_disconnect(self) -> None:
        """Stop the request at once."""
        if self._work is not None:
            self._work.cancel()
        if not self._ended:
            if self.exchange is not None:
                self.exchange.client_left()
            self.failure = Cause.CLIENT_ABORT.value
            status = None if self.exchange is None else self.exchange.http_status
            self._end(status or CLIENT_CLOSED)

    def on_body_timeout(self) -> None:
        """The client stopped in the middle of its body."""
        self.refuse(GatewayError(Reason.CLIENT_TOO_SLOW, "the request body stopped arriving"))

    def on_malformed_body(self, error: GatewayError) -> None:
        """The body of the request is not HTTP."""
        self.refuse(error)

    def abort(self) -> None:
        """The drain has run out: refuse the request, or abort the response that has started."""
        message = "the gateway has shut down; try another instance"
        self._abort(GatewayError(Reason.DRAINING, message, retry_after=1.0))

    def cut(self, error: GatewayError) -> None:
        """Refuse the request, or end the response that has started: as an error shows it, or else broken."""
        work = self._work
        if not (isinstance(work, ExchangeRun) and work.cut(error)):
            self._abort(error)

    def _abort(self, error: GatewayError) -> None:
        if self._ended:
            return
        if self.exchange is not None:
            # Before the cancellation, which would settle it as left by the client.
            self.exchange.refused(error)
        status = error.status
        try:
            if self._work is None:
                self.channel.close_after()
            else:
                self._work.cancel()
            status = self.response.status or status  # before the error is sent, which sets the status
            self._send_error(error)
        finally:
            self._end(status)

    def take_body(self) -> bytes:
        """Return the body of a request that the gateway itself answers; it is no longer here."""
        body, self._body = self._body, b""
        return body

    def refuse(self, error: GatewayError) -> None:
        """Respond with a refusal, and close the connection if more of the body may come."""
        if self._ended:
            return
        is_limit = error.reason in LIMIT_REASONS and self._work is None
        has_body = is_limit and self.channel.skip_body()
        if is_limit and not has_body and self._awaits_body():
            self._limit = error
            return
        if self.exchange is not None:
            self.exchange.refused(error)
        try:
            if self._work is None and not has_body:
                self.channel.close_after()
            self._send_error(error)
        finally:
            self._end(error.status)

    def _awaits_body(self) -> bool:
        """Whether so little of the body is left that waiting for it is better than to close the connection.

        Many clients send head and body one after the other.
        """
        length = self.content_length
        return length is not None and length <= _AWAITED_BYTES and not self.head.expects_continue

    def on_limit(self, error: GatewayError) -> None:
        """The client's limits do not admit the request: do not wait for the rest of a long body."""
        if self._work is None:  # which else knows it too
            self.refuse(error)

    def _on_not_stored(self, failure: Failure) -> None:
        assert isinstance(failure.value, Exception), "what ends the process does not end here"
        self._on_served(failure.value)

    async def _answer(self) -> None:
        """Have the gateway's own application serve the request."""
        try:
            await self.server.app.serve(self)
        except Exception as error:
            self._on_served(error)
        else:
            self._on_served(None)

    def _on_served(self, error: Exception | None) -> None:
        """The response is complete, or there is an error to tell."""
        self._work = None
        if error is not None and isinstance(error, CancelledError):
            forget_frames(error)
            return  # whoever cancelled has settled the exchange and ends the request
        try:
            if error is not None:
                self._on_failed(error)
        finally:
            self._end(self.response.status or CLIENT_CLOSED)

    def _on_failed(self, error: Exception) -> None:
        """Tell the client what went wrong."""
        if isinstance(error, GatewayError):
            forget_frames(error)
            self._on_error(error)
        else:
            _log.failure(
                "internal error: request {request_id} failed", Failure(error), request_id=self.request_id
            )
            self._on_error(
                GatewayError(
                    Reason.INTERNAL, "internal gateway error; search the gateway's log for the request id"
                )
            )

    def _on_error(self, error: GatewayError) -> None:
        if error.reason is Reason.NO_PROVIDER_KEY and self.caller.flaw is not None:
            error = GatewayError(error.reason, f"{error.message}; {self.caller.flaw}", code=error.code)
        if self.exchange is not None:
            self.exchange.refused(error)  # nothing happens where it is settled, as it is behind a pipeline
        self._send_error(error)

    def _send_error(self, error: GatewayError) -> None:
        self.failure = word_of(error)
        if self.response.started:
            if not self.channel.serves_another(self):  # else this response has ended, with the error
                self.response.abort()
        else:
            send_refusal(
                self.response, error, self.matched.route.dialect, self.request_id, self.server.wall()
            )

    def _end(self, status: int) -> None:
        if self._ended:
            return
        self._ended = True
        if self._gathered is not None:
            self._gathered.clear()
        spooled, self._spooled = self._spooled, None  # which knows us, too
        if spooled is not None:
            spooled.close()
        if self._reservation.held:
            self._reservation.release_all()
        self.server.on_request_end(self, status)


def own_address(config: Config, headers: RawHeaders, peer: str, *, secure: bool) -> str | None:
    """Return the gateway's own address as a client knows it, without a slash at its end (contract 4.23).

    ``None`` where the client does not say it plainly.


    :param peer: the address that the request came from, which may be a proxy's.
    :param secure: whether it came over TLS.
    """
    if config.public_url is not None:
        return config.public_url
    host = value_of(headers, b"host")
    if host is None or _HOST.fullmatch(host) is None:
        return None
    if not secure and is_trusted(peer, config.trusted_proxies):
        said = value_of(headers, b"x-forwarded-proto") or b""
        secure = said.partition(b",")[0].strip().lower() == b"https"
    return f"{'https' if secure else 'http'}://{host.decode('ascii')}"
