"""A body in memory of which a few places are replaced: it is sent as the parts that it has, and never joined.

What a copy of a large body costs is less the copying than its pages, which the kernel finds and clears.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from twisted.internet.defer import Deferred, succeed

Part = bytes | memoryview


@dataclass(slots=True, frozen=True, repr=False, eq=False)
class SplicedBody:
    """A body with edits, which can be read as others are (:class:`mgw.bodies.source.BodySource`).

    :param original: the body without the edits.
    :param parts: the body with them, in order.
    """

    original: bytes
    parts: tuple[Part, ...]
    size: int

    @classmethod
    def of(cls, original: bytes, parts: Sequence[Part]) -> SplicedBody:
        """Return the body that these parts make."""
        return cls(original, tuple(parts), sum(map(len, parts)))

    @property
    def digest(self) -> None:
        """Nobody has asked for it."""
        return None

    def read(self, position: int, size: int) -> Deferred[bytes]:
        """Fire with some of it; see :meth:`mgw.bodies.source.BodySource.read`."""
        end, found = position + size, list[memoryview]()
        for part in self.parts:
            found.append(memoryview(part)[max(position, 0) : max(end, 0)])
            position -= len(part)
            end -= len(part)
        return succeed(b"".join(found))

    def joined(self) -> bytes:
        """Return all of it."""
        return b"".join(self.parts)


def iter_pieces(parts: Sequence[Part], most: int) -> Iterator[list[Part]]:
    """Yield the parts in pieces of ``most`` bytes, only the last one smaller; a part may be cut for that."""
    piece: list[Part] = []
    room = most
    for part in parts:
        left = memoryview(part)
        while len(left) >= room:
            yield [*piece, left[:room]]
            left = left[room:]
            piece, room = [], most
        if left:
            piece.append(left)
            room -= len(left)
    if piece:
        yield piece
