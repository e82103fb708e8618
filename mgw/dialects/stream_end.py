"""How a relayed stream ends: with the provider's own error, complete, or too early.

The bytes pass as they come; a meter, which sees whole events, shows those that may tell something about the
end.  Each dialect has marks that stand in every such event and seldom elsewhere, and only events with a mark
are read.  One is the bare word ``error``: it may be a key, or the name of an event whose data lacks it.

That the dialect's last event has passed is known from :mod:`mgw.dialects.last_event`, which needs no event
to be whole.  Source: contract 7.4.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from msgspec import Struct

from mgw.canonical.reply import UpstreamError
from mgw.dialects.last_event import EventPattern
from mgw.dialects.refusal import proxy_message
from mgw.wire.sse import Event


def _data(event: Event, _: UpstreamError) -> bytes:
    """The event is what the body would have been."""
    return event.data


def _one_choice(_: bytes) -> int:
    """There is never more than one."""
    return 1


def tells_error(data: bytes) -> bool:
    """Whether words without any JSON, as proxies write them, speak of an error."""
    return b"error" in data.lower() and bool(proxy_message(data))


class StreamEvents(Struct, frozen=True):
    """What the events of a dialect's streams mean for a stream that is passed on."""

    marks: tuple[bytes, ...]
    """One of them stands in each event that is an error, or ends a choice."""
    find_error: Callable[[Event], UpstreamError | None]
    """The provider's own error that an event is; ``None``: it is none."""
    ended_choices: Callable[[Event], Iterable[int]]
    """The choices that an event ends, by their index; never raises."""
    says_nothing: Callable[[Event], bool]
    """Whether an event tells nothing of the answer yet: an error behind it may still lead elsewhere."""
    last: EventPattern
    """What the last one looks like."""
    goes_on: tuple[bytes, ...] = ()
    """One of them stands in each event that says more of an answer."""
    error_body: Callable[[Event, UpstreamError], bytes] = _data
    """What would have been the body of a response that is this error."""
    count_choices: Callable[[bytes], int] = _one_choice
    """How many choices a request's JSON body asks for."""


class StreamEnd:
    """What the events of one stream have told of its end so far."""

    __slots__ = ("_choices", "_ended", "_events", "complete", "error", "is_unknown", "marks", "went_on")

    def __init__(self, events: StreamEvents, choices: int = 1) -> None:
        self.marks = events.marks
        self._events = events
        self._choices = choices
        self._ended: set[int] = set()
        self.error: UpstreamError | None = None
        """The provider's own, which ends the stream."""
        self.complete = False
        """Whether nothing is missing: every choice has ended, or the provider has said why none will."""
        self.is_unknown = False
        """Whether an event could not be shown, which may have been the last."""
        self.went_on = False
        """Whether more came behind the end of every choice: this host's reasons to end say nothing of it."""

    def look_behind(self, data: bytes) -> None:
        """Look at a piece that came behind the end of every choice."""
        self.went_on = False
        for mark in self._events.goes_on:
            if mark in data:
                self.went_on = True

    def read(self, event: Event) -> None:
        """Take an event in which a mark stands."""
        if self.error is not None:
            return
        self.error = self._events.find_error(event)
        if self.error is not None:
            self.complete = True
            return
        for choice in self._events.ended_choices(event):
            if len(self._ended) < self._choices:
                self._ended.add(choice)
        self.complete = len(self._ended) >= self._choices
