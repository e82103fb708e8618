"""The event stream of this wire, written: what comes in which order.

One block is open at a time (:mod:`mgw.dialects.anthropic.frames`).  Calls whose arguments interleave are
therefore written one after another: the first as it comes, the others from what was held meanwhile, and so is
whatever else comes while a call is open.  ``message_delta`` carries the final counts; those of some providers
come after the end of the answer, so it waits for them, or for the end of the stream.

A ping may come before ``message_start``: the SDKs skip that event by its name.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Final

from mgw.canonical.reply import (
    NO_USAGE,
    ArgumentsAdded,
    Began,
    Broke,
    CallBegan,
    CallEnded,
    Counted,
    Ended,
    MediaAdded,
    RefusalAdded,
    ReplyEvent,
    TextAdded,
    ThinkingAdded,
    ThinkingSigned,
    TokenUsage,
    UpstreamError,
)
from mgw.dialects.anthropic.errors import error_body, upstream_error_body
from mgw.dialects.anthropic.frames import KEEPALIVE, Frames
from mgw.dialects.anthropic.reply import frame, left_out
from mgw.dialects.anthropic.stops import written_stop
from mgw.dialects.arguments import embedded
from mgw.dialects.dialect import ReplyContext
from mgw.dialects.metering import updated
from mgw.errors import GatewayError, Reason

MAX_HELD_BYTES: Final = 32 * 1024 * 1024
"""How much is held while another call is open."""

_CONTENT_TYPE: Final = b"text/event-stream; charset=utf-8"


class _Call:
    """A call that is open, or waits for its turn."""

    __slots__ = ("began", "ended", "held", "is_regular")

    def __init__(self, began: CallBegan) -> None:
        self.began = began
        self.ended = False
        self.held: list[str] = []
        """Arguments that are not written yet."""
        self.is_regular: bool | None = None
        """Whether they begin like an object; ``None``: not known yet."""


class Writer:
    """Writes events; it cannot write a wrong order."""

    __slots__ = (
        "_began",
        "_call",
        "_called",
        "_calls",
        "_context",
        "_ending",
        "_frames",
        "_held_bytes",
        "_over",
        "_refused",
        "_usage",
        "_waiting",
        "broken",
    )

    def __init__(self, context: ReplyContext) -> None:
        self._context = context
        self._frames = Frames()
        self._began = False
        self._over = False
        self.broken = False
        """The stream was ended with an error."""
        self._call: _Call | None = None
        """The one that is open."""
        self._calls: dict[int, _Call] = {}
        """Those that have not ended, by their number."""
        self._waiting: deque[_Call | ReplyEvent] = deque()
        """What comes after the open call."""
        self._held_bytes = 0
        self._called = False
        self._refused = False
        self._ending: Ended | None = None
        self._usage: TokenUsage = NO_USAGE

    @property
    def content_type(self) -> bytes:
        """The media type of the stream."""
        return _CONTENT_TYPE

    def write(self, events: Iterable[ReplyEvent]) -> bytes:
        """Return the bytes of these events."""
        for event in events:
            if self._over:
                break
            self._take(event)
        return self._frames.taken()

    def finish(self) -> bytes:
        """Return the end of the stream."""
        if self._over:
            return b""
        if self._ending is None:
            error = "the upstream's stream ended before the response was complete"
            return self.fail(GatewayError(Reason.UPSTREAM_BROKEN, error))
        self._conclude(self._ending)
        return self._frames.taken()

    def fail(self, error: GatewayError | UpstreamError) -> bytes:
        """Return the event that says the stream broke."""
        if self._over:
            return b""
        self._break(error)
        return self._frames.taken()

    def keepalive(self) -> bytes:
        """Return a ping."""
        return b"" if self._over else KEEPALIVE

    def _take(self, event: ReplyEvent) -> None:
        if isinstance(event, Counted):
            self._usage = updated(self._usage, event.usage)
            if self._ending is not None:
                self._conclude(self._ending)
        elif isinstance(event, Broke):
            self._break(event.error)
        elif isinstance(event, Began):
            self._usage = updated(self._usage, event.usage)
            self._begin(event)
        elif self._ending is None and event.candidate == 0:
            if not self._began:
                self._begin(Began())
            self._say(event)

    def _begin(self, event: Began) -> None:
        if not self._began:
            self._began = True
            self._frames.begin(frame(event.id, event.model, self._context), self._usage)

    def _say(self, event: ReplyEvent) -> None:
        match event:
            case TextAdded() if self._call is None:  # most events are this
                self._frames.text(event.text)
            case ArgumentsAdded():
                self._arguments(event)
            case CallBegan():
                self._announce(event)
            case CallEnded():
                self._end_call(event.call)
            case Ended():
                for number in tuple(self._calls):
                    self._end_call(number)
                self._frames.close()
                self._ending = event
            case _ if self._call is None:
                self._content(event)
            case _:
                self._waiting.append(event)
                self._count(_size(event))

    def _content(self, event: ReplyEvent) -> None:
        """Write what is not about calls; this wire says nothing of log-probabilities, and the like."""
        match event:
            case TextAdded():
                self._frames.text(event.text)
            case ThinkingAdded():
                self._frames.thinking(event.text)
            case ThinkingSigned():
                self._frames.sign(event.signature)
            case RefusalAdded():
                self._refused = True
                self._frames.text(event.text)
            case MediaAdded():
                self._frames.lone_text(left_out(event.media))

    def _announce(self, event: CallBegan) -> None:
        if event.call in self._calls:
            return
        self._calls[event.call] = call = _Call(event)
        if self._call is None:
            self._open(call)
        else:
            self._waiting.append(call)
            self._count(len(event.name))

    def _open(self, call: _Call) -> None:
        self._frames.call(call.began)
        self._call = call
        self._called = True

    def _arguments(self, event: ArgumentsAdded) -> None:
        call = self._calls.get(event.call)
        if call is None or not event.text:
            return
        if call is self._call and call.is_regular:
            self._frames.arguments(event.text)
            return
        call.held.append(event.text)
        if call is self._call:
            self._flush(call, event.text)
        self._count(len(event.text))

    def _flush(self, call: _Call, unseen: str) -> None:
        """Write what is held of the open call, if it begins like an object; ``unseen`` ends what is held.

        What does not is held to its end: clients parse the text as it comes, and fail on what is no JSON.
        """
        if call.is_regular is None:
            begin = unseen.lstrip()  # all before it was blank
            if begin:
                call.is_regular = begin.startswith("{")
        if call.is_regular and call.held:
            text = "".join(call.held)
            call.held.clear()
            self._frames.arguments(text)

    def _end_call(self, number: int) -> None:
        call = self._calls.pop(number, None)
        if call is None:
            return
        call.ended = True
        if call is self._call:
            self._close(call)
            self._go_on()

    def _close(self, call: _Call) -> None:
        if call.is_regular is False:
            self._frames.arguments(bytes(embedded("".join(call.held))).decode())
        self._frames.end_call()
        self._call = None

    def _go_on(self) -> None:
        """Write what waited for the end of a call, up to the next that has not ended."""
        while self._waiting and self._call is None:
            item = self._waiting.popleft()
            if not isinstance(item, _Call):
                self._content(item)
                continue
            self._open(item)
            self._flush(item, "".join(item.held))
            if item.ended:
                self._close(item)
        if not self._waiting:
            self._held_bytes = 0

    def _count(self, size: int) -> None:
        self._held_bytes += size
        if self._held_bytes > MAX_HELD_BYTES:
            error = "the upstream's parallel tool calls are too large to be put in order"
            self._break(GatewayError(Reason.UPSTREAM_BROKEN, error))

    def _break(self, error: GatewayError | UpstreamError) -> None:
        request_id = self._context.request_id
        if isinstance(error, GatewayError):
            self._frames.error(error_body(error, request_id))
        else:
            self._frames.error(upstream_error_body(error, request_id))
        self._over = self.broken = True
        self._waiting.clear()
        self._calls.clear()

    def _conclude(self, ending: Ended) -> None:
        said = written_stop(ending.stop, ending.stop_sequence, calls=self._called, refused=self._refused)
        self._frames.end(said, self._usage)
        self._over = True


def _size(event: ReplyEvent) -> int:
    if isinstance(event, MediaAdded):
        return len(event.media.data or "")
    return len(event.text) if isinstance(event, TextAdded | ThinkingAdded | RefusalAdded) else 0
