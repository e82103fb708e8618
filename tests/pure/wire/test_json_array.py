"""A JSON array is cut into its elements however it arrives."""

from __future__ import annotations

import json
from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mgw.nouns.errors import GatewayError, Reason
from mgw.wire.json_array import ArrayWriter, ElementReader

SPACE = st.text(" \t\r\n", max_size=2)
STRING_PIECES = st.lists(
    st.sampled_from(["a", r"\"", r"\\", r"\u005d", "[", "]", "{", "}", ",", ":", " ", "é"]), max_size=4
)


def joined(before: str, parts: list[list[str]], after: str) -> list[str]:
    pieces = [before]
    for part in parts:
        pieces += [*part, ","]
    return [*(pieces[:-1] if parts else pieces), after]


STRINGS = STRING_PIECES.map(lambda pieces: ['"', *pieces, '"'])
SCALARS = STRINGS | st.sampled_from([["1"], ["-1", ".5", "e9"], ["tr", "ue"], ["null"]])
ELEMENTS = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3).map(lambda parts: joined("[", parts, "]"))
        | st.lists(st.tuples(STRINGS, SPACE, inner), max_size=3).map(
            lambda members: joined("{", [[*key, space, ":", *value] for key, space, value in members], "}")
        )
    ),
    max_leaves=6,
)
"""Each element as pieces of text."""

STREAMS = st.lists(st.tuples(SPACE, ELEMENTS, SPACE), max_size=4)


def read(pieces: list[bytes], max_bytes: int = 1_000_000) -> list[bytes]:
    reader = ElementReader(max_bytes)
    elements = [element for piece in pieces for element in reader.feed(piece)]
    reader.finish()
    return elements


@given(SPACE, STREAMS, SPACE)
def test_any_cut_gives_the_elements_as_sent(
    before: str, parts: list[tuple[str, list[str], str]], after: str
) -> None:
    inner = joined("[", [[left, *element, right] for left, element, right in parts], "]")
    pieces = [piece.encode() for piece in (before, *inner, after)]
    expected = ["".join(element).encode() for _, element, _ in parts]
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


@given(st.lists(ELEMENTS.map("".join).map(str.encode)))
def test_what_is_written_reads_the_same(elements: list[bytes]) -> None:
    writer = ArrayWriter()
    pieces = [*(writer.element(element) for element in elements), writer.finish()]
    assert read(pieces) == elements
    assert isinstance(json.loads(b"".join(pieces)), list)


def test_an_array_is_written_like_this() -> None:
    writer = ArrayWriter()
    assert [writer.element(b"{}"), writer.element(b"1"), writer.finish()] == [b"[{}", b",\n1", b"]"]
    assert ArrayWriter().finish() == b"[]"


@pytest.mark.slow
@pytest.mark.parametrize("piece", [b"x", b"\\n", b"\\", b'\\"'])
def test_a_million_small_pieces_take_linear_time(piece: bytes) -> None:
    def seconds(pieces: int) -> float:
        reader = ElementReader()
        begun = process_time()
        reader.feed(b'[{"a":"')
        for _ in range(pieces):
            reader.feed(piece)
        assert reader.feed(b'"}') != []
        return process_time() - begun

    assert seconds(400_000) < 40 * seconds(40_000) + 0.1


@pytest.mark.slow
@pytest.mark.parametrize("unit", [b"{},", b"[],", b'"",'])
def test_an_element_of_countless_values_is_a_broken_upstream(unit: bytes) -> None:
    with pytest.raises(GatewayError) as broken:
        ElementReader().feed(b"[[%b0]]" % (unit * 500_000))
    assert broken.value.reason is Reason.UPSTREAM_BROKEN
