"""The interfaces that a channel uses, and its limits.

One :class:`RequestHandler` handles the requests of all channels of a listener; it returns a
:class:`RequestReceiver` for each.  A receiver is called in this order, and no more once it has finished or
aborted its response::

    on_request ── on_body_data* ── on_body_end ────────────┐
        └────────────┴─ on_body_timeout | on_malformed_body ┴── on_disconnect (before the response was
        finished)

Every complete request has one ``on_body_end``, with a body or without.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct
from twisted.internet.interfaces import IReactorTime

from mgw.http.head_key import HeadKey
from mgw.http.request_head import RequestHead
from mgw.nouns.errors import GatewayError
from mgw.reactor.deadline import TimerWheel
from mgw.reactor.transport import RelayTransport

if TYPE_CHECKING:
    from mgw.web.admission import AdmittedHead
    from mgw.web.channel import GatewayChannel


class ChannelLimits(Struct, frozen=True, kw_only=True):
    """What a client may take; times in seconds, from the configuration's ``timeouts``."""

    client_headers: float
    """From the first byte of a head to its last; for the first head, from the connection."""
    client_body_idle: float
    """Between two pieces of a body."""
    client_idle: float
    """Between two requests."""
    write_stall: float
    """Without receiving a byte of a response that waits."""
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


class RequestHandler(Protocol):
    """Handles the requests of all channels of a listener.  No method may raise."""

    def find_admitted(self, key: bytes) -> AdmittedHead | None:
        """Return what is known of a head that has come before (:mod:`mgw.http.head_key`)."""
        ...

    def on_admitted_request(
        self, channel: GatewayChannel, admitted: AdmittedHead, key: HeadKey
    ) -> RequestReceiver | None:
        """Take a request whose head is known; the response may start at once.

        ``None``: what it has of its own has to be looked at as in any other head.
        """
        ...

    def on_request(
        self, channel: GatewayChannel, head: RequestHead, key: HeadKey | None = None
    ) -> RequestReceiver:
        """Take a request whose head is complete; the response may start at once.

        :param key: under which what is found may be kept.
        """
        ...

    def on_malformed_request(
        self, channel: GatewayChannel, error: GatewayError, target: bytes | None
    ) -> None:
        """Respond at once to a malformed, too large or too slow request.  The channel then closes.

        :param target: as the client sent it, where the request line could be read.
        """
        ...


class ServerContext(Protocol):
    """What all channels of a listener share; the factory is one."""

    handler: RequestHandler
    clock: IReactorTime
    wheel: TimerWheel
    limits: ChannelLimits
    draining: bool

    def on_channel_opened(self, channel: GatewayChannel) -> None:
        """Count a connection in."""
        ...

    def on_channel_closed(self, channel: GatewayChannel) -> None:
        """Count a connection out."""
        ...
