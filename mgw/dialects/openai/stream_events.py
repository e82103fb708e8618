"""What the events of passing streams of chat completions, and of completions, mean for their end.

A chunk is an error where it has one at its top or, with OpenRouter, in a choice, and where it has no choices
and is one in whatever shape.  A choice ends with its ``finish_reason``.

Source: the SDK's ``ChatCompletionChunk`` and ``Completion``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from msgspec import DecodeError, Struct
from msgspec.json import Decoder

from mgw.canonical.reply import UpstreamError
from mgw.dialects.last_event import EventPattern
from mgw.dialects.openai.errors import is_error, parse_stream_error
from mgw.dialects.stream_end import StreamEvents, tells_error
from mgw.wire.byte_search import LONG_BYTES, holds
from mgw.wire.sse import Event

MAX_CHOICES: Final = 128
"""The most that the reference lets anybody ask for."""
_UNREADABLE: Final = (DecodeError, UnicodeDecodeError, RecursionError)
_SPOKEN: Final = ("delta", "message")
"""Where a choice has its words."""


class _Choice(Struct):
    """Any: hosts write all kinds of types."""

    index: Any = 0
    finish_reason: Any = None
    error: Any = None


class _Chunk(Struct):
    choices: list[_Choice] | None = None
    error: Any = None
    x_groq: Any = None


class _Asked(Struct):
    n: Any = None


_CHUNK: Final = Decoder(_Chunk)
_ASKED: Final = Decoder(_Asked)
_ANY: Final = Decoder()


def find_error(event: Event) -> UpstreamError | None:
    """Return the error that an event is."""
    data = event.data
    if event.event == b"error":  # as other dialects spell it
        return parse_stream_error(data)
    try:
        chunk = _CHUNK.decode(data)
    except _UNREADABLE:
        return parse_stream_error(data) if is_error(data) or tells_error(data) else None
    if chunk.error or (type(chunk.x_groq) is dict and chunk.x_groq.get("error")):
        return parse_stream_error(data)
    if not chunk.choices:
        return parse_stream_error(data) if is_error(data) else None
    for choice in chunk.choices:
        if choice.error:
            return parse_stream_error(data)
    return None


def ended_choices(event: Event) -> Iterator[int]:
    """Yield the choices that have a finish reason."""
    try:
        chunk = _CHUNK.decode(event.data)
    except _UNREADABLE:
        return
    for choice in chunk.choices or ():
        if type(choice.finish_reason) is str and choice.finish_reason:
            yield choice.index if type(choice.index) is int else 0


def says_nothing(event: Event) -> bool:
    """Whether a chunk has no choices, or none of them has a word or an end."""
    try:
        chunk = _ANY.decode(event.data)
    except _UNREADABLE:
        return False
    if type(chunk) is not dict:
        return False
    choices = chunk.get("choices")
    return not choices or (type(choices) is list and all(_is_silent(choice) for choice in choices))


def _is_silent(choice: Any) -> bool:  # Any: JSON of whatever type
    if type(choice) is not dict or choice.get("finish_reason") or choice.get("text"):
        return False
    words = [choice[key] for key in _SPOKEN if choice.get(key)]
    return all(
        type(spoken) is dict and all(name == "role" or not value for name, value in spoken.items())
        for spoken in words
    )


def count_choices(body: bytes) -> int:
    """Return how many choices a request asks for."""
    if not (b'"n"' in body if len(body) <= LONG_BYTES else holds(body, b'"n"')):
        return 1
    try:
        asked = _ASKED.decode(body).n
    except _UNREADABLE:
        return 1
    return min(asked, MAX_CHOICES) if type(asked) is int and asked > 0 else 1


_LAST: Final = EventPattern((b"[DONE]",), re.compile(rb"[\r\n]data: ?\[DONE\]"), bare=True)
STREAM_EVENTS: Final = StreamEvents(
    (b"error", b'"finish_reason":"', b'"finish_reason": "'),
    find_error,
    ended_choices,
    says_nothing,
    _LAST,
    goes_on=(b'"choices":[{', b'"choices": [{'),
    count_choices=count_choices,
)
