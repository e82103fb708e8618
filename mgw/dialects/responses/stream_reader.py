"""A stream of OpenAI's Responses, read as events.

Sources: the SDK's ``ResponseStreamEvent``; contract 11.9.  Read are the deltas, the events that begin and end
an item, and the terminal one; all others say the same again, or nothing that is wanted.

An answer begins with its first item, so that one which fails before it has any is an error and no answer.
The event ``error`` and ``response.failed`` break it, and so does an ``error`` at the top of any event.  A
stream that ends without a terminal event broke off; ``[DONE]``, which some hosts write, is none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, ClassVar, Final

from msgspec import Raw, Struct
from msgspec.json import Decoder

from mgw.canonical.reply import NO_USAGE, Began, Counted, ReplyEvent, TokenUsage, UpstreamError
from mgw.dialects.billing import NO_VALUE
from mgw.dialects.metering import try_read_usage
from mgw.dialects.openai.errors import is_error
from mgw.dialects.openai.usage import read_usage
from mgw.dialects.refusal import UNREADABLE_EVENT, proxy_message
from mgw.dialects.responses.candidates import BrokenOutputError, OutputItem, OutputReader
from mgw.dialects.responses.errors import parse_event_error
from mgw.dialects.responses.reply import (
    ITEM_DECODER,
    RESPONSE_DECODER,
    UNREADABLE,
    ProviderResponse,
    read_output,
)
from mgw.dialects.stream import DocumentReader, StreamHead, incomplete
from mgw.wire.sse import Event, EventReader

_DONE: Final = b"[DONE]"
_FIELD_NAMES: Final = (b":", b"data:", b"event:", b"id:", b"retry:")
"""How an event stream begins."""
_NO_RESPONSE: Final = ProviderResponse()
_FAILED: Final = "response.failed"


class _StreamEvent(Struct):
    """The fields of an event that are read; Any: hosts write all kinds of types."""

    type: Any = None
    delta: Any = None
    output_index: Any = None
    content_index: Any = None
    summary_index: Any = None
    logprobs: Any = None
    annotation: Any = None
    error: Any = None
    item: Raw = NO_VALUE
    response: Raw = NO_VALUE

    @property
    def place(self) -> int:
        """The place of its item in the output."""
        return _integer(self.output_index)

    @property
    def text(self) -> str:
        """What it adds."""
        return self.delta if type(self.delta) is str else ""


_DECODER: Final = Decoder(_StreamEvent)
_Handler = Callable[["ResponsesStreamReader", _StreamEvent, list[ReplyEvent]], None]


class ResponsesStreamReader(DocumentReader[Event]):
    """Reads a stream of a response's events."""

    __slots__ = ("_began", "_first", "_head", "_output", "_splitter", "ended", "usage")

    def __init__(self, seed: str) -> None:
        super().__init__()
        self.usage: TokenUsage = NO_USAGE
        """The counts so far."""
        self._splitter = EventReader(bare=True)  # some hosts break off with bare JSON
        self._head = StreamHead(_FIELD_NAMES)
        self._output = OutputReader(f"{seed}/0")
        self._first = _NO_RESPONSE
        """The response as it was when it was created."""
        self._began = False
        self.ended: bool = False
        """The terminal event has come."""

    @property
    def complete(self) -> bool:
        """Whether nothing can be missing."""
        return self.ended

    def _split(self, data: bytes) -> Iterable[Event]:
        documents = self._splitter.feed(data)
        if not self._began:
            self._head.add(data, is_stream=bool(documents))
        return documents

    def on_document(self, document: Event, events: list[ReplyEvent]) -> None:
        """Read an event of the stream."""
        data = document.data
        if data.startswith(_DONE):
            return
        try:
            event = _DECODER.decode(data)
        except UNREADABLE:
            self._on_unreadable(document, events)
            return
        kind = event.type if type(event.type) is str else document.event.decode("latin-1")
        handler = self._HANDLERS.get(kind)
        if event.error or kind == "error" or (not kind and is_error(data)):
            self._break(parse_event_error(data), events)
        elif handler is not None:
            try:
                handler(self, event, events)
            except BrokenOutputError as error:
                self._break(UpstreamError(502, str(error)), events)
        elif kind in _TERMINAL:
            self._on_terminal(kind, event, data, events)

    def on_finish(self, events: list[ReplyEvent]) -> None:
        """Read the end of the stream, which is an error where no terminal event has come."""
        events += self.feed(b"\n\n")  # some hosts leave the last blank line out
        if self._broken or self.ended:
            return
        error = self._head.refusal("the upstream's response")
        if error is None:
            raise incomplete()
        self._break(error, events)

    def _on_unreadable(self, document: Event, events: list[ReplyEvent]) -> None:
        """Break for what is no event, be it words or JSON of another kind."""
        data = document.data
        if data.strip():
            is_told = document.event == b"error" or is_error(data) or proxy_message(data)
            self._break(parse_event_error(data) if is_told else UNREADABLE_EVENT.error, events)

    def _begin(self, events: list[ReplyEvent]) -> None:
        if not self._began:
            self._began = True
            events.append(Began(_text(self._first.id), _text(self._first.model)))

    def _on_created(self, event: _StreamEvent, events: list[ReplyEvent]) -> None:  # noqa: ARG002 - as the others
        """Keep what is known of the response before it has any output."""
        if not self._began and self._first.id is None:
            self._first = _parse_response(event.response) or self._first

    def _on_added(self, event: _StreamEvent, events: list[ReplyEvent]) -> None:
        item = _parse_item(event.item)
        if item is not None:
            self._begin(events)
            self._output.on_added(event.place, item, events)

    def _on_done(self, event: _StreamEvent, events: list[ReplyEvent]) -> None:
        item = _parse_item(event.item)
        if item is not None:
            self._begin(events)
            self._output.on_done(event.place, item, events)

    def _on_text(self, event: _StreamEvent, events: list[ReplyEvent]) -> None:
        self._begin(events)
        self._output.on_text(event.place, event.text, event.logprobs, events)

    def _on_refusal(self, event: _StreamEvent, events: list[ReplyEvent]) -> None:
        self._begin(events)
        self._output.on_refusal(event.place, event.text, events)

    def _on_annotation(self, event: _StreamEvent, events: list[ReplyEvent]) -> None:
        self._begin(events)
        self._output.on_annotation(event.place, event.annotation, events)

    def _on_summary(self, event: _StreamEvent, events: list[ReplyEvent]) -> None:
        self._begin(events)
        self._output.on_words(event.place, "summary", _integer(event.summary_index), event.text, events)

    def _on_reasoning(self, event: _StreamEvent, events: list[ReplyEvent]) -> None:
        self._begin(events)
        self._output.on_words(event.place, "content", _integer(event.content_index), event.text, events)

    def _on_arguments(self, event: _StreamEvent, events: list[ReplyEvent]) -> None:
        self._output.on_arguments(event.place, event.text, events)

    def _on_terminal(self, kind: str, event: _StreamEvent, data: bytes, events: list[ReplyEvent]) -> None:
        """Read the last event: whether the answer is whole, its counts, and its output if none has come."""
        response = _parse_response(event.response) or _NO_RESPONSE
        if kind == _FAILED or response.has_failed:
            self._break(parse_event_error(bytes(event.response) or data), events)
            return
        if not self._began and self._first.id is None:
            self._first = response
        self._begin(events)
        if self._output.is_empty:
            try:
                read_output(self._output, response.output, events)
            except BrokenOutputError as error:
                self._break(UpstreamError(502, str(error)), events)
                return
        self._closed = self.ended = True
        self.finished = 1
        usage = try_read_usage(read_usage, data, self.usage)
        if usage != self.usage:
            self.usage = usage
            events.append(Counted(usage))
        self._output.finish(_reason(kind, response), events)

    _HANDLERS: ClassVar[Mapping[str, _Handler]] = MappingProxyType(
        {
            "response.created": _on_created,
            "response.queued": _on_created,
            "response.in_progress": _on_created,
            "response.output_item.added": _on_added,
            "response.output_item.done": _on_done,
            "response.output_text.delta": _on_text,
            "response.output_text.annotation.added": _on_annotation,
            "response.refusal.delta": _on_refusal,
            "response.reasoning_summary_text.delta": _on_summary,
            "response.reasoning_text.delta": _on_reasoning,
            "response.function_call_arguments.delta": _on_arguments,
        }
    )
    """What is read of a stream, beside its end."""


_TERMINAL: Final = frozenset({"response.completed", "response.incomplete", _FAILED})


def _reason(kind: str, response: ProviderResponse) -> str | None:
    """Return why an answer is not complete; ``None``: it is."""
    return response.incomplete or ("incomplete" if kind == "response.incomplete" else None)


def _parse_item(item: Raw) -> OutputItem | None:
    try:
        return ITEM_DECODER.decode(item)
    except UNREADABLE:
        return None


def _parse_response(response: Raw) -> ProviderResponse | None:
    try:
        return RESPONSE_DECODER.decode(response)
    except UNREADABLE:
        return None


def _integer(value: Any) -> int:  # Any: JSON of whatever type
    return value if type(value) is int else 0


def _text(value: Any) -> str | None:  # Any: JSON of whatever type
    return value if type(value) is str and value else None
