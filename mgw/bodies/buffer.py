"""A body in memory as it arrives: cheap for a few pieces, and for a million.

Pieces of a body are kept as they came and joined in the end.  Small ones are put together, since an object
costs more than what they hold.  A large body grows in one block of its own, which the system gets back as a
whole; thousands of pieces would leave holes in the heap (:mod:`mgw.ops.heap`).  What grows in ``BytesIO``
is the very ``bytes`` that it gives away in the end: nothing is copied once more.  Where it is known how long
the body will be, the block has that size at once.  It is made when enough has come that it cannot take memory
out of proportion.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from io import BytesIO
from typing import Final

from mgw.bodies.block import HUGE_BYTES, HUGE_PAGE, block_of

SMALL_BYTES: Final = 4096
LARGE_BYTES: Final = 512 * 1024


@dataclass(slots=True, repr=False, eq=False)
class BodyBuffer:
    """The body as far as it has arrived.

    :param announced: how long it is said to be; 0: not at all.
    """

    announced: int = 0
    _pieces: list[bytes | bytearray] = field(default_factory=list)
    _size: int = 0
    _block: BytesIO | None = None

    def append(self, data: bytes) -> None:
        """Keep the next piece."""
        self._size += len(data)
        if self._block is not None:
            self._block.write(data)
        elif self._size > LARGE_BYTES and self._pieces and self._is_worth_a_block():
            self._block = block_of(self.announced) if self.announced > self._size else BytesIO()
            self._block.writelines([*self._pieces, data])
            self._pieces.clear()
        elif len(data) >= SMALL_BYTES or not self._pieces:
            self._pieces.append(data)
        else:
            self._append_small(data)

    def take(self) -> bytes:
        """Return the body, the very same where it came at once, and keep nothing of it."""
        if self._block is None:
            body = b"".join(self._pieces)
        else:
            self._block.truncate()  # to what was written
            body = self._block.getvalue()
        self.clear()
        return body

    def clear(self) -> None:
        """Release it."""
        self._pieces = []
        self._block = None

    def _is_worth_a_block(self) -> bool:
        """Whether as much has come as the first page of a block can have."""
        return self.announced < HUGE_BYTES or self._size >= HUGE_PAGE

    def _append_small(self, data: bytes) -> None:
        last = self._pieces[-1]
        if isinstance(last, bytearray):
            last += data
        else:
            self._pieces.append(bytearray(data))
