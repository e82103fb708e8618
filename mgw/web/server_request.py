"""One request of a client: its body, its Klein endpoint, and its one response.

::

    opened ── on_body_data* ── on_body_end ── endpoint ── response ──┐
       │            │                           │                    ├── ended: access log, body budget
       └────────────┴── refused (4xx, 5xx) ─────┤                    │
                            on_disconnect, abort┴── cancelled ───────┘
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import TYPE_CHECKING, Final

from twisted.internet.defer import CancelledError, Deferred
from twisted.logger import Logger

from mgw.bodies.budget import Reservation
from mgw.bodies.buffer import BodyBuffer
from mgw.bodies.source import BodySource
from mgw.bodies.spool import SpooledBody
from mgw.config.settings import Config
from mgw.dialects.refusal import word_of
from mgw.errors import CLIENT_CLOSED, Cause, GatewayError, Reason, forget_frames
from mgw.exchange.exchange import Exchange
from mgw.exchange.request import ClientRequest
from mgw.http.request_head import RequestHead
from mgw.routing.match import MatchedRoute
from mgw.routing.route import BodyStorage
from mgw.web.channel import GatewayChannel
from mgw.web.edge_auth import Caller
from mgw.web.server_response import ServerResponse, send_refusal
from mgw.wire.headers import RawHeaders, value_of

if TYPE_CHECKING:
    from mgw.web.server import WebServer

_log: Final = Logger()
_PLAIN_HOST: Final = re.compile(rb"(?:[A-Za-z0-9._-]{1,255}|\[[0-9A-Fa-f:.]{2,45}\])(?::[0-9]{1,5})?")


@dataclass(slots=True)
class ServerRequest:
    """One request of a client, from its head to the end of its response."""

    server: WebServer
    channel: GatewayChannel
    head: RequestHead
    request_id: str
    matched: MatchedRoute
    caller: Caller
    exchange: Exchange | None
    """``None`` for what leaves no usage event: the catalog and the operational routes."""
    raw_path: bytes
    response: ServerResponse = field(init=False)
    started: float = field(init=False)
    _gathered: BodyBuffer = field(default_factory=BodyBuffer, repr=False)
    """What has come of a body that is kept in memory."""
    _spooled: SpooledBody | None = field(default=None, repr=False)
    """Takes its place where a large body is kept on disk."""
    _body: bytes | BodySource = field(default=b"", repr=False)
    _size: int = 0
    _reservation: Reservation = field(init=False)
    _work: Deferred[None] | None = field(default=None, repr=False)
    _ended: bool = False
    _error: str | None = None

    def __post_init__(self) -> None:
        self.started = self.server.clock.seconds()
        self._reservation = Reservation(self.server.budget)
        # Both call the reservation itself: through this object they would make cycles.
        self.response = ServerResponse(self.channel, self._reservation.release_all)
        if self.exchange is not None:
            self.exchange.reserve = self._reservation.reserve
            self.exchange.offload = self.server.offload
        if self.matched.route.body is BodyStorage.SPOOL and self.head.has_body:
            self._spooled = self.server.spool.begin(
                pause=self.channel.pause_body,
                resume=self.channel.resume_body,
                failed=self.refuse,
                memory=self._reservation,
            )

    def admit_body(self) -> None:
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
        if self._ended:
            return
        self._size += len(data)
        try:
            if self._size > self._max_body_bytes():
                raise self._too_large()
            if self._spooled is not None:
                self._spooled.write(data)
                return
            self._reservation.reserve(len(data))
            self._gathered.append(data)
        except GatewayError as error:
            self.refuse(error)

    def on_body_end(self) -> None:
        """Hand the request to its Klein endpoint."""
        if not self._ended:
            if self._spooled is None:
                self._body = self._gathered.take()
            self._work = Deferred.fromCoroutine(self._run())

    def on_disconnect(self) -> None:
        """Stop the request at once."""
        if self._work is not None:
            self._work.cancel()
        if not self._ended:
            if self.exchange is not None:
                self.exchange.client_left()
            self._error = Cause.CLIENT_ABORT.value
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
        if self._ended:
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
        status = self.response.status or error.status
        self._send_error(error)
        self._end(status)

    def client_request(self) -> ClientRequest:
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
        """Respond with a refusal, and close the connection if more of the body may come."""
        if self._ended:
            return
        if self.exchange is not None:
            self.exchange.refused(error)
        if self._work is None:
            self.channel.close_after()
        self._send_error(error)
        self._end(error.status)

    async def _run(self) -> None:
        try:
            if self._spooled is not None:
                self._body = await self._spooled.finish()
            await self.server.execute(self)
        except GatewayError as error:
            forget_frames(error)
            self._on_error(error)
        except CancelledError as error:
            forget_frames(error)
            return  # whoever cancelled has settled the exchange and ends the request
        except Exception:
            _log.failure("a bug: request {request_id} failed", request_id=self.request_id)
            self._on_error(
                GatewayError(
                    Reason.INTERNAL, "internal error of the gateway; find the request's id in its log"
                )
            )
        self._end(self.response.status or CLIENT_CLOSED)

    def _own_address(self) -> str | None:
        """Return the gateway's address as the client knows it, where the response may have to tell it."""
        if self.matched.route.url_rewrite is None or self.exchange is None:
            return None
        config = self.exchange.generation.config
        return own_address(config, self.head.headers, self.channel.peer, secure=self.channel.is_secure)

    def _on_error(self, error: GatewayError) -> None:
        if error.reason is Reason.NO_PROVIDER_KEY and self.caller.flaw is not None:
            error = GatewayError(error.reason, f"{error.message}; {self.caller.flaw}", code=error.code)
        if self.exchange is not None:
            self.exchange.refused(error)  # nothing happens where it is settled, as it is behind a pipeline
        self._send_error(error)

    @property
    def error(self) -> str | None:
        """Why the request did not end well, as its event has it."""
        return self._error if self.exchange is None else self.exchange.error

    def _send_error(self, error: GatewayError) -> None:
        self._error = word_of(error)
        if self.response.started:
            self.response.abort()
        else:
            send_refusal(
                self.response, error, self.matched.route.dialect, self.request_id, self.server.wall()
            )

    def _too_large(self) -> GatewayError:
        limit = self._max_body_bytes()
        whose = "the limit of this route" if limit == self.matched.route.max_body_bytes else "max_body_bytes"
        return GatewayError(Reason.BODY_TOO_LARGE, f"the body is larger than {whose}, {limit} bytes")

    def _max_body_bytes(self) -> int:
        exchange = self.exchange
        generation = self.server.generation if exchange is None else exchange.generation
        limit = generation.config.max_body_bytes
        own = self.matched.route.max_body_bytes
        return limit if own is None else min(limit, own)

    def _end(self, status: int) -> None:
        if self._ended:
            return
        self._ended = True
        self._gathered.clear()
        if self._spooled is not None:
            self._spooled.close()
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
    if host is None or _PLAIN_HOST.fullmatch(host) is None:
        return None
    if not secure and is_trusted(peer, config.trusted_proxies):
        said = value_of(headers, b"x-forwarded-proto") or b""
        secure = said.partition(b",")[0].strip().lower() == b"https"
    return f"{'https' if secure else 'http'}://{host.decode('ascii')}"


def is_trusted(peer: str, proxies: Sequence[IPv4Network | IPv6Network]) -> bool:
    """Whether a peer is one of the proxies whose word counts."""
    if not proxies:
        return False
    try:
        address = ip_address(peer.partition("%")[0])
    except ValueError:  # a UNIX socket has no address
        return False
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return any(address in network for network in proxies if network.version == address.version)
