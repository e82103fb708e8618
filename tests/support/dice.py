"""Documents, and parts of them, that are written as one drawn string of bytes says.

Each draw takes Hypothesis a while, and a document of some depth takes hundreds of them: longer than its test
does.  Here an example is one draw.  It shrinks as before: where the bytes are 0, or have run out, the first
of the options is taken, which should be the simplest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from hypothesis import strategies as st

_T = TypeVar("_T")
_SPACES: Final = ("", " ", "\n\t", "\r\n  ")


class Dice:
    """Choices, one byte each."""

    def __init__(self, drawn: bytes) -> None:
        self._drawn = iter(drawn)

    def below(self, count: int) -> int:
        return next(self._drawn, 0) % count

    def one_of(self, options: Sequence[_T]) -> _T:
        return options[self.below(len(options))]

    def several(self, write: Callable[[Dice], _T], most: int) -> list[_T]:
        """Return so many of what is written, or fewer."""
        return [write(self) for _ in range(self.below(most + 1))]

    def shuffled(self, items: Sequence[_T]) -> list[_T]:
        left = list(items)
        return [left.pop(self.below(len(left))) for _ in items]

    def spaced(self, *parts: str) -> str:
        """Return up to three parts in a row, with white space around each of them."""
        choice = self.below(256)
        written = ""
        for part in (*parts, ""):
            written += _SPACES[choice % 4] + part
            choice //= 4
        return written


Writer = Callable[[Dice], str]


def written(write: Callable[[Dice], _T], size: int = 512) -> st.SearchStrategy[_T]:
    """What is written with so many choices; after them, with the first of each."""
    return st.binary(min_size=size, max_size=size).map(lambda drawn: write(Dice(drawn)))


def one_of(*writers: Writer) -> Writer:
    return lambda dice: dice.one_of(writers)(dice)


def sampled_from(options: Sequence[str]) -> Writer:
    return lambda dice: dice.one_of(options)
