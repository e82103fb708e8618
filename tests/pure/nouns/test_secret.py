"""A secret is taken out of texts by its value: whole, however it is spelled, and nothing else with it."""

from __future__ import annotations

import json
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mgw.nouns.secret import MIN_HIDDEN, SIGNATURES, Secret, overwritten, without

KEY = "sk-canary-7f3a91"
KEYS = st.text(
    st.sampled_from("aZ09-_./+=:~!\"'\\<>&%é"), min_size=MIN_HIDDEN, max_size=40
)  # what a header can carry


def hidden(text: str, *keys: str) -> str:
    return without(text, map(Secret, keys or (KEY,)), lambda _: "[key]")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("The model `missing-none` does not exist", "The model `missing-none` does not exist"),
        (f"Incorrect API key provided: {KEY}.", "Incorrect API key provided: [key]."),
        (f"{KEY}", "[key]"),
        (f"?key={KEY}&x=1", "?key=[key]&x=1"),
        (f"Bearer%20{KEY}", "Bearer%20[key]"),
        (f'{{"message":"no:\\n{KEY}"}}', '{"message":"no:\\n[key]"}'),
        (f"x{KEY}", f"x{KEY}"),
        (f"{KEY}-eu", f"{KEY}-eu"),
    ],
    ids=["short", "sentence", "alone", "query", "percent", "escaped", "tail of a word", "head of a word"],
)
def test_a_key_is_hidden_as_a_whole_word(text: str, told: str) -> None:
    assert hidden(text, KEY, "none") == told


@pytest.mark.parametrize("word", ["none", "ollama", "missing", "1234567"])
def test_a_short_key_is_a_word_and_stays(word: str) -> None:
    assert hidden(f"The model {word} is missing", word) == f"The model {word} is missing"


@given(key=KEYS)
def test_a_key_is_found_however_it_is_spelled(key: str) -> None:
    spellings = [
        key,
        quote(key, safe=""),
        quote(key, safe="").lower() if not any(map(str.isupper, key)) else key,
        json.dumps(key)[1:-1],
        json.dumps(key, ensure_ascii=False)[1:-1],
        key.replace("\\", "\\\\").replace('"', '\\"').replace("/", "\\/"),
    ]
    for spelled in spellings:
        assert hidden(f'"{spelled}"', key) == '"[key]"', spelled


@given(key=KEYS, around=st.lists(st.sampled_from(["{", " ", '"', "é", "a", "1", "-"]), max_size=6))
def test_as_many_stars_stand_where_the_key_stood(key: str, around: list[str]) -> None:
    before = "".join(around).encode() + b" "
    for spelled in (key.encode("latin-1"), key.encode(), json.dumps(key)[1:-1].encode()):
        clean = overwritten(before + spelled + b" end", [Secret(key)])
        assert clean == before + b"*" * len(spelled) + b" end"


def test_bytes_without_a_key_are_the_same_object() -> None:
    data = b'{"error":{"message":"no such model"}}'
    assert overwritten(data, [Secret(KEY)]) is data


def test_the_longer_of_two_keys_leaves_nothing_behind() -> None:
    assert hidden("first.key.second", "first.key", "first.key.second") == "[key]"


@pytest.mark.parametrize("equals", ["=", "%3D", "%3d", "\\u003d"])
def test_signatures_are_hidden_whichever_they_are(equals: str) -> None:
    one, other = "0123456789abcdef" * 4, "f" * 64
    text = f"Signature{equals}{one}, or X-Amz-Signature{equals}{other}&x=1"
    told = without(text, [SIGNATURES], lambda _: "[key]")
    assert told == f"Signature{equals}[key], or X-Amz-Signature{equals}[key]&x=1"
    stars = overwritten(text.encode(), [SIGNATURES]).decode()
    assert stars == text.replace(one, "*" * 64).replace(other, "*" * 64)


@pytest.mark.parametrize("text", ["Signature=none", f"Signature={'f' * 65}", f"digest={'f' * 64}"])
def test_what_is_no_signature_stays(text: str) -> None:
    assert without(text, [SIGNATURES], lambda _: "[key]") == text
