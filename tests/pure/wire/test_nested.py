"""String values deep in a body, at their own positions."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mgw.errors import GatewayError, Reason
from mgw.wire.nested import Path, find_nested

REQUESTS: Path = ("requests", None, "model")


def values(body: bytes, path: Path = REQUESTS) -> list[str]:
    return [found.value for found in find_nested(body, path)]


def test_every_element_is_found_where_it_stands() -> None:
    first, second = b'{"model":"a","x":{"model":"no"}}', b'{"y":["model"], "model" : "b\\u0041"}'
    body = b'{"requests": [ %b, %b ], "model":"no"}' % (first, second)
    found = find_nested(body, REQUESTS)
    assert [entry.value for entry in found] == ["a", "bA"]
    assert [body[slice(*entry.spans[0])] for entry in found] == [b'"a"', b'"b\\u0041"']


@pytest.mark.parametrize(
    "body",
    [
        b"{}",
        b'{"requests":{"model":"a"}}',
        b'[{"model":"a"}]',
        b'{"requests":["model"]}',
        b'{"requests":[{"model":1}]}',
    ],
)
def test_what_stands_elsewhere_is_not_found(body: bytes) -> None:
    assert values(body) == []


@pytest.mark.parametrize("body", [b"", b"{", b"not json", b'{"requests":[}', b"[" * 100_000])
def test_what_is_no_json_is_refused(body: bytes) -> None:
    with pytest.raises(GatewayError) as refusal:
        find_nested(body, REQUESTS)
    assert refusal.value.reason is Reason.MALFORMED


documents = st.recursive(
    st.none() | st.integers() | st.sampled_from(["model", "requests", 'q"\\{[', "é"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["model", "requests", "a", 'b"{']), inner, max_size=4)
    ),
    max_leaves=20,
)


def reference(value: Any, path: Path) -> list[str]:
    if not path:
        return [value] if isinstance(value, str) else []
    step, *rest = path
    if step is None:
        return (
            [name for item in value for name in reference(item, tuple(rest))]
            if isinstance(value, list)
            else []
        )
    return reference(value[step], tuple(rest)) if isinstance(value, dict) and step in value else []


@given(document=documents, ascii_only=st.booleans())
def test_the_same_values_as_a_parser_sees(document: Any, ascii_only: bool) -> None:
    body = json.dumps({"requests": document}, ensure_ascii=ascii_only).encode()
    for path in (REQUESTS, ("requests",), ("requests", "model"), ("requests", None)):
        assert values(body, path) == reference({"requests": document}, path)


def test_an_escape_and_bytes_that_are_no_utf8_in_one_model_are_nobodys_name() -> None:
    found = find_nested(b'{"model":"\\u0061\xff"}', ("model",))
    assert [value.value for value in found] == ["\ufffd"]
