"""Write a large body, and know when the transport has passed on the last of it.

Twisted tells only registered producers about its buffer; a producer that waits to be asked for more learns so
that all it has written is gone.  A body is read as the provider takes it, wherever it lies: one piece in the
transport, one read ahead.  A transport that is handed a large body copies it, and keeps it when it dies.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IPushProducer
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from mgw.bodies.source import PIECE_BYTES, BodyGoneError, BodySource
from mgw.reactor.eager_writer import EagerWriter
from mgw.reactor.transport import RelayTransport

_log: Final = Logger()


@implementer(IPushProducer)
class Upload:
    """One body that is read while it goes out.

    :param writer: what everything goes through that is written to ``transport``.
    :param taken: called whenever the transport has passed on a piece, the last one too.
    :param failed: called once where the body cannot be read.
    """

    def __init__(
        self,
        transport: RelayTransport,
        writer: EagerWriter,
        taken: Callable[[], None],
        failed: Callable[[], None],
    ) -> None:
        self._transport = transport
        self._writer = writer
        self._taken = taken
        self._failed = failed
        self._full = False
        self._stopped = False
        self._room: Deferred[None] | None = None
        self._read: Deferred[bytes] | None = None
        self.over = False
        """Whether all of the body was passed on."""

    @property
    def reading(self) -> bool:
        """Whether the provider has taken all that was read, and the next piece is not there yet."""
        return self._room is None and self._read is not None and not self._read.called

    def start(self, source: BodySource) -> None:
        """Begin to read and to write."""
        self._transport.registerProducer(self, streaming=True)
        _ = Deferred.fromCoroutine(self._send(source)).addErrback(self._broke)

    def stop(self) -> None:
        """Read and write nothing more."""
        if self.over or self._stopped:
            return
        self._stopped = True
        self._transport.unregisterProducer()
        read, self._read = self._read, None
        room, self._room = self._room, None
        if read is not None:
            read.addErrback(_nobody_asks).cancel()
        if room is not None:
            room.callback(None)  # no exception, whose frames would hold the body

    def pauseProducing(self) -> None:
        """The transport holds more than it wants to."""
        self._full = True

    def resumeProducing(self) -> None:
        """The transport holds nothing any more."""
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
            await self._emptied()
            if self._stopped:
                return
            self._taken()
        if not self._stopped:
            self.over = True
            self._transport.unregisterProducer()

    async def _emptied(self) -> None:
        """Wait until the transport has room."""
        if self._full:
            self._room = Deferred(self._forget_room)
            await self._room

    def _forget_room(self, _: Deferred[None]) -> None:
        self._room = None

    def _broke(self, failure: Failure) -> None:
        if self._stopped:
            return
        self.stop()
        if not isinstance(failure.value, (BodyGoneError, OSError)):
            _log.failure("a bug: a body could not be sent", failure)
        self._failed()


def _nobody_asks(_: Failure) -> None:
    """What became of a read that nobody waits for."""
