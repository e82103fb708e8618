"""Interfaces between the parts of the HTTP side, and the limits of a channel.

A channel's handler (:class:`RequestHandler`) returns a :class:`RequestReceiver` for each request.  A receiver
is called in this order, and no more once it has finished or aborted its response::

    on_request ── on_body_data* ── on_body_end ────────────┐
        └────────────┴─ on_body_timeout | on_malformed_body ┴── on_disconnect (before the response was
        finished)

Every complete request has one ``on_body_end``, with a body or without.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

from msgspec import Struct
from twisted.internet.interfaces import IReactorTime

from mgw.exchange.exchange import Exchange
from mgw.http.head_key import HeadKey
from mgw.http.request_head import RequestHead
from mgw.memo.known_head import KnownHead
from mgw.nouns.errors import GatewayError
from mgw.nouns.token_flaw import TokenFlaw
from mgw.reactor.deadline import TimerWheel
from mgw.reactor.transport import RelayTransport
from mgw.usage.record import EndedRequest

_Channel = TypeVar("_Channel")
_Channel_contra = TypeVar("_Channel_contra", contravariant=True)


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


class RequestHandler(Protocol[_Channel_contra]):
    """Handles the requests of all channels of a listener.  No method may raise."""

    def find_head(self, key: bytes) -> KnownHead | None:
        """Return what is known of a head that has come before (:mod:`mgw.http.head_key`)."""
        ...

    def on_known_request(
        self, channel: _Channel_contra, known: KnownHead, key: HeadKey
    ) -> RequestReceiver | None:
        """Take a request whose head is known; the response may start at once.

        ``None``: what it has of its own has to be looked at as in any other head.
        """
        ...

    def on_request(
        self,
        channel: _Channel_contra,
        head: RequestHead,
        key: HeadKey | None = None,
        *,
        waited: bool = False,
    ) -> RequestReceiver:
        """Take a request whose head is complete; the response may start at once.

        :param key: under which what is found may be kept.
        :param waited: whether it was taken before, by a receiver that has waited for something.
        """
        ...

    def on_malformed_request(
        self, channel: _Channel_contra, error: GatewayError, target: bytes | None
    ) -> None:
        """Respond at once to a malformed, too large or too slow request.  The channel then closes.

        :param target: as the client sent it, where the request line could be read.
        """
        ...


class ServerContext(Protocol[_Channel]):
    """What all channels of a listener share; the factory is one."""

    clock: IReactorTime
    wheel: TimerWheel
    limits: ChannelLimits
    draining: bool
    handler: RequestHandler[_Channel]

    def on_channel_opened(self, channel: _Channel) -> None:
        """Count a connection in."""
        ...

    def on_channel_closed(self, channel: _Channel) -> None:
        """Count a connection out."""
        ...


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

    def cut(self, error: GatewayError) -> None:
        """End it, since its client may not go on."""
        ...


class RequestObserver(Protocol):
    """Counts and logs what becomes of requests."""

    def record(self, ended: EndedRequest) -> None:
        """Take the end of any logged request."""
        ...

    def edge_rejected(self, reason: str = "key") -> None:
        """Count a request whose ``key`` or ``origin`` does not fit, or whose key was valid once."""
        ...

    def token_rejected(self, issuer: str, flaw: TokenFlaw) -> None:
        """Count and log a token that is refused; ``issuer`` is the name of its issuer's entry."""
        ...

    def malformed(self) -> None:
        """Count an input that is no HTTP."""
        ...
