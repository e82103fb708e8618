"""Fast paths are used: what most requests and answers hold costs few calls for each element.

The results are the same without them, so no other test notices when one is no longer taken.  Each row also
has an input for which it is not taken; that has to cost more than the bar, or the bar would hold nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

import pytest
from msgspec import Struct

from mgw.dialects import client_side_of
from mgw.dialects.dialect import RequestContext
from mgw.http.body import ChunkedResponseBody
from mgw.nouns.vocabulary import DialectName
from mgw.wire.nested_strings import find_nested_strings
from mgw.wire.sse import EventReader
from tests.support.calls import count_calls

Json = Any  # Any: JSON

_MANY: Final = 50
_HELLO: Final = {"role": "user", "content": "Hello."}


class Path(Struct, frozen=True):
    """A fast path, what takes it, and what does not."""

    read: Callable[[bytes], object]
    body: Callable[[int], bytes]
    """With so many elements."""
    spoiled: tuple[bytes, bytes]
    """What is replaced in a body, so that the path is not taken."""
    most_calls: float
    """For each element."""


def asked(dialect: DialectName) -> Callable[[bytes], object]:
    side = client_side_of(dialect).text
    return lambda body: side.parse_request(body, RequestContext("m"))


def repeated(key: str, *elements: Json, **beside: Json) -> Callable[[int], bytes]:
    """A document with a list in which these elements stand again and again."""
    return lambda count: json.dumps({"model": "m", **beside, key: [*elements] * count}).encode()


def gemini(*contents: Json) -> Callable[[int], bytes]:
    return repeated("contents", *contents, tools=[{"functionDeclarations": [{"name": "look"}]}])


def beside(member: bytes) -> tuple[bytes, bytes]:
    """A null beside a member says nothing, but has an object opened."""
    return member, member + b', "unknown_key": null'


GEMINI: Final = asked(DialectName.GEMINI)
MESSAGES: Final = asked(DialectName.ANTHROPIC)
CHAT: Final = asked(DialectName.OPENAI_CHAT)
RESPONSES: Final = asked(DialectName.OPENAI_RESPONSES)

GEMINI_CALLS: Final = gemini(
    {"role": "model", "parts": [{"functionCall": {"name": "look", "args": {"at": 1}}}]},
    {"role": "user", "parts": [{"functionResponse": {"name": "look", "response": {"result": "There."}}}]},
)
GEMINI_CALLS_WITH_ID: Final = gemini(
    {"role": "model", "parts": [{"functionCall": {"id": "c", "name": "look", "args": {"at": 1}}}]},
    {"role": "user", "parts": [{"functionResponse": {"id": "c", "name": "look", "response": {"a": 1}}}]},
)
GEMINI_TEXTS: Final = gemini(
    {"role": "user", "parts": [{"text": "Hello."}]}, {"role": "model", "parts": [{"text": "Good day."}]}
)
TURN: Final = {"role": "user", "parts": [{"text": "Hello."}]}
MESSAGES_CALLS: Final = repeated(
    "messages",
    {
        "role": "assistant",
        "content": [
            {"type": "text", "text": "I look."},
            {"type": "tool_use", "id": "c", "name": "look", "input": {"at": 1}},
        ],
    },
    {
        "role": "user",
        "content": [
            {"type": "tool_result", "tool_use_id": "c", "content": [{"type": "text", "text": "There."}]}
        ],
    },
    max_tokens=9,
)
CHAT_CALLS: Final = repeated(
    "messages",
    {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"id": "c", "type": "function", "function": {"name": "look", "arguments": "{}"}}],
    },
    {"role": "tool", "tool_call_id": "c", "content": "There."},
)
RESPONSES_CALLS: Final = repeated(
    "input",
    {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hello."}]},
    {"type": "function_call", "call_id": "c", "name": "look", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "c", "output": "There."},
)


def tools(count: int) -> bytes:
    """A request with so many functions, each with a name of its own."""
    schema = {"type": "object", "properties": {}}
    beside = {"type": "function", "description": "Look.", "parameters": schema, "strict": False}
    functions = [{"name": f"look_{number}", **beside} for number in range(count)]
    return json.dumps({"model": "m", "input": "Hello.", "tools": functions}).encode()


SHORT: Final = {
    "temperature": 0.5,
    "system": "Be brief.",
    "stream": False,
    "stop_sequences": ["x", "y"],
    "metadata": {"user_id": "ann"},
    "tools": [{"name": "look"}],
    "messages": [_HELLO],
}
BATCH: Final = repeated("requests", {"custom_id": "r", "params": {"model": "m", "max_tokens": 1, **SHORT}})
SPOT: Final = ("requests", None, "params", "model")

CUT: Final = b"|"
"""Where the bytes of a body are cut into pieces."""


def read_chunks(body: bytes) -> None:
    reader = ChunkedResponseBody([])
    for piece in body.split(CUT):
        reader.feed(piece)


def read_events(body: bytes) -> None:
    reader = EventReader()
    reader.feed(b": the stream has begun\n\n")
    reader.feed(body)


PATHS: Final = {
    "gemini, calls": Path(GEMINI, GEMINI_CALLS, beside(b'"name": "look"'), 42),
    "gemini, calls alone": Path(GEMINI, GEMINI_CALLS, beside(b'"args": {"at": 1}'), 42),
    "gemini, results alone": Path(GEMINI, GEMINI_CALLS, beside(b'"response": {"result": "There."}'), 42),
    "gemini, calls with an id": Path(GEMINI, GEMINI_CALLS_WITH_ID, beside(b'"id": "c"'), 42),
    "gemini, texts": Path(GEMINI, GEMINI_TEXTS, beside(b'"text": "Hello."'), 12),
    "gemini, instructions": Path(
        GEMINI,
        lambda count: json.dumps(
            {"contents": [TURN], "tools": [], "systemInstruction": {"parts": [{"text": "Be brief."}] * count}}
        ).encode(),
        beside(b'"text": "Be brief."'),
        2,
    ),
    "messages, calls": Path(MESSAGES, MESSAGES_CALLS, beside(b'"name": "look"'), 12),
    "messages, texts": Path(MESSAGES, MESSAGES_CALLS, beside(b'"text": "I look."'), 12),
    "messages, results": Path(MESSAGES, MESSAGES_CALLS, beside(b'"text": "There."'), 12),
    "chat, calls": Path(CHAT, CHAT_CALLS, beside(b'"name": "look"'), 19),
    "chat, results": Path(CHAT, CHAT_CALLS, beside(b'"content": "There."'), 19),
    "responses, texts": Path(RESPONSES, RESPONSES_CALLS, beside(b'"text": "Hello."'), 24),
    "responses, calls": Path(RESPONSES, RESPONSES_CALLS, beside(b'"name": "look"'), 24),
    "responses, results": Path(RESPONSES, RESPONSES_CALLS, beside(b'"output": "There."'), 24),
    "responses, tools": Path(RESPONSES, tools, beside(b'"strict": false'), 8),
    "a batch of requests": Path(
        lambda body: find_nested_strings(body, SPOT), BATCH, (b'"Be brief."', b'"%b"' % (b"x" * 100)), 7
    ),
    "chunks of a body": Path(
        read_chunks, lambda count: b"5\r\nhello\r\n" * count, (b"hello", b"he" + CUT + b"llo"), 1.5
    ),
    "events of a stream": Path(
        read_events, lambda count: b"event: a\ndata: {}\n\n" * count, (b"event: a\n", b"id: 1\n"), 0.5
    ),
}


def calls_for_each(path: Path, *, spoiled: bool = False) -> float:
    """What one more element costs: a number that knows nothing of what a body costs as such."""
    few, many = path.body(_MANY), path.body(2 * _MANY)
    if spoiled:
        few, many = few.replace(*path.spoiled), many.replace(*path.spoiled)
    path.read(many)
    return (count_calls(lambda: path.read(many)) - count_calls(lambda: path.read(few))) / _MANY


@pytest.mark.parametrize("path", PATHS.values(), ids=PATHS)
def test_what_is_usual_takes_few_calls(path: Path) -> None:
    assert calls_for_each(path) <= path.most_calls


@pytest.mark.parametrize("path", PATHS.values(), ids=PATHS)
def test_the_bar_is_below_what_it_costs_without_the_fast_path(path: Path) -> None:
    assert calls_for_each(path, spoiled=True) > path.most_calls
