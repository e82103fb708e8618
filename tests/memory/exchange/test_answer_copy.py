"""What an answer says is found, also where the reader of its dialect does not look for it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mgw.exchange import answer_copy
from mgw.exchange.answer_copy import KEPT_BYTES, MAX_WHOLE_BYTES, SLICE_BYTES, AnswerCopy
from mgw.nouns.vocabulary import DialectName
from mgw.tokens.answer import AnswerTokens
from mgw.tokens.text import estimate_text_tokens
from tests.support.chat_streams import DONE, chunk

TEXT = "The quick brown fox jumps over the lazy dog. " * 40
TOKENS = estimate_text_tokens([TEXT])
PIECES = [TEXT[at : at + 9] for at in range(0, len(TEXT), 9)]
SECOND = "A" * 21_000
"""The base64 of about a second of sound, which is ten tokens."""
Json = dict[str, Any]  # Any: JSON


def estimate(body: bytes, content_type: bytes = b"application/json", piece: int = 0) -> int:
    copy = AnswerCopy(DialectName.OPENAI_CHAT, "seed", in_pieces=False)
    copy.begin(content_type, b"")
    for at in range(0, len(body), piece or len(body)):
        copy.add(body[at : at + (piece or len(body))])
    return copy.estimate(1.0)


def whole(message: Json) -> bytes:
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": "stop"}
    return json.dumps({"object": "chat.completion", "choices": [choice]}).encode()


def stream(*deltas: Json) -> bytes:
    return b"".join([*map(chunk, deltas), chunk({}, "stop"), DONE])


def custom_call(text: str) -> Json:
    return {"tool_calls": [{"index": 0, "id": "c", "type": "custom", "custom": {"name": "f", "input": text}}]}


def spoken(text: str, sound: str) -> Json:
    return {"content": None, "audio": {"id": "a", "data": sound, "transcript": text}}


@pytest.mark.parametrize("first", [[], [{"content": "So: "}]], ids=["alone", "beside text"])
def test_calls_of_custom_tools_are_estimated(first: list[Json]) -> None:
    streamed = stream(*first, *map(custom_call, PIECES))
    assert estimate(streamed, b"text/event-stream") == pytest.approx(TOKENS, rel=0.05)
    assert estimate(whole({**custom_call(TEXT), **(first[0] if first else {})})) == pytest.approx(
        TOKENS, rel=0.05
    )


def test_speech_is_estimated_by_its_words_and_its_length() -> None:
    size = len(SECOND) * 20 // len(PIECES)
    streamed = stream(*(spoken(piece, SECOND[:size]) for piece in PIECES))
    assert estimate(streamed, b"text/event-stream") == pytest.approx(TOKENS + 200, rel=0.05)
    assert estimate(whole(spoken(TEXT, SECOND * 20))) == pytest.approx(TOKENS + 200, rel=0.05)


@pytest.mark.parametrize("odd", [b"\\ud83d", b"\xff", b"\\q"], ids=["half a pair", "no UTF-8", "no escape"])
def test_a_text_with_something_odd_in_it_is_a_text(odd: bytes) -> None:
    body = whole({"content": f"{TEXT}HERE"}).replace(b"HERE", odd)
    assert estimate(body) == pytest.approx(TOKENS, rel=0.05)


@pytest.mark.parametrize("end", ["dog. ", "lazy"])
def test_a_text_that_broke_off_is_a_text(end: str) -> None:
    body = whole({"content": TEXT})
    cut = body[: body.rindex(end.encode()) + 2]
    assert estimate(cut) == pytest.approx(TOKENS, rel=0.05)
    assert estimate(cut + b"\\u00") == pytest.approx(TOKENS, rel=0.05)
    assert estimate(cut + b"\\") == pytest.approx(TOKENS, rel=0.05)


def test_of_a_text_that_is_too_long_what_was_kept_counts() -> None:
    text = TEXT * (2 * MAX_WHOLE_BYTES // len(TEXT))
    found = estimate(whole({"content": text}), piece=64 * 1024)
    assert found == pytest.approx(estimate_text_tokens([text]) / 2, rel=0.1)


def test_a_long_stream_is_read_in_slices_as_it_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    read = list[int]()
    find = answer_copy._find_words

    def note(text: bytes, found: AnswerTokens) -> None:
        read.append(len(text))
        find(text, found)

    monkeypatch.setattr(answer_copy, "_find_words", note)
    copy = AnswerCopy(None, "seed", in_pieces=False)
    copy.begin(b"text/event-stream", b"")
    event = chunk({"content": "word "})
    slices = list[int]()
    for _ in range(3 * KEPT_BYTES // len(event)):
        copy.add(event)
        slices.append(sum(read) - sum(slices))
    assert sum(slices[: KEPT_BYTES // len(event)]) == 0
    assert max(slices) < SLICE_BYTES + len(event)
    assert sum(slices) >= 3 * KEPT_BYTES - SLICE_BYTES - 2 * len(event)
    assert copy.estimate(1.0) == pytest.approx(len(slices), rel=0.05)


@pytest.mark.parametrize("dialect", [DialectName.OPENAI_CHAT, None], ids=["chat", "no reader"])
@pytest.mark.parametrize("events", [0, 1, 30, 300, 3000])
def test_a_guess_of_a_stream_is_near_its_estimate(dialect: DialectName | None, events: int) -> None:
    copy = AnswerCopy(dialect, "seed", in_pieces=False)
    copy.begin(b"text/event-stream", b"")
    for number in range(events):
        copy.add(chunk({"content": PIECES[number % len(PIECES)]}))
    guessed = copy.estimate_roughly()
    assert guessed == pytest.approx(copy.estimate(1.0), rel=0.3, abs=2)


def test_a_stream_without_a_word_is_guessed_by_its_length() -> None:
    copy = AnswerCopy(DialectName.OPENAI_CHAT, "seed", in_pieces=False)
    copy.begin(b"text/event-stream", b"")
    copy.add(b": ping\n\n" * 100)
    assert copy.estimate_roughly() == 200
