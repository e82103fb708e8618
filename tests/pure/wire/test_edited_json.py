"""Members of JSON objects that are changed in place."""

from __future__ import annotations

import json
from itertools import permutations
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mgw.nouns.errors import GatewayError
from mgw.nouns.member_paths import MemberPath, parse_path
from mgw.wire.edited_json import EditedObject
from mgw.wire.json_spans import apply_edits
from tests.support.edited_pieces import CHANGES, DOCUMENTS, SPACE, Container, change, render
from tests.support.laws import examples

LIMIT: Final = b"100"


def changed(body: bytes, *changes: tuple[str, str] | tuple[str, str, bytes]) -> bytes:
    edited = EditedObject(body)
    for what, path, *value in changes:
        getattr(edited, what)(parse_path(path), *value)
    return apply_edits(body, edited.edits())


def literal(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def apply(edited: EditedObject, what: str, path: MemberPath, value: object) -> bool:
    found: bool = getattr(edited, what)(path, *(() if what == "remove" else (literal(value),)))
    return found


@examples(400)
@given(before=SPACE, document=DOCUMENTS, after=SPACE, changes=st.lists(CHANGES, max_size=5))
def test_changes_are_those_of_a_text_that_is_put_together_from_its_pieces(
    before: bytes, document: Container, after: bytes, changes: list[tuple[str, MemberPath, object]]
) -> None:
    body = before + render(document) + after
    edited = EditedObject(body)
    for what, path, value in changes:
        text = render(document)
        change(document, what, path, value)
        assert apply(edited, what, path, value) is (render(document) != text)
    found = apply_edits(body, edited.edits())
    assert found == before + render(document) + after
    if found != body:
        json.loads(found)


def naive(value: Any, what: str, path: MemberPath, new: Any) -> None:
    """What a rule means, for a document without duplicate names."""
    *way, last = path
    for step in way:
        if not isinstance(value, dict):
            return
        if what in ("default", "put"):
            value.setdefault(step, {})
        value = value.get(step)
    if not isinstance(value, dict):
        return
    old = value.get(last)
    is_number = isinstance(old, int | float) and not isinstance(old, bool)
    if what == "remove":
        value.pop(last, None)
    elif (
        what == "put"
        or (what == "default" and last not in value)
        or (what == "cap" and is_number and old > new)
    ):
        value[last] = json.loads(json.dumps(new))


PLAIN: Final = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(-1e300, 1e300) | st.text(),
    lambda values: st.one_of(
        st.lists(values, max_size=3), st.dictionaries(st.sampled_from("abc"), values, max_size=3)
    ),
    max_leaves=10,
)
NAMED: Final = st.lists(st.sampled_from("abc"), min_size=1, max_size=3).map(tuple)


@examples(200)
@given(
    document=st.dictionaries(st.sampled_from("abc"), PLAIN, max_size=3),
    indent=st.sampled_from([None, 0, 2]),
    changes=st.lists(
        st.one_of(
            st.tuples(st.sampled_from(["default", "put", "remove"]), NAMED, PLAIN),
            st.tuples(st.just("cap"), NAMED, st.integers() | st.floats(-1e9, 1e9)),
        ),
        max_size=4,
    ),
)
def test_changes_mean_what_they_mean_for_parsed_documents(
    document: dict[str, Any], indent: int | None, changes: list[tuple[str, MemberPath, object]]
) -> None:
    body = json.dumps(document, indent=indent).encode()
    edited = EditedObject(body)
    for what, path, value in changes:
        naive(document, what, path, value)
        apply(edited, what, path, value)
    assert json.loads(apply_edits(body, edited.edits())) == document


@pytest.mark.parametrize(
    ("body", "path", "left"),
    [
        (b'{ "a" : 1 , "b":2 }', "a", b'{ "b":2 }'),
        (b'{ "b":2 ,\n "a" : 1 }', "a", b'{ "b":2  }'),
        (b'{ "a" : 1 }', "a", b"{  }"),
        (b'{"a":1,"b":2,"a":3}', "a", b'{"b":2}'),
        (b'{"a":1,"a":2}', "a", b"{}"),
        (rb'{"\u0061":1,"b":"a","c":{"a":1}}', "a", b'{"b":"a","c":{"a":1}}'),
        (b'{"t":[{"a":1, "b":2},[{"a":1}],"a",{"a":1}]}', "t[].a", b'{"t":[{"b":2},[{"a":1}],"a",{}]}'),
        (rb'{"t":[{"\u0061":1},{"b":1}]}', "t[].a", b'{"t":[{},{"b":1}]}'),
        (b'{"t":[1, 2 ]}', "t[]", b'{"t":[ ]}'),
        (b'{"t":{"a":1}}', "t[].a", b'{"t":{"a":1}}'),
        (b'{"t":[{"a":1}]}', "t.a", b'{"t":[{"a":1}]}'),
        (b'{"a.b":1,"a":{"b":1}}', r"a\.b", b'{"a":{"b":1}}'),
    ],
)
def test_a_removed_member_goes_with_its_comma(body: bytes, path: str, left: bytes) -> None:
    assert changed(body, ("remove", path)) == left


@pytest.mark.parametrize("order", permutations("abc"))
def test_members_may_go_in_any_order(order: tuple[str, ...]) -> None:
    body = b'{ "a":1, "b":2, "c":3, "d":4 }'
    left = [b'{ "b":2, "c":3, "d":4 }', b'{ "a":1, "c":3, "d":4 }', b'{ "a":1, "b":2, "d":4 }']
    assert changed(body, ("remove", order[0])) == left["abc".index(order[0])]
    assert changed(body, *[("remove", name) for name in order]) == b'{ "d":4 }'
    assert changed(body, *[("remove", name) for name in (*order, "d")]) == b"{  }"
    assert changed(body, ("remove", "d"), *[("remove", name) for name in order[1:]]) == (
        b'{ "%b":%d }' % (order[0].encode(), "abc".index(order[0]) + 1)
    )


@pytest.mark.parametrize(
    ("body", "left"),
    [
        (b"{}", b'{"n":1}'),
        (b"{ }", b'{"n":1 }'),
        (b'{ "a":2 }', b'{ "a":2,"n":1 }'),
        (b'{"n":null}', b'{"n":null}'),
        (rb'{"\u006e":0}', rb'{"\u006e":0}'),
    ],
)
def test_a_default_goes_behind_the_last_member(body: bytes, left: bytes) -> None:
    assert changed(body, ("default", "n", b"1")) == left


def test_objects_on_the_way_are_made_but_nothing_else_gives_way() -> None:
    assert changed(b'{"a":1}', ("put", "b.c.d", b"2")) == b'{"a":1,"b":{"c":{"d":2}}}'
    for on_the_way in (b"null", b"1", b'"x"', b"[]"):
        body = b'{"b":%b}' % on_the_way
        assert changed(body, ("put", "b.c", b"2"), ("default", "b.c", b"2")) == body


def test_a_value_that_is_replaced_forgets_what_was_changed_in_it() -> None:
    body = b'{"a":{"b":1}}'
    assert changed(body, ("put", "a.b", b"2"), ("put", "a", b'{"c":3}')) == b'{"a":{"c":3}}'
    assert changed(body, ("put", "a", b"{}"), ("put", "a.b", b"2"), ("put", "a", b"5")) == b'{"a":5}'
    assert changed(body, ("put", "a", b"{}"), ("put", "a.b", b"2"), ("cap", "a.b", b"1")) == body


def test_a_cap_and_a_removal_make_no_objects() -> None:
    assert changed(b"{}", ("cap", "a.b", b"2"), ("remove", "a.b")) == b"{}"


@pytest.mark.parametrize(
    ("number", "left"),
    [
        (b"101", LIMIT),
        (b"100", b"100"),
        (b"100.0", b"100.0"),
        (b"100.0000000000000000000000001", LIMIT),
        (b"1e2", b"1e2"),
        (b"1.01E+2", LIMIT),
        (b"1e999", LIMIT),
        (b"1e99999999999999999999", LIMIT),
        (b"-1e99999999999999999999", b"-1e99999999999999999999"),
        (b"9" * 5000, LIMIT),
        (b"-101", b"-101"),
        (b'"101"', b'"101"'),
        (b"null", b"null"),
        (b"[101]", b"[101]"),
    ],
)
def test_a_cap_lowers_a_larger_number_and_nothing_else(number: bytes, left: bytes) -> None:
    assert changed(b'{"a": %b}' % number, ("cap", "a", LIMIT)) == b'{"a": %b}' % left


def test_a_cap_is_compared_as_it_is_written() -> None:
    assert not EditedObject(b'{"a":0.7}').cap(("a",), b"0.7")


def test_an_emoji_is_a_name_beside_half_of_one() -> None:
    body = rb'{"\ud83d\ude00":1,"b":"\ud83d"}'
    assert changed(body, ("remove", "\U0001f600")) == rb'{"b":"\ud83d"}'
    assert changed(body, ("remove", "  ")) == body


@pytest.mark.parametrize("body", [b"", b"[]", b"1", b'{"a":1', b'{"a":1}x', b"{'a':1}", b"[" * 100_000])
def test_what_is_no_object_is_refused(body: bytes) -> None:
    with pytest.raises(GatewayError):
        EditedObject(body)


def test_deep_and_long_documents_take_bounded_steps() -> None:
    deep = b'{"a":' + b"[" * 900 + b"]" * 900 + b',"b":1}'
    assert changed(deep, ("remove", "b")) == deep.replace(b',"b":1', b"")
    with pytest.raises(GatewayError, match="too many parts"):
        EditedObject(b'{"a":[%b]}' % b",".join([b"1"] * 300_000)).remove(parse_path("a[]"))
