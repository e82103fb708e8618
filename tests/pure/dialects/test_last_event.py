"""The promises of mgw.dialects.last_event."""

from __future__ import annotations

from itertools import chain, pairwise, repeat

import pytest
from hypothesis import given, note
from hypothesis import strategies as st

from mgw.dialects import dialect_of
from mgw.dialects.last_event import LastEvent
from mgw.nouns.vocabulary import DialectName

CHAT = (
    b'data: {"choices":[{"delta":{"content":"data: [DONE]\\n"}}]}\n\n'
    b'data: {"choices":[{"finish_reason":"stop"}]}\n\n'
)
MESSAGES = (
    b'event: content_block_delta\ndata: {"type":"content_block_delta","delta":{"text":"message_stop"}}\n\n'
    b'event: message_delta\ndata: {"type":"message_delta","usage":{"output_tokens":3}}\n\n'
)
RESPONSES = (
    b'event: response.created\ndata: {"type":"response.created"}\n\n'
    b"event: response.output_text.delta\n"
    b'data: {"type":"response.output_text.delta","delta":"response.completed"}\n\n'
)
GEMINI = (
    b'data: {"candidates": [{"content": {"parts": [{"text": "\\"finishReason\\": \\"STOP\\""}]}}]}\r\n\r\n'
)
FINISH = b'data: {"candidates": [{"content": {}, "finishReason": "STOP"}], "usageMetadata": {}}\r\n\r\n'
ELEMENT = b'[{"candidates": [{"content": {"parts": [{"text": "hi"}]}}]}\n,\r\n'
COMPLETED = b'event: response.completed\ndata: {"type":"response.completed","response":{"output":[]}}\n\n'

STREAMS = {
    "chat": (DialectName.OPENAI_CHAT, CHAT, b"data: [DONE]", b"\n\n"),
    "chat without a blank": (DialectName.OPENAI_CHAT, CHAT, b"data:[DONE]", b"\r\n\r\n"),
    "completions": (DialectName.OPENAI, CHAT, b"data: [DONE]", b"\n\n"),
    "messages": (
        DialectName.ANTHROPIC,
        MESSAGES,
        b"event: message_stop\n",
        b'data: {"type":"message_stop"}\n\n',
    ),
    "messages of data alone": (DialectName.ANTHROPIC, MESSAGES, b'data: {"type": "message_stop"', b"}\n\n"),
    "responses": (DialectName.OPENAI_RESPONSES, RESPONSES, COMPLETED, b""),
    "responses of data alone": (
        DialectName.OPENAI_RESPONSES,
        RESPONSES,
        b'data: {"type":"response.incomplete","response":{}}\n\n',
        b"",
    ),
    "gemini": (DialectName.GEMINI, GEMINI, FINISH, b""),
    "gemini's array": (DialectName.GEMINI, ELEMENT, FINISH[6:-4], b"\n]"),
    "two candidates": (DialectName.GEMINI, FINISH + GEMINI, FINISH, b""),
}
"""What comes before the last event, what must have come of it, and what may follow."""
TOLD_EARLY = {ELEMENT + FINISH[6:-4], FINISH + GEMINI + FINISH}
"""A piece may end with a brace within an element; of two candidates the first may be taken for the last."""


def follow(dialect: DialectName) -> LastEvent:
    return LastEvent(dialect_of(dialect).stream_events.last)


def fed(dialect: DialectName, *pieces: bytes) -> LastEvent:
    last = follow(dialect)
    for piece in pieces:
        last.feed(piece)
    return last


@given(sizes=st.lists(st.integers(1, 60), max_size=12))
def test_it_has_passed_once_it_has_come_however_it_was_cut(sizes: list[int]) -> None:
    for name, stream in STREAMS.items():
        note(name)
        passes_in_time(stream, sizes)


def passes_in_time(stream: tuple[DialectName, bytes, bytes, bytes], sizes: list[int]) -> None:
    dialect, before, needed, rest = stream
    last, whole, position = follow(dialect), before + needed + rest, 0
    for size in chain(sizes, repeat(40)):
        last.feed(whole[position : position + size])
        position += size
        if position >= len(before + needed):
            assert last.passed
        elif before + needed not in TOLD_EARLY:
            assert not last.passed
        if position >= len(whole):
            break


@pytest.mark.parametrize("stream", STREAMS.values(), ids=STREAMS)
def test_what_comes_before_is_not_the_last_event(stream: tuple[DialectName, bytes, bytes, bytes]) -> None:
    dialect, before, _, _ = stream
    assert not fed(dialect, before).passed


def test_half_of_the_last_event_is_not_all_of_it() -> None:
    assert not fed(DialectName.OPENAI_RESPONSES, RESPONSES + COMPLETED[:60]).passed
    assert not fed(DialectName.GEMINI, GEMINI + FINISH[:70]).passed
    assert not fed(DialectName.OPENAI_CHAT, CHAT + b"data: [DON").passed


def test_a_long_last_event_in_many_pieces_is_found() -> None:
    pieces = [
        b"event: response.completed\n",
        b'data: {"type":"response.completed","x":"',
        *[b"y" * 99] * 9,
        b'"}',
    ]
    last = fed(DialectName.OPENAI_RESPONSES, RESPONSES, *pieces)
    assert not last.passed
    last.feed(b"\n")
    last.feed(b"\n")
    assert last.passed


@pytest.mark.parametrize("stream", STREAMS.values(), ids=STREAMS)
@pytest.mark.parametrize("place", ["before", "behind", "around"])
def test_it_is_found_in_a_large_piece(stream: tuple[DialectName, bytes, bytes, bytes], place: str) -> None:
    dialect, before, needed, _ = stream
    large = b"data: " + b"x" * 200_000 + b"\n\n"
    if before.startswith(b"["):
        large = b" " * 200_000
    pieces = {
        "before": (before, large + needed),
        "behind": (before + large + needed[:9], needed[9:]),
        "around": (before, large + needed[:9], needed[9:]),
    }
    last = fed(dialect, *pieces[place])
    assert last.passed
    assert not fed(dialect, before, large).passed


def test_a_mark_is_not_put_together_from_the_ends_of_a_large_piece() -> None:
    half, other = b"\ndata: [DO", b"NE]\n\n"
    piece = b"x" * (64 - len(half)) + half + b"y" * 200_000 + other + b"z" * (64 - len(other))
    assert not fed(DialectName.OPENAI_CHAT, CHAT, piece).passed


GEMINI_PIECES = (
    GEMINI,
    FINISH,
    b'data: {"candidates": [{"content": {"parts": [{"text": "words"}]}, "finishReason": null}]}\n\n',
    b'data: {"usageMetadata": {"promptTokenCount": 3}}\r\n\r\n',
    b": heartbeat\n\n",
    b'data: {"candidates": [{"finishReason":',
    b' "STOP"}]}\n\n',
)
PIECES = {
    DialectName.OPENAI_CHAT: (CHAT, b"data: [DONE]\n\n", b": ping\n\n", b"data: [DO"),
    DialectName.ANTHROPIC: (
        MESSAGES,
        b'event: message_stop\ndata: {"type":"message_stop"}\n\n',
        b": ping\n\n",
    ),
    DialectName.OPENAI_RESPONSES: (RESPONSES, COMPLETED, COMPLETED[:60], b"data: {}\n\n"),
    DialectName.GEMINI: GEMINI_PIECES,
}
ELEMENTS = (ELEMENT[1:], FINISH[6:-4] + b"\n,\r\n", FINISH[6:-30], b"}\n]", b"\n")


def found(dialect: DialectName, pieces: list[bytes]) -> tuple[bool, bool]:
    last = fed(dialect, *pieces)
    return last.passed, last.went_on


def cut(whole: bytes, places: set[int]) -> list[bytes]:
    ends = [*sorted(place for place in places if place < len(whole)), len(whole)]
    return [whole[start:stop] for start, stop in pairwise([0, *ends]) if start < stop]


@pytest.mark.parametrize("dialect", PIECES)
@given(data=st.data())
def test_what_is_found_does_not_depend_on_how_a_stream_is_cut(
    dialect: DialectName, data: st.DataObject
) -> None:
    whole = b"".join(data.draw(st.lists(st.sampled_from(PIECES[dialect]), min_size=1, max_size=6)))
    places = data.draw(st.sets(st.integers(1, len(whole)), max_size=12), "places")
    assert found(dialect, cut(whole, places)) == found(dialect, [whole])


@given(data=st.data())
def test_what_is_found_does_not_depend_on_how_an_array_is_cut(data: st.DataObject) -> None:
    whole = b"[" + b"".join(data.draw(st.lists(st.sampled_from(ELEMENTS), min_size=1, max_size=6)))
    places = data.draw(st.sets(st.integers(1, len(whole)), max_size=12), "places")
    assert found(DialectName.GEMINI, cut(whole, places)) == found(DialectName.GEMINI, [whole])
