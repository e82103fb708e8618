"""Elements of lists in headers: what is cut, what is added, and what stays as it was spelled."""

from __future__ import annotations

import re
from fnmatch import translate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mgw.wire.header_tokens import add_tokens, elements_of, remove_tokens
from mgw.wire.headers import RawHeaders

NAME = b"anthropic-beta"


def cut(value: bytes, pattern: str) -> list[bytes]:
    headers = [(b"Anthropic-Beta", value), (b"x", value)]
    left = remove_tokens(headers, NAME, re.compile(translate(pattern)).match)
    assert left[-1] == (b"x", value)
    return [value for _, value in left[:-1]]


@pytest.mark.parametrize(
    ("value", "left"),
    [
        (b"a, b ,c", [b"a, b ,c"]),
        (b"cm-1, b ,C", [b"b,C"]),
        (b"B,CM-2", [b"B"]),
        (b"cm-1,cm-2", []),
        (b"cm-1", []),
        (b" , cm-1,, b", [b"b"]),
        (b"", [b""]),
        (b",", [b","]),
        (b'"x,cm-1", cm-2', [b'"x,cm-1"']),
        (b'"x, cm-1', [b'"x']),
    ],
)
def test_each_fitting_element_is_cut(value: bytes, left: list[bytes]) -> None:
    assert cut(value, "cm-*") == left


def test_each_line_of_a_header_is_a_list() -> None:
    lines: RawHeaders = [(b"Anthropic-Beta", b"cm-1"), (b"a", b"cm-1"), (b"anthropic-beta", b"b, c")]
    assert remove_tokens(lines, NAME, re.compile("cm-").match) == lines[1:]


@pytest.mark.parametrize(
    ("lines", "after"),
    [
        ([], [(NAME, b"b,c")]),
        ([(b"Anthropic-Beta", b"a , b")], [(b"Anthropic-Beta", b"a , b,c")]),
        ([(b"Anthropic-Beta", b"C, B")], [(b"Anthropic-Beta", b"C, B")]),
        ([(b"Anthropic-Beta", b" ")], [(b"Anthropic-Beta", b"b,c")]),
        ([(NAME, b"b"), (b"x", b"c"), (NAME, b"a")], [(NAME, b"b"), (b"x", b"c"), (NAME, b"a,c")]),
    ],
)
def test_what_is_not_there_is_added(lines: RawHeaders, after: RawHeaders) -> None:
    assert add_tokens(lines, NAME, [b"b", b"c"]) == after


@given(pieces=st.lists(st.sampled_from([b"a", b"cm-1", b" ", b",", b'"', b"\\", b"\t"]), max_size=30))
def test_what_is_left_are_the_elements_that_do_not_fit(pieces: list[bytes]) -> None:
    value = b"".join(pieces)
    kept = [one for one in elements_of(value) if not one.startswith(b"cm-")]
    left = cut(value, "cm-*")
    assert [one for line in left for one in elements_of(line)] == kept
