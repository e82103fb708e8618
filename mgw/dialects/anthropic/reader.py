"""The event stream of this wire, read.

Source: the SDK's ``RawMessageStreamEvent`` with all that it holds.  Events, blocks and deltas that nobody
knows are skipped, and so is an event that is no JSON or has another shape; the end alone is demanded.
"""

from __future__ import annotations

from typing import Final

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
from mgw.dialects.anthropic.errors import StreamError, broken
from mgw.dialects.anthropic.reply import Block, Cited
from mgw.dialects.anthropic.stops import StopDetails, read_stop
from mgw.dialects.arguments import NOTHING, compact
from mgw.dialects.identifiers import made_id
from mgw.dialects.refusal import UNREADABLE_EVENT
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
    usage: Raw = NOTHING


class _Event(Struct, frozen=True):
    type: str = ""
    index: int = -1
    delta: _Delta | None = None
    content_block: Block | None = None
    message: _Begun | None = None
    usage: Raw = NOTHING
    error: StreamError | None = None


_DECODER: Final = Decoder(_Event, strict=False)


class _Open:
    """A block that has begun and not ended."""

    __slots__ = ("block", "call", "has_delta", "signature")

    def __init__(self, block: Block, call: int) -> None:
        self.block = block
        self.call = call
        self.has_delta = False
        self.signature = block.signature


class Reader:
    """Turns the stream into events, however it is cut."""

    __slots__ = ("_began", "_calls", "_ended", "_open", "_over", "_seed", "_sse", "usage")

    def __init__(self, seed: str) -> None:
        self.usage: TokenUsage = NO_USAGE
        self._seed = seed
        self._sse = EventReader()
        self._open: dict[int, _Open] = {}
        self._calls = 0
        self._began = False
        self._ended = False
        """The answer has said why it ended."""
        self._over = False
        """Nothing more is read."""

    @property
    def done(self) -> bool:
        """Whether ``message_stop`` has come."""
        return self._over

    @property
    def whole(self) -> bool:
        """Whether nothing can be missing."""
        return self._over

    def feed(self, data: bytes) -> list[ReplyEvent]:
        """Return what these bytes complete."""
        found: list[ReplyEvent] = []
        if self._over:
            return found
        for event in self._sse.feed(data):
            try:
                decoded = _DECODER.decode(event.data)
            except (MsgspecError, UnicodeDecodeError, RecursionError):
                if self._ended:
                    continue
                self._over = True
                found.append(UNREADABLE_EVENT)
                break
            self._read(decoded, found)
            if self._over:
                break
        return found

    def finish(self) -> list[ReplyEvent]:
        """Return nothing: this wire ends with an event of its own."""
        self._sse.finish()
        if not self._ended and not self._over:
            raise GatewayError(
                Reason.UPSTREAM_BROKEN, "the upstream's stream ended before its answer was complete"
            )
        self._over = True
        return []

    def _read(self, event: _Event, found: list[ReplyEvent]) -> None:
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
            self._begin(found, event.message)
        elif kind == "message_delta":
            self._begin(found)
            self._message_delta(event, found)
        elif kind == "message_stop":
            self._close(found)
        elif kind == "error":
            self._over = True
            found.append(Broke(broken(event.error)))

    def _close(self, found: list[ReplyEvent]) -> None:
        """End the stream, which has to have said why the answer did."""
        self._over = True
        if not self._ended:
            found.append(Broke(UpstreamError(502, "the upstream's answer ended without a reason")))

    def _begin(self, found: list[ReplyEvent], message: _Begun | None = None) -> None:
        if self._began:
            return
        self._began = True
        if message is None:
            found.append(Began())
            return
        self.usage = usage.read(message.usage, self.usage)
        found.append(Began(message.id, message.model, self.usage))

    def _start(self, index: int, block: Block, found: list[ReplyEvent]) -> None:
        self._stop(index, found)
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
                call_id = block.id or made_id(self._seed, self._calls)
                found.append(CallBegan(self._calls, call_id, block.name or ""))
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

    def _end(self, delta: _Delta, found: list[ReplyEvent]) -> None:
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
