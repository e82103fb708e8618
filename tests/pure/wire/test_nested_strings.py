"""String values deep in a body, at their own positions."""

from __future__ import annotations

import json
from inspect import signature
from itertools import pairwise
from time import process_time
from typing import Any, Final

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mgw.nouns.errors import GatewayError, Reason
from mgw.wire import nested_strings
from mgw.wire.json_document import Span
from mgw.wire.nested_strings import MAX_VALUES, JsonPath, NestedString, find_nested_strings
from tests.support.dice import Dice, Writer, one_of, sampled_from, written
from tests.support.laws import examples

REQUESTS: JsonPath = ("requests", None, "model")
BATCH: JsonPath = ("requests", None, "params", "model")


def values(body: bytes, *paths: JsonPath) -> list[str]:
    return [found.value for found in find_nested_strings(body, *paths or (REQUESTS,))]


# --- documents drawn as pieces of text ---------------------------------------------------------------------

PIECES = sampled_from(
    [
        "model",
        r"\"",
        r"\\",
        r"\/",
        r"\n",
        r"\u0041",
        r"\ud83d\ude00",
        r"\ud800",
        r"\\ud800",
        "é",
        "{",
        "]",
        ",",
        ":",
        "x" * 98,
        "x" * 100,
    ]
)


def a_string(dice: Dice) -> str:
    return f'"{"".join([PIECES(dice) for _ in range(dice.below(5))])}"'


OTHERS = sampled_from(
    ["0", "-1.50E+400", "null", "[]", "{ }", '{"model":"a"}', '["a","b"]', r'[["\\"]]', '[{"model":"a"}]']
)
VALUES = one_of(a_string, a_string, OTHERS)
MODELS = sampled_from(['"model"', r'"\u006dodel"', r'"mode\u006C"'])
OTHER_KEYS = one_of(
    sampled_from(['"params"', r'"p\u0061rams"', '"requests"', '"models"', r'"model\\"', '""']), a_string
)


def arrays(inner: Writer) -> Writer:
    return lambda dice: dice.spaced("[", " ,".join([inner(dice) for _ in range(1 + dice.below(4))]), "]")


def objects(inner: Writer) -> Writer:
    keys = (MODELS, OTHER_KEYS)

    def member(dice: Dice) -> str:
        return dice.spaced(dice.one_of(keys)(dice), ":", dice.spaced(inner(dice)))

    return lambda dice: dice.spaced("{", ",".join([member(dice) for _ in range(1 + dice.below(5))]), "}")


REQUEST = objects(one_of(VALUES, objects(VALUES)))
REQUESTS_WRITTEN = arrays(REQUEST)


def a_batch(dice: Dice) -> str:
    first = dice.spaced('{"requests":', REQUESTS_WRITTEN(dice), ",")
    key = dice.one_of(['"params"', '"requests"'])
    return first + dice.spaced(key, ":", REQUEST(dice)) + dice.spaced("}")


DOCUMENTS = written(one_of(objects(one_of(VALUES, REQUEST)), REQUESTS_WRITTEN, a_batch, VALUES))
STEPS = st.sampled_from(["model", "params", "requests", None])
USUAL: list[JsonPath] = [
    REQUESTS,
    BATCH,
    ("model",),
    ("model", "model"),
    ("params", "model"),
    (None, "model"),
]
PATHS = st.tuples(
    st.sets(st.sampled_from(USUAL), min_size=1),
    st.sets(st.tuples(STEPS) | st.tuples(STEPS, STEPS) | st.tuples(STEPS, STEPS, STEPS), max_size=3),
).map(lambda drawn: [*drawn[0], *drawn[1]])

# --- a slow reference, built on the standard library's decoder ---------------------------------------------

DECODER = json.JSONDecoder()


def space_from(text: str, at: int) -> int:
    while at < len(text) and text[at] in " \t\r\n":
        at += 1
    return at


def stated(text: str, at: int, path: tuple[str | int, ...], into: list[NestedString]) -> int:
    """Note every string of a document with its path and its span in characters; return where a value ends."""
    if text[at] in "[{":
        index, closing = 0, "]" if text[at] == "[" else "}"
        at = space_from(text, at + 1)
        while text[at] != closing:
            step: str | int = index
            if closing == "}":
                step, at = DECODER.raw_decode(text, at)
                at = space_from(text, space_from(text, at) + 1)
            at = space_from(text, stated(text, at, (*path, step), into))
            at = space_from(text, at + 1) if text[at] == "," else at
            index += 1
        return at + 1
    value, end = DECODER.raw_decode(text, at)
    if isinstance(value, str):
        into.append(NestedString(value, (at, end), path))
    return end


def reference(text: str, paths: list[JsonPath]) -> list[NestedString]:
    into: list[NestedString] = []
    stated(text, space_from(text, 0), (), into)
    wanted = [
        found
        for found in into
        if tuple(None if isinstance(step, int) else step for step in found.path) in paths
    ]
    return [NestedString(spoken(found.value), in_bytes(text, found.span), found.path) for found in wanted]


def spoken(value: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError:
        return "\ufffd"
    return value


def in_bytes(text: str, span: Span) -> Span:
    start, end = (len(text[:position].encode()) for position in span)
    return start, end


@pytest.mark.slow
@examples(300)
@given(text=DOCUMENTS, paths=PATHS)
@example(text='{"a":"%s","model":"x"}' % ("x" * 99), paths=[("model",)])
@example(text='{"a":[0%s],"model":"x"}' % (',["b"]' * 50), paths=[("model",)])
@example(text='{"a":[[0%s],"b"],"model":"x"}' % (',"b"' * 30), paths=[("model",)])
@example(text=r'{"a":"\",","model":"x"}', paths=[("model",)])
@example(text='"x"', paths=[()])
def test_each_value_is_found_where_a_parser_finds_it(text: str, paths: list[JsonPath]) -> None:
    assert find_nested_strings(text.encode(), *paths) == reference(text, paths)


documents = st.recursive(
    st.none() | st.integers() | st.sampled_from(["model", "requests", 'q"\\{[', "é"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["model", "requests", "a", 'b"{']), inner, max_size=4)
    ),
    max_leaves=20,
)


def spoken_at(value: Any, path: JsonPath) -> list[str]:
    if not path:
        return [value] if isinstance(value, str) else []
    step, *rest = path
    if step is None:
        items = value if isinstance(value, list) else []
    else:
        items = [value[step]] if isinstance(value, dict) and step in value else []
    return [name for item in items for name in spoken_at(item, tuple(rest))]


@given(document=documents, ascii_only=st.booleans())
def test_the_same_values_as_a_parser_sees(document: Any, ascii_only: bool) -> None:
    body = json.dumps({"requests": document}, ensure_ascii=ascii_only).encode()
    for path in (REQUESTS, ("requests",), ("requests", "model"), ("requests", None)):
        assert values(body, path) == spoken_at({"requests": document}, path)


# --- promises one by one -----------------------------------------------------------------------------------


def test_every_element_is_found_where_it_stands() -> None:
    first, second = b'{"model":"a","x":{"model":"no"}}', b'{"y":["model"], "model" : "b\\u0041"}'
    body = b'{"requests": [ %b, %b ], "model":"no"}' % (first, second)
    found = find_nested_strings(body, REQUESTS)
    assert [entry.value for entry in found] == ["a", "bA"]
    assert [body[slice(*entry.span)] for entry in found] == [b'"a"', b'"b\\u0041"']


def test_a_value_says_where_it_stands() -> None:
    body = b'{"requests":[1,{"params":{"model":"a"}}],"model":{"id":"b"}}'
    found = find_nested_strings(body, BATCH, ("model",), ("model", "id"))
    assert [value.name for value in found] == ["requests[1].params.model", "model.id"]
    assert [value.name for value in find_nested_strings(b'{"model":"a"}', ("model",), ("model", "id"))] == [
        "model"
    ]
    assert [value.name for value in find_nested_strings(b'["a"]', (None,))] == ["[0]"]


def test_values_of_several_paths_come_in_the_order_of_the_body() -> None:
    body = b'{"session":{"model":"a"},"model":"b","requests":[{"model":"c"}],"session":{"model":"d"}}'
    found = find_nested_strings(body, REQUESTS, ("model",), ("session", "model"))
    assert [value.value for value in found] == ["a", "b", "c", "d"]
    assert all(one.span[1] <= other.span[0] for one, other in pairwise(found))


def test_of_a_key_that_is_stated_several_times_each_value_is_found() -> None:
    body = rb'{"requests":[{"model":"a","mode\u006c":"b"}],"requests":[{"model":"c"}]}'
    assert values(body) == ["a", "b", "c"]


def test_lone_surrogates_elsewhere_move_nothing() -> None:
    body = rb'{"x":"\ud800","requests":[{"\udfff":"\\ud800","model":"a"}]}'
    (found,) = find_nested_strings(body, REQUESTS)
    assert body[slice(*found.span)] == b'"a"'


@pytest.mark.parametrize("value", [rb'"a\ud800"', b'"\\u0061\xff"', b'"\xff"'], ids=repr)
def test_a_value_that_is_no_text_is_nobodys_name(value: bytes) -> None:
    assert values(b'{"model":%b}' % value, ("model",)) == ["\ufffd"]


@pytest.mark.parametrize(
    "body",
    [
        b"{}",
        b"1",
        b'"model"',
        b'{"requests":{"model":"a"}}',
        b'[{"model":"a"}]',
        b'{"requests":["model"]}',
        b'{"requests":[{"model":1}]}',
    ],
)
def test_what_stands_elsewhere_is_not_found(body: bytes) -> None:
    assert values(body) == []


def test_without_paths_nothing_is_found() -> None:
    assert find_nested_strings(b'{"model":"a"}') == []


@pytest.mark.parametrize(
    "body", [b"", b"{", b"not json", b'{"requests":[}', b'{"a":1}}', b"[" * 100_000, b'{"a":' * 100_000]
)
def test_what_is_no_json_is_refused(body: bytes) -> None:
    with pytest.raises(GatewayError) as refusal:
        find_nested_strings(body, REQUESTS)
    assert refusal.value.reason is Reason.MALFORMED


FEW: Final = 20_000


@pytest.mark.parametrize(
    ("body", "count"),
    [
        (b'{"requests":[{},{},{}]}', 5),
        (rb'{"a":"\n","b":"\n"}', 3),
        (b'{"model":0,"model":"a"}', 3),
        (b'{"a":0,"b":"c","d":[{"e":1}]}', 1),
        (b"{}", 1),
    ],
    ids=["elements", "others", "models", "short", "nothing"],
)
def test_a_body_may_have_as_many_values_as_are_allowed_and_no_more(body: bytes, count: int) -> None:
    find_nested_strings(body, REQUESTS, ("model",), max_values=count)
    with pytest.raises(GatewayError, match=f"more than {count - 1}$"):
        find_nested_strings(body, REQUESTS, ("model",), max_values=count - 1)


@pytest.mark.parametrize(
    "body",
    [
        b'{"requests":[%b{}]}' % (b"{}," * (FEW - 1)),
        rb'{%b"a":"\n"}' % (rb'"a":"\n",' * (FEW - 1)),
        b'{%b"model":0}' % (b'"model":0,' * (FEW - 1)),
    ],
    ids=["elements", "others", "models"],
)
def test_a_body_of_too_many_values_is_refused(body: bytes) -> None:
    with pytest.raises(GatewayError, match=str(FEW)) as refusal:
        find_nested_strings(body, REQUESTS, ("model",), max_values=FEW)
    assert refusal.value.reason is Reason.MALFORMED


def test_how_many_values_are_too_many_by_default() -> None:
    assert signature(find_nested_strings).parameters["max_values"].default == MAX_VALUES


def test_a_body_that_names_too_many_models_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nested_strings, "MAX_FOUND", 2_000)
    models = [b'"model":"a"'] * 2_000
    assert len(find_nested_strings(b"{%b}" % b",".join(models), ("model",))) == 2_000
    with pytest.raises(GatewayError, match="more than 2000"):
        find_nested_strings(b"{%b}" % b",".join([*models, b'"model":"a"']), ("model",))


USUAL_MEMBERS: Final = (
    b'"max_tokens":1,"temperature":0.5,"system":"s","stream":false,"stop_sequences":["x","y"],'
    b'"metadata":{"user_id":"ann"},"tools":[{"name":"n"}],"messages":[{"role":"user","content":"hi"}]'
)
"""Eight short members beside the model: looked at one by one, they would be too many in a batch."""


@pytest.mark.parametrize(
    ("request_body", "times"),
    [
        (b'{"custom_id":"r","params":{"model":"m",%b}}' % USUAL_MEMBERS, 100_000),
        (b'{"params":{"messages":[{"content":"%b"}],"model":"m"}}' % (rb"hello \"you\"\n" * 700), 3_000),
        (b'{"params":{"messages":[%b],"model":"m"}}' % b",".join([b'{"a":[{"b":1}]}'] * 500), 3_000),
        (b'{"params":{"system":"%b","model":"m"}}' % (b"x" * 10_000), 3_000),
    ],
    ids=["as many as the vendor takes", "text", "turns", "string"],
)
def test_a_large_batch_takes_no_long_time(request_body: bytes, times: int) -> None:
    """A fifth of each, of a fifth of what is allowed, in a fifth of the time."""
    body = b'{"requests":[%b]}' % b",".join([request_body] * (times // 5))
    begun = process_time()
    found = find_nested_strings(body, BATCH, max_values=MAX_VALUES // 5)
    assert process_time() - begun < 0.4  # measured: 0.07 at the most
    assert [value.value for value in found] == ["m"] * (times // 5)
