"""The input of a custom tool is found in arguments of any shape, however they are cut."""

from __future__ import annotations

import json
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mgw.dialects.responses.calls import CustomInput

BROKEN = ['{"input":', ' "', "a", "\\n", "\\", "u", "\\ud83d", "\\ude00", "\\u00e", "9", '\\"', '"', "}", "☃"]


def read(pieces: Iterable[str]) -> str:
    found = CustomInput()
    return "".join([*map(found.feed, pieces), found.finish()])


@given(st.text(), st.sampled_from(["input", "other"]), st.booleans(), st.data())
def test_an_object_with_an_input_gives_it_whatever_stands_beside_it(
    text: str, first: str, ascii_only: bool, data: st.DataObject
) -> None:
    fields = {first: "x", "input": text} if first == "other" else {"input": text, "other": "x"}
    arguments = json.dumps(fields, ensure_ascii=ascii_only)
    cut = data.draw(st.integers(0, len(arguments)))
    assert read([arguments[:cut], arguments[cut:]]) == text


@given(st.lists(st.sampled_from(BROKEN)).map(lambda pieces: ['{"input": "', *pieces]))
def test_the_input_does_not_depend_on_how_the_arguments_are_cut(pieces: list[str]) -> None:
    assert read(pieces) == read(["".join(pieces)]) == read("".join(pieces))


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        ("", ""),
        ("null", ""),
        (" {}\n", ""),
        ('{"input": 1}', '{"input": 1}'),
        ("*** Begin Patch", "*** Begin Patch"),
        ('"text"', '"text"'),
        ('{"input": "half', "half"),
        ('{"input": "half\\u00e', "half"),
        (r'{"input": "\d+\n"}', "\\d+\n"),
        ('{"input": "\\ud83d!\\ude00\\ud83d\\ude00"}', "\ufffd!\ufffd\U0001f600"),
        (" " * 100 + '{"input": "x"}', "x"),
    ],
)
def test_arguments_that_are_no_such_object_are_the_input(arguments: str, found: str) -> None:
    assert read([arguments]) == found
