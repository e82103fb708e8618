"""What the events of passing streams of messages mean for their end.

A message ends with the stop reason in ``message_delta``; ``message_stop`` says nothing more.

Source: the SDK's ``RawMessageStreamEvent``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from msgspec import DecodeError
from msgspec.json import Decoder

from mgw.canonical.reply import UpstreamError
from mgw.dialects.anthropic.errors import find_error as find_error_in
from mgw.dialects.anthropic.errors import parse_stream_error
from mgw.dialects.last_event import EventPattern
from mgw.dialects.stream_end import StreamEvents, tells_error
from mgw.wire.sse import Event

_ANY: Final = Decoder()


def _decode(data: bytes) -> Any:  # Any: JSON of whatever type
    try:
        return _ANY.decode(data)
    except (DecodeError, UnicodeDecodeError, RecursionError):
        return None


def find_error(event: Event) -> UpstreamError | None:
    """Return the error that an event is."""
    data = event.data
    if event.event == b"error":
        return parse_stream_error(data)
    found = _decode(data)
    if found is None:
        return parse_stream_error(data) if tells_error(data) else None
    kind = found.get("type") if type(found) is dict else None
    return find_error_in(data) if not kind or kind == "error" else None


def ended_choices(event: Event) -> Iterator[int]:
    """Yield the one answer where its stop reason has come."""
    found = _decode(event.data)
    if type(found) is dict and found.get("type") == "message_delta":
        delta = found.get("delta")
        if type(delta) is dict and type(delta.get("stop_reason")) is str:
            yield 0


def says_nothing(event: Event) -> bool:
    """Whether it is a ping, or the beginning of a message without any content."""
    found = _decode(event.data)
    if type(found) is not dict:
        return False
    if found.get("type") != "message_start":
        return found.get("type") == "ping"
    message = found.get("message") or {}
    return type(message) is dict and not message.get("content") and not message.get("stop_reason")


_LAST: Final = EventPattern(
    (b"message_stop",),
    re.compile(rb'[\r\n](?:event: ?message_stop[\r\n]|data: ?\{\s*"type"\s*:\s*"message_stop")'),
    bare=True,
)
STREAM_EVENTS: Final = StreamEvents(
    (b"error", b'"stop_reason":"', b'"stop_reason": "'),
    find_error,
    ended_choices,
    says_nothing,
    _LAST,
    goes_on=(b"content_block",),
)
