"""Bodies of any size in which one unit is repeated, and each may have its own number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

MIB: Final = 2**20
LARGEST: Final = 32 * MIB
"""``max_body_bytes``."""


def repeated(template: bytes, size: int = LARGEST, most: int = 10**9) -> Callable[[], bytes]:
    """Return what makes a body in which the unit between ``<<`` and ``>>`` stands as often as there is room.

    :param template: each unit has its number in the place of ``%d``.
    :param size: of the body, at most, in bytes.
    :param most: units, at most.
    """
    before, _, rest = template.partition(b"<<")
    unit, _, after = rest.rpartition(b">>")

    def body() -> bytes:
        if b"%d" not in unit:
            return before + unit * min(most, (size - len(before) - len(after)) // len(unit)) + after
        pieces, left = [before], size - len(before) - len(after)
        for number in range(most):
            piece = unit.replace(b"%d", b"%d" % number)
            left -= len(piece)
            if left < 0:
                break
            pieces.append(piece)
        return b"".join([*pieces, after])

    return body
