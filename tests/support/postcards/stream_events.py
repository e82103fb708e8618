"""What the events of passing streams mean for their end."""

from __future__ import annotations

import re
from collections.abc import Iterator

from mgw.canonical.reply import UpstreamError
from mgw.dialects.last_event import EventPattern
from mgw.dialects.stream_end import StreamEvents
from mgw.wire.sse import Event
from tests.support.postcards.errors import find_error as find_error_in


def find_error(event: Event) -> UpstreamError | None:
    return find_error_in(event.data)


def ended_choices(event: Event) -> Iterator[int]:
    if event.data.lstrip().startswith(b'{"end"'):
        yield 0


def says_nothing(event: Event) -> bool:
    return False


STREAM_EVENTS = StreamEvents(
    (b'"sorry"', b'"end"'),
    find_error,
    ended_choices,
    says_nothing,
    EventPattern((b'{"end"',), re.compile(rb'data: \{"end"[^\n]*\}'), bare=True),
)
