"""The event stream of this wire, read.

Source: the SDK's ``RawMessageStreamEvent`` with all that it holds.  Events, blocks and deltas that nobody
knows are skipped, whatever they hold; one that is no JSON, or that is known and has another shape, breaks the
stream, since what it said would be lost.  A ``message_start`` may hold the beginning of the answer, or all of
it with the reason of its end; another one before the end is that of another answer, and a break.
"""

from __future__ import annotations

from typing import Any, Final

from msgspec import MsgspecError, Raw, Struct
from msgspec.json import Decoder

from mgw.canonical.conversation import Signature
from mgw.canonical.reply import (
    NO_USAGE,
    ArgumentsAdded,
    Began,
    Broke,
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
from mgw.dialects.anthropic import usage
from mgw.dialects.anthropic.errors import answered, broken
from mgw.dialects.anthropic.reply import NAMELESS, Block, Cited
from mgw.dialects.anthropic.stops import StopDetails, read_stop
from mgw.dialects.arguments import NOTHING, compact
from mgw.dialects.identifiers import made_id
from mgw.dialects.refusal import UNREADABLE_EVENT, spoken_by_proxy
from mgw.dialects.stream import StreamReader
from mgw.errors import GatewayError, Reason
from mgw.vocabulary import Family
from mgw.wire.sse import EventReader


class _Delta(Struct, frozen=True):
    type: str = ""
    text: str | None = None
    thinking: str | None = None
    partial_json: str | None = None
    signature: str | None = None
    citation: Cited | None = None
    stop_reason: str | None = None
    stop_sequence: str | None = None
    stop_details: StopDetails | None = None


class _Begun(Struct, frozen=True):
    id: str | None = None
    model: str | None = None
    content: list[Raw] | None = None
    stop_reason: str | None = None
    stop_sequence: str | None = None
    stop_details: StopDetails | None = None
    usage: Raw = NOTHING


class _Event(Struct, frozen=True):
    type: str = ""
    index: int = -1
    delta: _Delta | None = None
    content_block: Block | None = None
    message: _Begun | None = None
    usage: Raw = NOTHING


class _Kind(Struct, frozen=True):
    """What an event is, whatever else it holds."""

    type: Any = None
    index: int = -1
    delta: Any = None
    content_block: Any = None


_DECODER: Final = Decoder(_Event, strict=False)
_KIND_DECODER: Final = Decoder(_Kind, strict=False)
_BLOCK_DECODER: Final = Decoder(Block, strict=False)
_KINDS: Final = frozenset(
    {
        "message_start",
        "message_delta",
        "message_stop",
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
    }
)
_BLOCKS: Final = frozenset({"text", "thinking", "redacted_thinking", "tool_use"})
_DELTAS: Final = frozenset(
    {"text_delta", "thinking_delta", "signature_delta", "input_json_delta", "citations_delta"}
)


class _Open:
    """A block that has begun and not ended."""

    __slots__ = ("block", "call", "has_delta", "signature")

    def __init__(self, block: Block, call: int) -> None:
        self.block = block
        self.call = call
        self.has_delta = False
        self.signature = block.signature


class Reader(StreamReader):
    """Turns the stream into events, however it is cut."""

    __slots__ = (
        "_began",
        "_calls",
        "_ended",
        "_open",
        "_over",
        "_seed",
        "_sse",
        "_start_told",
        "_told",
        "usage",
    )

    def __init__(self, seed: str) -> None:
        self.usage: TokenUsage = NO_USAGE
        self._seed = seed
        self._sse = EventReader()
        self._open: dict[int, _Open] = {}
        self._calls = 0
        self._began = False
        self._start_told: _Begun | None = None
        """The ``message_start``."""
        self._told: set[int] = set()
        """The blocks that it held."""
        self._ended = False
        """The answer has said why it ended."""
        self._over = False
        """Nothing more is read."""

    @property
    def ended(self) -> bool:
        """Whether ``message_stop`` has come."""
        return self._over

    @property
    def complete(self) -> bool:
        """Whether nothing can be missing."""
        return self._over

    def feed(self, data: bytes) -> list[ReplyEvent]:
        """Return what these bytes complete."""
        found: list[ReplyEvent] = []
        if self._over:
            return found
        for event in self._sse.feed(data):
            if event.event == b"error":
                self._break(broken(event.data), found)
                break
            try:
                decoded = _DECODER.decode(event.data)
            except (MsgspecError, UnicodeDecodeError, RecursionError):
                self._read_odd(event.data, found)
            else:
                self._read(decoded, event.data, found)
            if self._over:
                break
        return found

    def finish(self) -> list[ReplyEvent]:
        """Return nothing: this wire ends with an event of its own."""
        self._sse.finish()
        found: list[ReplyEvent] = []
        if not self._over and not self._open:
            self._end_as_begun(found)
        if not self._ended and not self._over:
            raise GatewayError(
                Reason.UPSTREAM_BROKEN, "the upstream's stream ended before the response was complete"
            )
        self._over = True
        return found

    def _read(self, event: _Event, data: bytes, found: list[ReplyEvent]) -> None:
        kind = event.type
        if kind == "content_block_delta":
            if event.delta is not None and not self._ended:
                self._begin(found)
                self._delta(event.index, event.delta, found)
        elif kind == "content_block_start":
            if event.content_block is not None and not self._ended:
                self._begin(found)
                self._start(event.index, event.content_block, found)
        elif kind == "content_block_stop":
            self._stop(event.index, found)
        elif kind == "message_start":
            self._message_start(event.message or _Begun(), found)
        elif kind == "message_delta":
            self._begin(found)
            self._message_delta(event, found)
        elif kind == "message_stop":
            self._close(found)
        elif kind == "error" or (not kind and answered(data) is not None):
            self._break(broken(data), found)

    def _read_odd(self, data: bytes, found: list[ReplyEvent]) -> None:
        """Read an event that has another shape than any that is known, or is none at all."""
        try:
            event = _KIND_DECODER.decode(data)
        except (MsgspecError, UnicodeDecodeError, RecursionError):
            if not self._ended:
                words = spoken_by_proxy(data)
                self._break(UpstreamError(502, words) if words else UNREADABLE_EVENT.error, found)
            return
        if event.type is None or event.type == "error":
            if (error := answered(data)) is not None:
                self._break(error, found)
        elif event.type == "content_block_start" and _is_none_of(event.content_block, _BLOCKS):
            self._stop(event.index, found)
            self._open[event.index] = _Open(Block(), self._calls)
        elif not self._ended and not self._is_unknown(event):
            self._break(UNREADABLE_EVENT.error, found)

    def _is_unknown(self, event: _Kind) -> bool:
        if event.type == "content_block_delta":
            opened = self._open.get(event.index)
            return _is_none_of(event.delta, _DELTAS) or opened is None or opened.block.type not in _BLOCKS
        return type(event.type) is str and event.type not in _KINDS

    def _break(self, error: UpstreamError, found: list[ReplyEvent]) -> None:
        self._over = True
        found.append(Broke(error))

    def _close(self, found: list[ReplyEvent]) -> None:
        """End the stream, which has to have said why the answer did."""
        self._over = True
        self._end_as_begun(found)
        if not self._ended:
            found.append(Broke(UpstreamError(502, "the upstream's response ended without a finish reason")))

    def _begin(self, found: list[ReplyEvent], message: _Begun | None = None) -> None:
        if self._began:
            return
        self._began = True
        if message is None:
            found.append(Began())
            return
        self.usage = usage.read(message.usage, self.usage)
        found.append(Began(message.id, message.model, self.usage))

    def _message_start(self, message: _Begun, found: list[ReplyEvent]) -> None:
        if self._start_told is not None:
            if not self._ended:
                self._break(
                    UpstreamError(502, "the upstream began a second response before the first one ended"),
                    found,
                )
            return
        self._start_told = message
        self._begin(found, message)
        for index, raw in enumerate(message.content or ()):
            try:
                block = _BLOCK_DECODER.decode(raw)
            except (MsgspecError, UnicodeDecodeError, RecursionError):
                continue  # of a type that nobody knows
            said = len(found)
            self._start(index, block, found)
            if self._over:
                return
            self._stop(index, found)
            if len(found) > said:
                self._told.add(index)

    def _end_as_begun(self, found: list[ReplyEvent]) -> None:
        """End with the reason that the beginning gave, where nothing else did."""
        began = self._start_told
        if began is not None and began.stop_reason is not None:
            self._end(began, found)

    def _start(self, index: int, block: Block, found: list[ReplyEvent]) -> None:
        self._stop(index, found)
        if index in self._told:  # it came with the beginning
            return
        self._open[index] = opened = _Open(block, self._calls)
        match block.type:
            case "text":
                if block.text:
                    found.append(TextAdded(block.text))
            case "thinking":
                if block.thinking:
                    opened.has_delta = True
                    found.append(ThinkingAdded(block.thinking))
            case "tool_use":
                if not block.name:
                    self._break(UpstreamError(502, NAMELESS), found)
                    return
                call_id = block.id or made_id(self._seed, self._calls)
                found.append(CallBegan(self._calls, call_id, block.name))
                self._calls += 1

    def _delta(self, index: int, delta: _Delta, found: list[ReplyEvent]) -> None:
        opened = self._open.get(index)
        if opened is None:
            return
        match opened.block.type:
            case "text" if delta.type == "text_delta" and delta.text:
                found.append(TextAdded(delta.text))
            case "text" if delta.type == "citations_delta" and delta.citation is not None:
                citation = delta.citation.citation()
                if citation is not None:
                    found.append(CitationAdded(citation))
            case "tool_use" if delta.type == "input_json_delta" and delta.partial_json:
                opened.has_delta = True
                found.append(ArgumentsAdded(opened.call, delta.partial_json))
            case "thinking":
                self._thinking_delta(opened, delta, found)

    def _thinking_delta(self, opened: _Open, delta: _Delta, found: list[ReplyEvent]) -> None:
        if delta.type == "signature_delta":
            opened.signature = delta.signature
        elif delta.type == "thinking_delta" and delta.thinking:
            opened.has_delta = True
            found.append(ThinkingAdded(delta.thinking))

    def _stop(self, index: int, found: list[ReplyEvent]) -> None:
        opened = self._open.pop(index, None)
        if opened is None:
            return
        block = opened.block
        if block.type == "tool_use":
            arguments = compact(block.input)
            if not opened.has_delta and arguments != "{}":  # given whole at the start
                found.append(ArgumentsAdded(opened.call, arguments))
            found.append(CallEnded(opened.call))
        elif block.type == "redacted_thinking":
            found.append(ThinkingSigned(Signature(Family.ANTHROPIC, block.data or "", redacted=True)))
        elif block.type == "thinking" and (opened.has_delta or opened.signature):
            found.append(ThinkingSigned(Signature(Family.ANTHROPIC, opened.signature or "")))

    def _message_delta(self, event: _Event, found: list[ReplyEvent]) -> None:
        known = usage.read(event.usage, self.usage)
        if known != self.usage:
            self.usage = known
            found.append(Counted(known))
        if event.delta is not None and event.delta.stop_reason is not None:
            self._end(event.delta, found)

    def _end(self, delta: _Delta | _Begun, found: list[ReplyEvent]) -> None:
        if self._ended:
            return
        self._ended = True
        for index in tuple(self._open):
            self._stop(index, found)
        stop, unknown = read_stop(delta.stop_reason, calls=self._calls > 0)
        details = delta.stop_details
        if stop is StopReason.REFUSAL and details is not None and details.explanation:
            found.append(RefusalAdded(details.explanation))
        found.append(Ended(stop, delta.stop_sequence, unknown))


def _is_none_of(value: Any, known: frozenset[str]) -> bool:  # Any: JSON of whatever type
    """Whether an object is of a type that nobody knows."""
    kind = value.get("type") if type(value) is dict else None
    return type(kind) is str and kind not in known
