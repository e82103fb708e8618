"""What is left of a document is the same document with less in it, however it was cut."""

from __future__ import annotations

import json
from base64 import b64encode
from time import process_time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mgw.canonical.reply import NO_USAGE
from mgw.dialects import dialect_of
from mgw.nouns.vocabulary import DialectName
from mgw.wire.json_outline import LONG_BYTES, shorten_piece

Json = object
_NUMBERS = "[" + ", ".join(f"{number / 7:.9f}" for number in range(2000)) + "]"
_BASE64 = b64encode(bytes(range(256)) * 40).decode()
_SCRAPS = [
    '"',
    "\\",
    "a",
    "words, and more ",
    "ü",
    "語",
    "\n",
    "[1,2]",
    "{}",
    "1,2",
    "0",
    " ",
    "true,",
    "\U0001f600",
]
_TEXTS = st.builds(
    lambda scraps, times: "".join(scraps) * times,
    st.lists(st.sampled_from(_SCRAPS), max_size=6),
    st.sampled_from([1, 1, 40, 700]),
)
_LISTS = st.builds(
    lambda numbers, times: numbers * times,
    st.lists(st.sampled_from([0, 1.5, -2e-9, None, True, 123456789012]), max_size=5),
    st.sampled_from([1, 1, 300]),
)
_KEYS = st.sampled_from(["usage", "data", "b64_json", "choices", "object", "x", 'u"', "k" * 1500])
_VALUES = st.recursive(
    st.one_of(_TEXTS, _LISTS, st.sampled_from([0, 12, None, {"prompt_tokens": 3, "completion_tokens": 4}])),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(_KEYS, inner, max_size=4)),
    max_leaves=8,
)
_DOCUMENTS = st.dictionaries(_KEYS, _VALUES, max_size=5)
_READERS = [dialect_of(name).read_usage for name in DialectName]


def shortened(document: bytes, sizes: list[int]) -> bytes:
    """The document, brought in pieces of these sizes, in turn."""
    kept, at, turn = [], 0, 0
    while at < len(document):
        kept.append(shorten_piece(document[at : at + sizes[turn % len(sizes)]]))
        at, turn = at + sizes[turn % len(sizes)], turn + 1
    return b"".join(kept)


def is_outline(whole: Json, left: Json) -> bool:
    """Whether ``left`` is ``whole`` with less in its long texts and lists of scalars."""
    if isinstance(whole, dict) and isinstance(left, dict):
        keys = [key[:1] if len(key) > LONG_BYTES else key for key in whole]
        here = [key[:1] if key.startswith("kk") else key for key in left]
        return keys == here and all(map(is_outline, whole.values(), left.values()))
    if isinstance(whole, list) and isinstance(left, list) and len(whole) == len(left):
        return all(map(is_outline, whole, left))
    if isinstance(whole, list) and isinstance(left, list):
        is_plain = not any(isinstance(one, dict | list | str) for one in whole)
        return is_plain and 2 <= len(left) < len(whole) and left[0] == whole[0] and left[-1] == whole[-1]
    if isinstance(whole, str) and isinstance(left, str) and len(whole) != len(left):
        return 2 <= len(left) < len(whole) and whole[0] == left[0] and whole[-1] == left[-1]
    return type(whole) is type(left) and whole == left


def usages(document: bytes) -> list[object]:
    """What each dialect's reader finds."""
    found: list[object] = []
    for read in _READERS:
        try:
            found.append(read(document, NO_USAGE))
        except Exception as error:
            found.append(type(error))
    return found


@given(
    document=_DOCUMENTS,
    is_ascii=st.booleans(),
    indent=st.sampled_from([None, 8]),
    sizes=st.lists(st.integers(1, 9000), min_size=1, max_size=3),
)
@example(
    {"data": [{"embedding": json.loads(_NUMBERS)}] * 3, "usage": {"prompt_tokens": 9}}, False, None, [5000]
)
@example({"data": [{"b64_json": _BASE64}], "usage": {"input_tokens": 9}}, True, None, [4000])
@example({"x": '\\"' * 5000, "usage": {"prompt_tokens": 3}}, False, None, [1025])
@example({"x": "語" * 5000, "usage": {"prompt_tokens": 3}}, True, None, [1027, 1031])
@example({"x": ("a" * 900 + "\\") * 30, "usage": {"prompt_tokens": 3}}, True, None, [1801])
def test_any_cut_leaves_an_outline_in_which_the_same_counts_stand(
    document: dict[str, Json], is_ascii: bool, indent: int | None, sizes: list[int]
) -> None:
    whole = json.dumps(document, ensure_ascii=is_ascii, indent=indent).encode()
    left = shortened(whole, sizes)
    assert is_outline(json.loads(whole), json.loads(left))
    assert usages(left) == usages(whole)


@pytest.mark.parametrize(
    "value", [_NUMBERS, json.dumps(_BASE64), json.dumps("Some words,\nand a \\ in them. " * 300)]
)
def test_a_long_value_leaves_almost_nothing(value: str) -> None:
    document = b'{"data":[{"value":%b}],"usage":{"prompt_tokens":3}}' % value.encode()
    left = shorten_piece(document)
    assert len(left) < 400 < len(document)
    assert json.loads(left)["usage"] == {"prompt_tokens": 3}


def test_embeddings_in_one_piece_are_each_shortened() -> None:
    one = b'{"object":"embedding","index":0,"embedding":%b}' % _NUMBERS.encode()
    assert len(shorten_piece(b'{"data":[' + b",".join([one] * 8) + b"]}")) < 8 * 150


@pytest.mark.parametrize(
    "piece", [b'{"a":1}', b'"' * 4096, b"\\" * 4096, b"[" * 4096, b" " * 4096, b"1" * 4096, b'"\\u8a9e' * 700]
)
def test_what_cannot_be_cut_is_left_as_it_is(piece: bytes) -> None:
    assert shorten_piece(piece) is piece


@pytest.mark.parametrize(
    "unit",
    [
        b'"',
        b"\\",
        b"[",
        b"]",
        b"{",
        b",",
        b"1",
        b" ",
        b'\\"',
        b'"%b"' % (b"1," * 600),
        b"[%b]" % (b"1," * 600),
    ],
)
def test_no_piece_takes_long(unit: bytes) -> None:
    piece = (unit * (2**20 // len(unit) + 1))[: 2**20]
    began = process_time()
    shorten_piece(piece)
    assert process_time() - began < 0.02
