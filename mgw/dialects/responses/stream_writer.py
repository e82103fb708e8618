"""A stream of Responses, rendered from events (contract 11.8).

Sources: the SDK's ``ResponseStreamEvent`` and its accumulator (``lib/streaming/responses``).  The grammar::

    stream   = response.created response.in_progress item* terminal
    item     = response.output_item.added BODY response.output_item.done
    terminal = response.completed | response.incomplete | response.failed

:mod:`mgw.dialects.responses.item_events` has the bodies, and :mod:`mgw.dialects.serial_writer` the order: one
item is open at a time.  The last event carries the whole response.

A stream that breaks ends with ``response.failed``.  The item that was open gets no event of its end: clients
run a call when they read one.
"""

from __future__ import annotations

from typing import Final

from mgw.canonical.reply import (
    Began,
    CallBegan,
    CitationAdded,
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
from mgw.dialects.responses.output_items import COMPLETED, INCOMPLETE
from mgw.dialects.responses.output_writer import OutputWriter
from mgw.dialects.responses.response import ResponseRenderer, is_cut, status_of
from mgw.dialects.serial_writer import ContentEvent, SerialStreamWriter
from mgw.nouns.errors import GatewayError

KEEPALIVE: Final = b": ping\n\n"
MAX_KEPT_BYTES: Final = 32 * 2**20
"""How large the output may become, which the last event has to repeat."""


class ResponsesStreamWriter(SerialStreamWriter):
    """Writes one response, of the first candidate, item by item."""

    __slots__ = ("_log", "_output", "_renderer")

    content_type = b"text/event-stream"

    def __init__(self, context: ReplyContext) -> None:
        super().__init__(context.request_id)
        self._output = OutputWriter(self._out, context)
        self._log = self._output.log
        self._renderer = ResponseRenderer(context)

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
        if not self._is_full():
            super().on_call_began(event)

    def on_error(self, error: GatewayError | UpstreamError) -> None:
        """Write ``response.failed``, with what there is of the output."""
        if not self._began:
            self._begin(Began())
        items = self._output.abandon()
        failure = render_failure(error)
        self._write_terminal("failed", self._renderer.render_failed(failure, items, self._usage))
        self._forget_held()

    def _keepalive(self) -> bytes:
        """Return a comment."""
        return KEEPALIVE

    def _is_due(self, event: ContentEvent, size: int) -> bool:
        """Whether an event can be written now, and what it makes can still be kept."""
        return super()._is_due(event, size) and not self._is_full()

    def _begin(self, began: Began) -> None:
        self._began = True
        renderer = self._renderer
        renderer.model = began.model or renderer.model
        response = [renderer.render_begun()]
        self._log.write_response(b"response.created", response)
        self._log.write_response(b"response.in_progress", response)

    def _conclude(self, ending: Ended) -> None:
        pieces = self._renderer.render_ended(ending.stop, self._log.items, self._usage)
        self._write_terminal(status_of(ending.stop), pieces)
        self._closed = True

    def _write_terminal(self, status: str, response: list[bytes]) -> None:
        self._log.write_response(f"response.{status}".encode(), response)

    def _begin_call(self, began: CallBegan) -> None:
        self._output.begin_call(began.id, began.name, began.signature)

    def _add_arguments(self, text: str) -> None:
        self._output.add_arguments(text)
        self._is_full()

    def _end_arguments(self) -> None:
        self._output.end_arguments()

    def _end_content(self, ending: Ended) -> None:
        if not self._is_full():
            self._output.end_item(INCOMPLETE if is_cut(ending.stop) else COMPLETED)

    def _is_full(self) -> bool:
        """Whether no more can be kept, which ends the stream."""
        if self._log.kept_bytes > MAX_KEPT_BYTES:
            self._break_off()
        return self._closed
