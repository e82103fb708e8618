"""The model of a JSON body is found and replaced where it stands."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable
from time import process_time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mgw.nouns.errors import GatewayError, Reason
from mgw.wire import json_spans
from mgw.wire.json_spans import MAX_STATED, find_string, replace_string
from tests.support.dice import Dice, Writer, one_of, sampled_from, written

# --- documents drawn as pieces of text ---------------------------------------------------------------------

PIECES_OF_STRINGS = sampled_from(
    [
        "model",
        r"\"model\":\"x\"",
        r"\"",
        r"\\",
        r"\/",
        r"\n",
        r"\u0041",
        r"\ud83d\ude00",
        r"\ud800",
        r"\uDFFF",
        r"\\ud800",
        "é",
        "😀",
        "{",
        "}",
        "[",
        "]",
        ":",
        ",",
        " ",
        "x" * 20_000,
    ]
)


def a_string(dice: Dice) -> str:
    return f'"{"".join(dice.several(PIECES_OF_STRINGS, 4))}"'


SPELLINGS = sampled_from(
    ['"model"', '"model"', '"model"', r'"\u006dodel"', r'"mod\u0065l"', r'"\u006D\u006F\u0064\u0065\u006c"']
)
OTHER_KEYS = sampled_from(['"models"', '"Model"', '"messages"', r'"\"model"', r'"model\\"', '""'])
KEYS = one_of(SPELLINGS, OTHER_KEYS, a_string)
NUMBERS = sampled_from(["0", "-1", "3.0", "1e999", "1E-5", "18446744073709551616", "9" * 400, "-0.0"])
SCALARS = one_of(a_string, NUMBERS, sampled_from(["true", "false", "null", '"model"']))


def member(keys: Writer, values: Writer) -> Writer:
    return lambda dice: dice.spaced(keys(dice), ":", values(dice))


def a_value(dice: Dice, depth: int = 0) -> str:
    def inner(dice: Dice) -> str:
        return a_value(dice, depth + 1)

    match dice.below(4 if depth < 3 else 2):
        case 2:
            return f"[{','.join(dice.several(lambda dice: dice.spaced(inner(dice)), 3))}]"
        case 3:
            return f"{{{','.join(dice.several(member(KEYS, inner), 3))}}}"
    return SCALARS(dice)


MEMBERS = one_of(
    member(SPELLINGS, a_string), member(one_of(OTHER_KEYS, a_string), a_value), member(KEYS, a_value)
)


def a_document(dice: Dice) -> str:
    return dice.spaced("{", ",".join(dice.several(MEMBERS, 6)), "}")


DOCUMENTS = written(a_document)

# --- a slow reference, built on the standard library's decoder ---------------------------------------------


def refuse_constant(name: str) -> None:
    raise ValueError(name)


DECODER = json.JSONDecoder(parse_constant=refuse_constant)


def space_from(text: str, position: int) -> int:
    while text[position] in " \t\r\n":
        position += 1
    return position


def top_level_members(text: str) -> list[tuple[str, object, int, int]]:
    """Key, value, and where the value begins and ends, of each member of a valid object."""
    found = []
    position = space_from(text, space_from(text, 0) + 1)
    while text[position] != "}":
        key, position = DECODER.raw_decode(text, position)
        position = space_from(text, space_from(text, position) + 1)
        value, end = DECODER.raw_decode(text, position)
        found.append((key, value, position, end))
        position = space_from(text, end)
        if text[position] == ",":
            position = space_from(text, position + 1)
    return found


def is_text(value: object) -> bool:
    return isinstance(value, str) and not any("\ud800" <= character <= "\udfff" for character in value)


def refused_field_of(body: bytes) -> str | None:
    """Return the field at fault, ``body`` for all of it, ``None`` if the body is taken."""
    try:
        find_string(body)
    except GatewayError as error:
        return error.param or "body"
    return None


def refusal_of(body: bytes) -> GatewayError:
    with pytest.raises(GatewayError) as caught:
        find_string(body)
    assert caught.value.reason is Reason.MALFORMED
    return caught.value


@pytest.fixture(params=["as any body", "as a large one"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "as a large one":
        monkeypatch.setattr(json_spans, "_VIEWED_BYTES", -1)


@pytest.mark.usefixtures("way")
@given(DOCUMENTS, st.sampled_from(["gpt-5", 'a"b\\c', "ä/😀", "\x00\n", ""]))
@example('{"model":"outer","a":{"model":"inner"},"model":"outer"}', "new")
@example(r'{"model":"outer","mod\u0065l":"outer"}', "new")
@example(r'{"x \"model":"v"}', "new")
@example(r'{"x\\":1,"model":"v"}', "new")
@example('{"a":{"model":"inner"},"model":"outer","model":"outer"}', "new")
@example('{"model":null,"model" : {"model":[ "]" ]} ,"model":-1e9 , "model":"outer"}', "new")
@example(r'{"model":["\ud800"],"model":"outer"}', "new")
def test_only_the_values_of_the_top_level_key_are_replaced(document: str, new: str) -> None:
    stated = [found for found in top_level_members(document) if found[0] == "model"]
    body = document.encode()
    if stated and not is_text(stated[-1][1]):
        refusal_of(body)
        return
    found = find_string(body)
    if not stated:
        assert found is None
        return
    assert found is not None
    assert found.value == stated[-1][1]
    if found.value == new:
        assert replace_string(body, found, new) is body
        return
    expected = document
    for _, _, start, end in reversed(stated):
        expected = expected[:start] + json.dumps(new, ensure_ascii=False) + expected[end:]
    assert replace_string(body, found, new) == expected.encode()


@pytest.mark.usefixtures("way")
@given(DOCUMENTS)
def test_a_value_replaced_by_itself_gives_the_same_object(document: str) -> None:
    body = document.encode()
    try:
        found = find_string(body)
    except GatewayError:
        return
    if found is not None:
        assert replace_string(body, found, found.value) is body


@pytest.mark.usefixtures("way")
@given(DOCUMENTS)
def test_a_model_that_is_alone_has_no_list_beside_it(document: str) -> None:
    try:
        found = find_string(document.encode())
    except GatewayError:
        return
    if found is not None and found.is_alone:
        assert "models" not in json.loads(document)


@pytest.mark.parametrize(
    ("body", "is_alone"),
    [
        ('{"model":"x","a":[]}', True),
        ('{"a":[], "model" : "x"}', True),
        ('{"model":"x","a":{"models":[]}}', True),
        ('{"model":"x","models":[]}', False),
        ('{"models":[],"a":0,"model":"x"}', False),
        (r'{"model":"x","mod\u0065ls":[]}', False),
        ('{"model":"x","model":"x"}', False),
        (r'{"model":"x","a":"\ud800"}', False),
    ],
)
@pytest.mark.parametrize("size", [0, 20_000, 300_000])
def test_whether_a_model_is_alone_is_seen_where_it_is_found(body: str, is_alone: bool, size: int) -> None:
    found = find_string(body.replace('"a"', f'"{"a" * size}":0,"a"').encode())
    assert found is not None
    assert found.is_alone is is_alone


@pytest.mark.parametrize("beginning", ['{"model":"x"', ' {\n "model" : "x" '])
def test_a_large_body_that_begins_with_its_model_is_not_copied(beginning: str) -> None:
    body = f'{beginning},"messages":["{"m" * 4_000_000}"]}}'.encode()
    find_string(body)  # so that what is made once does not count
    tracemalloc.start()
    try:
        found = find_string(body)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert found is not None
    assert peak < 100_000


BROKEN = st.lists(
    DOCUMENTS | st.sampled_from(['"', "\\", ",", "}", "{", "[", "]", "\x01", "0", "NaN", "\ufeff"]),
    max_size=3,
)


def stdlib_takes(body: bytes) -> bool:
    try:
        return isinstance(json.loads(body.decode(), parse_constant=refuse_constant), dict)
    except ValueError:
        return False


@pytest.mark.usefixtures("way")
@given(BROKEN, st.integers(0, 60), st.integers(0, 3), st.binary(max_size=2))
def test_what_is_no_json_object_is_refused(pieces: list[str], at: int, cut: int, put: bytes) -> None:
    whole = "".join(pieces).encode()
    body = whole[:at] + put + whole[at + cut :]
    if stdlib_takes(body):
        assert refused_field_of(body) in (None, "model")
    else:
        refusal_of(body)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b'\xef\xbb\xbf{"model":"x"}', id="a byte order mark"),
        pytest.param('{"model":"x"}'.encode("utf-16"), id="UTF-16"),
        pytest.param(b'[{"model":"x"}]', id="an array"),
        pytest.param(b'"model"', id="a string"),
        pytest.param(b'["model":"x"}', id="an array that becomes an object"),
        pytest.param(b'{"model":"x"} {}', id="two documents"),
        pytest.param(b'{"model":"x","a":"\xff"}', id="a byte that is not UTF-8"),
        pytest.param(b'{"model":"x","a":"\xed\xa0\x80"}', id="an encoded surrogate"),
        pytest.param(b'{"model":"x","a":"' + "é".encode() * 70_000 + b"\xc3", id="cut within a character"),
        pytest.param(b'{"model":"x","a":"\x01"}', id="a control character"),
        pytest.param(b'{"model":"x","a":NaN}', id="not a number"),
        pytest.param(b'{"model":"x","a":"\\ud800",}', id="a trailing comma beside a lone surrogate"),
        pytest.param(b'{"a":"\\ud800"', id="a lone surrogate and no end"),
        pytest.param(b'["\\ud800"]', id="a lone surrogate in an array"),
        pytest.param(b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}", id="nesting without end"),
    ],
)
def test_a_body_that_is_no_json_object_is_malformed(body: bytes) -> None:
    assert refusal_of(body).param is None


@pytest.mark.parametrize(
    "value", ["null", "1", "[]", '{"model":"x"}', "true", "1e999", r'"a\ud800"', r'"\udc00"']
)
def test_a_model_that_is_no_text_is_malformed_and_named(value: str) -> None:
    assert refusal_of(f'{{"model":{value}}}'.encode()).param == "model"


@pytest.mark.parametrize("value", ["null", "1", "[]", '{"model":"x"}', r'"a\ud800"'])
def test_of_two_models_the_last_counts_whatever_the_first_is(value: str) -> None:
    body = f'{{"model": {value} ,"model":"x"}}'.encode()
    found = find_string(body)
    assert found is not None
    assert found.value == "x"
    assert replace_string(body, found, "y") == b'{"model": "y" ,"model":"y"}'


@pytest.mark.parametrize("value", ["null", "1", "[]", '{"model":"x"}'])
def test_a_last_model_that_is_no_text_is_refused_behind_one_that_is(value: str) -> None:
    assert refusal_of(f'{{"model":"x","model":{value}}}'.encode()).param == "model"


def test_a_lone_surrogate_elsewhere_passes() -> None:
    body = rb'{"a":"\ud800\\","model":"x","b":["\udfff"]}'
    found = find_string(body)
    assert found is not None
    assert replace_string(body, found, "y") == rb'{"a":"\ud800\\","model":"y","b":["\udfff"]}'


def test_another_key_is_found_in_the_same_way() -> None:
    found = find_string(rb'{"model":"x","cached\u0043ontent":"y"}', "cachedContent")
    assert found is not None
    assert found.value == "y"


def test_the_value_is_decoded() -> None:
    found = find_string(rb'{"model":"caf\u00e9 \ud83d\ude00 \"q\""}')
    assert found is not None
    assert found.value == 'café 😀 "q"'


CHAT = ",".join(
    json.dumps({"role": "user", "content": f'turn {turn}: "quoted"\n {{braces}} [brackets] \\ model é'})
    for turn in range(1000)
)
INNER = ",".join(f'{{"model":"inner-{number}","n":{number}}}' for number in range(2000))


@pytest.mark.parametrize(
    "document",
    [
        pytest.param(lambda n: f'{{"model":"x","messages":[{",".join([CHAT] * n)}]}}', id="model first"),
        pytest.param(lambda n: f'{{"messages":[{",".join([CHAT] * n)}],"model":"x"}}', id="model last"),
        pytest.param(
            lambda n: f'{{"a":[{",".join([CHAT] * n)}],"model":"x","b":[{",".join([CHAT] * n)}]}}',
            id="model in the middle",
        ),
        pytest.param(
            lambda n: f'{{"a":[{",".join([INNER] * n)}],"model":"x","b":[{",".join([INNER] * n)}]}}',
            id="many inner models",
        ),
        pytest.param(
            lambda n: f'{{"model":"w","a":[{",".join([CHAT] * n)}],"model":"x"}}',
            id="stated twice",
        ),
        pytest.param(
            lambda n: rf'{{"a":["\ud800",{",".join([CHAT] * n)}],"model":"x"}}',
            id="a lone surrogate",
        ),
    ],
)
def test_the_time_grows_with_the_size(document: Callable[[int], str]) -> None:
    small, large = document(3).encode(), document(24).encode()
    assert len(large) > 1_000_000

    def seconds(body: bytes) -> float:
        begun = process_time()
        found = find_string(body)
        taken = process_time() - begun
        assert found is not None
        assert found.value == "x"
        return taken

    limit = 40 * min(seconds(small) for _ in range(3)) + 0.02
    assert any(seconds(large) < limit for _ in range(3))


def found_in(body: bytes) -> int:
    found = find_string(body)
    assert found is not None
    return len(found.spans)


def test_a_key_is_stated_a_bounded_number_of_times() -> None:
    member = b'"model":"m"'
    assert found_in(b"{" + b",".join([member] * MAX_STATED) + b"}") == MAX_STATED
    assert refusal_of(b"{" + b",".join([member] * (MAX_STATED + 1)) + b"}").reason is Reason.MALFORMED


def test_a_key_that_stands_everywhere_is_looked_for_in_a_bounded_number_of_places(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(json_spans, "MAX_CANDIDATES", 2_000)
    inner = b'{"model":"x"},'
    assert found_in(b'{"a":[%b0],"\\u006dodel":"m"}' % (inner * 1_999)) == 1
    assert refusal_of(b'{"a":[%b0],"\\u006dodel":"m"}' % (inner * 2_000)).param == "model"


def test_lone_surrogates_are_passed_over_wherever_blocks_are_cut() -> None:
    for before in range(60_000, 60_012):
        body = b'{"a":"%b%b","model":"x"}' % (b"x" * before, rb"\ud800" * 2000)
        assert found_in(body) == 1


def test_a_key_is_found_wherever_a_search_is_cut() -> None:
    for before in range(2**20 - 40, 2**20 + 4):
        body = b'{"a":"%b","mode\\u006c":"y" , "\\u006dodel" : "x"}' % (b"x" * before)
        assert found_in(body) == 2


@pytest.mark.parametrize("depth", [900, 1_100, 10_000, 1_000_000])
def test_no_depth_is_more_than_a_refusal(depth: int) -> None:
    for body in (
        b'{"model":"x","a":%b%b}' % (b"[" * depth, b"]" * depth),
        b'{"\\u006dodel":"x","a":%b%b}' % (b"[" * depth, b"]" * depth),
        b'{"model":%b%b,"model":"x"}' % (b"[" * depth, b"]" * depth),
        b'{"model":"x","a":%b' % (b'{"a":' * depth),
    ):
        assert refused_field_of(body) in {None, "body", "model"}
