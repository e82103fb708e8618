"""Whether a client received the last event of its stream; what follows does not matter to it.

A client may close its connection as soon as it has read that event, before the provider's last chunk has come
(contract 7.4).  Each dialect has a mark that is looked for in every piece, which costs next to nothing;
only where it stands the piece is looked at more closely.  JSON text holds no line breaks, so what begins a
line of an event stream is never a client's or a model's own text.

The events: ``data: [DONE]`` of chat completions, ``message_stop`` of messages, ``response.completed`` and its
like of Responses, and of Gemini the event or the element of the array with a ``finishReason``, unless
another candidate goes on behind it.  Each dialect's ``stream_events`` says what its own looks like.
"""

from __future__ import annotations

import re
from typing import Final

from msgspec import Struct

TAIL_BYTES: Final = 64
"""The bytes of the pieces before that are kept, which a mark may need."""
_LARGE: Final = 64 * 1024
_EVENT_BEGIN: Final = b"\n\n"
_EVENT_END: Final = re.compile(rb"\n\r?\n|\r\r")
_ELEMENT_END: Final = re.compile(rb"\}\s*[,\]]?\s*\Z")


class EventPattern(Struct, frozen=True):
    """What the last event of a dialect looks like."""

    marks: tuple[bytes, ...]
    event: re.Pattern[bytes]
    bare: bool = False
    """Whether there is nothing in the event that a client could miss."""
    goes_on: bytes | None = None
    """What stands in every event of which another may be the last one."""


class LastEvent:
    """Looks at the pieces of a stream as they are handed on; ``passed`` says whether the last event was."""

    __slots__ = ("_array", "_pattern", "marks", "passed", "seen", "tail", "went_on")

    def __init__(self, pattern: EventPattern) -> None:
        self._pattern = pattern
        self.marks = pattern.marks
        """One of them stands where an event may be the last one."""
        self._array: bool | None = None
        self.seen = False
        """Whether an event was that looked like the last one."""
        self.tail = _EVENT_BEGIN
        """How ended what came so far."""
        self.passed = False
        self.went_on = False
        """Whether more came behind what looked like the last event, which some hosts say in every event."""

    def feed(self, data: bytes) -> None:
        """Look at the next piece."""
        pattern = self._pattern
        if self._array is None:
            self._array = data.lstrip()[:1] == b"["
        looked = self.tail + data if self.seen or len(data) < _LARGE else self._shortened(data)
        for mark in pattern.marks:
            if mark in looked:
                self._look(looked, [found.end() for found in pattern.event.finditer(looked)])
                break
        else:
            if self.seen:
                self._look(looked, [])
        self.tail = looked[-TAIL_BYTES:]

    def _shortened(self, data: bytes) -> bytes:
        """Return what may hold a mark: a large piece is not copied but where one stands in it."""
        for mark in self._pattern.marks:
            if mark in data:
                return self.tail + data
        return self.tail + data[:TAIL_BYTES] + b" " + data[-TAIL_BYTES:]

    def _look(self, looked: bytes, ends: list[int]) -> None:
        """Know what the bytes so far come to, wherever they were cut.

        :param looked: the next piece, behind what is kept of those before.
        :param ends: the places behind each mark of a last event in it.
        """
        pattern = self._pattern
        more = -1 if pattern.goes_on is None else self._find_more(looked, pattern.goes_on, ends)
        if ends:
            self.seen, self.passed = more < ends[-1], False
            looked = looked[ends[-1] :]
        elif more >= 0:
            self.seen = self.passed = False
        if not self.seen:
            return
        if pattern.bare:
            self.passed = True
        elif self._array:
            self.passed = _ELEMENT_END.search(looked) is not None
        elif not self.passed:
            self.passed = _EVENT_END.search(looked) is not None

    def _find_more(self, looked: bytes, goes_on: bytes, ends: list[int]) -> int:
        """Return the last place of what goes on behind something that looked like the last event, or -1."""
        more = looked.rfind(goes_on)
        is_behind = bool(ends) and more > ends[0]
        if more < 0 or not (is_behind or (self.seen and more + len(goes_on) > len(self.tail))):
            return -1
        self.went_on = True
        return more
