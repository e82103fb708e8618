"""Whatever a provider that is asked through Responses sends is skipped or breaks the answer."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Iterator
from typing import Final

import msgspec
import pytest

from mgw.canonical.reply import Broke
from mgw.dialects import client_side_of
from mgw.dialects.dialect import ReplySource
from mgw.dialects.responses.provider_reply import parse_reply
from mgw.dialects.responses.stream_reader import ResponsesStreamReader
from mgw.errors import GatewayError, Reason
from mgw.vocabulary import DialectName
from tests.support.hostile_json import ANSWERING, DEEP, is_for, paths, replaced
from tests.support.responses_streams import (
    Json,
    events_of,
    function_call,
    message,
    output_text,
    reasoning,
    refusal,
    response,
    sse,
)

CLIENTS: Final = [
    client_side_of(dialect)
    for dialect in (DialectName.ANTHROPIC, DialectName.GEMINI, DialectName.OPENAI_CHAT)
]
CITED: Final = {"type": "url_citation", "url": "https://a.b", "title": "A", "start_index": 0, "end_index": 2}
TOKEN: Final = {"token": "a", "logprob": -1, "top_logprobs": [{"token": "b", "logprob": -2}]}
ITEMS: Final[list[Json]] = [
    reasoning("rs_1", "gAAA", "One."),
    message("msg_1", output_text("Hi", [CITED], [TOKEN]), refusal("no")),
    function_call("fc_1", "call_1", "f", "{}"),
    {"type": "image_generation_call", "id": "ig_1", "result": "iVBO"},
]
WRONG: Final[list[Json]] = [None, True, 7, "x", [], {"type": "x"}, [None]]
ODD: Final = (b'{"a":' * 900 + b"1" + b"}" * 900, b"[" * DEEP, b'"\\ud800"', b'"\xff"', b"1e400")


def translate_reply(body: bytes) -> None:
    try:
        reply = parse_reply(body, ReplySource("seed"))
    except GatewayError as error:
        is_for(error, Reason.UPSTREAM_BROKEN)
        return
    for client in CLIENTS:
        try:
            client.text.render_reply(reply, ANSWERING)
        except GatewayError as error:
            is_for(error, Reason.UPSTREAM_BROKEN)


def translate_stream(stream: bytes) -> None:
    reader = ResponsesStreamReader("seed")
    writers = [client.stream_writer(ANSWERING) for client in CLIENTS]
    try:
        events = reader.feed(stream)
        for writer in writers:
            writer.write(events)
        events = reader.finish()
        for writer in writers:
            writer.write(events)
            writer.finish()
    except GatewayError as error:
        is_for(error, Reason.UPSTREAM_BROKEN)


def spoilt(whole: Json, new: bytes) -> Iterator[bytes]:
    for place in paths(whole):
        yield msgspec.json.encode(replaced(whole, place, "@odd@")).replace(b'"@odd@"', new)


NEW: Final = [*map(msgspec.json.encode, WRONG), *ODD]


def test_a_wrong_value_in_any_place_of_an_answer() -> None:
    for new in NEW:
        for body in spoilt(response(ITEMS), new):
            translate_reply(body)


def test_a_wrong_value_in_any_place_of_a_stream() -> None:
    events = events_of(ITEMS, pieces=1)
    whole = [sse(event) for event in events]
    for number, event in enumerate(events[:-1]):
        before, after = b"".join(whole[:number]), b"".join(whole[number + 1 :])
        for new in NEW[number % 3 :: 3]:  # all of them, though not in each event
            for data in spoilt(event, new):
                translate_stream(b"%bdata: %b\n\n%b" % (before, data, after))


def test_small_deltas_cost_linear_time_and_no_memory() -> None:
    head, *_ = (sse(event) for event in events_of(ITEMS))
    delta = {"type": "response.output_text.delta", "output_index": 1, "delta": "ab"}
    small = sse(delta) * 50
    reader = ResponsesStreamReader("seed")
    reader.feed(head)

    def run(times: int) -> float:
        began = time.process_time()
        for _ in range(times):
            reader.feed(small)
        return time.process_time() - began

    run(5)
    first = min(run(5) for _ in range(3))
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    run(40)
    held = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert held < 64 * 1024
    assert min(run(5) for _ in range(3)) < 20 * first


@pytest.mark.parametrize("places", [range(5000), [0] * 5000], ids=["many places", "one place"])
def test_items_without_end_break_the_stream(places: range | list[int]) -> None:
    """Each is remembered, so that calls never repeat an identifier."""
    events = (
        {"type": "response.output_item.done", "output_index": place, "item": function_call("", "c", "f", "")}
        for place in places
    )
    reader = ResponsesStreamReader("seed")
    found = reader.feed(b"".join(map(sse, events)))
    assert isinstance(found[-1], Broke)
    assert reader.feed(sse({"type": "response.completed", "response": response([])})) == []
