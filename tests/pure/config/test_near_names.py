"""Names that are another one but for a slip of the finger."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mgw.config.near_names import MAX_NAME, near_name

LETTERS = st.text("abcdefgh-", min_size=3, max_size=12)


@pytest.mark.parametrize(
    "wrong", ["opnai", "openaii", "oepnai", "openao", "OpenAI", "penai", "openia", "openai2", "xopenai"]
)
def test_one_edit_away_is_near(wrong: str) -> None:
    assert near_name(wrong, ["claude", "openai"]) == "openai"


@pytest.mark.parametrize(
    "wrong", ["openai", "opna", "meta-llama", "", "o", "aipneo", "opennaii", "openai/", "x" * (MAX_NAME + 1)]
)
def test_the_name_itself_and_anything_further_away_is_not(wrong: str) -> None:
    names = ["openai"] if wrong != "openai/" else ["open"]
    assert near_name(wrong, names) is None


def test_a_name_that_exists_is_never_a_slip_for_another() -> None:
    assert near_name("host2", ["host1", "host2"]) is None


def test_a_short_name_is_near_to_nothing() -> None:
    assert near_name("b", ["a"]) is None
    assert near_name("ab", ["ac"]) is None


def distance(one: str, other: str) -> int:
    """The number of edits, by the textbook: optimal string alignment."""
    table = {(i, -1): i + 1 for i in range(-1, len(one))} | {(-1, j): j + 1 for j in range(-1, len(other))}
    for i, left in enumerate(one):
        for j, right in enumerate(other):
            cost = left != right
            table[i, j] = min(table[i - 1, j] + 1, table[i, j - 1] + 1, table[i - 1, j - 1] + cost)
            if i and j and left == other[j - 1] and one[i - 1] == right:
                table[i, j] = min(table[i, j], table[i - 2, j - 2] + 1)
    return table[len(one) - 1, len(other) - 1]


@given(one=LETTERS, other=LETTERS)
def test_near_means_one_edit(one: str, other: str) -> None:
    assert (near_name(one, [other]) == other) == (distance(one, other) == 1)


@given(name=LETTERS, place=st.integers(0, 12), letter=st.sampled_from("abcz"), edit=st.integers(0, 3))
def test_every_edit_of_a_name_is_near_to_it(name: str, place: int, letter: str, edit: int) -> None:
    place = min(place, len(name) - 1)
    tail = name[place + 1 :]
    edited = [
        f"{name[:place]}{letter}{tail}",
        f"{name[:place]}{tail}",
        f"{name[:place]}{letter}{name[place:]}",
        f"{name[:place]}{tail[:1]}{name[place]}{tail[1:]}",
    ][edit]
    assert near_name(edited, [name]) == (None if edited == name else name)
