"""Event streams are cut into events however they arrive, and written so that they read the same."""

from __future__ import annotations

import re
import tracemalloc
from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mgw.nouns.errors import GatewayError, Reason
from mgw.wire.sse import MAX_OBJECTS, MAX_VALUES, Event, EventReader, render_event

PIECES = st.sampled_from(
    [
        b"data:",
        b"data: ",
        b"data",
        b"event:",
        b"event: ",
        b"event",
        b"id: 1",
        b"retry:2",
        b": comment",
        b"\n",
        b"\n",
        b"\r",
        b"\r\n",
        b"\n\n",
        b"\r\n\r\n",
        b"x",
        b":",
        b" ",
        b"\xef\xbb\xbf",
        b"\xef\xbb",
        "é".encode(),
        b"data: a\n\n",
        b"data: a\r",
        b"\n\ndata: b\r",
        b"event: e\ndata: b\ndata: c\n\n",
        b"event: e\ndata: a\n\ndata: b\n\n",
        b"event: e\nevent: f\ndata: a\n\n: comment\n\ndata: b\n\n",
        b"event: e\r\ndata: a\r\n\r\ndata: b\r\n\r\n",
        b"data: a\rdata: b\r\n\r\n",
        b"",
    ]
)


def events_of(stream: bytes) -> list[Event]:
    """The standard's interpretation, read off line by line from the whole stream."""
    *lines, _ = re.split(rb"\r\n|\r|\n", stream.removeprefix(b"\xef\xbb\xbf"))
    events: list[Event] = []
    kind, buffer = b"", b""
    for line in lines:
        if line == b"":
            if buffer:
                events.append(Event(kind, buffer[:-1]))
            kind, buffer = b"", b""
        elif b":" in line:
            name, value = line.split(b":", 1)
            value = value[1:] if value[:1] == b" " else value
            kind = value if name == b"event" else kind
            buffer = buffer + value + b"\n" if name == b"data" else buffer
        else:
            kind = b"" if line == b"event" else kind
            buffer = buffer + b"\n" if line == b"data" else buffer
    return events


def read(pieces: list[bytes], max_bytes: int = 1_000_000) -> list[Event]:
    reader = EventReader(max_bytes)
    events = [event for piece in pieces for event in reader.feed(piece)]
    reader.finish()
    return events


@given(st.lists(PIECES, max_size=40))
def test_any_cut_gives_the_events_of_the_standard(pieces: list[bytes]) -> None:
    assert read(pieces) == events_of(b"".join(pieces))


WHOLE = st.sampled_from(
    [
        b"data: a\n\n",
        b"event: e\ndata: a\n\ndata: b\n\n",
        b"event: e\r\ndata: a\r\n\r\n",
        b"data: a\rdata: b\n\n",
        b"data: a\rdata: b\r\n\r\n",
        b"data: a\r\rdata: b\n\n",
        b"event: e\revent: f\ndata: a\n\n",
        b"data: a\n\n\n\ndata: b\n\n",
        b"\ndata: a\n\n",
        b"data: a\ndata: b\n\n",
        b"data:a\n\n",
        b"event:e\ndata: a\n\n",
        b"event: e\nid: 1\n\n",
        b"event: e\n\n",
        b"data: a\nevent: e\n\n",
        b": comment\n\n",
        b"\xef\xbb\xbfdata: a\n\n",
        b"data: a\n",
        b"\n",
    ]
)
"""Most of these end an event, so that what comes next is read at once, where that can be."""


@given(st.lists(WHOLE, max_size=10))
def test_events_that_come_whole_are_those_of_the_standard(pieces: list[bytes]) -> None:
    assert read(pieces) == events_of(b"".join(pieces))


@given(st.lists(PIECES, max_size=20).map(b"".join))
def test_byte_by_byte_gives_the_events_of_the_standard(stream: bytes) -> None:
    assert read([stream[at : at + 1] for at in range(len(stream))]) == events_of(stream)


@pytest.mark.parametrize(
    ("stream", "events"),
    [
        (b"data: a\n\n", [Event(b"", b"a")]),
        (b"data:a\r\n\r\n", [Event(b"", b"a")]),
        (b"data:  a\r\r", [Event(b"", b" a")]),
        (b"data\n\n", [Event(b"", b"")]),
        (b"data: a\ndata\ndata: b\n\n", [Event(b"", b"a\n\nb")]),
        (b"event: ping\ndata: {}\n\n", [Event(b"ping", b"{}")]),
        (b"event: ping\n\ndata: a\n\n", [Event(b"", b"a")]),
        (b": keep-alive\n\nid: 1\nretry: 2\nunknown: 3\ndata: a\n\n", [Event(b"", b"a")]),
        (b"\xef\xbb\xbfdata: a\n\n\xef\xbb\xbfdata: b\n\n", [Event(b"", b"a")]),
        (b"data: a\n\ndata: b\n", [Event(b"", b"a")]),
        (b"data: a", []),
    ],
)
def test_a_stream_has_these_events(stream: bytes, events: list[Event]) -> None:
    assert read([stream]) == events


def test_an_event_comes_with_its_last_byte_and_not_one_later() -> None:
    reader = EventReader()
    assert reader.feed(b"data: a\r\n\r") == [Event(b"", b"a")]
    assert reader.feed(b"\ndata: b\n\n") == [Event(b"", b"b")]


@pytest.mark.parametrize(
    "pieces",
    [
        pytest.param([b"data: " + b"x" * 200], id="an endless line"),
        pytest.param([b"data: x\n"] * 40, id="endless lines"),
        pytest.param([b":", *[b"x"] * 200], id="an endless comment"),
        pytest.param([b"data: " + b"x" * 200 + b"\n\n"], id="a large event at once"),
    ],
)
def test_an_event_beyond_the_limit_breaks_the_stream(pieces: list[bytes]) -> None:
    with pytest.raises(GatewayError, match="more than 100 bytes") as caught:
        read(pieces, max_bytes=100)
    assert caught.value.reason is Reason.UPSTREAM_BROKEN


KEEP_ALIVE = b": keep-alive\n"


@pytest.mark.parametrize("step", [1, 1000], ids=["in pieces", "whole"])
@pytest.mark.parametrize(
    ("before", "within"),
    [
        (b": keep-alive\n", b""),
        (b": keep-alive\n\n", b""),
        (b"", b": keep-alive\n" * 20),
        (b"", b"id: 1\n" * 40),
    ],
    ids=["before", "apart", "within", "other fields"],
)
def test_the_limit_is_for_each_event_and_comments_do_not_add_up(
    before: bytes, within: bytes, step: int
) -> None:
    reader = EventReader(max_bytes=100)
    stream = before + b"event: e\n" + within + b"data: x\n\n"
    for _ in range(50):
        pieces = [stream[at : at + step] for at in range(0, len(stream), step)]
        assert [event for piece in pieces for event in reader.feed(piece)] == [Event(b"e", b"x")]


@pytest.mark.parametrize("step", [1, 1000], ids=["in pieces", "whole"])
def test_an_event_may_have_as_many_bytes_as_are_allowed_and_no_more(step: int) -> None:
    """Counted are its lines, without their ends."""
    for size in (100, 101):
        reader = EventReader(max_bytes=100)
        stream = b": the stream has begun\n\nevent: e\ndata: " + b"x" * (size - 14) + b"\n\n"
        pieces = [stream[at : at + step] for at in range(0, len(stream), step)]
        if size == 100:
            assert sum(len(reader.feed(piece)) for piece in pieces) == 1
        else:
            with pytest.raises(GatewayError, match="more than 100 bytes"):
                list(map(reader.feed, pieces))


@given(
    st.text("ab: é\n", max_size=12).map(str.encode),
    st.sampled_from([b"", b"ping", b"content_block_delta"]),
)
def test_what_is_rendered_reads_the_same(data: bytes, event: bytes) -> None:
    assert read([render_event(event, data)]) == [Event(event, data)]


def test_an_event_is_rendered_like_this() -> None:
    assert render_event(b"", b"{}") == b"data: {}\n\n"
    assert render_event(b"ping", b"a\r\nb\rc") == b"event: ping\ndata: a\ndata: b\ndata: c\n\n"


def test_small_pieces_take_linear_time_however_much_is_held() -> None:
    """A reader that goes over what it holds would take minutes for it, however fast it does."""

    def seconds(lines: int, held: int, pieces: int) -> float:
        reader = EventReader()
        reader.feed(b"data: a\n" * lines + b"data: " + b"x" * held)
        begun = process_time()
        for _ in range(pieces):
            reader.feed(b"x")
        (event,) = reader.feed(b"\n\n")
        assert len(event.data) == 2 * lines + held + pieces
        return process_time() - begun

    assert seconds(20_000, 4_000_000, 20_000) < 40 * seconds(0, 0, 2_000) + 0.1


@pytest.mark.parametrize(
    ("unit", "times"), [(b"{},", MAX_OBJECTS + 1), (b"[],", MAX_VALUES // 2 + 1), (b'"",', MAX_VALUES + 1)]
)
def test_an_event_of_countless_values_breaks_the_stream(unit: bytes, times: int) -> None:
    reader = EventReader()
    with pytest.raises(GatewayError) as broken:
        reader.feed(b"data: [%b0]\n\n" % (unit * times))
    assert broken.value.reason is Reason.UPSTREAM_BROKEN
    text = b'data: {"a":"%b"}\n\n' % (rb"{}[],\"" * 100_000)
    assert len(reader.feed(text)) == 1


def test_an_event_in_small_pieces_takes_no_more_than_its_size() -> None:
    reader = EventReader()
    tracemalloc.start()
    for _ in range(10_000):
        reader.feed(b"ab")
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held < 60_000


def test_empty_lines_cost_next_to_nothing() -> None:
    reader = EventReader()
    began = process_time()
    for _ in range(100):
        assert reader.feed(b"\n" * 65_536) == []
    assert process_time() - began < 0.5
    assert reader.feed(b"data: a\n\n\n\ndata: b\n\n") == [Event(b"", b"a"), Event(b"", b"b")]
