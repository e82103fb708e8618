"""Where a page says that a feature is missing, the feature is missing.

Each such sentence has a row in a table of ``tests/support/missing_features.py``, with what proves it.  A walk
through all pages finds sentences of that shape that have none.  When a feature is built, its row turns red.
"""

from __future__ import annotations

import pytest

from tests.support.missing_features import (
    BESIDE_THE_POINT,
    MISSING,
    WALKED,
    Missing,
    is_about_a_feature,
    key_refused,
    no_bridge,
    not_implemented,
    not_in_sources,
    not_served,
    provider_refused,
    read_sentences,
    refused,
    words_of,
)


@pytest.mark.parametrize("row", MISSING, ids=lambda row: f"{row.page}: {row.words}")
def test_the_page_says_so(row: Missing) -> None:
    assert row.words in words_of(row.page), f"{row.page} says it in other words: mend the row"


@pytest.mark.parametrize("row", MISSING, ids=lambda row: f"{row.page}: {row.words}")
def test_the_feature_is_missing(row: Missing) -> None:
    assert row.is_missing(), (
        f"it is there: mend {row.page}, where it says {row.words!r}, and take out the row"
    )


@pytest.mark.parametrize("page", WALKED)
def test_a_sentence_that_says_so_has_a_row(page: str) -> None:
    known = [row.words for row in MISSING if row.page == page] + list(BESIDE_THE_POINT.get(page, ()))
    unknown = [
        sentence
        for sentence in read_sentences(page)
        if is_about_a_feature(sentence) and not any(words in sentence for words in known)
    ]
    assert not unknown, f"give each a row in tests/support/missing_features.py: {unknown}"


@pytest.mark.parametrize(
    "sentence",
    [
        "Realtime sessions, which are not built yet, will leave one.",
        "Redis Cluster is not supported.",
        "Sessions are not translated: they are relayed.",
        "mgw does not support it.",
        "There is no setting for that.",
        "It cannot yet do that.",
    ],
)
def test_a_sentence_of_the_shape_is_found(sentence: str) -> None:
    assert is_about_a_feature(sentence)


@pytest.mark.parametrize(
    "sentence",
    ["If there is no answer, look at the log.", "Where there are no keys, it is off.", "It is supported."],
)
def test_other_sentences_are_not(sentence: str) -> None:
    assert not is_about_a_feature(sentence)


def test_the_checks_tell_what_is_there_from_what_is_missing() -> None:
    """What stands around a setting that is refused is accepted without it, and so on."""
    key = "k" * 24
    assert not refused(aliases={"a": ["main/m"]}, edge_auth={"enabled": True, "keys": [key]})
    assert not refused(fleet={"redis": {"url": "redis://host:6379/0"}})
    assert not provider_refused(api_key=key)
    assert not key_refused()
    assert not not_served("POST", "/v1/messages")
    assert not not_implemented("/v1/messages")
    assert not no_bridge("chat", "gemini")
    assert not not_in_sources("import")
