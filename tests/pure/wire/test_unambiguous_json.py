"""What is found in a JSON document is what every reader finds there; else the document is refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from decimal import Decimal
from time import process_time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mgw.nouns.errors import GatewayError, Reason
from mgw.wire.nested_strings import JsonPath, find_nested_strings, next_member_pattern
from mgw.wire.unambiguous_json import find_unambiguous_strings

MODEL: JsonPath = ("model",)
PATHS: tuple[JsonPath, ...] = (
    ("model",),
    ("model", "id"),
    ("models", None),
    ("session", "model"),
    ("requests", None, "params", "model"),
)


def refusal_of(document: bytes, *paths: JsonPath) -> GatewayError:
    with pytest.raises(GatewayError) as caught:
        find_unambiguous_strings(document, *(paths or PATHS))
    assert caught.value.reason is Reason.MALFORMED
    return caught.value


def values_in(document: bytes, *paths: JsonPath) -> list[str]:
    return [found.value for found in find_unambiguous_strings(document, *(paths or PATHS))]


# --- a slow reader, built on the standard library's decoder ------------------------------------------------


class Ambiguous(Exception):
    pass


class Members(list[tuple[str, object]]):
    """An object, with every member as it is stated."""


def refuse_constant(name: str) -> None:
    raise ValueError(name)


def fold(key: str) -> str:
    return key.partition("\0")[0].casefold()


def read(document: bytes) -> object:
    return json.loads(
        document.decode("utf-8"), object_pairs_hook=Members, parse_constant=refuse_constant, parse_int=Decimal
    )


def is_text(value: str) -> bool:
    return not any("\ud800" <= letter <= "\udfff" for letter in value)


def strings_at(value: object, paths: frozenset[JsonPath]) -> Iterator[str]:
    """Yield what stands at the paths, where no reader could find anything else."""
    names = {path[0] for path in paths if path}
    if value is None:
        return
    if isinstance(value, Members):
        keys = names - {None}
        if not keys or (() in paths and not keys.intersection(fold(key) for key, _ in value)):
            raise Ambiguous
        yield from strings_in_object(value, keys, paths)
    elif isinstance(value, list):
        if None not in names:
            raise Ambiguous
        for element in value:
            yield from strings_at(element, frozenset(path[1:] for path in paths if path[:1] == (None,)))
    elif isinstance(value, str) and () in paths:
        if not is_text(value) or "\0" in value:
            raise Ambiguous
        yield value
    elif () in paths or (None,) in paths:
        raise Ambiguous


def strings_in_object(members: Members, keys: set[str | None], paths: frozenset[JsonPath]) -> Iterator[str]:
    if not all(is_text(key) for key, _ in members):
        raise Ambiguous
    for key in keys:
        assert key is not None
        alike = [(name, value) for name, value in members if fold(name) == key]
        if not alike:
            continue
        if key not in [name for name, _ in alike] or any(value != alike[0][1] for _, value in alike):
            raise Ambiguous
        for _, value in alike:
            yield from strings_at(value, frozenset(path[1:] for path in paths if path[:1] == (key,)))


def expected(document: bytes) -> list[str] | None:
    """Return what every reader finds, in some order; ``None``: they differ, or it is no JSON."""
    try:
        value = read(document)
        if not isinstance(value, Members):
            return None
        return sorted(strings_at(value, frozenset(PATHS)))
    except (ValueError, Ambiguous, RecursionError):
        return None


# --- documents drawn as pieces of text ---------------------------------------------------------------------

SPACE = st.sampled_from(["", "", "", " ", "\n\t"])
KEYS = st.sampled_from(
    [
        '"model"',
        '"model"',
        '"model"',
        '"Model"',
        '"MODEL"',
        r'"\u006dodel"',
        r'"\u004dodel"',
        r'"model\u0000x"',
        r'"model\ud800"',
        r'"\"model"',
        '"modelé"',
        '"models"',
        '"models"',
        '"model\u017f"',
        '"session"',
        '"\u017fession"',
        '"requests"',
        '"params"',
        '"params"',
        '"Params"',
        '"id"',
        '"type"',
        '""',
    ]
)
STRINGS = st.sampled_from(
    ['"a"', '"a"', '"b"', r'"\u0061"', r'"\ud83d\ude00"', r'"\ud800"', r'"a\u0000"', '"é"', '"model"', '""']
)
SCALARS = STRINGS | st.sampled_from(["0", "-1.5e3", "true", "null", "null", "NaN", "01"])


def containers(values: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    element = st.tuples(SPACE, values, SPACE).map("".join)
    member = st.tuples(SPACE, KEYS, SPACE, st.just(":"), SPACE, values, SPACE).map("".join)
    arrays = st.lists(element, max_size=3).map(",".join).map(lambda inner: f"[{inner}]")
    return arrays | st.lists(member, max_size=4).map(",".join).map(lambda inner: f"{{{inner}}}")


DOCUMENTS = containers(st.recursive(STRINGS, lambda values: containers(values) | SCALARS, max_leaves=12))


@given(DOCUMENTS)
@example('{"model":"a","Model":"a"}')
@example('{"model":"a","Model":"b"}')
@example('{"Model":"a"}')
@example('{"session":{"model":"a"},"session":{}}')
@example('{"models":["a",1]}')
@example('{"models":"a"}')
@example('{"requests":{"0":{"params":{"model":"a"}}}}')
@example('{"model":"a",}')
@example('{"model":"a"} {}')
def test_what_is_found_is_what_every_reader_finds(document: str) -> None:
    body = document.encode()
    wanted = expected(body)
    try:
        found = values_in(body)
    except GatewayError as error:
        refusal = error
    else:
        assert sorted(found) == wanted
        return
    # Of arrays and objects that are stated twice, white space may differ alone.
    assert wanted is None or "appears more than once" in refusal.message
    assert refusal.reason is Reason.MALFORMED


def test_arrays_and_objects_that_are_stated_twice_are_spelled_the_same() -> None:
    assert values_in(b'{"session":{"model":"a"},"session": {"model":"a"} }') == ["a", "a"]
    assert refusal_of(b'{"session":{"model":"a"},"session":{"model": "a"}}').param == "session"


TOKENS = st.sampled_from([*'{}[]:,"\\ \n\t01-.eE+/*', "true", "null", "NaN", "\\u00e9"])


@given(st.lists(TOKENS, max_size=12))
@example(list('{"\t":1}'))
@example(["\ufeff", "{", "}"])
def test_what_another_parser_refuses_is_refused(pieces: list[str]) -> None:
    body = "".join(pieces).encode()
    try:
        read(body)
    except ValueError:
        refusal_of(body, MODEL)


@given(st.binary(max_size=8))
@example(b"\xed\xa0\x80")
@example(b"\xff")
@example(b"\x01")
def test_strings_are_utf8_without_control_characters(inner: bytes) -> None:
    body = b'{"x":"%b"}' % inner
    try:
        read(body)
    except ValueError:
        refusal_of(body, MODEL)
    else:
        assert values_in(body) == []


@pytest.mark.parametrize(
    "document",
    [
        b"",
        b"[]",
        b'[{"model":"a"}]',
        b'"model"',
        b"null",
        b'{"model":"a","x":NaN}',
        b'{"model":"a","x":-Infinity}',
        b'{"model":"a",}',
        b'{"model":"a"}{"model":"b"}',
        b'{"model":"a"}\n{"model":"b"}',
        b'{"model":"a"}\0',
        b'\xef\xbb\xbf{"model":"a"}',
        '{"model":"a"}'.encode("utf-16"),
        b'{"model":"a"}//',
        b'/**/{"model":"a"}',
        b'{model:"a"}',
        b"{'model':'a'}",
        b'{"model":"a","x":"\n"}',
        b'{"model":"a","x":%b%b}' % (b"[" * 100_000, b"]" * 100_000),
    ],
    ids=repr,
)
def test_what_is_no_one_json_object_is_refused(document: bytes) -> None:
    refusal_of(document)


@pytest.mark.parametrize(
    "second",
    ['"model"', r'"\u006dodel"', '"Model"', '"MODEL"', r'"\u004dODEL"', r'"model\u0000"'],
)
def test_a_key_is_stated_twice_with_one_value_only(second: str) -> None:
    assert refusal_of(f'{{"model":"a",{second}:"b"}}'.encode()).param == "model"
    assert refusal_of(f'{{{second}:"b","model":"a"}}'.encode()).param == "model"
    assert values_in(rf'{{"model":"a",{second}:"\u0061"}}'.encode()) == ["a", "a"]


@pytest.mark.parametrize("key", ["\u017fession", "ſeſſion", "SEſſION", "sessıon", "sessİon", "SESSION"])
def test_letters_that_some_reader_takes_for_others_are_the_same(key: str) -> None:
    refusal = refusal_of(f'{{"session":{{"model":"a"}},"{key}":{{"model":"b"}}}}'.encode())
    assert refusal.message == "'session' appears more than once with different values"


def test_a_key_in_another_case_alone_is_refused() -> None:
    refusal = refusal_of(b'{"session":{"Model":"a"}}')
    assert (refusal.param, refusal.message) == (
        "session.model",
        "'session.model' is spelled with different capitalization",
    )


@pytest.mark.parametrize("value", ["1", "true", '["a"]', '{"name":"a"}', r'"\ud800"', r'"a\u0000b"'])
def test_a_model_that_is_no_text_is_refused(value: str) -> None:
    assert refusal_of(f'{{"model":{value}}}'.encode(), MODEL).param == "model"


def test_what_a_lenient_reader_would_take_for_a_list_is_refused() -> None:
    assert refusal_of(b'{"models":"a"}').message == "'models' must be an array"
    assert refusal_of(b'{"requests":{"0":{"params":{"model":"a"}}}}').message == "'requests' must be an array"


def test_scalars_on_the_way_and_null_hold_no_model() -> None:
    assert values_in(b'{"model":null,"session":"x","requests":[null,"y",1]}') == []


def test_other_keys_may_be_stated_as_they_like() -> None:
    assert values_in(rb'{"model":"a","x":1,"X":2,"x":"\ud800","y":{"model":"b","Model":"c"}}') == ["a"]


def test_each_value_is_found_where_it_stands() -> None:
    document = rb'{ "requests":[{"params":{"model":"b"}}] , "x":"\ud800", "\u006dodel": "\u0061" }'
    found = find_unambiguous_strings(document, *PATHS)
    assert [(each.name, document[slice(*each.span)]) for each in found] == [
        ("requests[0].params.model", b'"b"'),
        ("model", rb'"\u0061"'),
    ]


@pytest.mark.parametrize(
    "piece",
    [
        pytest.param(b'"x":1,', id="short members"),
        pytest.param(b'"x":"%b",' % (b"y" * 1000), id="long members"),
        pytest.param('"é":1,'.encode(), id="members that are looked at"),
        pytest.param(b'"model":"a",', id="models"),
        pytest.param(b'"requests":[{"params":{"model":"b"}}],', id="the same path again"),
        pytest.param(rb'"x":"\ud800",', id="lone surrogates"),
    ],
)
def test_the_time_grows_with_the_size(piece: bytes) -> None:
    def seconds(size: int) -> float:
        document = b'{%b"model":"a"}' % (piece * (size // len(piece)))
        begun = process_time()
        values_in(document)
        return process_time() - begun

    limit = 20 * min(seconds(50_000) for _ in range(3)) + 0.02
    assert any(seconds(400_000) < limit for _ in range(3))


def test_values_that_are_looked_at_are_counted() -> None:
    document = b'{%b"model":"a"}' % ('"é":1,'.encode() * 100)
    assert find_unambiguous_strings(document, MODEL, max_values=200)
    with pytest.raises(GatewayError, match="too many values"):
        find_unambiguous_strings(document, MODEL, max_values=50)


@pytest.mark.parametrize("space", [b" ", b"\n"])
def test_white_space_behind_a_value_is_not_compared_each_time(space: bytes) -> None:
    document = b'{"model":null%b,%b"x":1}' % (space * 4_000_000, b'"model":null,' * 2_000)
    begun = process_time()
    assert values_in(document) == []
    assert process_time() - begun < 1


def test_the_same_scalar_again_is_the_same_with_white_space_behind_it() -> None:
    assert values_in(b'{"moderation":1 ,"moderation":1,"model":"a"}', ("moderation", "model"), MODEL) == ["a"]
    twice = b'{"moderation":"a" ,"moderation":"\\u0061","model":"a"}'
    assert values_in(twice, ("moderation", "model"), MODEL) == ["a"]
    with pytest.raises(GatewayError, match="more than once"):
        values_in(b'{"moderation":1 ,"moderation":2,"model":"a"}', ("moderation", "model"), MODEL)


@pytest.mark.parametrize("entry", ['{"good":["bad"]}', "{}", '{"models":["bad"]}'])
def test_an_object_in_place_of_a_name_has_one(entry: str) -> None:
    paths: tuple[JsonPath, ...] = (MODEL, ("fallbacks", None), ("fallbacks", None, "model"))
    document = f'{{"model":"good","fallbacks":["good",{{"model":"good","x":1}},{entry}]}}'.encode()
    with pytest.raises(GatewayError, match=r"'fallbacks\[2\]' must be a string or an object with 'model'"):
        values_in(document, *paths)
    assert values_in(document.replace(b"," + entry.encode(), b""), *paths) == ["good"] * 3


LONG_KEYS = [rb"\n" * 1_000, b"x" * 2_000_000, rb"\u0061" * 1_000, "é".encode() * 2_000, rb"\"" * 500]


@pytest.mark.parametrize("long", LONG_KEYS)
@pytest.mark.parametrize("value", [b"1", b'"bad"', b'{"model":"bad"}', b"[ ]"])
def test_members_with_long_keys_are_passed_over(long: bytes, value: bytes) -> None:
    for find in (find_unambiguous_strings, find_nested_strings):
        for document in (
            b'{"%b" : %b ,"model":"a"}',
            b'{"model":"a", "%b":%b}',
            b'{"model":"a","x":{"%b":%b}}',
        ):
            assert [found.value for found in find(document % (long, value), MODEL)] == ["a"]


@pytest.mark.parametrize("long", [rb"\n" * 1_000, b"x" * 2_000_000, rb"\ud800" * 1_000])
def test_a_long_key_may_end_at_a_nul_for_some_reader(long: bytes) -> None:
    with pytest.raises(GatewayError):
        values_in(rb'{"model":"a","model\u0000%b":"b"}' % long, MODEL)


@pytest.mark.parametrize("long", LONG_KEYS)
def test_values_may_be_long(long: bytes) -> None:
    document = b'{"model":"%b" ,"x":1}' % long
    for find in (find_unambiguous_strings, find_nested_strings):
        (found,) = find(document, MODEL)
        assert document[slice(*found.span)] == b'"%b"' % long
        assert found.value == json.loads(b'"%b"' % long)


def test_no_pattern_goes_over_a_key_however_long_it_is() -> None:
    match = next_member_pattern(rb'"(?!x)[^"]{0,99}+"').match(rb'{"%b":1}' % (rb"\n" * 10_000), 1)
    assert match is not None
    assert match.end() == 2


@pytest.mark.parametrize(
    "piece", [b'"x":1,' * 640, b'"%b":1,' % (b"\\n" * 2560)], ids=["short", "long names"]
)
def test_what_is_passed_over_is_counted_by_the_time_it_takes(piece: bytes) -> None:
    document = b'{%b"model":"a"}' % (piece * 10)
    assert find_unambiguous_strings(document, MODEL, max_values=1000)
    with pytest.raises(GatewayError, match="too many values"):
        find_unambiguous_strings(document, MODEL, max_values=100)
