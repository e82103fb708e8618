"""Members and elements are found, cut out and replaced where they stand."""

from __future__ import annotations

import json
from contextlib import suppress
from time import process_time
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mgw.nouns.errors import GatewayError, Reason
from mgw.wire.json_document import JsonDocument, JsonNode, Span, are_all_siblings, removal_spans
from mgw.wire.json_spans import Edit, apply_edits
from tests.support.dice import Dice, Writer, one_of, sampled_from, written

MARK = b"mark"

# --- documents drawn as pieces of text ---------------------------------------------------------------------

PIECES = sampled_from(
    ["mark", "a", r"\"", r"\\", r"\/", r"\n", r"\u0061", r"\ud83d\ude00", "é", "{", "}", "[", "]", ",", ":"]
)


def a_string(dice: Dice) -> str:
    return f'"{"".join(dice.several(PIECES, 4))}"'


SCALARS = one_of(a_string, sampled_from(["0", "-1.50", "1E400", "true", "null", '"mark"']))
SPELLED = sampled_from(['"a"', r'"\u0061"', '"b"', '""', r'"\"a"', '"mark"'])


def an_array(dice: Dice, depth: int = 0) -> str:
    elements = dice.several(lambda dice: dice.spaced(a_value(dice, depth + 1)), 5)
    return f"[{','.join(elements) or dice.spaced('')}]"


def an_object(dice: Dice, depth: int = 0) -> str:
    members = dice.several(lambda dice: dice.spaced(SPELLED(dice), ":", a_value(dice, depth + 1)), 5)
    return f"{{{','.join(members) or dice.spaced('')}}}"


def a_value(dice: Dice, depth: int = 0) -> str:
    match dice.below(4 if depth < 3 else 2):
        case 2:
            return an_array(dice, depth)
        case 3:
            return an_object(dice, depth)
    return SCALARS(dice)


def around(write: Writer) -> st.SearchStrategy[bytes]:
    return written(lambda dice: dice.spaced(write(dice)).encode())


class Pairs(list[tuple[str, Any]]):
    """An object with all that it states."""


def parsed(text: bytes) -> Any:
    """A document as the standard library reads it, its numbers and duplicates as they are spelled."""
    return json.loads(text, object_pairs_hook=Pairs, parse_int=str, parse_float=str)


def elements(document: JsonDocument, place: JsonNode, holding: bytes = b"") -> list[JsonNode]:
    return list(document.elements(place, holding))


def without(body: bytes, siblings: list[JsonNode]) -> bytes:
    return apply_edits(body, [(span, b"") for span in removal_spans(siblings)])


# --- where things stand ------------------------------------------------------------------------------------


def same(document: JsonDocument, body: bytes, place: JsonNode, value: Any) -> None:
    """Hold a place and all below it against what a parser read there."""
    assert parsed(body[place.value : place.end]) == value
    assert document.string(place) == (value if body[place.value : place.value + 1] == b'"' else None)
    members = document.members(place)
    stated = sorted(
        ((one, key) for key, places in members.items() for one in places), key=lambda it: it[0].start
    )
    assert [key for _, key in stated] == ([key for key, _ in value] if isinstance(value, Pairs) else [])
    if isinstance(value, Pairs):
        for (one, _), (_, inner) in zip(stated, value, strict=True):
            same(document, body, one, inner)
    found = elements(document, place)
    is_array = isinstance(value, list) and not isinstance(value, Pairs)
    for one, inner in zip(found, value if is_array else [], strict=True):
        same(document, body, one, inner)


@given(body=around(a_value))
def test_every_value_is_found_where_a_parser_finds_it(body: bytes) -> None:
    document = JsonDocument(body)
    root = document.root
    same(document, body, JsonNode(root.start, root.value, len(body.rstrip())), parsed(body))


@given(body=around(an_array))
def test_the_elements_that_hold_some_bytes_are_those_in_which_they_occur(body: bytes) -> None:
    document = JsonDocument(body)
    everything = elements(document, document.root)
    holding = [place for place in everything if MARK in body[place.value : place.end]]
    assert elements(document, document.root, MARK) == holding


def test_lone_surrogates_change_no_places() -> None:
    body = rb'{"\ud800":"\\ud800\"","a":["\udfff\ud800"],"b":"\u0061"}'
    document = JsonDocument(body)
    members = document.members(document.root)
    assert document.string(members["b"][-1]) == "a"
    assert [body[place.value : place.end] for place in elements(document, members["a"][0])] == [
        rb'"\udfff\ud800"'
    ]


def test_what_is_not_utf8_is_no_name() -> None:
    document = JsonDocument(b'{"\xff":1,"\\n\xff":"a","b":2}')
    assert "b" in document.members(document.root)


@pytest.mark.parametrize(
    "body",
    [b"", b" ", b"{", b"nope", b'{"a":[}', b"[1] 2", b"{}}", rb'["\ud800]', b"[" * 100_000, b"[NaN]"],
    ids=repr,
)
def test_what_is_no_json_is_refused(body: bytes) -> None:
    with pytest.raises(GatewayError) as refusal:
        JsonDocument(body)
    assert refusal.value.reason is Reason.MALFORMED


def test_deep_nesting_is_skipped_or_refused() -> None:
    for depth in (500, 900, 990, 1000, 100_000):
        deep = b"[" * depth + b"]" * depth
        with suppress(GatewayError):
            document = JsonDocument(b'{"x":[%b,%b],"a":"mark"}' % (deep, deep))
            assert document.string(document.members(document.root)["a"][0]) == "mark"


def test_a_document_of_too_many_places_is_refused() -> None:
    body = b"[0,1,2,3,4]"
    document = JsonDocument(body, max_nodes=5)
    assert len(elements(document, document.root)) == 5
    with pytest.raises(GatewayError):
        elements(document, document.root)


@pytest.mark.parametrize(
    ("start", "unit", "end"),
    [
        (b'"', b"x", b'"'),
        (b'"', rb"\"\\", b'"'),
        (b"[", b"[" * 10 + b"]" * 10 + b",", b"[]]"),
        (b"[", b" ", b"]"),
        (b"[", b"[],", b"[]]"),
    ],
    ids=["text", "escapes", "deep", "space", "empty"],
)
def test_a_long_document_takes_no_long_time(start: bytes, unit: bytes, end: bytes) -> None:
    filler = start + unit * (8_000_000 // len(unit)) + end  # made here, and not held by all who collect
    body = b'{"x":%b,"a":[%b,"mark"]}' % (filler, filler)
    begun = process_time()
    document = JsonDocument(body)
    (found,) = elements(document, document.members(document.root)["a"][-1], MARK)
    assert document.string(found) == "mark"
    assert process_time() - begun < 2  # measured: 0.3 at the most


@pytest.mark.parametrize("unit", [b"x", rb"\n"], ids=["text", "escapes"])
@pytest.mark.parametrize(
    ("body", "most"), [(b'{"a":"%b","b":0}', 5), (b'{"%b":0,"b":0}', 14)], ids=["value", "key"]
)
def test_the_end_of_a_long_string_is_found_as_fast_as_the_string_is_checked(
    body: bytes, most: int, unit: bytes
) -> None:
    """A pattern takes ten times as long, and holds the interpreter meanwhile; keys are decoded besides."""
    body %= unit * (8_000_000 // len(unit))
    taken = []
    for _ in range(3):
        begun = process_time()
        document = JsonDocument(body)
        checked = process_time()
        assert list(document.members(document.root))[-1] == "b"
        taken.append((process_time() - checked) / (checked - begun))
    assert min(taken) < most


# --- cutting -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "chosen", "left"),
    [
        (b"[ 0 , 1 , 2 ]", (0,), b"[ 1 , 2 ]"),
        (b"[ 0 , 1 , 2 ]", (1,), b"[ 0 , 2 ]"),
        (b"[ 0 , 1 , 2 ]", (2,), b"[ 0 , 1  ]"),
        (b"[ 0 , 1 , 2 ]", (0, 2), b"[ 1  ]"),
        (b"[ 0 , 1 , 2 ]", (1, 2), b"[ 0  ]"),
        (b"[ 0 , 1 , 2 ]", (0, 1, 2), b"[  ]"),
        (b"[0]", (0,), b"[]"),
    ],
)
def test_one_comma_goes_with_each(body: bytes, chosen: tuple[int, ...], left: bytes) -> None:
    document = JsonDocument(body)
    found = elements(document, document.root)
    assert without(body, [found[index] for index in chosen]) == left


@given(body=around(an_array), choices=st.lists(st.booleans(), min_size=6, max_size=6))
@example(b"[1,2,3]", [False, True, True, True, True, True])
def test_a_parser_misses_the_elements_that_were_cut_and_no_others(body: bytes, choices: list[bool]) -> None:
    document = JsonDocument(body)
    found = elements(document, document.root)
    chosen = [place for place, choice in zip(found, choices, strict=False) if choice]
    left = [value for value, choice in zip(parsed(body), choices, strict=False) if not choice]
    assert parsed(without(body, chosen)) == left
    assert are_all_siblings(chosen) == (bool(found) and chosen == found)


@given(body=around(an_object), choices=st.lists(st.booleans(), min_size=6, max_size=6))
def test_a_parser_misses_the_members_that_were_cut_and_no_others(body: bytes, choices: list[bool]) -> None:
    document = JsonDocument(body)
    found = sorted(
        (place for places in document.members(document.root).values() for place in places),
        key=lambda place: place.start,
    )
    chosen = [place for place, choice in zip(found, choices, strict=False) if choice]
    left = Pairs(value for value, choice in zip(parsed(body), choices, strict=False) if not choice)
    assert parsed(without(body, chosen)) == left


@given(body=around(an_array), choices=st.lists(st.booleans(), min_size=6, max_size=6))
def test_nothing_is_cut_but_what_was_chosen_and_commas(body: bytes, choices: list[bool]) -> None:
    document = JsonDocument(body)
    found = elements(document, document.root)
    chosen = [place for place, choice in zip(found, choices, strict=False) if choice]
    gone = b"".join(body[start:end] for start, end in removal_spans(chosen))
    for place in chosen:
        gone = gone.replace(body[place.start : place.end], b"", 1)
    assert gone.translate(None, b" \t\r\n,") == b""


def test_nothing_chosen_cuts_nothing() -> None:
    assert removal_spans([]) == []
    assert not are_all_siblings([])


# --- joining -----------------------------------------------------------------------------------------------


@st.composite
def edit_lists(draw: st.DrawFn) -> tuple[bytes, list[Edit], bytes]:
    """A body, edits of it in any order, and what is to come out, drawn as the pieces of all three."""
    body, edits, expected = b"", [], b""
    for kept, cut, new in draw(
        st.lists(st.tuples(st.binary(max_size=3), st.binary(max_size=3), st.binary(max_size=3)))
    ):
        span: Span = (len(body) + len(kept) + 1, len(body) + len(kept) + 1 + len(cut))
        edits.append((span, new))
        body += kept + b"." + cut
        expected += kept + b"." + new
    return body, draw(st.permutations(edits)), expected


@given(drawn=edit_lists())
def test_all_but_the_edited_spans_stays_as_it_was(drawn: tuple[bytes, list[Edit], bytes]) -> None:
    body, edits, expected = drawn
    assert apply_edits(body, edits) == expected


def test_without_edits_it_is_the_same_object() -> None:
    body = b"{}"
    assert apply_edits(body, []) is body
