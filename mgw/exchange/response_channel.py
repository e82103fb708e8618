"""The channel that takes the response to a client's request."""

from __future__ import annotations

from typing import Protocol

from mgw.http.response_writer import RelayedHead
from mgw.wire.headers import RawHeaders


class Producer(Protocol):
    """Something that writes, and can be told to wait."""

    def pause(self) -> None:
        """Deliver nothing until :meth:`resume`."""
        ...

    def resume(self) -> None:
        """Go on."""
        ...


class ChunkWriter(Protocol):
    """Takes pieces of a body with the framing that they came in."""

    def write_chunk(self, data: bytes, start: int, stop: int) -> None:
        """Send a piece, which stands between the two places, as a whole chunk of HTTP/1.1 has it.

        It need not be framed again, but may be.
        """
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

    def start_early(self, status: int, reason: bytes, headers: RawHeaders) -> None:
        """Send the head of a response while the request is still needed, which keeps its memory."""
        ...

    def forget_request(self) -> None:
        """Release the memory of a request that is not needed any more."""
        ...

    def relay_head(self, head: RelayedHead, lines: bytes) -> None:
        """Send the head of a response that is passed on.

        :param lines: ``Name: value`` and a line end each, none of which speaks of the connection.
        """
        ...

    def relay_whole(self, head: RelayedHead, lines: bytes, body: bytes) -> None:
        """Send all of a response that is passed on, and end it; the head is as in :meth:`relay_head`."""
        ...

    def write(self, data: bytes) -> None:
        """Send a piece of the body."""
        ...

    def chunk_writer(self) -> ChunkWriter:
        """Return who takes chunks in place of :meth:`write`, while the response goes on."""
        ...

    def flush(self) -> None:
        """Send what waits for more of the body: there is none for now."""
        ...

    def finish(self, last_piece: bytes = b"") -> None:
        """End the response behind a last piece of the body, if there is one."""
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
