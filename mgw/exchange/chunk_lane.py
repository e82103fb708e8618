"""A chunk of a relayed stream goes out as the bytes that it came in, where nothing in it is to be looked at.

Most chunks of a stream are whole events that say another word.  The relay, the filter, the meter and the
search for the last event would each look at such a chunk, find nothing, and hand it on; here that is one
step.  What they look for is theirs to know: a chunk in which one of their marks stands, or that is no whole
event, goes the ordinary way, and so does each that comes while they wait for the end of something.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from mgw.dialects.last_event import TAIL_BYTES, LastEvent
from mgw.dialects.metering import EventStreamMeter
from mgw.exchange.response_channel import ChunkWriter
from mgw.exchange.silence import Silence

EventLookers = tuple[EventStreamMeter, LastEvent]
"""Who looks at the pieces of a stream of events that is passed on as it comes."""


class EventFilter(Protocol):
    """The filter that a chunk does not go through."""

    @property
    def finished(self) -> bool:
        """Whether the last word of the stream has passed."""
        ...


@dataclass(slots=True, eq=False, repr=False)
class ChunkLane:
    """The short way of one stream; see :class:`~mgw.upstream.response.ChunkReceiver`."""

    writer: ChunkWriter
    body_filter: EventFilter
    meter: EventStreamMeter
    last_event: LastEvent
    silence: Silence | None
    """The silence towards the client, which keep-alives break."""

    def pass_chunk(self, data: bytes, start: int, stop: int) -> bool:
        """Send a chunk to the client, and note what all others would have noted of its content."""
        meter, last_event = self.meter, self.last_event
        if meter.is_open or last_event.seen or self.body_filter.finished:
            return False
        content = data[start:stop]
        before, behind = meter.shape
        if not (
            content.startswith(before)
            and content.endswith(behind)
            and b'"' not in content[len(before) : -len(behind)]
        ) and not meter.finds_nothing(content):
            return False
        looked = last_event.tail + content
        for mark in last_event.marks:
            if mark in looked:
                return False
        last_event.tail = looked[-TAIL_BYTES:]
        if self.silence is not None:
            self.silence.deadline.start(self.silence.seconds)
        self.writer.write_chunk(data, start, stop)
        return True
