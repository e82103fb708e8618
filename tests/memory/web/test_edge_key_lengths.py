"""How long an edge key is decides where else it is known: a short one may be a word, or part of one.

A key is kept from providers wherever it stands in a header that carries no credential: from 8 characters on
as a word, from 16 on inside of other words, too.
"""

from __future__ import annotations

import pytest

from mgw.nouns.vocabulary import Family
from mgw.web.edge_auth import EdgeGate
from tests.support.configs import config

LETTERS = "kQ7wZr2mXv9tBn4cHs6d"


def sent_on(key: str, value: str) -> list[str]:
    """What goes upstream of a header that says this, where a client came in with that key."""
    text = f"providers: {{p: {{kind: openai, api_key: k}}}}\nedge_auth: {{enabled: true, keys: [{key}]}}"
    gate = EdgeGate(config(text).edge_auth)
    headers = [(b"authorization", f"Bearer {key}".encode()), (b"x-note", value.encode())]
    caller = gate.admit(Family.OPENAI, headers, None)
    return [found.decode() for name, found in caller.headers if name == b"x-note"]


@pytest.mark.parametrize(("length", "is_hidden"), [(1, False), (7, False), (8, True), (9, True), (15, True)])
@pytest.mark.parametrize("words", ["{}", "a {} b", "({})"])
def test_a_key_of_eight_characters_is_no_mere_word(words: str, length: int, is_hidden: bool) -> None:
    value = words.format(LETTERS[:length])
    assert sent_on(LETTERS[:length], value) == ([] if is_hidden else [value])


@pytest.mark.parametrize(("length", "is_hidden"), [(8, False), (15, False), (16, True), (17, True)])
@pytest.mark.parametrize("words", ["the{}is", "the{}", "{}is"])
def test_a_key_of_sixteen_characters_is_no_part_of_a_word(words: str, length: int, is_hidden: bool) -> None:
    value = words.format(LETTERS[:length])
    assert sent_on(LETTERS[:length], value) == ([] if is_hidden else [value])
