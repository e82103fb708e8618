"""Whether a name is probably a typo of another one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

MIN_NAME: Final = 3
"""Characters; shorter names are one edit away from too many."""
MAX_NAME: Final = 64


def near_name(wrong: str, names: Iterable[str]) -> str | None:
    """Return the first name that is one edit away; ``None``: there is none, or it is one of them.

    An edit is a character more, less or another, or two neighbours in the other order; case does not count.
    """
    if not MIN_NAME - 1 <= len(wrong) <= MAX_NAME:
        return None
    folded = wrong.lower()
    near = None
    for name in names:
        if name == wrong:
            return None
        if near is None and len(name) >= MIN_NAME and _is_one_edit(folded, name.lower()):
            near = name
    return near


def _is_one_edit(one: str, other: str) -> bool:
    if abs(len(one) - len(other)) > 1:
        return False
    begin = 0
    while begin < min(len(one), len(other)) and one[begin] == other[begin]:
        begin += 1
    rest, other_rest = one[begin:], other[begin:]
    swapped = rest[1::-1] == other_rest[:2] and rest[2:] == other_rest[2:]
    return swapped or rest[1:] == other_rest[1:] or rest[1:] == other_rest or rest == other_rest[1:]
