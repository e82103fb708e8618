"""Answers in a wrapping: what comes out is the value, byte for byte, however the text is cut."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mgw.canonical.conversation import Text, ToolCall
from mgw.canonical.reply import Candidate, Reply, StopReason
from mgw.dialects.unwrapping import Unwrapper, unwrap_reply

SPACE = st.text(" \n\t\r", max_size=3)
SCALAR = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
VALUE = st.recursive(
    SCALAR, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3)
)


def unwrapped(*pieces: str) -> str:
    unwrapper = Unwrapper()
    return "".join([*map(unwrapper.feed, pieces), unwrapper.finish()])


@st.composite
def wrapped(draw: st.DrawFn) -> tuple[str, str]:
    """A value as a model may spell it, and its wrapping."""
    value: Any = draw(VALUE)  # Any: JSON
    inner = json.dumps(value, indent=draw(st.none() | st.integers(0, 2)), ensure_ascii=draw(st.booleans()))
    spaces = [draw(SPACE) for _ in range(6)]
    head = f'{spaces[0]}{{{spaces[1]}"value"{spaces[2]}:{spaces[3]}'
    return inner, f"{head}{inner}{spaces[4]}}}{spaces[5]}"


@given(case=wrapped(), data=st.data())
def test_the_value_comes_out_byte_for_byte_however_the_text_is_cut(
    case: tuple[str, str], data: st.DataObject
) -> None:
    inner, text = case
    places = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=6)))
    ends = [0, *places, len(text)]
    assert unwrapped(*(text[a:b] for a, b in pairwise(ends))) == inner
    assert unwrapped(*text) == inner


@pytest.mark.parametrize(
    "text",
    [
        "I cannot.",
        "[1, 2]",
        '{"values": [1]}',
        '{"a": 1}',
        "```json\n{}",
        "",
        '"value"',
        " " * 500 + "x",
        '{ "valu": 1}',
    ],
)
def test_what_is_in_no_wrapping_stays_as_it_is(text: str) -> None:
    assert unwrapped(text) == unwrapped(*text) == text


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"value": [1, {"a": "}', '[1, {"a": "}'),
        ('{"value": "a\\"}', '"a\\"}'),
        ('{"value": [1, ', "[1,"),
        ('{"val', ""),
        ('{"value":', ""),
        ('{"value": 1, "more": 2}', "1"),
        ('{"value": [1]}\n\n{"value": 2}', "[1]"),
    ],
)
def test_a_text_that_was_cut_off_or_goes_on_is_as_much_as_there_is_of_the_value(
    text: str, value: str
) -> None:
    assert unwrapped(text) == unwrapped(*text) == value


def test_the_value_streams_as_it_comes() -> None:
    unwrapper = Unwrapper()
    pieces = ['{"va', 'lue": ["', "a b", ' ", ', "1", " ]", "} "]
    assert [unwrapper.feed(piece) for piece in pieces] == ["", '["', "a b", ' ",', " 1", " ]", ""]


def test_a_whole_answer_is_unwrapped_where_it_holds_text() -> None:
    call = ToolCall("1", "f", '{"value": 1}')
    parts = (Text('{"value": [1'), call, Text(", 2]}"))
    (found,) = unwrap_reply(Reply((Candidate(parts, StopReason.END),))).candidates
    assert found.parts == (Text("[1"), call, Text(", 2]"))
    (found,) = unwrap_reply(Reply((Candidate((Text('{"value"'), call), StopReason.END),))).candidates
    assert found.parts == (call,)
