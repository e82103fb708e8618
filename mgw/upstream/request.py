"""A request to a provider: its content, its time limits, and its body while it is being written.

Twisted tells only registered producers about its buffer; a producer that waits to be asked for more learns
that all it has written is gone.  A large body is read as the provider takes it, wherever it is kept: one
piece in the transport, one read ahead.  A transport that is given a large body copies it, and keeps it when
it dies.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from msgspec import Struct
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IPushProducer
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from mgw.bodies.source import PIECE_BYTES, BodyGoneError, BodySource, body_size
from mgw.bodies.spliced import Part, iter_pieces
from mgw.reactor.transport import RelayTransport
from mgw.reactor.twisted_fast.eager_writer import EagerWriter
from mgw.wire.headers import RawHeaders

WRITTEN_BYTES: Final = 512 * 1024
"""How much is written at once of a body in memory, of which only what the kernel does not take is copied."""
_log: Final = Logger()


class UpstreamLimits(Struct, frozen=True):
    """How long a provider may take, in seconds (contract 2.6)."""

    connect: float = 10.0
    """The limit for name, TCP, proxy and TLS together; also for a free slot among ``max_connections``."""
    first_byte: float = 600.0
    """The limit from the request written to the head of the response.

    Before that, the limit for taking the request: as a whole where its body is in memory; piece by piece
    where it is read from elsewhere (:data:`mgw.bodies.source.PIECE_BYTES`), each piece taken starting the
    limit anew.
    """
    idle: float = 300.0
    """The limit between two pieces of the body; time while nothing is read does not count."""
    settle: float = 0.0
    """How long a connection stays idle before it is used again (:mod:`mgw.upstream.pool`)."""


class UpstreamRequest(Struct, frozen=True):
    """One request as it is to be sent.

    ``target`` is complete and in origin-form.  ``headers`` go out as they are, in their order; they hold no
    ``Host``, ``Content-Length`` or ``Connection``, which are the connection's own.  The same request may be
    sent several times: a body that is kept elsewhere is read anew, and stays its owner's.
    """

    method: bytes
    target: bytes
    headers: RawHeaders
    body: bytes | BodySource = b""

    def __repr__(self) -> str:  # headers hold the credential, bodies hold prompts
        path = self.target.partition(b"?")[0]
        return f"UpstreamRequest({self.method!r}, {path!r}, {body_size(self.body)} bytes of body)"


@implementer(IPushProducer)
class BodyProducer:
    """Reads one request body while it is written.

    :param writer: the one that writes to ``transport``.
    :param on_progress: called whenever the transport has sent a piece, the last one too.
    :param on_unreadable: called once if the body cannot be read.
    """

    def __init__(
        self,
        transport: RelayTransport,
        writer: EagerWriter,
        on_progress: Callable[[], None],
        on_unreadable: Callable[[], None],
    ) -> None:
        self._transport = transport
        self._writer = writer
        self._on_progress = on_progress
        self._on_unreadable = on_unreadable
        self._full = False
        self._stopped = False
        self._room: Deferred[None] | None = None
        self._read: Deferred[bytes] | None = None
        self.done = False
        """Whether all of the body was sent."""

    @property
    def waits_for_body(self) -> bool:
        """Whether the provider has taken all that was read, and the next piece is not there yet."""
        return self._room is None and self._read is not None and not self._read.called

    def start(self, source: BodySource) -> None:
        """Begin to read and to write."""
        self._transport.registerProducer(self, streaming=True)
        _ = Deferred.fromCoroutine(self._send(source)).addErrback(self._on_send_error)

    def start_parts(self, parts: Sequence[Part]) -> None:
        """Begin to write what is in memory."""
        self._transport.registerProducer(self, streaming=True)
        _ = Deferred.fromCoroutine(self._send_parts(parts)).addErrback(self._on_send_error)

    def stop(self) -> None:
        """Read and write nothing more."""
        if self.done or self._stopped:
            return
        self._stopped = True
        self._transport.unregisterProducer()
        read, self._read = self._read, None
        room, self._room = self._room, None
        if read is not None:
            read.addErrback(_ignore).cancel()
        if room is not None:
            room.callback(None)  # no exception, whose frames would hold the body

    def pauseProducing(self) -> None:
        """The transport holds more than it wants to."""
        self._full = True

    def resumeProducing(self) -> None:
        """The transport holds nothing any more: read and write on."""
        self._full = False
        self._writer.on_drained()
        room, self._room = self._room, None
        if room is not None:
            room.callback(None)

    def stopProducing(self) -> None:
        """The connection is gone."""
        self.stop()

    async def _send(self, source: BodySource) -> None:
        position, size = 0, source.size
        self._read = source.read(0, PIECE_BYTES) if size else None
        while self._read is not None:
            piece = await self._read
            if self._stopped:
                return
            if not piece:
                raise BodyGoneError
            position += len(piece)
            self._writer.write(piece)
            if self._stopped:
                return
            self._read = source.read(position, PIECE_BYTES) if position < size else None
            await self._wait_for_room()
            if self._stopped:
                return
            self._on_progress()
        self._end()

    async def _send_parts(self, parts: Sequence[Part]) -> None:
        for piece in iter_pieces(parts, WRITTEN_BYTES):
            self._writer.write_parts(piece)
            if self._stopped:
                return
            await self._wait_for_room()
            if self._stopped:
                return
            self._on_progress()
        self._end()

    async def _wait_for_room(self) -> None:
        """Wait until the transport has room."""
        if self._full:
            self._room = Deferred(self._forget_room)
            await self._room

    def _end(self) -> None:
        """All of it was sent."""
        if not self._stopped:
            self.done = True
            self._transport.unregisterProducer()

    def _forget_room(self, _: Deferred[None]) -> None:
        self._room = None

    def _on_send_error(self, failure: Failure) -> None:
        if self._stopped:
            return
        self.stop()
        if not isinstance(failure.value, (BodyGoneError, OSError)):
            _log.failure("internal error: a request body could not be sent", failure)
        self._on_unreadable()


def _ignore(_: Failure) -> None:
    """Nobody waits for the read any more."""
