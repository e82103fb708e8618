"""A stream of Responses, rendered from events (contract 11.8).

Sources: the SDK's ``ResponseStreamEvent`` and its accumulator (``lib/streaming/responses``).  The grammar::

    stream   = response.created response.in_progress item* terminal
    item     = response.output_item.added BODY response.output_item.done
    terminal = response.completed | response.incomplete | response.failed

:mod:`mgw.dialects.responses.item_events` has the bodies.  One item is open at a time: calls whose arguments
interleave are written one after another, the first as it comes, the others from what was held meanwhile, and
so is whatever else comes while a call is open.  The last event carries the whole response; the counts of some
providers come after the end of the answer, so it waits for them, or for the end of the stream.

A stream that breaks ends with ``response.failed``.  The item that was open gets no event of its end: clients
run a call when they read one.
"""

from __future__ import annotations

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
    UpstreamError,
)
from mgw.dialects.dialect import ReplyContext
from mgw.dialects.responses.errors import render_failure
from mgw.dialects.responses.item_events import FRAME_BYTES, STRING_BYTES
from mgw.dialects.responses.output_items import COMPLETED, INCOMPLETE
from mgw.dialects.responses.output_writer import OutputWriter
from mgw.dialects.responses.response import ResponseRenderer, is_cut, status_of
from mgw.dialects.stream import StreamWriter, incomplete
from mgw.errors import GatewayError, Reason

KEEPALIVE: Final = b": ping\n\n"
MAX_HELD: Final = 32 * 2**20
"""How much is held while another call is open."""
MAX_KEPT_BYTES: Final = 32 * 2**20
"""How large the output may become, which the last event has to repeat."""

_HeldEvent = (
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
        """Arguments that are not written yet."""


class ResponsesStreamWriter(StreamWriter):
    """Writes one response, of the first candidate, item by item."""

    __slots__ = (
        "_began",
        "_call",
        "_calls",
        "_ending",
        "_held",
        "_log",
        "_output",
        "_renderer",
        "_waiting",
    )

    content_type = b"text/event-stream"

    def __init__(self, context: ReplyContext) -> None:
        super().__init__(context.request_id)
        self._output = OutputWriter(self._out, context)
        self._log = self._output.log
        self._renderer = ResponseRenderer(context)
        self._began = False
        self._call: _Call | None = None
        """The one that is open."""
        self._calls: dict[int, _Call] = {}
        """Those that have not ended, by their number."""
        self._waiting: deque[_Call | _HeldEvent] = deque()
        """What comes after the open call."""
        self._held = 0
        self._ending: Ended | None = None

    def on_began(self, event: Began) -> None:
        """Begin the response."""
        super().on_began(event)
        if not self._began:
            self._begin(event.model)

    def on_text(self, event: TextAdded) -> None:
        """Write text."""
        run = self._output.text
        if run is not None and event.text and not event.candidate:  # as nearly always
            run.add(event.text)
            if self._log.kept_bytes > MAX_KEPT_BYTES:
                self._is_full()
        elif event.text and self._is_due(event, len(event.text)):
            self._output.add_text(event.text)

    def on_text_signed(self, event: TextSigned) -> None:
        """Write the signature of a text, as an item behind its message."""
        if self._is_due(event, len(event.signature.value)):
            self._output.sign_text(event.signature)

    def on_thinking(self, event: ThinkingAdded) -> None:
        """Write a part of a thought."""
        if event.text and self._is_due(event, len(event.text)):
            self._output.add_thinking(event.text)

    def on_thinking_signed(self, event: ThinkingSigned) -> None:
        """End a thought with its signature."""
        if self._is_due(event, len(event.signature.value)):
            self._output.sign_thinking(event.signature)

    def on_refusal(self, event: RefusalAdded) -> None:
        """Write the words of a refusal."""
        if event.text and self._is_due(event, len(event.text)):
            self._output.add_refusal(event.text)

    def on_citation(self, event: CitationAdded) -> None:
        """Write where a text comes from."""
        if self._is_due(event, len(event.citation.url or "") + len(event.citation.title or "")):
            self._output.add_citation(event.citation)

    def on_media(self, event: MediaAdded) -> None:
        """Write an image."""
        if self._is_due(event, len(event.media.data or "")):
            self._output.add_media(event.media)

    def on_logprobs(self, event: LogprobsAdded) -> None:
        """Write how likely the last tokens were."""
        if self._is_due(event, len(event.tokens)):
            self._output.add_logprobs(event.tokens)

    def on_call_began(self, event: CallBegan) -> None:
        """Begin a call, or hold it while another one is open."""
        if not self._accepts(event.candidate) or event.call in self._calls or self._is_full():
            return
        self._calls[event.call] = call = _Call(event)
        if self._call is None:
            self._open_call(call)
        else:
            self._hold(call, len(event.name) + len(event.id))

    def on_arguments(self, event: ArgumentsAdded) -> None:
        """Write a part of the open call's arguments, or hold it."""
        call = self._calls.get(event.call) if self._accepts(event.candidate) else None
        if call is None or not event.text:
            return
        if call is self._call:
            self._output.add_arguments(event.text)
            self._is_full()
        else:
            call.held.append(event.text)
            self._count(len(event.text) + STRING_BYTES)

    def on_call_ended(self, event: CallEnded) -> None:
        """End a call."""
        if self._accepts(event.candidate):
            self._end_call(event.call)

    def on_counted(self, event: Counted) -> None:
        """Take the counts so far; those that come after the end were all that was missing."""
        super().on_counted(event)
        if self._ending is not None:
            self._conclude(self._ending)

    def on_ended(self, event: Ended) -> None:
        """End the output; the response itself may wait for its counts."""
        if self._accepts(event.candidate):
            for number in tuple(self._calls):
                self._end_call(number)
            if not self._is_full():
                self._output.end_item(INCOMPLETE if is_cut(event.stop) else COMPLETED)
                self._ending = event

    def on_finish(self) -> None:
        """Write the end of the response."""
        if self._ending is None:
            self._break(incomplete())
        else:
            self._conclude(self._ending)

    def on_error(self, error: GatewayError | UpstreamError) -> None:
        """Write ``response.failed``, with what there is of the output."""
        if not self._began:
            self._begin(None)
        items = self._output.abandon()
        failure = render_failure(error)
        self._write_terminal("failed", self._renderer.render_failed(failure, items, self._usage))
        self._waiting.clear()
        self._calls.clear()

    def _keepalive(self) -> bytes:
        """Return a comment."""
        return KEEPALIVE

    def _accepts(self, candidate: int) -> bool:
        """Whether an event of a candidate belongs to the response, which begins with it at the latest."""
        if candidate or self._ending is not None:
            return False
        if not self._began:
            self._begin(None)
        return True

    def _is_due(self, event: _HeldEvent, size: int) -> bool:
        """Whether an event can be written now; one that cannot is held, or belongs to no output."""
        if not self._accepts(event.candidate):
            return False
        if self._call is not None:
            self._hold(event, size)
            return False
        return not self._is_full()

    def _begin(self, model: str | None) -> None:
        self._began = True
        renderer = self._renderer
        renderer.model = model or renderer.model
        response = [renderer.render_begun()]
        self._log.write_response(b"response.created", response)
        self._log.write_response(b"response.in_progress", response)

    def _conclude(self, ending: Ended) -> None:
        pieces = self._renderer.render_ended(ending.stop, self._log.items, self._usage)
        self._write_terminal(status_of(ending.stop), pieces)
        self._closed = True

    def _write_terminal(self, status: str, response: list[bytes]) -> None:
        self._log.write_response(f"response.{status}".encode(), response)

    def _hold(self, item: _Call | _HeldEvent, size: int) -> None:
        self._waiting.append(item)
        self._count(size + FRAME_BYTES)

    def _count(self, size: int) -> None:
        self._held += size
        if self._held > MAX_HELD:
            self._break_off()

    def _is_full(self) -> bool:
        """Whether no more can be kept, which ends the stream."""
        if self._log.kept_bytes > MAX_KEPT_BYTES:
            self._break_off()
        return self._closed

    def _break_off(self) -> None:
        self._break(GatewayError(Reason.UPSTREAM_BROKEN, "the upstream's response is too large"))

    def _open_call(self, call: _Call) -> None:
        self._call = call
        began = call.began
        self._output.begin_call(began.id, began.name, began.signature)

    def _end_call(self, number: int) -> None:
        call = self._calls.pop(number, None)
        if call is None:
            return
        call.ended = True
        if call is self._call:
            self._close_call()
            self._write_waiting()

    def _close_call(self) -> None:
        self._output.end_arguments()
        self._call = None

    def _write_waiting(self) -> None:
        """Write what waited for the end of a call, up to the next call that has not ended."""
        while self._waiting and self._call is None and not self._is_full():
            item = self._waiting.popleft()
            if not isinstance(item, _Call):
                self._handlers[type(item)](self, item)
                continue
            self._open_call(item)
            if item.held:
                self._output.add_arguments("".join(item.held))
                item.held.clear()
            if item.ended:
                self._close_call()
        if not self._waiting:
            self._held = 0
