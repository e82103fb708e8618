"""A streaming response of the Messages API, parsed into events.

Source: the SDK's ``RawMessageStreamEvent`` with all that it holds.  Events, blocks and deltas of unknown
types are skipped, whatever they hold.  One that is no JSON, or that is known and has another shape, breaks
the stream, since its content would be lost.  A ``message_start`` may hold the beginning of the response, or
all of it with the stop reason; another one before the end is that of another response, and a break.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final

from msgspec import MsgspecError, Raw, Struct, field
from msgspec.json import Decoder
from msgspec.structs import replace

from mgw.canonical.conversation import Citation, Signature
from mgw.canonical.identifiers import make_id
from mgw.canonical.reply import (
    NO_USAGE,
    ArgumentsAdded,
    Began,
    CallBegan,
    CallEnded,
    CitationAdded,
    Counted,
    Ended,
    RefusalAdded,
    ReplyEvent,
    StopReason,
    TextAdded,
    ThinkingAdded,
    ThinkingSigned,
    TokenUsage,
    UpstreamError,
)
from mgw.dialects.anthropic.errors import find_error, parse_stream_error
from mgw.dialects.anthropic.reply import (
    GUARDRAIL,
    INTERVENED,
    NAMELESS_CALL,
    ContentBlock,
    StopDetails,
    UrlCitation,
    parse_stop,
)
from mgw.dialects.anthropic.usage import parse_usage
from mgw.dialects.arguments import NOTHING, compact_arguments
from mgw.dialects.refusal import UNREADABLE_EVENT, proxy_message
from mgw.dialects.stream import DocumentReader, incomplete
from mgw.nouns.vocabulary import Family
from mgw.wire.sse import Event, EventReader


class _Delta(Struct, frozen=True):
    type: str = ""
    text: str | None = None
    thinking: str | None = None
    partial_json: str | None = None
    signature: str | None = None
    citation: UrlCitation | None = None
    stop_reason: str | None = None
    stop_sequence: str | None = None
    stop_details: StopDetails | None = None


class _Message(Struct, frozen=True):
    id: str | None = None
    model: str | None = None
    content: list[Raw] | None = None
    stop_reason: str | None = None
    stop_sequence: str | None = None
    stop_details: StopDetails | None = None
    usage: Raw = NOTHING


class _StreamEvent(Struct, frozen=True):
    type: str = ""
    index: int = -1
    delta: _Delta | None = None
    content_block: ContentBlock | None = None
    message: _Message | None = None
    usage: Raw = NOTHING
    guardrail: Any = field(default=None, name=GUARDRAIL)  # Any: nothing else depends on it


class _UntypedEvent(Struct, frozen=True):
    """What an event is, whatever else it holds."""

    type: Any = None
    index: int = -1
    delta: Any = None
    content_block: Any = None


_DECODER: Final = Decoder(_StreamEvent, strict=False)
_UNTYPED_DECODER: Final = Decoder(_UntypedEvent, strict=False)
_BLOCK_DECODER: Final = Decoder(ContentBlock, strict=False)
_BLOCK_TYPES: Final = frozenset({"text", "thinking", "redacted_thinking", "tool_use"})
_DELTA_TYPES: Final = frozenset(
    {"text_delta", "thinking_delta", "signature_delta", "input_json_delta", "citations_delta"}
)


class _OpenBlock:
    """A block that has begun and not ended."""

    __slots__ = ("begin", "block", "call", "citations", "has_delta", "signature")

    def __init__(self, block: ContentBlock, call: int, begin: int = 0) -> None:
        self.block = block
        self.begin = begin
        """The characters of the answer's text before it."""
        self.citations: list[Citation] = []
        """The citations of its text, each of which is of all of it."""
        self.call = call
        self.has_delta = False
        self.signature = block.signature


class MessagesStreamReader(DocumentReader[Event]):
    """Turns the stream into events, however it is cut."""

    __slots__ = (
        "_began",
        "_calls",
        "_characters",
        "_event_reader",
        "_has_intervened",
        "_initial_blocks",
        "_message",
        "_open_blocks",
        "_seed",
        "usage",
    )

    def __init__(self, seed: str) -> None:
        super().__init__()
        self.usage: TokenUsage = NO_USAGE
        self._seed = seed
        self._event_reader = EventReader()
        self._open_blocks: dict[int, _OpenBlock] = {}
        self._calls = 0
        self._characters = 0
        """How many characters all texts have so far."""
        self._began = False
        self._has_intervened = False
        """A guardrail of the host's has put words of its own in place of the model's."""
        self._message: _Message | None = None
        """The ``message_start``."""
        self._initial_blocks: set[int] = set()
        """The blocks that it held."""

    @property
    def ended(self) -> bool:
        """Whether ``message_stop`` has come."""
        return self._closed

    @property
    def complete(self) -> bool:
        """Whether nothing can be missing: the stop reason has come."""
        return self._closed or self.finished > 0

    def _split(self, data: bytes) -> Iterable[Event]:
        return self._event_reader.feed(data)

    def on_document(self, document: Event, events: list[ReplyEvent]) -> None:
        """Read an event."""
        data = document.data
        if document.event == b"error":
            self._break(parse_stream_error(data), events)
            return
        try:
            event = _DECODER.decode(data)
        except (MsgspecError, UnicodeDecodeError, RecursionError):
            self._read_untyped(data, events)
            return
        if event.guardrail == INTERVENED:
            self._has_intervened = True
        handler = _HANDLERS.get(event.type)
        if handler is not None:
            handler(self, event, events)
        elif event.type == "error" or (not event.type and find_error(data) is not None):
            self._break(parse_stream_error(data), events)

    def on_finish(self, events: list[ReplyEvent]) -> None:
        """Read the end of the stream, before which ``message_stop`` should have come."""
        if self._closed:
            return
        if not self._open_blocks:
            self._end_with_message(events)
        if not self.finished:
            raise incomplete()

    def on_message_start(self, event: _StreamEvent, events: list[ReplyEvent]) -> None:
        """Begin the response, and read what it holds already."""
        if self._message is not None:
            if not self.finished:
                error = "the upstream began a second response before the first one ended"
                self._break(UpstreamError(502, error), events)
            return
        self._message = message = event.message or _Message()
        if not self._began:
            self._began = True
            self.usage = parse_usage(message.usage, self.usage)
            events.append(Began(message.id, message.model, self.usage))
        for index, raw in enumerate(message.content or ()):
            try:
                block = _BLOCK_DECODER.decode(raw)
            except (MsgspecError, UnicodeDecodeError, RecursionError):
                continue  # of an unknown type
            length = len(events)
            self._open_block(index, block, events)
            if self._closed:
                return
            self._close_block(index, events)
            if len(events) > length:
                self._initial_blocks.add(index)

    def on_content_block_start(self, event: _StreamEvent, events: list[ReplyEvent]) -> None:
        """Open a block."""
        if event.content_block is not None and not self.finished:
            if not self._began:
                self._begin(events)
            self._open_block(event.index, event.content_block, events)

    def on_content_block_delta(self, event: _StreamEvent, events: list[ReplyEvent]) -> None:
        """Add to a block that is open."""
        delta = event.delta
        if delta is None or self.finished:
            return
        if not self._began:
            self._begin(events)
        opened = self._open_blocks.get(event.index)
        if opened is None:
            return
        match opened.block.type:
            case "text" if delta.type == "text_delta" and delta.text:
                self._characters += len(delta.text)
                events.append(TextAdded(delta.text))
            case "text" if delta.type == "citations_delta" and delta.citation is not None:
                citation = delta.citation.to_canonical()
                if citation is not None:
                    opened.citations.append(citation)
            case "tool_use" if delta.type == "input_json_delta" and delta.partial_json:
                opened.has_delta = True
                events.append(ArgumentsAdded(opened.call, delta.partial_json))
            case "thinking" if delta.type == "thinking_delta" and delta.thinking:
                opened.has_delta = True
                events.append(ThinkingAdded(delta.thinking))
            case "thinking" if delta.type == "signature_delta":
                opened.signature = delta.signature

    def on_content_block_stop(self, event: _StreamEvent, events: list[ReplyEvent]) -> None:
        """Close a block."""
        self._close_block(event.index, events)

    def on_message_delta(self, event: _StreamEvent, events: list[ReplyEvent]) -> None:
        """Read the counts and the stop reason."""
        if not self._began:
            self._begin(events)
        usage = parse_usage(event.usage, self.usage)
        if usage != self.usage:
            self.usage = usage
            events.append(Counted(usage))
        if event.delta is not None and event.delta.stop_reason is not None:
            self._end(event.delta, events)

    def on_message_stop(self, _event: _StreamEvent, events: list[ReplyEvent]) -> None:
        """Close the stream, in which the stop reason should have come."""
        self._closed = True
        self._end_with_message(events)
        if not self.finished:
            error = "the upstream's response ended without a finish reason"
            self._break(UpstreamError(502, error), events)

    def _read_untyped(self, data: bytes, events: list[ReplyEvent]) -> None:
        """Read an event of another shape than any that is known, or what is no event at all."""
        try:
            event = _UNTYPED_DECODER.decode(data)
        except (MsgspecError, UnicodeDecodeError, RecursionError):
            if not self.finished:
                words = proxy_message(data)
                self._break(UpstreamError(502, words) if words else UNREADABLE_EVENT.error, events)
            return
        if event.type is None or event.type == "error":
            if (error := find_error(data)) is not None:
                self._break(error, events)
        elif event.type == "content_block_start" and _is_none_of(event.content_block, _BLOCK_TYPES):
            self._close_block(event.index, events)
            self._open_blocks[event.index] = _OpenBlock(ContentBlock(), self._calls)
        elif not self.finished and not self._is_unknown(event):
            self._break(UNREADABLE_EVENT.error, events)

    def _is_unknown(self, event: _UntypedEvent) -> bool:
        if event.type == "content_block_delta":
            opened = self._open_blocks.get(event.index)
            is_known_block = opened is not None and opened.block.type in _BLOCK_TYPES
            return _is_none_of(event.delta, _DELTA_TYPES) or not is_known_block
        return type(event.type) is str and event.type not in _HANDLERS

    def _begin(self, events: list[ReplyEvent]) -> None:
        self._began = True
        events.append(Began())

    def _open_block(self, index: int, block: ContentBlock, events: list[ReplyEvent]) -> None:
        self._close_block(index, events)
        if index in self._initial_blocks:
            return
        self._open_blocks[index] = opened = _OpenBlock(block, self._calls, self._characters)
        match block.type:
            case "text":
                opened.citations += [one for cited in block.citations or () if (one := cited.to_canonical())]
                if block.text:
                    self._characters += len(block.text)
                    events.append(TextAdded(block.text))
            case "thinking":
                if block.thinking:
                    opened.has_delta = True
                    events.append(ThinkingAdded(block.thinking))
            case "tool_use":
                if not block.name:
                    self._break(UpstreamError(502, NAMELESS_CALL), events)
                    return
                call_id = block.id or make_id(self._seed, self._calls)
                events.append(CallBegan(self._calls, call_id, block.name))
                self._calls += 1

    def _close_block(self, index: int, events: list[ReplyEvent]) -> None:
        opened = self._open_blocks.pop(index, None)
        if opened is None:
            return
        block = opened.block
        for citation in opened.citations:
            placed = replace(citation, start=opened.begin, end=self._characters)
            events.append(CitationAdded(placed))
        if block.type == "tool_use":
            arguments = compact_arguments(block.input)
            if not opened.has_delta and arguments != "{}":  # given whole at the start
                events.append(ArgumentsAdded(opened.call, arguments))
            events.append(CallEnded(opened.call))
        elif block.type == "redacted_thinking":
            events.append(ThinkingSigned(Signature(Family.ANTHROPIC, block.data or "", redacted=True)))
        elif block.type == "thinking" and (opened.has_delta or opened.signature):
            events.append(ThinkingSigned(Signature(Family.ANTHROPIC, opened.signature or "")))

    def _end_with_message(self, events: list[ReplyEvent]) -> None:
        """End with the stop reason of ``message_start``, where there was no other."""
        message = self._message
        if message is not None and message.stop_reason is not None:
            self._end(message, events)

    def _end(self, source: _Delta | _Message, events: list[ReplyEvent]) -> None:
        """Read the stop reason, once."""
        if self.finished:
            return
        self.finished = 1
        for index in tuple(self._open_blocks):
            self._close_block(index, events)
        stop, unknown = parse_stop(source.stop_reason, calls=self._calls > 0)
        if self._has_intervened:
            stop, unknown = StopReason.REFUSAL, None
        details = source.stop_details
        if stop is StopReason.REFUSAL and details is not None and details.explanation:
            events.append(RefusalAdded(details.explanation))
        events.append(Ended(stop, source.stop_sequence, unknown))


_HANDLERS: Final[Mapping[str, Callable[[MessagesStreamReader, _StreamEvent, list[ReplyEvent]], None]]] = (
    MappingProxyType(
        {
            "message_start": MessagesStreamReader.on_message_start,
            "content_block_start": MessagesStreamReader.on_content_block_start,
            "content_block_delta": MessagesStreamReader.on_content_block_delta,
            "content_block_stop": MessagesStreamReader.on_content_block_stop,
            "message_delta": MessagesStreamReader.on_message_delta,
            "message_stop": MessagesStreamReader.on_message_stop,
        }
    )
)


def _is_none_of(value: Any, known: frozenset[str]) -> bool:  # Any: JSON of whatever type
    """Whether an object is of an unknown type."""
    kind = value.get("type") if type(value) is dict else None
    return type(kind) is str and kind not in known
