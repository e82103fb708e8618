"""What reads and writes the streams of every dialect."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from mgw.canonical.reply import ReplyEvent, TokenUsage, UpstreamError
from mgw.errors import GatewayError


class StreamReader(Protocol):
    """Turns a provider's stream into events, however it is cut; holds bounded memory."""

    @property
    def usage(self) -> TokenUsage:
        """The counts so far."""

    @property
    def done(self) -> bool:
        """Whether the wire's own last event has come: nothing of the answer can follow."""

    @property
    def whole(self) -> bool:
        """Whether a break of the connection would take nothing of the answer away."""

    def feed(self, data: bytes) -> list[ReplyEvent]:
        """Return what these bytes complete.  What the wire does not know is skipped, never raised.

        Raises: :class:`GatewayError` (``UPSTREAM_BROKEN``) for what is no such stream at all.
        """

    def finish(self) -> list[ReplyEvent]:
        """Return what the end of the stream completes.

        Raises: :class:`GatewayError` (``UPSTREAM_BROKEN``) where the answer had not ended.
        """


class StreamWriter(Protocol):
    """Writes events in the exact grammar of the client's dialect; it cannot write a wrong order."""

    @property
    def content_type(self) -> bytes:
        """The media type of the stream."""

    @property
    def broken(self) -> bool:
        """Whether the stream was ended with an error, be it asked for or the writer's own."""

    def write(self, events: Iterable[ReplyEvent]) -> bytes:
        """Return the bytes of these events; the same bytes however they are grouped."""

    def finish(self) -> bytes:
        """Return the end of the stream, after the last ``Ended``; nothing after ``Broke`` or ``fail``."""

    def fail(self, error: GatewayError | UpstreamError) -> bytes:
        """Return what shows the client that the stream broke; nothing where it has ended already."""

    def keepalive(self) -> bytes:
        """Return bytes that mean nothing, for a client that has waited for long."""
