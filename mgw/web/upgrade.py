"""A WebSocket request, from its head to the end of its session (``realtime``).

::

    opened ── on_body_end ── session opens ── 101 ── frames ── ended: access log
       │                          │
       └──── refused (4xx, 5xx) ──┤
                on_disconnect ────┴── cancelled
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from twisted.logger import Logger
from twisted.python.failure import Failure

from mgw.bodies.budget import Reservation
from mgw.exchange.exchange import Exchange
from mgw.memo.known_head import KnownHead
from mgw.nouns.errors import CLIENT_CLOSED, GatewayError, Reason, forget_frames
from mgw.reactor.transport import RelayTransport
from mgw.realtime.session import ClientReceiver, Session
from mgw.web.channel import GatewayChannel
from mgw.web.server_request import RequestServer
from mgw.web.server_response import ServerResponse, send_refusal
from mgw.wire.headers import RawHeaders, values_of

_log: Final = Logger()
KEY_SUBPROTOCOL: Final = "openai-insecure-api-key."
"""Begins the subprotocol in which browsers carry a key (contract 10.6)."""
_OFFER: Final = b"sec-websocket-protocol"


def split_subprotocols(headers: RawHeaders) -> tuple[RawHeaders, list[str], bytes | None]:
    """Take the key out of the subprotocols that a client offers.

    :returns: the headers without it, the subprotocols that are left, and the key.
    """
    values = values_of(headers, _OFFER)
    if not values:
        return headers, [], None
    offered = [one.strip() for value in values for one in value.decode("latin-1").split(",") if one.strip()]
    keys = [one for one in offered if one.startswith(KEY_SUBPROTOCOL)]
    if not keys:
        return headers, offered, None
    kept = [one for one in offered if not one.startswith(KEY_SUBPROTOCOL)]
    others = [pair for pair in headers if pair[0].lower() != _OFFER]
    if kept:
        others.append((b"Sec-WebSocket-Protocol", ", ".join(kept).encode("latin-1")))
    return others, kept, keys[0].removeprefix(KEY_SUBPROTOCOL).encode("latin-1")


class UpgradedClient:
    """The client's connection as its session sees it, and its session as the channel does."""

    __slots__ = (
        *("_channel", "_data", "_is_paused", "_receiver", "_response", "_transport"),
        *("on_data", "write"),
    )

    def __init__(self, channel: GatewayChannel) -> None:
        self._channel = channel
        self._transport: RelayTransport | None = None
        self._receiver: ClientReceiver | None = None
        self._response = self._data = b""
        self._is_paused = False
        self.write: Callable[[bytes], None] = _drop
        """Sends frames; once the protocol is switched the channel's own, as one call less for each."""
        self.on_data: Callable[[bytes], None] = _drop
        """Takes frames; bound in the same way."""

    # What the session calls.

    def switch_protocols(self, response: bytes) -> None:
        """Send the response that switches protocols; what comes behind the request waits for a receiver."""
        self._response = response
        self._channel.switch_protocols(self)

    def deliver_to(self, receiver: ClientReceiver) -> None:
        """Have ``receiver`` take what the client has sent, and sends from now on."""
        self._receiver = receiver
        self.on_data = receiver.on_client_data
        data, self._data = self._data, b""
        if data:
            self.on_data(data)

    def pause_reading(self) -> None:
        """Deliver nothing until :meth:`resume_reading`."""
        if self._transport is not None and not self._is_paused:
            self._is_paused = True
            self._transport.pauseProducing()

    def resume_reading(self) -> None:
        """Go on delivering."""
        if self._transport is not None and self._is_paused:
            self._is_paused = False
            self._transport.resumeProducing()

    def close(self) -> None:
        """Close in order, when everything is written; nothing happens where it is closed or broken off."""
        if self._transport is not None:
            self.resume_reading()  # until the client has closed its side
            self._stop()
            self._channel.end_upgraded()

    def abort(self) -> None:
        """Break the connection."""
        self._stop()
        self._channel.abort()

    # What the channel calls.

    def start(self, transport: RelayTransport, write: Callable[[bytes], None], data: bytes) -> None:
        """Begin."""
        self._transport = transport
        self.write = write
        self._data = data
        write(self._response)
        self._response = b""

    def pause(self) -> None:
        """The client takes less than is written."""
        if self._receiver is not None:
            self._receiver.on_client_full()

    def resume(self) -> None:
        """The client has taken everything."""
        if self._receiver is not None:
            self._receiver.on_client_drained()

    def on_client_ended(self) -> None:
        """The client has closed its side, which only matters where nobody reads what it has sent before."""
        if self._receiver is not None and self._is_paused:
            self._receiver.on_client_ended()

    def on_lost(self) -> None:
        """The connection is gone."""
        receiver = self._receiver
        self._stop()
        if receiver is not None:
            receiver.on_client_lost()

    def _stop(self) -> None:
        self._transport = self._receiver = None
        self.write = self.on_data = _drop


class UpgradeRequest:
    """One request for a WebSocket, and its session."""

    __slots__ = (
        *("_ended", "_memory", "_session", "known", "channel", "exchange", "failure"),
        *("request_id", "response", "server", "started"),
    )

    def __init__(
        self,
        server: RequestServer,
        channel: GatewayChannel,
        known: KnownHead,
        request_id: str,
        exchange: Exchange,
    ) -> None:
        self.server = server
        self.channel = channel
        self.known = known
        self.request_id = request_id
        self.exchange = exchange
        self.started = exchange.started
        self.failure: str | None = None
        """The failure, as in :class:`~mgw.web.server_request.ServerRequest`; here the exchange knows it."""
        self._memory = Reservation(server.budget)
        self.response = ServerResponse(channel, self._memory)
        self._session: Session | None = None
        self._ended = False

    # What the channel calls.

    def on_body_data(self, data: bytes) -> None:
        """There is no body."""

    def on_whole_body(self, content: bytes) -> None:
        """There is no body."""

    def on_body_timeout(self) -> None:
        """There is no body."""

    def on_malformed_body(self, error: GatewayError) -> None:
        """There is no body."""

    def on_body_end(self) -> None:
        """Open the session."""
        if self._ended:
            return
        request = self.known.client_request
        _, subprotocols, _ = split_subprotocols(request.headers)
        self._session = Session(
            self.exchange,
            request,
            subprotocols,
            UpgradedClient(self.channel),
            self.response,
            self.server.sessions,
            self._memory,
            self._on_refused,
            self._end,
        )
        self._session.start()

    def on_disconnect(self) -> None:
        """The client has left before its 101."""
        if self._session is not None:
            self._session.on_client_left()
        if not self._ended:
            self.exchange.client_left()
            self._end()

    # What the server calls.

    def refuse(self, error: GatewayError) -> None:
        """Answer with a refusal."""
        if not self._ended:
            self.exchange.refused(error)
            route, wall = self.known.matched.route, self.server.wall()
            try:
                send_refusal(self.response, error, route.dialect, self.request_id, wall)
            finally:
                self._end()

    def abort(self) -> None:
        """The drain has run out: end the session, or refuse the request."""
        session = self._session
        if session is not None and self.exchange.http_status is not None:
            session.shut_down()
        else:
            message = "the gateway has shut down; try another instance"
            self._stop_opening(GatewayError(Reason.DRAINING, message, retry_after=1.0))

    def cut(self, error: GatewayError) -> None:
        """The client may not go on: end the session, or refuse the request."""
        session = self._session
        if session is not None and self.exchange.http_status is not None:
            session.cut(error)
        else:
            self._stop_opening(error)

    def _stop_opening(self, error: GatewayError) -> None:
        if self._ended:
            return
        self.exchange.refused(error)
        session, self._session = self._session, None
        try:
            if session is not None:
                session.stop_opening()
        finally:
            self.refuse(error)

    # What the session calls.

    def _on_refused(self, error: Exception) -> None:
        if not isinstance(error, GatewayError):
            _log.failure(
                "internal error: request {request_id} failed", Failure(error), request_id=self.request_id
            )
            message = "internal gateway error; search the gateway's log for the request id"
            error = GatewayError(Reason.INTERNAL, message)
        forget_frames(error)
        flaw = self.known.caller.flaw
        if error.reason is Reason.NO_PROVIDER_KEY and flaw is not None:
            error = GatewayError(error.reason, f"{error.message}; {flaw}", code=error.code)
        if self.exchange.http_status is None:
            self.refuse(error)
        else:  # behind a 101
            self.exchange.refused(error)
            self._end()

    def _end(self) -> None:
        if not self._ended:
            self._ended = True
            self._session = None
            self._memory.release_all()
            self.server.on_request_end(self, self.exchange.http_status or CLIENT_CLOSED)


def _drop(_: bytes) -> None:
    """There is no connection."""
