"""Hostile answers and streams: whatever a provider sends is skipped or broken.

No other exception than :class:`GatewayError` comes out of any reader or writer.
"""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import msgspec
import pytest
from hypothesis import given, note
from hypothesis import strategies as st

from mgw.dialects import client_side_of, provider_side_of
from mgw.dialects.dialect import ReplySource
from mgw.nouns.vocabulary import DialectName
from mgw.wire.sse import MAX_EVENT_BYTES
from tests.support.hostile_json import (
    ANSWERING,
    DEEP,
    DIALECTS,
    PLACE_NUMBERS,
    RANDOM_JSON,
    WRONG,
    Json,
    framed,
    paths,
    place_in,
    read_stream,
    replaced,
    translate_reply,
    translate_stream,
    write_stream,
)
from tests.support.rich_answers import REPLIES, STREAMS

# Answers --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_rich_answer_and_stream_are_translated(dialect: DialectName) -> None:
    reply = provider_side_of(dialect).text.parse_reply(
        msgspec.json.encode(REPLIES[dialect]), ReplySource("seed")
    )
    assert len(reply.candidates[0].parts) >= 3
    reader = provider_side_of(dialect).stream_reader("seed")
    events = [one for event in STREAMS[dialect] for one in reader.feed(framed(dialect, event))]
    assert len(events + reader.finish()) >= 8


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_wrong_type_in_any_place_of_an_answer_is_skipped_or_broken(dialect: DialectName) -> None:
    body = REPLIES[dialect]
    for place in paths(body):
        for wrong in WRONG:
            translate_reply(dialect, msgspec.json.encode(replaced(body, place, wrong)))


@pytest.mark.slow
@given(number=PLACE_NUMBERS, new=RANDOM_JSON)
def test_any_json_in_any_place_of_an_answer_is_skipped_or_broken(number: int, new: Json) -> None:
    for dialect in DIALECTS:
        note(dialect)
        body = REPLIES[dialect]
        translate_reply(dialect, msgspec.json.encode(replaced(body, place_in(body, number), new)))


@pytest.mark.parametrize("dialect", DIALECTS)
def test_any_depth_and_odd_text_in_any_place_of_an_answer_is_skipped_or_broken(dialect: DialectName) -> None:
    body = REPLIES[dialect]
    for place in paths(body):
        data = msgspec.json.encode(replaced(body, place, "@odd@"))
        for odd in (
            b'{"a":' * DEEP + b"1" + b"}" * DEEP,
            b'"\\ud800"',
            b"1e400",
            b'{"a":' * 900 + b"1" + b"}" * 900,
        ):
            translate_reply(dialect, data.replace(b'"@odd@"', odd))


@given(body=st.binary(max_size=60) | RANDOM_JSON.map(msgspec.json.encode))
def test_any_bytes_of_an_answer_are_skipped_or_broken(body: bytes) -> None:
    for dialect in DIALECTS:
        note(dialect)
        translate_reply(dialect, body)


# Streams --------------------------------------------------------------------------------------------------


def spoilt(dialect: DialectName, new: Json) -> Iterator[list[bytes]]:
    """Yield streams with another value in one place, each place once."""
    events = STREAMS[dialect]
    whole = [framed(dialect, event) for event in events]
    for number, event in enumerate(events):
        for place in paths(event):
            marked = framed(dialect, replaced(event, place, "@odd@"))
            yield [*whole[:number], marked.replace(b'"@odd@"', new), *whole[number + 1 :]]


def translate_spoilt(dialect: DialectName, values: Iterable[bytes]) -> None:
    """Translate streams with each value in each place: most read as another, which is not written again."""
    seen: set[str] = set()
    for new in values:
        for chunks in spoilt(dialect, new):
            groups, error = read_stream(dialect, [b"".join(chunks)])
            read = f"{groups} {error!r}"
            if read not in seen:
                seen.add(read)
                write_stream(groups, error)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_wrong_type_in_any_place_of_a_stream_is_skipped_or_broken(dialect: DialectName) -> None:
    translate_spoilt(dialect, map(msgspec.json.encode, WRONG))


@pytest.mark.parametrize("dialect", DIALECTS)
def test_any_depth_and_odd_text_in_any_place_of_a_stream_is_skipped_or_broken(dialect: DialectName) -> None:
    odd = (
        b'{"a":' * 900 + b"1" + b"}" * 900,
        b"[" * DEEP,
        b'"\\ud800"',
        b'"\xff"',
        b"1e400",
        b"1" * 400,
    )
    translate_spoilt(dialect, odd)


NOISE: Final = st.binary(max_size=20) | st.sampled_from(
    [b"data: [DONE]\n\n", b"\n\n", b": x\n", b"event: error\n"]
)
PIECES: Final = st.lists(
    st.integers(0, 10 * max(map(len, STREAMS.values()))).map(lambda number: ("known", number))
    | RANDOM_JSON.map(lambda event: ("random", event))
    | NOISE.map(lambda noise: ("noise", noise)),
    max_size=16,
)
"""A stream in no wire's words: a known event goes by its number."""


def said(dialect: DialectName, piece: tuple[str, Json]) -> bytes:
    match piece:
        case "known", number:
            return framed(dialect, STREAMS[dialect][number % len(STREAMS[dialect])])
        case "random", event:
            return framed(dialect, event)
    noise: bytes = piece[1]
    return noise


@pytest.mark.slow
@given(pieces=PIECES)
def test_any_events_in_any_order_are_skipped_or_broken(pieces: list[tuple[str, Json]]) -> None:
    for dialect in DIALECTS:
        note(dialect)
        translate_stream(dialect, [said(dialect, piece) for piece in pieces])


def deltas(dialect: DialectName) -> tuple[bytes, Callable[[str], bytes], bytes]:
    """Return the head of a stream, how a piece of text is sent, and the head of one of arguments."""
    events = [framed(dialect, event) for event in STREAMS[dialect]]
    if dialect is DialectName.OPENAI_CHAT:
        return (
            events[0],
            lambda text: framed(dialect, {"choices": [{"index": 0, "delta": {"content": text}}]}),
            events[7],
        )
    if dialect is DialectName.ANTHROPIC:
        delta = {"type": "content_block_delta", "index": 1}
        return (
            events[0] + events[5],
            lambda text: framed(dialect, {**delta, "delta": {"type": "text_delta", "text": text}}),
            events[0] + events[10],
        )
    if dialect is DialectName.OPENAI_RESPONSES:
        delta = {"type": "response.output_text.delta", "output_index": 1}
        return events[0], lambda text: framed(dialect, {**delta, "delta": text}), events[8]
    parts: Callable[[str], Json] = lambda text: {"candidates": [{"content": {"parts": [{"text": text}]}}]}  # noqa: E731 - two lambdas beside it
    return b"", lambda text: framed(dialect, parts(text)), b""


@pytest.mark.parametrize("dialect", DIALECTS)
def test_many_small_deltas_cost_linear_time_and_no_memory(dialect: DialectName) -> None:
    head, piece, _ = deltas(dialect)
    small = piece("ab") * 50
    for other in DIALECTS:
        reader, writer = (
            provider_side_of(dialect).stream_reader("s"),
            client_side_of(other).stream_writer(ANSWERING),
        )
        writer.write(reader.feed(head))

        def run(times: int, reader: Any = reader, writer: Any = writer) -> float:  # Any: the two of this turn
            began = time.process_time()
            for _ in range(times):
                writer.write(reader.feed(small))
            return time.process_time() - began

        run(5)
        first = min(run(5) for _ in range(3))
        tracemalloc.start()
        before = tracemalloc.get_traced_memory()[0]
        run(40)
        held = tracemalloc.get_traced_memory()[0] - before
        tracemalloc.stop()
        run(60)
        assert held < 64 * 1024
        assert min(run(5) for _ in range(3)) < 20 * first


@pytest.mark.parametrize("dialect", DIALECTS)
def test_one_huge_delta_is_translated_or_broken(dialect: DialectName) -> None:
    head, piece, _ = deltas(dialect)
    translate_stream(dialect, [head, piece("x" * (MAX_EVENT_BYTES + 1))])


@pytest.mark.parametrize(
    "dialect", [DialectName.OPENAI_CHAT, DialectName.OPENAI_RESPONSES, DialectName.ANTHROPIC]
)
def test_arguments_that_never_end_break_before_they_fill_the_memory(dialect: DialectName) -> None:
    _, _, begun = deltas(dialect)
    text = '{"a":"' + "x" * 1_000_000
    if dialect is DialectName.OPENAI_CHAT:
        more = framed(
            dialect,
            {
                "choices": [
                    {"index": 0, "delta": {"tool_calls": [{"index": 0, "function": {"arguments": text}}]}}
                ]
            },
        )
    elif dialect is DialectName.OPENAI_RESPONSES:
        delta = {"type": "response.function_call_arguments.delta", "output_index": 2, "delta": text}
        more = framed(dialect, delta)
    else:
        delta = {"type": "input_json_delta", "partial_json": text}
        more = framed(dialect, {"type": "content_block_delta", "index": 2, "delta": delta})
    head = begun if dialect is DialectName.ANTHROPIC else framed(dialect, STREAMS[dialect][0]) + begun
    reader = provider_side_of(dialect).stream_reader("s")
    writer = client_side_of(DialectName.GEMINI).stream_writer(ANSWERING)
    writer.write(reader.feed(head))
    written = b"".join(writer.write(reader.feed(more)) for _ in range(36))  # MB
    assert b'"error"' in written
    assert len(written) < 10_000
    assert writer.finish() == b""
