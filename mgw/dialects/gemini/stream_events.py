"""What the events, or elements, of passing streams of generateContent mean for their end.

A candidate ends with its ``finishReason``, which some hosts repeat in every event, so that
:mod:`mgw.dialects.last_event` looks at what comes behind it.  A prompt that was blocked has no candidate.

Source: ``GenerateContentResponse`` of google-genai.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from msgspec import DecodeError
from msgspec.json import Decoder

from mgw.canonical.reply import UpstreamError
from mgw.dialects.gemini.errors import find_error as find_error_in
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
    """Return the error that an event or an element is."""
    found = _decode(event.data)
    if found is None:
        return find_error_in(event.data) if tells_error(event.data) else None
    is_response = type(found) is dict and not found.get("error")
    return None if is_response else find_error_in(event.data)


def ended_choices(event: Event) -> Iterator[int]:
    """Yield the one answer where the prompt was blocked."""
    if _is_blocked(_decode(event.data)):
        yield 0


def says_nothing(event: Event) -> bool:
    """Whether there is neither a candidate nor a reason why there is none."""
    found = _decode(event.data)
    return type(found) is dict and not found.get("candidates") and not _is_blocked(found)


def _is_blocked(found: Any) -> bool:  # Any: JSON of whatever type
    feedback = found.get("promptFeedback") if type(found) is dict else None
    return type(feedback) is dict and bool(feedback.get("blockReason"))


_LAST: Final = EventPattern(
    (b'"finishReason"',), re.compile(rb'"finishReason"\s*:\s*"'), goes_on=b'"candidates"'
)
STREAM_EVENTS: Final = StreamEvents(
    (b'"error"', b'"blockReason"'), find_error, ended_choices, says_nothing, _LAST
)
