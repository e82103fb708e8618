"""The machinery of all meters: how a stream is cut changes nothing, and memory is bounded."""

from __future__ import annotations

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec import Struct
from msgspec.json import decode

from mgw.canonical.reply import NO_USAGE, TokenUsage
from mgw.dialects.metering import (
    MAX_LOOKS,
    MAX_SHAPES,
    BlindMeter,
    EventStreamMeter,
    UnaryMeter,
    add_counts,
    merge_usage,
    meter_of,
)
from mgw.dialects.openai.stream_events import STREAM_EVENTS
from mgw.dialects.stream_end import StreamEnd

MAX_EVENT = 48


class Trail:
    """A reader that notes each document."""

    def __init__(self) -> None:
        self.seen: list[bytes] = []

    def __call__(self, document: bytes, before: TokenUsage) -> TokenUsage:
        self.seen.append(document)
        return before


class Document(Struct):
    usage: int | None = None


def read(document: bytes, before: TokenUsage) -> TokenUsage:
    usage = decode(document, type=Document).usage
    return before if usage is None else TokenUsage(tokens_in=usage)


LINE_END = st.sampled_from([b"\n", b"\r\n", b"\r"])
VALUE = st.sampled_from(
    [
        b'{"usage":1}',
        b'{"usage": 2}',
        b'{"usage":3,"x":"\xc3\xa9\xe2\x82\xac"}',
        b'{"usage":null}',
        b'{"t":"\\"usage\\""}',
        b'{"t":"usage"}',
        b'{"usage":',
        b"[DONE]",
        b'{"usage":4,"long":"' + b"x" * MAX_EVENT + b'"}',
        b"{}",
    ]
)


LINE = st.one_of(
    VALUE.map(lambda value: b"data: " + value),
    VALUE.map(lambda value: b"data:" + value),
    st.sampled_from(
        [
            b"event: usage",
            b': "usage"',
            b"id:1",
            b'data: {"usage":',
            b"data: 5}",
            b"data: 6 }",
            b": " + b"x" * MAX_EVENT,
        ]
    ),
)


@st.composite
def lines_of_an_event(draw: st.DrawFn) -> bytes:
    end = draw(LINE_END)
    lines = draw(st.lists(LINE, min_size=1, max_size=3))
    return b"".join(line + end for line in (*lines, b""))


PIECE = st.one_of(
    lines_of_an_event(),
    st.sampled_from([b"\n", b"\r", b"\r\n", b"data", b":", b'data: {"usage":', b"5}", b'"', b"usage", b"x"]),
)


def run(chunks: list[bytes]) -> TokenUsage:
    meter = EventStreamMeter(read, max_event_bytes=MAX_EVENT)
    for chunk in chunks:
        meter.feed(chunk)
    meter.finish()
    return meter.usage


def in_bytes(data: bytes) -> list[bytes]:
    return [data[i : i + 1] for i in range(len(data))]


@given(pieces=st.lists(PIECE, max_size=8))
def test_any_cut_of_a_stream_counts_the_same(pieces: list[bytes]) -> None:
    data = b"".join(pieces)
    assert run(pieces) == run([data]) == run(in_bytes(data))


@given(data=st.lists(lines_of_an_event(), max_size=4).map(b"".join), at=st.integers(0, 400))
def test_a_cut_anywhere_counts_the_same(data: bytes, at: int) -> None:
    assert run([data[:at], data[at:]]) == run([data])


def plainly(data: bytes) -> TokenUsage:
    """The event stream rules of the HTML standard, spelled out line by line."""
    usage, values, lines = NO_USAGE, [], []
    for line in data.splitlines():
        if line:
            lines.append(line)
            values += [line[5:].removeprefix(b" ")] if line.startswith(b"data:") else []
            continue
        usage, values, lines = judged(usage, values, lines), [], []
    return judged(usage, values, lines)


def judged(usage: TokenUsage, values: list[bytes], lines: list[bytes]) -> TokenUsage:
    try:
        found = json.loads(b"\n".join(values))["usage"]
    except (ValueError, KeyError, TypeError):
        return usage
    return usage if found is None else TokenUsage(tokens_in=found)


@given(events=st.lists(lines_of_an_event(), max_size=6))
def test_the_count_is_that_of_the_rules_read_plainly(events: list[bytes]) -> None:
    short = [event for event in events if len(event) <= MAX_EVENT]
    assert run(short) == plainly(b"".join(short))


@given(chunks=st.lists(st.one_of(st.binary(max_size=40), PIECE), max_size=12))
def test_no_bytes_make_a_stream_meter_raise(chunks: list[bytes]) -> None:
    run(chunks)


def test_whole_events_without_usage_are_never_read() -> None:
    trail = Trail()
    meter = EventStreamMeter(trail)
    meter.feed(b'data: {"choices":[{"delta":{"content":"my usage"}}]}\n\n')
    meter.feed(b'data: {"usage":null}\n\ndata: {"usage":null}\n\n')
    meter.finish()
    assert trail.seen == []


def test_a_usage_after_an_empty_one_in_the_same_chunk_is_read() -> None:
    assert run([b'data: {"usage":null}\n\ndata: {"usage":7}\n\n']) == TokenUsage(tokens_in=7)


def test_a_stream_that_ends_without_its_blank_line_keeps_its_last_event() -> None:
    assert run([b'data: {"usage":7}']) == TokenUsage(tokens_in=7)


def test_a_broken_stream_keeps_what_was_seen() -> None:
    assert run([b'data: {"usage":7}\n\ndata: {"usage":9']) == TokenUsage(tokens_in=7)


def test_the_lines_of_one_value_are_read_as_one() -> None:
    assert run([b'data: {"usage":\ndata: 7}\n\n']) == TokenUsage(tokens_in=7)


def test_nothing_of_an_event_that_is_too_long_is_read() -> None:
    chunks = [b": " + b"x" * MAX_EVENT, b"xxxxx\n", b'data: {"usage":7}\n\n', b'data: {"usage":8}\n\n']
    assert run(chunks[:-1]) == run([b"".join(chunks[:-1])]) == NO_USAGE
    assert run(chunks) == run([b"".join(chunks)]) == TokenUsage(tokens_in=8)


@pytest.mark.parametrize(("more", "counts"), [(0, TokenUsage(tokens_in=7)), (1, NO_USAGE)])
def test_an_event_of_exactly_the_limit_is_read_however_cut(more: int, counts: TokenUsage) -> None:
    line = b'data: {"usage":7}'.ljust(MAX_EVENT + more)
    assert run([line + b"\r\n\r\n"]) == run(in_bytes(line + b"\r\n\r\n")) == counts


def test_nothing_is_held_between_events_that_end_with_carriage_returns() -> None:
    meter = EventStreamMeter(read)
    for chunk in (b'data: {"usage":', b"7}\r\n\r\n", b"data: x\r\n\r\n"):
        meter.feed(chunk)
    assert (meter.is_open, bytes(meter._held)) == (False, b"")


def test_events_whose_usage_is_null_are_not_read_beside_one_that_has_it() -> None:
    trail = Trail()
    meter = EventStreamMeter(trail)
    meter.feed(b'data: {"usage":null}\n\ndata: {"usage":null,"x":{"usage":1}}\n\ndata: {"usage":null}\n\n')
    assert trail.seen == [b' {"usage":null,"x":{"usage":1}}']


def test_an_event_without_end_holds_bounded_memory() -> None:
    meter = EventStreamMeter(read, max_event_bytes=1000)
    for _ in range(1000):
        meter.feed(b"data: xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx")
        assert len(meter._held) <= 1004
    meter.feed(b'\n\ndata: {"usage":7}\n\n')
    assert meter.usage == TokenUsage(tokens_in=7)


def test_a_unary_body_is_read_at_its_end() -> None:
    meter = UnaryMeter(read)
    for chunk in in_bytes(b'{"usage": 7}'):
        meter.feed(chunk)
    assert meter.usage == NO_USAGE
    meter.finish()
    assert meter.usage == TokenUsage(tokens_in=7)


def test_a_unary_body_that_is_too_long_is_given_up() -> None:
    meter = UnaryMeter(read, max_bytes=12)
    for chunk in (b'{"x":"12', b'3456789"}', b'{"usage":7}'):
        meter.feed(chunk)
        assert meter._kept._size <= 12
    meter.finish()
    assert meter.usage == NO_USAGE


def test_a_long_text_in_a_unary_body_is_not_kept() -> None:
    text = b"A/w0" * 500
    meter = UnaryMeter(read, max_bytes=4000)
    for chunk in (b'{"x":"' + text, *[text] * 10, text + b'","usage":7}'):
        meter.feed(chunk)
    meter.finish()
    assert meter.usage == TokenUsage(tokens_in=7)


def test_the_message_of_an_error_in_a_stream_is_read_as_it_came() -> None:
    message = "too many requests, " * 3000
    event = b'data: {"error":{"message":"%b","type":"x"}}\n\n' % message.encode()
    end = StreamEnd(STREAM_EVENTS)
    meter = EventStreamMeter(read, end=end)
    for at in range(0, len(event), 1448):
        meter.feed(event[at : at + 1448])
    assert end.error is not None
    assert end.error.message[:8000] == message[:8000]


def test_whether_a_stream_ended_is_read_in_the_whole_document() -> None:
    text = b"A/w0" * 500
    shown: list[bytes] = []

    def note(document: bytes, before: TokenUsage) -> TokenUsage:
        shown.append(document)
        return before

    meter = UnaryMeter(note, end=StreamEnd(STREAM_EVENTS))
    pieces = [b'{"error":"' + text, text, b'"}']
    for piece in pieces:
        meter.feed(piece)
    meter.finish()
    assert shown == [b"".join(pieces)]


@pytest.mark.parametrize(
    ("content_type", "kind"),
    [
        (b"text/event-stream", EventStreamMeter),
        (b"Text/Event-Stream; charset=utf-8", EventStreamMeter),
        (b"application/json", UnaryMeter),
        (b" application/JSON ;charset=utf-8", UnaryMeter),
        (b"audio/mpeg", BlindMeter),
        (b"application/x-ndjson", BlindMeter),
        (b"", BlindMeter),
    ],
)
def test_the_content_type_chooses_the_meter(content_type: bytes, kind: type) -> None:
    assert type(meter_of(content_type, read)) is kind


def test_a_blind_meter_knows_nothing() -> None:
    meter = BlindMeter()
    meter.feed(b'{"usage":7}')
    meter.finish()
    assert meter.usage == NO_USAGE


def test_later_counts_replace_earlier_ones_and_silence_keeps_them() -> None:
    before = TokenUsage(1, 5, 3, 4, 2)
    assert merge_usage(before, TokenUsage(tokens_in=0)) == TokenUsage(0, 5, 3, 4, 2)
    assert merge_usage(before, TokenUsage(tokens_out=6)) == TokenUsage(1, 6, 3, 4, 2)


def test_a_sum_of_unknowns_is_unknown() -> None:
    assert (add_counts(None, None), add_counts(None, 0), add_counts(2, None, 3)) == (None, 0, 5)


def test_a_stream_of_nothing_but_usage_is_given_up() -> None:
    trail = Trail()
    meter = EventStreamMeter(trail, usage=TokenUsage(1))
    event = b'data: {"usage":1}\n\n'
    meter.feed(event * MAX_LOOKS)
    assert len(trail.seen) == MAX_LOOKS
    meter.feed(event * (MAX_LOOKS + 1))
    meter.feed(event)
    meter.finish()
    assert len(trail.seen) == MAX_LOOKS
    assert meter.usage == NO_USAGE


def chat_chunk(word: bytes, behind: bytes = b'},"finish_reason":null}],"usage":null') -> bytes:
    return b'data: {"id":"cc","choices":[{"index":0,"delta":{"content":"%b"%b}\n\n' % (word, behind)


CHAT_CHUNKS = st.sampled_from(
    [
        *map(chat_chunk, (b"a", b"b", b"", b'\\"', b"error", b"event: error")),
        *(chat_chunk(word, b'},"finish_reason":"stop"}]') for word in (b"a", b"")),
        *(chat_chunk(word, b'},"finish_reason":null}],"usage":{"prompt_tokens":3}') for word in (b"a", b"b")),
        *(chat_chunk(b"a" + more) for more in (b'","error":{"message":"m"},"x":"', b'","usage":{},"x":"')),
        *(b'data: {"error":{"message":"%b"}}\n\n' % word for word in (b"a", b"b")),
        chat_chunk(b"a").replace(b'"id":"cc"', b'"error":1'),
        b'event: error\ndata: {"message":"a"}\n\n',
        b"event: error\n",
        b"data: [DONE]\n\n",
        b'data: {"choices":[',
        b"]}\n\n",
    ]
)


@example([chat_chunk(b"a"), b"event: error\n", chat_chunk(b"b")])
@example([chat_chunk(b"a"), chat_chunk(b"a").replace(b'"id":"cc"', b'"error":1')])
@given(st.lists(CHAT_CHUNKS | st.tuples(CHAT_CHUNKS, CHAT_CHUNKS).map(b"".join), max_size=9))
def test_what_chunks_have_in_common_changes_nothing(chunks: list[bytes]) -> None:
    looking, shaped = Trail(), Trail()
    ends = StreamEnd(STREAM_EVENTS), StreamEnd(STREAM_EVENTS)
    looks = EventStreamMeter(looking, end=ends[0], _shapes_left=0)
    meter = EventStreamMeter(shaped, end=ends[1])
    for chunk in chunks:
        looks.feed(chunk)
        meter.feed(chunk)
        assert (ends[1].complete, ends[1].error) == (ends[0].complete, ends[0].error)
    looks.finish()
    meter.finish()
    counted, counts = ([one for one in trail.seen if b'"usage":{' in one] for trail in (shaped, looking))
    assert counted == counts


def test_a_stream_whose_chunks_have_little_in_common_is_not_compared_for_long() -> None:
    meter = EventStreamMeter(Trail(), end=StreamEnd(STREAM_EVENTS))
    for number in range(MAX_SHAPES + 9):
        meter.feed(chat_chunk(b"a", b'},"finish_reason":null}],"number":%d' % number))
    assert meter._shapes_left == 0
