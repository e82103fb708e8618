"""A JSON array is cut into its elements however it arrives."""

from __future__ import annotations

import json
from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mgw.nouns.errors import GatewayError, Reason
from mgw.wire.json_array import MAX_OBJECTS, MAX_VALUES, ArrayWriter, ElementReader
from tests.support.dice import Dice, written

SPACES = ("", " ", "\t", "\r\n", "\n")
STRING_PIECES = ("a", r"\"", r"\\", r"\u005d", "[", "]", "{", "}", ",", ":", " ", "é")
WORDS = (["1"], ["-1", ".5", "e9"], ["tr", "ue"], ["null"])


def joined(before: str, parts: list[list[str]], after: str) -> list[str]:
    pieces = [before]
    for part in parts:
        pieces += [*part, ","]
    return [*(pieces[:-1] if parts else pieces), after]


def a_string(dice: Dice) -> list[str]:
    return ['"', *dice.several(lambda dice: dice.one_of(STRING_PIECES), 4), '"']


def an_element(dice: Dice, depth: int = 0) -> list[str]:
    """An element as pieces of text."""

    def inner(dice: Dice) -> list[str]:
        return an_element(dice, depth + 1)

    match dice.below(6 if depth < 3 else 3):
        case 0:
            return dice.one_of(WORDS)
        case 1 | 2:
            return a_string(dice)
        case 3 | 4:
            return joined("[", dice.several(inner, 3), "]")
    members = dice.several(lambda dice: [*a_string(dice), dice.one_of(SPACES), ":", *inner(dice)], 3)
    return joined("{", members, "}")


def a_stream(dice: Dice) -> tuple[list[str], list[str]]:
    """A stream as pieces of text, and its elements."""
    elements = dice.several(an_element, 4)
    spaced = [[dice.one_of(SPACES), *element, dice.one_of(SPACES)] for element in elements]
    pieces = [dice.one_of(SPACES), *joined("[", spaced, "]"), dice.one_of(SPACES)]
    return pieces, ["".join(element) for element in elements]


def read(pieces: list[bytes], max_bytes: int = 1_000_000) -> list[bytes]:
    reader = ElementReader(max_bytes)
    elements = [element for piece in pieces for element in reader.feed(piece)]
    reader.finish()
    return elements


@given(written(a_stream))
def test_any_cut_gives_the_elements_as_sent(stream: tuple[list[str], list[str]]) -> None:
    pieces, expected = ([text.encode() for text in texts] for texts in stream)
    whole = b"".join(pieces)
    assert len(json.loads(whole)) == len(expected)
    assert read(pieces) == expected
    assert read([whole]) == expected
    assert read([whole[at : at + 1] for at in range(len(whole))]) == expected


ODD = (rb'"a\"b\\"', rb'"\\\""', rb'{"k\"":"\\","l":["]","\"}"]}', b'""', b"-1.5e3", b"null", b"[]", b"{}")
"""Elements in which a cut may come between what belongs together: escapes, and quotes of brackets."""


def test_three_pieces_give_the_same_wherever_they_are_cut() -> None:
    whole = b"[" + b" ,".join(ODD) + b" ]"
    for first in range(len(whole)):
        for size in (1, 2, 3):
            pieces = [whole[:first], whole[first : first + size], whole[first + size :]]
            assert read(pieces) == list(ODD), pieces


@given(
    st.lists(
        st.sampled_from([b"[", b"]", b"{", b"}", b'"', b"\\", b",", b" ", b"1", b"a", b":"]), max_size=12
    )
)
def test_any_cut_of_anything_ends_alike(pieces: list[bytes]) -> None:
    def outcome(cut: list[bytes]) -> list[bytes] | None:
        try:
            return read(cut)
        except GatewayError as error:
            return None if error.reason is Reason.UPSTREAM_BROKEN else []

    assert outcome(pieces) == outcome([b"".join(pieces)])


@pytest.mark.parametrize("stream", [b"[]", b" [ \r\n] \n"])
def test_an_empty_array_has_no_elements(stream: bytes) -> None:
    assert read([stream]) == []


def test_an_element_comes_with_its_last_byte_and_not_with_the_next_comma() -> None:
    reader = ElementReader()
    assert reader.feed(b'[{"a":1}') == [b'{"a":1}']
    assert reader.feed(b'\n,\r\n{"a":"}') == []
    assert reader.feed(b'"}') == [b'{"a":"}"}']


@pytest.mark.parametrize(
    "stream",
    [
        b'{"error":{"code":400}}',
        b"<html>",
        b"data: {}\n\n",
        b"]",
        b"[,1]",
        b"[1,]",
        b"[1,,2]",
        b"[1 2]",
        b"[{}{}]",
        b'["a""b"]',
        b"[1}",
        b"[:]",
        b"[] []",
        b"[1]x",
    ],
)
def test_what_is_no_array_is_a_broken_upstream(stream: bytes) -> None:
    with pytest.raises(GatewayError) as caught:
        read([stream])
    assert caught.value.reason is Reason.UPSTREAM_BROKEN


@pytest.mark.parametrize("stream", [b"", b"  ", b"[", b"[1", b'[{"a":1}', b"[1,", b'["a'])
def test_an_array_that_does_not_end_is_a_broken_upstream(stream: bytes) -> None:
    reader = ElementReader()
    reader.feed(stream)
    with pytest.raises(GatewayError) as caught:
        reader.finish()
    assert caught.value.reason is Reason.UPSTREAM_BROKEN


@pytest.mark.parametrize(
    "pieces",
    [[b'["' + b"x" * 200], [b"[", *[b"1"] * 200], [b"[{", *[b'"a":1,'] * 200], [b'["' + b"x" * 200 + b'"]']],
)
def test_an_element_beyond_the_limit_is_a_broken_upstream(pieces: list[bytes]) -> None:
    with pytest.raises(GatewayError, match="more than 100 bytes") as caught:
        read(pieces, max_bytes=100)
    assert caught.value.reason is Reason.UPSTREAM_BROKEN


def test_the_limit_is_for_each_element() -> None:
    reader = ElementReader(max_bytes=100)
    reader.feed(b"[")
    for _ in range(50):
        assert reader.feed(b'"' + b"x" * 90 + b'"\n,') == [b'"' + b"x" * 90 + b'"']


@given(written(lambda dice: ["".join(element).encode() for element in dice.several(an_element, 8)]))
def test_what_is_written_reads_the_same(elements: list[bytes]) -> None:
    writer = ArrayWriter()
    pieces = [*(writer.element(element) for element in elements), writer.finish()]
    assert read(pieces) == elements
    assert isinstance(json.loads(b"".join(pieces)), list)


def test_an_array_is_written_like_this() -> None:
    writer = ArrayWriter()
    assert [writer.element(b"{}"), writer.element(b"1"), writer.finish()] == [b"[{}", b",\n1", b"]"]
    assert ArrayWriter().finish() == b"[]"


@pytest.mark.parametrize("piece", [b"x", b"\\n", b"\\", b'\\"'])
def test_small_pieces_take_linear_time_however_much_is_held(piece: bytes) -> None:
    """A reader that goes over what it holds would take minutes for it, however fast it does."""

    def seconds(held: int, pieces: int) -> float:
        reader = ElementReader()
        reader.feed(b'[{"a":"' + b"x" * held)
        begun = process_time()
        for _ in range(pieces):
            reader.feed(piece)
        assert reader.feed(b'"}') != []
        return process_time() - begun

    assert seconds(4_000_000, 20_000) < 40 * seconds(0, 2_000) + 0.1


@pytest.mark.parametrize(
    ("unit", "times"), [(b"{},", MAX_OBJECTS + 1), (b"[],", MAX_VALUES // 2 + 1), (b'"",', MAX_VALUES + 1)]
)
def test_an_element_of_countless_values_is_a_broken_upstream(unit: bytes, times: int) -> None:
    with pytest.raises(GatewayError) as broken:
        ElementReader().feed(b"[[%b0]]" % (unit * times))
    assert broken.value.reason is Reason.UPSTREAM_BROKEN
