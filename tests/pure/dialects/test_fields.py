"""Objects that know which of their keys nobody has read."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mgw.canonical.features import Feature
from mgw.dialects.fields import Fields, Ledger, none_of, open_request
from mgw.nouns.errors import GatewayError, Reason


def opened(body: bytes, *, snake_too: bool = False) -> Fields:
    return open_request(body, Ledger(snake_too=snake_too))


def test_what_nobody_read_is_reported_by_its_path() -> None:
    ledger = Ledger()
    root = open_request(b'{"a":1,"m":[{"x":1,"y":2},{"z":{"deep":1}}],"o":{"p":1,"q":2},"n":null}', ledger)
    assert root.integer("a") == 1
    messages = root.objects("m")
    assert messages[0].integer("x") == 1
    inner = root.nested("o")
    assert inner is not None
    assert inner.integer("p") == 1
    assert ledger.unread() == {"m[].y", "m[].z", "o.q"}


def test_a_null_is_neither_there_nor_reported() -> None:
    ledger = Ledger()
    root = open_request(b'{"a":null,"b":null}', ledger)
    assert "a" not in root
    assert root.text("a") is None
    assert ledger.unread() == frozenset()


def test_a_feature_is_noted_where_it_was_said_and_only_then() -> None:
    ledger = Ledger()
    root = open_request(b'{"m":[{"x":1}]}', ledger)
    (message,) = root.objects("m")
    message.integer("x", Feature.SEED)
    message.integer("y", Feature.TOP_K)
    assert ledger.said == {Feature.SEED: {"m[].x"}}


def test_an_object_that_is_left_is_reported_as_one() -> None:
    ledger = Ledger()
    (block,) = open_request(b'{"m":[{"type":"odd","x":1}]}', ledger).objects("m")
    block.leave()
    assert ledger.unread() == {"m[]"}


def test_snake_case_is_read_and_reported_as_spelled() -> None:
    ledger = Ledger(snake_too=True)
    root = open_request(b'{"max_output_tokens":5,"top_k":1,"stopSequences":["a"]}', ledger)
    assert root.integer("maxOutputTokens", Feature.MAX_TOKENS) == 5
    assert root.texts("stopSequences") == ("a",)
    assert ledger.said == {Feature.MAX_TOKENS: {"max_output_tokens"}}
    assert ledger.unread() == {"top_k"}


@pytest.mark.parametrize(
    ("body", "place", "what"),
    [
        (b'{"m":[{"t":1}]}', "m[0].t", "expected a string, found a number"),
        (b'{"m":[{"t":[]}]}', "m[0].t", "expected a string, found an array"),
        (b'{"m":[{"t":"a"},7]}', "m[1]", "expected an object, found a number"),
        (b'{"m":{}}', "m", "expected an array, found an object"),
        (b'{"m":[{}]}', "m[0].t", "required but missing"),
    ],
)
def test_a_wrong_type_is_refused_with_its_place(body: bytes, place: str, what: str) -> None:
    with pytest.raises(GatewayError, match=what) as caught:
        [message.required_text("t") for message in opened(body).objects("m")]
    assert caught.value.param == place
    assert caught.value.reason is Reason.MALFORMED


@pytest.mark.parametrize("body", [b"true", b'"1"', b"1.5", b"[]", b"1e30", b"9223372036854775808"])
def test_what_is_no_whole_number_is_refused(body: bytes) -> None:
    with pytest.raises(GatewayError):
        opened(b'{"a":' + body + b"}").integer("a")


def test_a_whole_float_is_an_integer() -> None:
    assert opened(b'{"a":3.0}').integer("a") == 3


@pytest.mark.parametrize(
    "body",
    [b"", b"[]", b'"a"', b"{", b'{"a":1e999}', b'"\xff"', b'{"a":"\\ud800"}', b'{"a":' * 5000, b"NaN"],
    ids=["empty", "array", "string", "cut", "huge", "no utf-8", "lone surrogate", "deep", "nan"],
)
def test_what_is_no_json_object_is_a_clear_refusal(body: bytes) -> None:
    with pytest.raises(GatewayError) as caught:
        opened(body)
    assert caught.value.reason is Reason.MALFORMED


def test_an_unknown_word_is_told_with_the_known_ones() -> None:
    error = none_of(opened(b"{}"), "mode", "x" * 500, ("auto", "none"))
    assert error.message.endswith("; expected one of auto, none")
    assert len(error.message) < 120


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=12,
)


@given(values=st.dictionaries(st.text(max_size=5), JSON, max_size=6), taken=st.sets(st.text(max_size=5)))
def test_every_key_is_either_taken_or_reported(values: dict[str, object], taken: set[str]) -> None:
    ledger = Ledger()
    root = open_request(msgspec.json.encode(values), ledger)
    for key in taken:
        root.take(key)
    assert ledger.unread() == {key for key, value in values.items() if value is not None} - taken
