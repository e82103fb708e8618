"""A body that is read from where it is stored, in pieces and repeatedly, with or without replaced parts."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from twisted.internet.defer import Deferred, succeed

from mgw.bodies.budget import RETRY_SECONDS
from mgw.nouns.errors import GatewayError, Reason

PIECE_BYTES: Final = 256 * 1024
"""How much of a body is read, written or sent at a time."""


class BodyGoneError(Exception):
    """The body is no longer there: its request is over."""


class BodySource(Protocol):
    """A body somewhere."""

    @property
    def size(self) -> int:
        """How many bytes it has."""
        ...

    @property
    def digest(self) -> bytes | None:
        """The SHA-256 of all of it, where that is known already."""
        ...

    def read(self, position: int, size: int) -> Deferred[bytes]:
        """Fire with exactly ``size`` bytes from ``position`` on, or with fewer where the body ends before.

        Any position may be read, in any order and more than once.  Cancelling is safe at any moment.
        Fails with :class:`BodyGoneError` once the body is closed, with :class:`OSError` where it cannot be
        read.
        """
        ...


@dataclass(slots=True, frozen=True, repr=False)
class MemoryBody:
    """A body in memory, to be read as others are."""

    data: bytes

    @property
    def size(self) -> int:
        """How many bytes it has."""
        return len(self.data)

    @property
    def digest(self) -> None:
        """Nobody has asked for it."""
        return None

    def read(self, position: int, size: int) -> Deferred[bytes]:
        """Fire with some of it; the very same bytes where that is all of it."""
        return succeed(self.data[position : position + size])


def body_size(body: bytes | BodySource) -> int:
    """Return how many bytes ``body`` has, wherever it is."""
    return len(body) if isinstance(body, bytes) else body.size


def unreadable_error() -> GatewayError:
    """Return the refusal of a request whose body cannot be read back; the disk's words are in the log."""
    message = "the stored request body cannot be read; try again"
    return GatewayError(Reason.OVERLOADED, message, retry_after=RETRY_SECONDS)


async def read_all(source: BodySource) -> bytes:
    """Return the whole body; it is in memory from then on, which is the caller's to account for.

    :raises BodyGoneError: the body was closed before.
    :raises GatewayError: ``OVERLOADED``: it cannot be read.
    """
    try:
        return await source.read(0, source.size)
    except OSError:
        raise unreadable_error() from None


async def read_pieces(
    source: BodySource, take: Callable[[bytes], None], piece_bytes: int = PIECE_BYTES
) -> None:
    """Hand the whole body to ``take``, in order; the last piece may be smaller, none is empty.

    :raises BodyGoneError: the body was closed before its end.
    :raises GatewayError: ``OVERLOADED``: it cannot be read.
    """
    position, size = 0, source.size
    while position < size:
        try:
            piece = await source.read(position, piece_bytes)
        except OSError:
            raise unreadable_error() from None
        if not piece:
            raise BodyGoneError
        position += len(piece)
        take(piece)


def edit_source(source: BodySource, edits: Sequence[tuple[tuple[int, int], bytes]]) -> BodySource:
    """Return ``source`` with each span ``(start, end)`` replaced; the same object where there are none.

    :param edits: ascending, and not overlapping.
    """
    return EditedBody(source, edits) if edits else source


@dataclass(slots=True, frozen=True)
class _Segment:
    """Bytes of an edited body that lie together, from ``begin`` up to ``end``."""

    begin: int
    end: int
    origin: int
    """The position in the source where the bytes begin, unless ``text`` holds them."""
    text: bytes | None


@dataclass(slots=True, eq=False, repr=False)
class _Window:
    """The piece of the source that was read last: what lies between small edits is read at once."""

    source: BodySource
    begin: int = 0
    data: bytes = b""

    async def at(self, position: int, size: int) -> bytes:
        """Return what is known from ``position`` on; if that is nothing, read ``size`` bytes from there."""
        if not self.begin <= position < self.begin + len(self.data):
            self.data = await self.source.read(position, size)
            self.begin = position
            if not self.data:
                raise BodyGoneError
        return self.data[position - self.begin :]


@dataclass(slots=True, eq=False, repr=False)
class EditedBody:
    """A body with spans replaced: nothing of it is in memory but the replacements."""

    source: BodySource
    edits: Sequence[tuple[tuple[int, int], bytes]]
    size: int = field(init=False, default=0)
    _segments: list[_Segment] = field(init=False, default_factory=list)
    _begins: list[int] = field(init=False)

    def __post_init__(self) -> None:
        position = 0
        for (start, end), text in self.edits:
            assert position <= start <= end <= self.source.size, "edits ascend and do not overlap"
            self._append(start - position, position, None)
            self._append(len(text), end, text)
            position = end
        self._append(self.source.size - position, position, None)
        self._begins = [segment.begin for segment in self._segments]

    @property
    def digest(self) -> None:
        """Known of the source alone."""
        return None

    def read(self, position: int, size: int) -> Deferred[bytes]:
        """Fire with bytes of the edited body; see :meth:`BodySource.read`."""
        end = min(position + size, self.size)
        if position >= end:
            return succeed(b"")
        index = bisect_right(self._begins, position) - 1
        segment = self._segments[index]
        if segment.text is None and end <= segment.end:
            return self.source.read(segment.origin + position - segment.begin, end - position)
        return Deferred.fromCoroutine(self._gather(index, position, end))

    async def _gather(self, index: int, position: int, end: int) -> bytes:
        window = _Window(self.source)
        pieces: list[bytes] = []
        while position < end:
            segment = self._segments[index]
            skipped, stop = position - segment.begin, min(end, segment.end)
            if segment.text is not None:
                piece = segment.text[skipped : stop - segment.begin]
            else:
                # Reads of one call never overlap: what the window holds is not read again.
                piece = await window.at(segment.origin + skipped, end - position)
                piece = piece[: stop - position]
            pieces.append(piece)
            position += len(piece)
            index += position == segment.end
        return b"".join(pieces)

    def _append(self, size: int, origin: int, text: bytes | None) -> None:
        if size:
            self._segments.append(_Segment(self.size, self.size + size, origin, text))
            self.size += size
