"""A complete response of the Messages API, both ways, with its stop reasons (the table of contract 8.20).

Source: the SDK's ``Message`` with all that it holds.  What this API cannot express is left out: further
candidates, log-probabilities, citations of URLs; media is described in a text.
"""

from __future__ import annotations

from contextlib import suppress
from types import MappingProxyType
from typing import Any, Final, Generic, TypeVar

from msgspec import MsgspecError, Raw, Struct, field
from msgspec.json import Decoder, Encoder
from msgspec.structs import replace

from mgw.canonical.conversation import (
    Citation,
    JsonObject,
    Media,
    Part,
    Refusal,
    Signature,
    Text,
    Thinking,
    ToolCall,
)
from mgw.canonical.identifiers import ANTHROPIC_ID, make_id, make_unique_id
from mgw.canonical.reply import NO_USAGE, Candidate, Reply, StopReason
from mgw.dialects.anthropic.errors import find_error
from mgw.dialects.anthropic.thoughts import is_weak, render_signature
from mgw.dialects.anthropic.usage import parse_usage, render_usage
from mgw.dialects.arguments import NOTHING, compact_arguments, embed_arguments
from mgw.dialects.dialect import ReplyContext, ReplySource
from mgw.dialects.refusal import AnswerError, proxy_message
from mgw.nouns.errors import GatewayError, Reason
from mgw.nouns.vocabulary import Family

GUARDRAIL: Final = "amazon-bedrock-guardrailAction"
"""What Amazon Bedrock adds to messages and events: whether a guardrail has put words of its own in place of
the model's."""
INTERVENED: Final = "INTERVENED"
NAMELESS_CALL: Final = "the upstream's response has a tool call without a name"
"""Breaks a response: a call that nobody can run must not end as if there had been none."""


class UrlCitation(Struct, frozen=True):
    """A citation, as far as it is read: one that names a URL.  It is of the whole block that holds it."""

    url: str | None = None
    title: str | None = None

    def to_canonical(self) -> Citation | None:
        """Return the citation; ``None`` where it names no URL."""
        return None if self.url is None else Citation(self.url, self.title)


class ContentBlock(Struct, frozen=True):
    """A content block of a response, of whatever type."""

    type: str = ""
    text: str | None = None
    thinking: str | None = None
    signature: str | None = None
    data: str | None = None
    id: str | None = None
    name: str | None = None
    input: Raw = NOTHING
    citations: list[UrlCitation] | None = None


class StopDetails(Struct, frozen=True):
    """``stop_details``, as far as it is read."""

    explanation: str | None = None
    """Why the vendor declined, in words."""


Block = TypeVar("Block")


class _Message(Struct, Generic[Block], frozen=True):
    content: list[Block] | None = None
    id: str | None = None
    model: str | None = None
    stop_reason: str | None = None
    stop_sequence: str | None = None
    stop_details: StopDetails | None = None
    usage: Raw = NOTHING
    guardrail: Any = field(default=None, name=GUARDRAIL)  # Any: nothing else depends on it


_DECODER: Final = Decoder(_Message[ContentBlock], strict=False)
_RAW_DECODER: Final = Decoder(_Message[Raw], strict=False)
"""The decoder for a message with a block that cannot be read."""
_BLOCK_DECODER: Final = Decoder(ContentBlock, strict=False)
_ENCODER: Final = Encoder()
_END: Final = StopReason.END  # a member of an enumeration is looked up in Python's slow way each time
_STOP_SEQUENCE: Final = StopReason.STOP_SEQUENCE
_TOOL_USE: Final = StopReason.TOOL_USE
_REFUSAL: Final = StopReason.REFUSAL
_FROM_STOP_REASON: Final = MappingProxyType(
    {
        "end_turn": StopReason.END,
        "pause_turn": StopReason.END,
        "stop_sequence": StopReason.STOP_SEQUENCE,
        "max_tokens": StopReason.LENGTH,
        "model_context_window_exceeded": StopReason.LENGTH,
        "tool_use": StopReason.TOOL_USE,
        "refusal": StopReason.REFUSAL,
        "guardrail_intervened": StopReason.REFUSAL,
    }
)
_TO_STOP_REASON: Final = MappingProxyType(
    {
        StopReason.END: "end_turn",
        StopReason.STOP_SEQUENCE: "stop_sequence",
        StopReason.LENGTH: "max_tokens",
        StopReason.TOOL_USE: "tool_use",
        StopReason.REFUSAL: "refusal",
    }
)
_OVERRIDDEN_BY_CALLS: Final = frozenset({_END, _STOP_SEQUENCE})
_UNREADABLE: Final = (MsgspecError, UnicodeDecodeError, RecursionError)


def parse_reply(body: bytes, source: ReplySource) -> Reply:
    """Parse a response; a call without an identifier gets one of the source's seed."""
    message = _decode_message(body)
    if message.content is None:
        raise _no_message(body)
    parts: list[Part] = []
    calls = characters = 0
    for block in message.content:
        part = _parse_part(block, source.seed, calls)
        if part is None:
            continue
        if isinstance(part, Text):
            begin, characters = characters, characters + len(part.text)
            if part.citations:
                citations = [replace(one, start=begin, end=characters) for one in part.citations]
                part = replace(part, citations=tuple(citations))
        parts.append(part)
        calls += isinstance(part, ToolCall)
    stop, unknown = parse_stop(message.stop_reason, calls=calls > 0)
    if message.guardrail == INTERVENED:
        stop, unknown = _REFUSAL, None
    if stop is _REFUSAL and message.stop_details and message.stop_details.explanation:
        parts.append(Refusal(message.stop_details.explanation))
    candidate = Candidate(tuple(parts), stop, message.stop_sequence, unknown)
    return Reply((candidate,), message.id, message.model, parse_usage(message.usage, NO_USAGE))


def _decode_message(body: bytes) -> _Message[ContentBlock]:
    """Return the message that a body is, without blocks of another shape; an empty one where it is none."""
    try:
        return _DECODER.decode(body)
    except _UNREADABLE:
        pass
    try:
        message = _RAW_DECODER.decode(body)
    except _UNREADABLE:
        return _Message()
    blocks: list[ContentBlock] = []
    for raw in message.content or ():
        with suppress(*_UNREADABLE):
            blocks.append(_BLOCK_DECODER.decode(raw))
    return _Message(
        None if message.content is None else blocks,
        message.id,
        message.model,
        message.stop_reason,
        message.stop_sequence,
        message.stop_details,
        message.usage,
        message.guardrail,
    )


def parse_stop(stop_reason: str | None, *, calls: bool) -> tuple[StopReason, str | None]:
    """Return the reason, and the word where it is unknown; ``calls``: the response calls tools."""
    reason = _END if stop_reason is None else _FROM_STOP_REASON.get(stop_reason)
    unknown = stop_reason if reason is None else None
    reason = reason or _END
    return _TOOL_USE if calls and reason in _OVERRIDDEN_BY_CALLS else reason, unknown


def _no_message(body: bytes) -> GatewayError:
    """Return the error of a body that is no message: its own words, where it is an error of good status."""
    error = find_error(body)
    if error is not None:
        return AnswerError(error)
    words = proxy_message(body)
    message = "the upstream's response is not a message" + (f": {words}" if words else "")
    return GatewayError(Reason.UPSTREAM_BROKEN, message)


def _parse_part(block: ContentBlock, seed: str, calls: int) -> Part | None:
    """Return what a block means; ``None`` for one of an unknown type."""
    match block.type:
        case "text":
            if not block.text:
                return None
            if not block.citations:
                return Text(block.text)
            parsed = [citation.to_canonical() for citation in block.citations]
            return Text(block.text, citations=tuple(citation for citation in parsed if citation is not None))
        case "thinking":
            return Thinking(block.thinking or "", Signature(Family.ANTHROPIC, block.signature or ""))
        case "redacted_thinking":
            return Thinking("", Signature(Family.ANTHROPIC, block.data or "", redacted=True))
        case "tool_use":
            if not block.name:
                raise GatewayError(Reason.UPSTREAM_BROKEN, NAMELESS_CALL)
            return ToolCall(block.id or make_id(seed, calls), block.name, compact_arguments(block.input))
    return None


def render_reply(reply: Reply, context: ReplyContext) -> bytes:
    """Render a response, of which this API has one candidate."""
    candidate = reply.candidates[0] if reply.candidates else Candidate((), StopReason.END)
    content = _Content()
    for part in candidate.parts:
        content.add(part)
    stop = render_stop(candidate.stop, candidate.stop_sequence, calls=content.calls, refused=content.refused)
    return _ENCODER.encode(
        {
            **render_envelope(reply.id, reply.model, context),
            "content": content.blocks,
            **stop,
            "usage": render_usage(reply.usage),
        }
    )


def render_envelope(message_id: str | None, model: str | None, context: ReplyContext) -> JsonObject:
    """Return the fields of a message before its content."""
    return {
        "id": message_id or f"msg_{context.request_id}",
        "type": "message",
        "role": "assistant",
        "model": model or context.model,
    }


def render_stop(reason: StopReason, sequence: str | None, *, calls: bool, refused: bool) -> JsonObject:
    """Return the fields that tell the reason; ``refused``: the response holds words of a refusal.

    Calls override an end, and a stop sequence that is not named is an end.
    """
    if refused:
        reason = _REFUSAL
    elif calls and reason in _OVERRIDDEN_BY_CALLS:
        reason = _TOOL_USE
    elif (reason is _TOOL_USE and not calls) or (reason is _STOP_SEQUENCE and not sequence):
        reason = _END
    is_refusal = reason is _REFUSAL
    return {
        "stop_reason": _TO_STOP_REASON[reason],
        "stop_sequence": sequence if reason is _STOP_SEQUENCE else None,
        "stop_details": {"type": "refusal", "category": None, "explanation": None} if is_refusal else None,
    }


def describe_media(media: Media) -> str:
    """Return the text that stands in place of media."""
    name = f"{media.kind.value} ({media.media_type})" if media.media_type else media.kind.value
    return f"[The model answered with {name}, which this API cannot represent.]"


class _Content:
    """The blocks of a response: neighbours of one type are one block, as they are in a stream."""

    __slots__ = ("_blank", "_ids", "_open", "blocks", "calls", "refused")

    def __init__(self) -> None:
        self.blocks: list[JsonObject] = []
        self.calls = False
        self.refused = False
        self._blank = ""
        """White space that is text only if text follows."""
        self._ids: set[str] = set()
        self._open: str | None = None
        """The type of the last block while more may be added to it; ``weak``: a thought to be signed."""

    def add(self, part: Part) -> None:
        """Add a part."""
        match part:
            case Text():
                self._add_text(part.text)
            case Refusal():
                self.refused = True
                self._add_text(part.text)
            case Thinking():
                self._add_thinking(part)
            case ToolCall():
                self._add_call(part)
            case Media():
                self._open, self._blank = None, ""
                self._add_text(describe_media(part))
                self._open = None

    def _add_text(self, text: str) -> None:
        if not text:
            return
        if self._open == "text":
            self.blocks[-1]["text"] += text
            return
        text = self._blank + text
        self._blank = text if text.isspace() else ""
        if not self._blank:
            self.blocks.append({"type": "text", "text": text})
            self._open = "text"

    def _add_thinking(self, part: Thinking) -> None:
        signature = part.signature
        if signature is not None and signature.redacted:
            self._blank = ""
            self.blocks.append({"type": "redacted_thinking", "data": render_signature(signature)})
            self._open = None
            return
        if not part.text and is_weak(signature) and self._open != "thinking":
            return  # nothing stands between what is before it and behind it
        self._blank = ""
        if self._open != "thinking":
            self.blocks.append({"type": "thinking", "thinking": "", "signature": ""})
        self.blocks[-1]["thinking"] += part.text
        self._sign(signature)
        if signature is None:
            self._open = "thinking"
        else:
            self._open = "weak" if is_weak(signature) else None

    def _sign(self, signature: Signature | None) -> None:
        thought = self.blocks[-1]
        thought["signature"] = render_signature(signature, thought["thinking"])

    def _add_call(self, part: ToolCall) -> None:
        self._blank = ""
        if part.signature is not None:
            if self._open not in {"thinking", "weak"}:
                self.blocks.append({"type": "thinking", "thinking": "", "signature": ""})
            self._sign(part.signature)
        self.blocks.append(
            {
                "type": "tool_use",
                "id": make_unique_id(part.id, self._ids, ANTHROPIC_ID),
                "name": part.name,
                "input": embed_arguments(part.arguments),
            }
        )
        self.calls = True
        self._open = None
