"""The client's end of an exchange: its request, and the channel that takes the response."""

from __future__ import annotations

from typing import Protocol

from msgspec import Struct

from mgw.bodies.source import BodySource
from mgw.credentials.provider import ClientKey
from mgw.wire.headers import RawHeaders


class ClientRequest(Struct, frozen=True):
    """One request as the client sent it.  Its headers may hold an edge key: they pass an allow-list."""

    request_id: str
    method: bytes
    raw_path: bytes
    raw_query: bytes | None
    headers: RawHeaders
    body: bytes | BodySource
    """On disk where it is large and nothing of it has to be looked at as a whole."""
    path_model: str | None
    """The decoded model of the path."""
    version: str
    """The version prefix of the path."""
    key: ClientKey | None
    own_address: str | None = None
    """The gateway's own URL as the client knows it, where the response may have to hold it."""

    def __repr__(self) -> str:  # headers and query hold credentials, bodies hold prompts
        return f"ClientRequest({self.request_id}, {self.method!r}, {self.raw_path!r})"


class Producer(Protocol):
    """Something that writes, and can be told to wait."""

    def pause(self) -> None:
        """Deliver nothing until :meth:`resume`."""
        ...

    def resume(self) -> None:
        """Go on."""
        ...


class ResponseChannel(Protocol):
    """Takes the response to one request."""

    @property
    def started(self) -> bool:
        """Whether the head of a response is on its way: then no other response can be sent."""
        ...

    def start(self, status: int, reason: bytes, headers: RawHeaders) -> None:
        """Send the head of the response."""
        ...

    def write(self, data: bytes) -> None:
        """Send a piece of the body."""
        ...

    def flush(self) -> None:
        """Send what waits for more of the body: there is none for now."""
        ...

    def finish(self) -> None:
        """End the response."""
        ...

    def abort(self) -> None:
        """End the connection visibly broken."""
        ...

    def register(self, producer: Producer) -> None:
        """Name what is to pause while the client reads more slowly than we write."""
        ...

    def unregister(self) -> None:
        """There is nothing to pause any more."""
        ...
