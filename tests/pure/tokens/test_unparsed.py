"""Texts that cannot be read as a conversation: what is a run of base64, and what the rest comes to."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mgw.tokens.media_runs import TOKENS_A_RUN
from mgw.tokens.text import estimate_text_tokens
from mgw.tokens.unparsed import estimate_unparsed, guess_unparsed
from tests.support.laws import examples

MIB = 2**20
RUN = re.compile(rb"[A-Za-z0-9+/_=-]{1024,}")
PIECES = [b"a" * 1023, b"+" * 1024, b"Zz09-_=" * 200, b" ", b'"', b"\xe6\x97\xa5", b"hello ", b"x"]


@examples(200)
@given(st.lists(st.sampled_from(PIECES), max_size=12).map(b"".join))
def test_runs_are_taken_out_and_the_rest_is_text(text: bytes) -> None:
    rest, runs = RUN.subn(b"", text)
    tokens = round(estimate_text_tokens([rest.decode("utf-8", "replace")])) + runs * TOKENS_A_RUN
    assert estimate_unparsed(text) == tokens


@pytest.mark.parametrize("size", [MIB - 3000, MIB, 3 * MIB])
def test_a_run_counts_once_wherever_the_text_is_cut(size: int) -> None:
    text = b"hello world " * (size // 12)
    for at in (0, size // 2, size):
        whole = text[:at] + b" " + b"A" * 2 * MIB + b" " + text[at:]
        expected = estimate_text_tokens([text.decode()]) + TOKENS_A_RUN
        assert estimate_unparsed(whole) == pytest.approx(expected, rel=0.02)


def test_of_a_long_text_a_part_is_read_and_the_factor_counts() -> None:
    text = b"hello world " * MIB
    expected = estimate_text_tokens([text.decode()])
    assert estimate_unparsed(text) == pytest.approx(expected, rel=0.01)
    assert estimate_unparsed(text, 1.5) == pytest.approx(expected * 1.5, rel=0.01)


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        (b"", 0),
        (b"A" * 1000, 250),
        (b"hello world " * 1000, 3000),
        (b"A" * 2 * MIB, TOKENS_A_RUN),
        (b"hello world " * 87_000 + b"A" * MIB, 87_000 * 3 + TOKENS_A_RUN),
    ],
)
def test_a_guess_is_about_right(text: bytes, tokens: int) -> None:
    assert guess_unparsed(text) == pytest.approx(tokens, rel=0.05)
