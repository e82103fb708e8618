"""Each limit of what a dialect reads and writes: exactly so much passes, and one more does not."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Final

import pytest

from mgw.canonical.reply import (
    ArgumentsAdded,
    Began,
    CallBegan,
    ReplyEvent,
    TextAdded,
    ThinkingAdded,
)
from mgw.dialects import serial_writer
from mgw.dialects.anthropic import stream_writer as messages
from mgw.dialects.dialect import ReplyContext, ReplySource
from mgw.dialects.gemini import speech
from mgw.dialects.gemini import stream_writer as gemini
from mgw.dialects.openai import calls, stream_events
from mgw.dialects.openai import stream_writer as chat
from mgw.dialects.openai.stream_events import count_choices
from mgw.dialects.responses import stream_writer as responses
from mgw.dialects.stream import StreamWriter
from mgw.nouns.errors import GatewayError
from tests.support.chat_streams import call, chunk, read

CONTEXT: Final = ReplyContext("req_1", "model-1", 1_770_000_000)
TWO_CALLS: Final[list[ReplyEvent]] = [Began(), CallBegan(0, "1", "a"), CallBegan(1, "2", "b")]


def breaks(writer: StreamWriter, *events: ReplyEvent) -> bool:
    """Whether a stream ends because there is too much of something."""
    return b" too l" in writer.write(events)


def holds_arguments(size: int) -> bool:
    """Whether so much waits for the end of another call."""
    writer = messages.MessagesStreamWriter(CONTEXT)
    writer.write(TWO_CALLS)
    beside = writer._held + serial_writer.STRING_BYTES
    return not breaks(writer, ArgumentsAdded(1, "x" * (size - beside)))


def holds_call_of_gemini(size: int) -> bool:
    """Whether the arguments of a call are kept until they are whole."""
    writer = gemini.ContentStreamWriter(CONTEXT)
    writer.write([Began(), CallBegan(0, "1", "f"), ArgumentsAdded(0, "x")])
    return not breaks(writer, ArgumentsAdded(0, "x" * (size - 1)))


def holds_thought(size: int) -> bool:
    """Whether a thought is kept for its signature, in two parts."""
    writer = chat.ChatStreamWriter(CONTEXT)
    writer.write([Began(), ThinkingAdded("x")])
    return not breaks(writer, ThinkingAdded("x" * (size - 1)))


def keeps_output(size: int) -> bool:
    """Whether the last event of a response can repeat so many bytes of text."""
    writer = responses.ResponsesStreamWriter(CONTEXT)
    return not breaks(writer, Began(), TextAdded("x"), TextAdded("x" * (size - 1)), TextAdded("x"))


def holds_blanks(size: int) -> bool:
    """Whether so much white space waits for text."""
    writer = messages.MessagesStreamWriter(CONTEXT)
    writer.write([Began(), TextAdded(" ")])
    return not writer.write([TextAdded(" " * (size - 1))])


def reads_arguments(size: int) -> bool:
    """Whether so much of a call is kept until its name has come."""
    arguments = '{"a":"' + "x" * (size - 8) + '"}'
    unnamed, named = call(0, "1", None, arguments), call(0, "1", "f")
    deltas = [chunk({"tool_calls": [part]}) for part in (unnamed, named)]
    events = read(*deltas, chunk(finish="tool_calls"))
    return ArgumentsAdded(0, arguments) in events


def reads_choices(count: int) -> bool:
    """Whether so many choices of a stream that is passed on are waited for."""
    return count_choices(b'{"n":%d}' % count) == count


def tells_reason(size: int) -> bool:
    """Whether a word of Gemini's for why there is no speech is told whole."""
    word = "X" * size
    reply = {"candidates": [{"finishReason": word}]}
    try:
        speech.parse_reply(json.dumps(reply).encode(), ReplySource("seed"))
    except GatewayError as error:
        return word in error.message
    raise AssertionError


LIMITS: Final[dict[str, tuple[Callable[[int], bool], int]]] = {
    "held behind a call": (holds_arguments, serial_writer.MAX_HELD),
    "a call of Gemini": (holds_call_of_gemini, gemini.MAX_HELD_CHARACTERS),
    "a thought in chat": (holds_thought, chat.MAX_HELD),
    "a response": (keeps_output, responses.MAX_KEPT_BYTES),
    "white space": (holds_blanks, messages.MAX_BLANK),
    "arguments without a name": (reads_arguments, calls._MAX_HELD),
    "choices of chat that pass": (reads_choices, stream_events.MAX_CHOICES),
    "a reason of Gemini": (tells_reason, speech._MAX_CHARACTERS),
    "choices of chat": (
        lambda count: bool(chat.ChatStreamWriter(CONTEXT).write([TextAdded("a", count - 1)])),
        chat._MAX_CHOICES,
    ),
}


@pytest.mark.parametrize("name", LIMITS)
def test_exactly_so_much_passes_and_one_more_does_not(name: str) -> None:
    takes, limit = LIMITS[name]
    assert (takes(limit), takes(limit + 1)) == (True, False)
