"""What a request holds of limits before it is sent, from its body alone."""

from __future__ import annotations

import json
import re
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mgw.dialects import dialect_of
from mgw.nouns.vocabulary import DialectName
from mgw.tokens.hold import (
    answers_asked,
    input_hold,
    input_hold_of_size,
    output_hold,
)
from mgw.tokens.media_runs import RUN_BYTES, TOKENS_A_RUN
from tests.support.laws import examples

USUAL: Final = 4096
CHAT, RESPONSES, GEMINI = DialectName.OPENAI_CHAT, DialectName.OPENAI_RESPONSES, DialectName.GEMINI
IN_CHAT: Final = dialect_of(CHAT).answer_places
RUN: Final = re.compile(rb"[A-Za-z0-9+/_=-]{%d,}" % RUN_BYTES)
LENGTHS: Final = st.one_of(
    st.integers(0, 40),
    st.integers(RUN_BYTES // 2 - 2, RUN_BYTES // 2 + 2),
    st.integers(RUN_BYTES - 3, RUN_BYTES + 3),
    st.integers(2 * RUN_BYTES - 2, 3 * RUN_BYTES),
)
OTHERS: Final = st.sampled_from([b'"', b" ", b"\\", b"\x00", "ä".encode(), b'","x":"', b"."])
PIECES: Final = st.one_of(LENGTHS.map(lambda length: (b"aZ09+/_=-" * (length // 9 + 1))[:length]), OTHERS)


def held(body: Any, dialect: DialectName = CHAT) -> int:  # Any: a document
    return output_hold(json.dumps(body).encode(), dialect_of(dialect).answer_places, USUAL)


@given(pieces=st.lists(PIECES, max_size=12))
@examples(400)
def test_input_counts_four_bytes_a_token_and_each_run_of_base64_as_media(pieces: list[bytes]) -> None:
    body = b"".join(pieces)
    runs = RUN.findall(body)
    text_bytes = len(body) - sum(map(len, runs))
    assert input_hold(body) == -(-text_bytes // 4) + TOKENS_A_RUN * len(runs)


@given(size=st.integers(0, 5000))
@examples(50)
def test_the_size_alone_is_an_upper_bound_of_text(size: int) -> None:
    assert input_hold(b" " * size) == input_hold_of_size(size)


@pytest.mark.parametrize(
    ("dialect", "body", "tokens"),
    [
        (CHAT, {}, USUAL),
        (CHAT, {"max_tokens": 7}, 7),
        (CHAT, {"max_completion_tokens": 9}, 9),
        (CHAT, {"max_completion_tokens": 9, "max_tokens": 70}, 70),
        (CHAT, {"max_tokens": 10**9}, USUAL),
        (CHAT, {"max_tokens": 7, "n": 3}, 21),
        (CHAT, {"n": 2}, 2 * USUAL),
        (CHAT, {"max_tokens": 7, "n": 0}, 7),
        (CHAT, {"max_tokens": 7, "n": 10**12}, 7 * 128),
        (CHAT, {"max_tokens": -1}, USUAL),
        (CHAT, {"max_tokens": None}, USUAL),
        (CHAT, {"max_tokens": True}, USUAL),
        (CHAT, {"max_tokens": [7]}, USUAL),
        (CHAT, {"max_tokens": 0}, 0),
        (CHAT, {"max_tokens": 7.0}, 7),
        (CHAT, {"max_output_tokens": 7, "generationConfig": {"maxOutputTokens": 7}}, USUAL),
        (CHAT, {"messages": [{"max_tokens": 7}], "metadata": {"max_tokens": 7}}, USUAL),
        (DialectName.OPENAI, {"max_tokens": 7, "n": 2}, 14),
        (RESPONSES, {"max_output_tokens": 7, "n": 2}, 7),
        (RESPONSES, {"max_tokens": 7}, USUAL),
        (DialectName.ANTHROPIC, {"max_tokens": 7, "n": 2}, 7),
        (GEMINI, {"generationConfig": {"maxOutputTokens": 7, "candidateCount": 2}}, 14),
        (GEMINI, {"generation_config": {"max_output_tokens": 7, "candidate_count": 2}}, 14),
        (
            GEMINI,
            {"generationConfig": {"maxOutputTokens": 7}, "generation_config": {"max_output_tokens": 9}},
            9,
        ),
        (GEMINI, {"generationConfig": {"maxOutputTokens": "7"}}, 7),
        (GEMINI, {"generationConfig": {"maxOutputTokens": "seven"}}, USUAL),
        (GEMINI, {"generationConfig": [7]}, USUAL),
        (GEMINI, {"max_tokens": 7, "maxOutputTokens": 7}, USUAL),
    ],
)
def test_output_is_what_the_request_allows_and_no_more_than_usual(
    dialect: DialectName, body: Any, tokens: int
) -> None:
    assert held(body, dialect) == tokens


def test_of_a_repeated_member_the_last_counts() -> None:
    assert output_hold(b'{"max_tokens":7,"max_tokens":9}', IN_CHAT, USUAL) == 9


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"{", b"nothing", b'{"max_tokens":1e999}', b"\xff", b"[" * 5000]
)
def test_what_cannot_be_read_holds_the_usual(body: bytes) -> None:
    assert output_hold(body, IN_CHAT, USUAL) == USUAL


def test_half_of_an_emoji_hides_no_limit() -> None:
    assert output_hold(rb'{"max_tokens":7,"user":"\ud83d"}', IN_CHAT, USUAL) == 7
    assert output_hold(rb'{"\ud83d":1,"max_tokens":7}', IN_CHAT, USUAL) == 7


def test_a_long_body_with_half_of_an_emoji_holds_the_usual() -> None:
    body = rb'{"max_tokens":7,"user":"\ud83d%b"}' % (b"x" * 70_000)
    assert output_hold(body, IN_CHAT, USUAL) == USUAL


def test_a_key_in_another_spelling_is_the_same() -> None:
    assert output_hold(rb'{"max\u005ftokens":7}', IN_CHAT, USUAL) == 7


@pytest.mark.parametrize(
    ("dialect", "body", "images"),
    [
        (DialectName.OPENAI, b"{}", 1),
        (DialectName.OPENAI, b'{"n":3}', 3),
        (DialectName.OPENAI, b'{"n":0}', 1),
        (DialectName.OPENAI, b"--form", 1),
        (GEMINI, b'{"parameters":{"sampleCount":4}}', 4),
        (GEMINI, b'{"n":3}', 1),
    ],
)
def test_images_are_as_many_as_are_asked_for(dialect: DialectName, body: bytes, images: int) -> None:
    assert answers_asked(body, dialect_of(dialect).image_places) == images
