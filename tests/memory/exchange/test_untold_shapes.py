"""Reading what is estimated holds nobody up, and holds little, whatever it looks like.

What is measured is the CPU time of the process, so that a busy machine fails no test.
"""

from __future__ import annotations

import gzip
import tracemalloc
from collections.abc import Callable
from threading import Thread
from time import process_time, sleep
from typing import NamedTuple

import pytest

from mgw.dialects.dialect import RequestContext
from mgw.exchange.answer_copy import AnswerCopy
from mgw.exchange.untold import _count_request
from mgw.nouns.vocabulary import DialectName
from mgw.routing.text_routes import TEXT_ROUTES
from tests.support.chat_streams import chunk, sse
from tests.support.repeated import MIB

MOST_MS = 250.0
SSE, JSON = b"text/event-stream", b"application/json"
CHAT = DialectName.OPENAI_CHAT


class Shape(NamedTuple):
    """An answer, and how it comes."""

    dialect: DialectName | None
    content_type: bytes
    body: Callable[[], bytes]
    piece: int = 64 * 1024
    coding: bytes = b""


def many_calls() -> bytes:
    calls = ({"index": call % 500, "function": {"arguments": "a"}} for call in range(20_000))
    return b"".join([chunk({"tool_calls": [call]}, index=at % 128) for at, call in enumerate(calls)])


ODD = b'data: {"type":"x"}\n\n'
CALLS = b'{"choices":[{"message":{"tool_calls":['
TINY = b'data: {"choices":[{"delta":{"content":"a"}}]}\n\n'
SHAPES = {
    "tiny events": Shape(CHAT, SSE, lambda: TINY * 90_000),
    "tiny events in large pieces": Shape(CHAT, SSE, lambda: TINY * 90_000, MIB),
    "tiny events, byte by byte": Shape(CHAT, SSE, lambda: TINY * 4_000, 1),
    "tiny events, compressed": Shape(CHAT, SSE, lambda: gzip.compress(TINY * 60_000), 512, b"gzip"),
    "calls of many candidates": Shape(CHAT, SSE, many_calls),
    "one large event": Shape(CHAT, SSE, lambda: sse({"choices": [{"delta": {"content": "a " * 2 * MIB}}]})),
    "an event without an end": Shape(CHAT, SSE, lambda: b"data: x\n" * MIB),
    "line ends": Shape(CHAT, SSE, lambda: b"\n" * 4 * MIB),
    "events that nobody knows": Shape(DialectName.ANTHROPIC, SSE, lambda: ODD * 200_000),
    "completions": Shape(None, SSE, lambda: b'data: {"choices":[{"text":"a"}]}\n\n' * 120_000),
    "a long body of words": Shape(CHAT, JSON, lambda: b"[" + b'{"text":"a"},' * 600_000),
    "a body of quotes": Shape(CHAT, JSON, lambda: b'"text":"' * MIB),
    "thousands of calls": Shape(
        CHAT,
        JSON,
        lambda: CALLS + b'{"function":{"name":"f"}},' * 100_000,
    ),
}


@pytest.mark.parametrize("name", SHAPES)
def test_no_answer_holds_others_up_for_long(name: str) -> None:
    shape = SHAPES[name]
    body, longest = shape.body(), 0.0
    copy = AnswerCopy(shape.dialect, "seed", in_pieces=False)
    copy.begin(shape.content_type, shape.coding)
    for at in range(0, len(body), shape.piece):
        piece, began = body[at : at + shape.piece], process_time()
        copy.add(piece)
        longest = max(longest, process_time() - began)
    began = process_time()
    copy.estimate(1.0)
    assert max(longest, process_time() - began) * 1000 < MOST_MS


COMPLETIONS = next(route for route in TEXT_ROUTES if route.name == "completions")
REQUESTS = {
    "words that are nearly base64": (b"a" * 1000 + b" ", 4, 505_000),
    "words": (b"hello world ", 30, 5_600_000),
    "base64": (b"a" * 1024, 30, 1_010),
    "escaped quotes": (b'\\"', 30, 20_000_000),
}
"""What a prompt repeats, how many MiB of it there are, and about how many tokens."""


@pytest.mark.parametrize("name", REQUESTS)
def test_no_request_holds_others_up_for_long(name: str) -> None:
    unit, mib, tokens = REQUESTS[name]
    body = b'{"model":"m","prompt":"%b"}' % (unit * (mib * MIB // len(unit)))
    context = RequestContext("m", False, None)
    found: list[int] = []
    thread = Thread(target=lambda: found.append(_count_request(COMPLETIONS, body, context, 1.0)))
    longest, last = 0.0, process_time()
    thread.start()
    while thread.is_alive():
        now = process_time()
        longest, last = max(longest, now - last), now
        sleep(0.0)
    assert longest * 1000 < MOST_MS / 2
    assert found == [pytest.approx(tokens, rel=0.05)]


@pytest.mark.parametrize("name", ["tiny events", "line ends", "completions"])
def test_of_a_long_stream_little_is_kept(name: str) -> None:
    shape = SHAPES[name]
    body = shape.body()
    copy = AnswerCopy(shape.dialect, "seed", in_pieces=False)
    tracemalloc.start()
    try:
        copy.begin(shape.content_type, shape.coding)
        for at in range(0, len(body), 1000):
            copy.add(body[at : at + 1000])
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < MIB
