"""Any stream of chat completions is read the same however it is cut, and in order."""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from mgw.canonical.reply import ArgumentsAdded, Began, Broke, CallBegan, CallEnded, Counted, Ended, ReplyEvent
from mgw.dialects.openai.calls import ArgumentsScanner
from mgw.dialects.openai.stream_reader import ChatStreamReader
from mgw.nouns.errors import GatewayError
from tests.support.chat_streams import DONE, deltas, odd, sse

choices = st.fixed_dictionaries(
    {},
    optional={
        "index": st.integers(0, 1) | odd,
        "delta": deltas | st.none(),
        "finish_reason": st.none() | st.sampled_from(["stop", "length", "", "error"]) | odd,
        "logprobs": odd,
    },
)
chunks = st.fixed_dictionaries(
    {},
    optional={
        "id": odd,
        "model": odd,
        "choices": st.lists(choices, max_size=2) | odd,
        "usage": odd | st.dictionaries(st.sampled_from(["prompt_tokens"]), odd),
        "error": st.none() | odd,
    },
)
streams = st.lists(
    chunks.map(sse) | st.sampled_from([DONE, b": hi\n\n", b"\r\n", b"data: x\n\n"]), max_size=8
)


def told(pieces: Iterable[bytes]) -> tuple[list[ReplyEvent], bool]:
    reader = ChatStreamReader("seed")
    events: list[ReplyEvent] = []
    for piece in pieces:
        events += reader.feed(piece)
    try:
        return events + reader.finish(), True
    except GatewayError:
        return events, False


@settings(deadline=None)
@given(streams, st.integers(1, 9))
def test_any_cut_tells_the_same_events(pieces: list[bytes], size: int) -> None:
    stream = b"".join(pieces)
    cut = [stream[start : start + size] for start in range(0, len(stream), size)]
    assert told(cut) == told(pieces) == told([stream])


@settings(deadline=None)
@given(streams)
def test_whatever_comes_the_events_keep_their_order(pieces: list[bytes]) -> None:
    events, _ = told(pieces)
    kinds = [type(event) for event in events]
    assert Began not in kinds[1:]
    assert not events or kinds[0] in {Began, Broke}
    assert Broke not in kinds[:-1]
    open_calls: set[tuple[int, int]] = set()
    ended: set[int] = set()
    for event in events:
        if isinstance(event, Began | Counted | Broke):
            continue
        assert event.candidate not in ended
        if isinstance(event, CallBegan):
            open_calls.add((event.candidate, event.call))
        elif isinstance(event, ArgumentsAdded):
            assert (event.candidate, event.call) in open_calls
            assert event.text
        elif isinstance(event, CallEnded):
            open_calls.remove((event.candidate, event.call))
        elif isinstance(event, Ended):
            assert not any(candidate == event.candidate for candidate, _ in open_calls)
            ended.add(event.candidate)


@given(
    st.recursive(
        st.text('"\\\\{}a') | st.integers() | st.booleans(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
        max_leaves=8,
    ).map(lambda value: json.dumps({"a": value})),
    st.lists(st.integers(0, 60), max_size=6),
    st.sampled_from(["", " ", "}", '{"b":1}']),
)
def test_the_scanner_knows_the_end_of_an_object_however_it_is_cut(
    value: str, cuts: list[int], rest: str
) -> None:
    scanner = ArgumentsScanner()
    taken = ""
    places = sorted({0, len(value), *(cut for cut in cuts if cut < len(value))})
    for start, end in pairwise(places):
        assert not scanner.complete
        taken += scanner.feed(value[start:end])
    assert scanner.complete
    assert taken + scanner.feed(rest) == value
    alone = ArgumentsScanner()
    assert alone.feed(value + rest) == value
