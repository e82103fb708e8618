"""A stream with parts that are written one after another, although calls may interleave.

In the messages API and in Responses one block, or item, is open at a time.  Calls whose arguments interleave
are therefore written one after another: the first as it comes, the others from what was held meanwhile, and
so is whatever else comes while a call is open.  The end of the answer waits for its counts, which some
providers send behind it, or for the end of the stream.  Only the first candidate is written.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from typing import Final

from mgw.canonical.reply import (
    ArgumentsAdded,
    Began,
    CallBegan,
    CallEnded,
    CitationAdded,
    Counted,
    Ended,
    LogprobsAdded,
    MediaAdded,
    RefusalAdded,
    TextAdded,
    TextSigned,
    ThinkingAdded,
    ThinkingSigned,
)
from mgw.dialects.stream import StreamWriter, incomplete
from mgw.nouns.errors import GatewayError, Reason

MAX_HELD: Final = 32 * 2**20
"""How much is held while another call is open, in characters and what Python takes beside them."""
FRAME_BYTES: Final = 256
"""What a part of an item, or an event that waits, takes beside its text, about."""
STRING_BYTES: Final = 64
"""What a string takes beside its characters, about."""

ContentEvent = (
    TextAdded
    | TextSigned
    | ThinkingAdded
    | ThinkingSigned
    | RefusalAdded
    | CitationAdded
    | LogprobsAdded
    | MediaAdded
)


class _Call:
    """A call that is open, or waits for its turn."""

    __slots__ = ("began", "ended", "held")

    def __init__(self, began: CallBegan) -> None:
        self.began = began
        self.ended = False
        self.held: list[str] = []
        """The arguments that are not written yet."""


class SerialStreamWriter(StreamWriter):
    """Puts calls, and what comes while one is open, in order; a dialect writes them.

    A dialect asks :meth:`_is_due` before it writes anything else than a call.
    """

    __slots__ = ("_began", "_call", "_calls", "_ending", "_held", "_waiting")

    def __init__(self, request_id: str) -> None:
        super().__init__(request_id)
        self._began = False
        self._call: _Call | None = None
        """The one that is open."""
        self._calls: dict[int, _Call] = {}
        """The calls that have not ended, by their number."""
        self._waiting: deque[_Call | ContentEvent] = deque()
        """What comes after the open call."""
        self._held = 0
        self._ending: Ended | None = None
        """How the answer ended, once it has."""

    def on_began(self, event: Began) -> None:
        """Begin the answer."""
        super().on_began(event)
        if not self._began:
            self._begin(event)

    def on_call_began(self, event: CallBegan) -> None:
        """Begin a call, or hold it while another one is open."""
        if not self._accepts(event.candidate) or event.call in self._calls:
            return
        self._calls[event.call] = call = _Call(event)
        if self._call is None:
            self._open(call)
        else:
            self._hold(call, len(event.name) + len(event.id))

    def on_arguments(self, event: ArgumentsAdded) -> None:
        """Write a part of the open call's arguments, or hold it."""
        call = self._calls.get(event.call) if self._accepts(event.candidate) else None
        if call is None or not event.text:
            return
        if call is self._call:
            self._add_arguments(event.text)
        else:
            call.held.append(event.text)
            self._count_held(len(event.text) + STRING_BYTES)

    def on_call_ended(self, event: CallEnded) -> None:
        """End a call."""
        if self._accepts(event.candidate):
            self._end(event.call)

    def on_counted(self, event: Counted) -> None:
        """Take the counts so far; those that come after the end were all that was missing."""
        super().on_counted(event)
        if self._ending is not None:
            self._conclude(self._ending)

    def on_ended(self, event: Ended) -> None:
        """End the content; the answer itself may wait for its counts."""
        if self._accepts(event.candidate):
            for number in tuple(self._calls):
                self._end(number)
            if not self._closed:  # what waited may have been too much
                self._end_content(event)
                self._ending = event

    def on_finish(self) -> None:
        """Write the end of the answer."""
        if self._ending is None:
            self._break(incomplete())
        else:
            self._conclude(self._ending)

    @abstractmethod
    def _begin(self, began: Began) -> None:
        """Write the beginning, and set ``_began``."""

    @abstractmethod
    def _begin_call(self, began: CallBegan) -> None:
        """Write the beginning of a call."""

    @abstractmethod
    def _add_arguments(self, text: str) -> None:
        """Write arguments of the open call; some."""

    @abstractmethod
    def _end_arguments(self) -> None:
        """Write the end of the open call."""

    @abstractmethod
    def _end_content(self, ending: Ended) -> None:
        """Write the end of what is open."""

    @abstractmethod
    def _conclude(self, ending: Ended) -> None:
        """Write the end of the answer, and set ``_closed``."""

    def _accepts(self, candidate: int) -> bool:
        """Whether an event of a candidate belongs to the answer, which begins with it at the latest."""
        if candidate or self._ending is not None:
            return False
        if not self._began:
            self._begin(Began())
        return True

    def _is_due(self, event: ContentEvent, size: int) -> bool:
        """Whether an event can be written now; one that cannot is held, or belongs to no content."""
        if not self._accepts(event.candidate):
            return False
        if self._call is not None:
            self._hold(event, size)
            return False
        return True

    def _count_held(self, size: int) -> None:
        """Count what is held, which ends the stream where it is too much."""
        self._held += size
        if self._held > MAX_HELD:
            self._break_off()

    def _break_off(self) -> None:
        """End a stream of which no more can be kept."""
        self._break(GatewayError(Reason.UPSTREAM_BROKEN, "the upstream's response is too large"))

    def _forget_held(self) -> None:
        """Let go of what will not be written any more."""
        self._waiting.clear()
        self._calls.clear()

    def _hold(self, item: _Call | ContentEvent, size: int) -> None:
        self._waiting.append(item)
        self._count_held(size + FRAME_BYTES)

    def _open(self, call: _Call) -> None:
        self._call = call
        self._begin_call(call.began)

    def _end(self, number: int) -> None:
        call = self._calls.pop(number, None)
        if call is None:
            return
        call.ended = True
        if call is self._call:
            self._close()
            self._write_waiting()

    def _close(self) -> None:
        self._end_arguments()
        self._call = None

    def _write_waiting(self) -> None:
        """Write what waited for the end of a call, up to the next call that has not ended."""
        while self._waiting and self._call is None and not self._closed:
            item = self._waiting.popleft()
            if not isinstance(item, _Call):
                self._handlers[type(item)](self, item)
                continue
            self._open(item)
            if item.held:
                self._add_arguments("".join(item.held))
                item.held.clear()
            if item.ended:
                self._close()
        if not self._waiting:
            self._held = 0
