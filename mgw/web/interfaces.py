"""Interfaces between the parts of the HTTP side, and the limits of a channel.

A channel's handler (:class:`mgw.web.channel.RequestHandler`) returns a :class:`RequestReceiver` for each
request.  A receiver is called in this order, and no more once it has finished or aborted its response::

    on_request ── on_body_data* ── on_body_end ────────────┐
        └────────────┴─ on_body_timeout | on_malformed_body ┴── on_disconnect (before the response was
        finished)

Every complete request has one ``on_body_end``, with a body or without.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from msgspec import Struct
from twisted.internet.interfaces import IReactorTime

from mgw.exchange.exchange import Exchange
from mgw.memo.known_head import KnownHead
from mgw.nouns.errors import GatewayError
from mgw.reactor.deadline import TimerWheel
from mgw.reactor.transport import RelayTransport


class ChannelLimits(Struct, frozen=True, kw_only=True):
    """What a client may take; times in seconds, from the configuration's ``timeouts``."""

    client_headers: float
    """A head may take this long, from its first byte; the first one, from the connection."""
    client_body_idle: float
    """A body may pause this long between two pieces."""
    client_idle: float
    """A connection may be idle this long between two requests."""
    write_stall: float
    """A client may receive nothing this long while a response waits for it."""
    max_clients: int = 1_000_000
    """How many connections may be open; whoever comes then is refused."""
    max_head_bytes: int = 64 * 1024
    max_headers: int = 256


class RequestReceiver(Protocol):
    """Receives one request from its channel, and responds to it.  No method may raise."""

    def on_body_data(self, data: bytes) -> None:
        """Take a piece of the body."""
        ...

    def on_body_end(self) -> None:
        """The request is complete."""
        ...

    def on_whole_body(self, content: bytes) -> None:
        """Take all of the body at once: the request is complete."""
        ...

    def on_disconnect(self) -> None:
        """The client has disconnected before its response was finished."""
        ...

    def on_body_timeout(self) -> None:
        """The body has stopped arriving: send a 408, or abort the response.  The channel then closes."""
        ...

    def on_malformed_body(self, error: GatewayError) -> None:
        """The body is not HTTP: respond with the error, or abort the response.  The channel then closes."""
        ...


class UpgradedConnection(Protocol):
    """Speaks another protocol over a channel's connection.  No method may raise."""

    def start(self, transport: RelayTransport, write: Callable[[bytes], None], data: bytes) -> None:
        """Begin; ``data`` has come already."""
        ...

    def on_data(self, data: bytes) -> None:
        """Take the next bytes."""
        ...

    def pause(self) -> None:
        """The client takes less than is written."""
        ...

    def resume(self) -> None:
        """The client has taken everything."""
        ...

    def on_client_ended(self) -> None:
        """The client has closed its side; what it has sent before may not be read yet."""
        ...

    def on_lost(self) -> None:
        """The connection is gone."""
        ...


class ChannelContext(Protocol):
    """What the channels of a listener share."""

    clock: IReactorTime
    wheel: TimerWheel
    limits: ChannelLimits
    draining: bool


class OpenRequest(Protocol):
    """A request in progress, as its server knows it."""

    @property
    def known(self) -> KnownHead:
        """The head of the request."""
        ...

    @property
    def request_id(self) -> str:
        """The id that its response and its log lines name."""
        ...

    @property
    def exchange(self) -> Exchange | None:
        """The request's exchange, unless it leaves no usage event."""
        ...

    @property
    def started(self) -> float:
        """The clock's time at which its head was complete."""
        ...

    @property
    def failure(self) -> str | None:
        """Why it did not end well, if no exchange says so."""
        ...

    def refuse(self, error: GatewayError) -> None:
        """Respond with a refusal."""
        ...

    def abort(self) -> None:
        """End it, since the drain has run out."""
        ...
