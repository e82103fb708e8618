"""The interfaces behind a channel, and the limits that it keeps.

One :class:`Door` stands behind all channels of a listener; it opens one :class:`Visit` for each request.  A
visit hears of its request in this order, and nothing more once it has finished or aborted its answer::

    Door.open ── on_body_data* ── on_body_end ──┐
        └─────────────┴─ too_slow | broken ────┴── left (the client has gone before the answer was finished)

Every complete request has one ``on_body_end``, with a body or without.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from msgspec import Struct
from twisted.internet.interfaces import IReactorTime

from mgw.errors import GatewayError
from mgw.http.request_head import RequestHead

if TYPE_CHECKING:
    from mgw.web.connection import GatewayChannel


class ChannelLimits(Struct, frozen=True, kw_only=True):
    """What a client may take; times in seconds, from the configuration's ``timeouts``."""

    client_headers: float
    """From the first byte of a head to its last; for the first head, from the connection."""
    client_body_idle: float
    """Between two pieces of a body."""
    client_idle: float
    """Between two requests."""
    write_stall: float
    """Without taking a byte of an answer that waits."""
    max_clients: int = 1_000_000
    """How many connections may be open; whoever comes then is refused."""
    max_head_bytes: int = 64 * 1024
    max_headers: int = 256


class Visit(Protocol):
    """One request, as the one who answers it sees it.  No method may raise."""

    def on_body_data(self, data: bytes) -> None:
        """Take a piece of the body."""
        ...

    def on_body_end(self) -> None:
        """The request is complete."""
        ...

    def left(self) -> None:
        """The client has gone before its answer was finished; nobody hears an answer now."""
        ...

    def too_slow(self) -> None:
        """The body has stopped arriving: answer 408, or abort what has begun.  The channel then closes."""
        ...

    def broken(self, error: GatewayError) -> None:
        """The body is no HTTP: answer the error, or abort what has begun.  The channel then closes."""
        ...


class Door(Protocol):
    """Who lives behind the channels of a listener.  No method may raise."""

    def open(self, channel: GatewayChannel, head: RequestHead) -> Visit:
        """Take a request whose head is complete; it may be answered at once."""
        ...

    def refused(self, channel: GatewayChannel, error: GatewayError, target: bytes | None) -> None:
        """Answer, at once, what is no request: malformed, too large or too slow.  The channel then closes.

        :param target: as the client sent it, where the request line could be read.
        """
        ...


class House(Protocol):
    """What all channels of a listener share; the factory is one."""

    door: Door
    clock: IReactorTime
    limits: ChannelLimits
    draining: bool

    def opened(self, channel: GatewayChannel) -> None:
        """Count a connection in."""
        ...

    def closed(self, channel: GatewayChannel) -> None:
        """Count a connection out."""
        ...
