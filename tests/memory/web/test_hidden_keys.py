"""Keys that stand among other words, and those that are learned while the gateway serves."""

from __future__ import annotations

import re

import pytest

from mgw.web import hidden_keys
from mgw.web.hidden_keys import HiddenKeys

KEYS = [b"key-number-%05d" % number for number in range(200)]


def test_every_key_is_found_whether_configured_or_learned() -> None:
    hidden = HiddenKeys(KEYS[:70])
    for key in KEYS[70:]:
        assert hidden.search(b"see %b there" % key) is None
        hidden.add(key)
    assert all(hidden.are_mentioned(b"see %b there" % key) for key in KEYS)
    assert all(hidden.are_contained(b"x%by" % key) == (len(key) >= 16) for key in KEYS)


def test_no_keys_are_found_where_there_are_none() -> None:
    hidden = HiddenKeys([b"short"])
    hidden.add(b"shorter")
    assert not hidden
    assert not hidden.are_mentioned(b"short shorter")


def test_a_key_that_is_learned_compiles_a_small_pattern_however_many_there_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hidden = HiddenKeys(KEYS[:100])
    sizes: list[int] = []

    def compile_noted(pattern: bytes) -> re.Pattern[bytes]:
        sizes.append(pattern.count(b"key"))
        return re.compile(pattern)

    monkeypatch.setattr(hidden_keys, "compile_pattern", compile_noted)
    for key in KEYS[100:]:
        hidden.add(key)
    assert max(sizes) == hidden_keys.MAX_LEARNED
