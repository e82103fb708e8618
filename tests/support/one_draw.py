"""The ways in which Hypothesis says of what a value is made, for values of a single draw.

An answer or a history that Hypothesis draws node by node takes longer to draw than to test.  Written with
these instead, with the same names and nearly the same arguments, it is what one string of bytes says
(:mod:`tests.support.dice`): ``drawn`` makes of it what ``given`` takes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, Generic, TypeVar

from hypothesis import strategies as st

from tests.support.dice import Dice, written

_T = TypeVar("_T")
_U = TypeVar("_U")
_T_co = TypeVar("_T_co", covariant=True)
_SURROGATES: Final = range(0xD800, 0xE000)


class Made(Generic[_T_co]):
    """How a value is made; ``|`` offers another way."""

    def __init__(self, make: Callable[[Dice], _T_co], ways: Sequence[Made[_T_co]] = ()) -> None:
        self.make = make
        self.ways = ways or (self,)

    def __or__(self, other: Made[_U]) -> Made[_T_co | _U]:
        return one_of(self, other)

    def map(self, change: Callable[[_T_co], _U]) -> Made[_U]:
        make = self.make
        return Made(lambda dice: change(make(dice)))


def drawn(made: Made[_T], size: int = 512) -> st.SearchStrategy[_T]:
    """One draw of so many bytes, and what is made of them."""
    return written(made.make, size)


def one_of(*ways: Made[Any]) -> Made[Any]:  # Any: what any of them makes
    """Each of the ways as often as any other, also those of a part that offers several."""
    single = [inner for way in ways for inner in way.ways]
    makes = [way.make for way in single]
    return Made(lambda dice: dice.one_of(makes)(dice), single)


def just(value: _T) -> Made[_T]:
    return Made(lambda _: value)


def none() -> Made[None]:
    return just(None)


def booleans() -> Made[bool]:
    return sampled_from((False, True))


def integers(least: int, most: int) -> Made[int]:
    """Integers of a range of at most 256."""
    return Made(lambda dice: least + dice.below(most - least + 1))


def sampled_from(options: Iterable[_T]) -> Made[_T]:
    those = tuple(options)
    return Made(lambda dice: dice.one_of(those))


def lists(inner: Made[_T], *, least: int = 0, most: int) -> Made[list[_T]]:
    make = inner.make
    return Made(lambda dice: [make(dice) for _ in range(least + dice.below(most - least + 1))])


def of_some(inner: Made[_T], most: int, build: Callable[[Made[_T]], Made[_U]]) -> Made[_U]:
    """What is built of so many of the ways, or fewer: what two of them do to each other is found sooner."""

    def make(dice: Dice) -> _U:
        some = one_of(*dice.shuffled(inner.ways)[: 1 + dice.below(most)])
        return build(some).make(dice)

    return Made(make)


def tuples(*inner: Made[Any]) -> Made[tuple[Any, ...]]:  # Any: what each of them makes
    makes = [one.make for one in inner]
    return Made(lambda dice: tuple([make(dice) for make in makes]))


def builds(build: Callable[..., _T], *inner: Made[Any], **named: Made[Any]) -> Made[_T]:  # Any: the same
    makes = [one.make for one in inner]
    named_makes = [(name, one.make) for name, one in named.items()]

    def make(dice: Dice) -> _T:
        return build(*[one(dice) for one in makes], **{name: one(dice) for name, one in named_makes})

    return Made(make)


def _a_character(dice: Dice) -> str:
    """One of ASCII, of the first planes' letters, or any other but half of a pair."""
    number = dice.below(256)
    if number < 128:
        return chr((number + 0x30) % 128)
    code = dice.below(256) | dice.below(256) << 8
    if number >= 224:
        code |= dice.below(0x11) << 16
    return "0" if code in _SURROGATES else chr(code)


def text(characters: str | None = None, *, least: int = 0, most: int) -> Made[str]:
    """Texts of the characters, or of any."""
    one = _a_character if characters is None else sampled_from(characters).make
    return lists(Made(one), least=least, most=most).map("".join)
