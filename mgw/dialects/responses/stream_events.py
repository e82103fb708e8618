"""What the events of passing streams of Responses mean for their end.

``response.completed`` and ``response.incomplete`` are answers, ``response.failed`` and ``error`` are errors.

Source: the SDK's ``ResponseStreamEvent``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from msgspec import DecodeError, Raw, Struct
from msgspec.json import Decoder

from mgw.canonical.reply import UpstreamError
from mgw.dialects.billing import NO_VALUE
from mgw.dialects.last_event import EventPattern
from mgw.dialects.openai.errors import is_error, render_error
from mgw.dialects.responses.errors import parse_event_error
from mgw.dialects.stream_end import StreamEvents, tells_error
from mgw.wire.sse import Event

_FAILED: Final = "response.failed"
_SILENT: Final = frozenset({"response.created", "response.queued", "response.in_progress"})
_ENDS: Final = frozenset({"response.completed", "response.incomplete"})


class _StreamEvent(Struct):
    """Any: hosts write all kinds of types."""

    type: Any = None
    error: Any = None
    response: Raw = NO_VALUE


_DECODER: Final = Decoder(_StreamEvent)


def _decode(event: Event) -> tuple[str, _StreamEvent] | None:
    """Return an event and its type, which its JSON says, or else its name."""
    try:
        found = _DECODER.decode(event.data)
    except (DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return (found.type if type(found.type) is str else event.event.decode("latin-1")), found


def find_error(event: Event) -> UpstreamError | None:
    """Return the error that an event is."""
    data, decoded = event.data, _decode(event)
    if decoded is None:
        is_told = event.event == b"error" or is_error(data) or tells_error(data)
        return parse_event_error(data) if is_told else None
    kind, found = decoded
    if kind == _FAILED:
        return parse_event_error(bytes(found.response) or data)
    is_told = bool(found.error) or kind == "error" or (not kind and is_error(data))
    return parse_event_error(data) if is_told else None


def ended_choices(event: Event) -> Iterator[int]:
    """Yield the one answer where its terminal event has come."""
    decoded = _decode(event)
    if decoded is not None and decoded[0] in _ENDS:
        yield 0


def says_nothing(event: Event) -> bool:
    """Whether the response has been announced, and no more."""
    decoded = _decode(event)
    return decoded is not None and decoded[0] in _SILENT


def error_body(_: Event, error: UpstreamError) -> bytes:
    """Return an error as the body of a response, whose shape no event of a stream has."""
    return render_error(error, "")[1]


_LAST_TYPE: Final = rb"response\.(?:completed|incomplete|failed)"
_LAST: Final = EventPattern(
    (b"response.completed", b"response.incomplete", b"response.failed"),
    re.compile(rb'[\r\n](?:event: ?%b[\r\n]|data: ?\{\s*"type"\s*:\s*"%b")' % (_LAST_TYPE, _LAST_TYPE)),
)
STREAM_EVENTS: Final = StreamEvents(
    (b"error", b"response.failed", b"response.completed", b"response.incomplete"),
    find_error,
    ended_choices,
    says_nothing,
    _LAST,
    error_body=error_body,
)
