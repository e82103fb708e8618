"""A complete chat completion, both ways.

Source: the SDK's ``ChatCompletion``.  A message is read as a delta that holds everything
(:mod:`mgw.dialects.openai.candidates`), so an answer is understood the same, streamed or not.
"""

from __future__ import annotations

from collections.abc import Iterable
from operator import attrgetter
from types import MappingProxyType
from typing import Any, Final

from msgspec import DecodeError, Raw, Struct
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
from mgw.canonical.identifiers import CHAT_ID, make_unique_id
from mgw.canonical.reply import (
    NO_USAGE,
    ArgumentsAdded,
    Broke,
    CallBegan,
    Candidate,
    CitationAdded,
    Ended,
    LogprobsAdded,
    MediaAdded,
    RefusalAdded,
    Reply,
    ReplyEvent,
    StopReason,
    TextAdded,
    TextSigned,
    ThinkingAdded,
    ThinkingSigned,
    TokenLogprob,
    TokenUsage,
)
from mgw.dialects.arguments import is_empty
from mgw.dialects.billing import NO_VALUE
from mgw.dialects.dialect import ReplyContext, ReplySource
from mgw.dialects.metering import try_read_usage
from mgw.dialects.openai.blocks import render_call
from mgw.dialects.openai.candidates import (
    Choice,
    ChoiceReader,
    bare_text,
    render_citations,
    render_id,
    render_logprobs,
    render_stop,
)
from mgw.dialects.openai.errors import is_error, parse_stream_error
from mgw.dialects.openai.media import render_image
from mgw.dialects.openai.options import ChatReplyOptions
from mgw.dialects.openai.thoughts import ThoughtRenderer, render_extra_content, render_signature
from mgw.dialects.openai.usage import parse_usage, read_usage, render_usage
from mgw.dialects.refusal import AnswerError, proxy_message
from mgw.nouns.errors import GatewayError, Reason


class _Completion(Struct):
    """The fields of a completion that are read; Any: hosts write all kinds of types."""

    id: Any = None
    model: Any = None
    choices: list[Choice] | None = None
    usage: Raw = NO_VALUE
    service_tier: Raw = NO_VALUE
    error: Any = None


_DECODER: Final = Decoder(_Completion)
_ENCODER: Final = Encoder()
_ERROR: Final = attrgetter("error")
_STOPS_OF_TEXT: Final = MappingProxyType({"stop": StopReason.END, "length": StopReason.LENGTH})
"""How most answers end; :class:`ChoiceReader` knows all other ways."""


def parse_reply(body: bytes, source: ReplySource) -> Reply:
    """Understand a complete answer; identifiers that it lacks are made from the source's seed.

    :raises GatewayError: ``UPSTREAM_BROKEN`` for what is no answer.
    """
    try:
        completion = _DECODER.decode(body)
    except (DecodeError, UnicodeDecodeError, RecursionError):
        raise no_reply(body, "the upstream's response is not a chat completion") from None
    choices = completion.choices or []
    if completion.error or any(map(_ERROR, choices)):
        raise AnswerError(parse_stream_error(body))
    if not choices:
        raise no_reply(body, "the upstream's response has no choices")
    return Reply(
        tuple([_parse_candidate(choice, number, source.seed) for number, choice in enumerate(choices)]),
        completion.id if type(completion.id) is str else None,
        completion.model if type(completion.model) is str else None,
        _parse_counts(body, completion),
    )


def _parse_counts(body: bytes, completion: _Completion) -> TokenUsage:
    """Return the counts; they stand in ``usage``, or wherever else hosts put them."""
    usage = completion.usage
    if usage is NO_VALUE or bytes(usage) == b"null":
        return try_read_usage(read_usage, body, NO_USAGE)
    return parse_usage(usage, completion.service_tier)


def no_reply(body: bytes, message: str) -> GatewayError:
    """Return what is wrong with a body: the error that it is, else what a proxy says, else ``message``."""
    if is_error(body):
        return AnswerError(parse_stream_error(body))
    words = proxy_message(body)
    return GatewayError(Reason.UPSTREAM_BROKEN, f"{message}: {words}" if words else message)


def _parse_candidate(choice: Choice, number: int, seed: str) -> Candidate:
    message = choice.message or choice.delta
    text = None if message is None or choice.logprobs is not None else bare_text(message)
    if text is not None and type(choice.finish_reason) is str:  # as most answers are
        stop = _STOPS_OF_TEXT.get(choice.finish_reason)
        if stop is not None:
            return Candidate((Text(text),), stop)
    reader = ChoiceReader(number, seed)
    events: list[ReplyEvent] = []
    if message is not None and type(message.tool_calls) is list:  # each entry is a call of its own
        message.tool_calls = [
            {**call, "index": place} for place, call in enumerate(message.tool_calls) if type(call) is dict
        ]
    whole = Choice(delta=message, finish_reason=choice.finish_reason, logprobs=choice.logprobs)
    reader.on_choice(whole, events)
    reader.close(events)
    if events and isinstance(events[-1], Broke):
        raise GatewayError(Reason.UPSTREAM_BROKEN, events[-1].error.message)
    return collect_candidate(events)


def collect_candidate(events: Iterable[ReplyEvent]) -> Candidate:
    """Return the candidate that these events make."""
    collector = _CandidateCollector()
    for event in events:
        collector.add(event)
    ended = collector.ended
    return Candidate(
        tuple(collector.parts), ended.stop, ended.stop_sequence, ended.unknown_stop, tuple(collector.tokens)
    )


class _CandidateCollector:
    def __init__(self) -> None:
        self.parts: list[Part] = []
        self.tokens: list[TokenLogprob] = []
        self.ended = Ended(StopReason.END)
        self._calls: dict[int, int] = {}
        """The places of the calls among the parts, by their numbers."""

    def add(self, event: ReplyEvent) -> None:
        """Add an event to the parts."""
        match event:
            case TextAdded() | TextSigned() | CitationAdded():
                self._add_text(event)
            case ThinkingAdded():
                self._add_thinking(event.text)
            case ThinkingSigned():
                self._sign_thinking(event.signature)
            case RefusalAdded():
                self.parts.append(Refusal(event.text))
            case CallBegan():
                self._calls[event.call] = len(self.parts)
                self.parts.append(ToolCall(event.id, event.name, "", event.signature))
            case ArgumentsAdded():
                self._add_arguments(event)
            case MediaAdded():
                self.parts.append(event.media)
            case LogprobsAdded():
                self.tokens += event.tokens
            case Ended():
                self.ended = event
            case _:
                return

    def _add_text(self, event: TextAdded | TextSigned | CitationAdded) -> None:
        last = self.parts[-1] if self.parts else None
        if isinstance(event, TextAdded):
            if isinstance(last, Text) and last.signature is None and not last.citations:
                self.parts[-1] = Text(last.text + event.text)
            else:
                self.parts.append(Text(event.text))
            return
        if not isinstance(last, Text):
            last = Text("")
            self.parts.append(last)
        if isinstance(event, TextSigned):
            self.parts[-1] = replace(last, signature=event.signature)
        else:
            self.parts[-1] = replace(last, citations=(*last.citations, event.citation))

    def _add_thinking(self, text: str) -> None:
        last = self.parts[-1] if self.parts else None
        if isinstance(last, Thinking) and last.signature is None:
            self.parts[-1] = Thinking(last.text + text)
        else:
            self.parts.append(Thinking(text))

    def _sign_thinking(self, signature: Signature) -> None:
        last = self.parts[-1] if self.parts else None
        if isinstance(last, Thinking) and last.signature is None and not signature.redacted:
            self.parts[-1] = Thinking(last.text, signature)
        else:
            self.parts.append(Thinking("", signature))

    def _add_arguments(self, event: ArgumentsAdded) -> None:
        place = self._calls.get(event.call)
        call = self.parts[place] if place is not None else None
        if place is not None and isinstance(call, ToolCall):
            self.parts[place] = replace(call, arguments=call.arguments + event.text)


def render_reply(reply: Reply, context: ReplyContext) -> bytes:
    """Write a complete answer."""
    options = context.options
    deprecated = isinstance(options, ChatReplyOptions) and options.legacy_functions
    completion: JsonObject = {
        "id": render_id(reply.id, context),
        "object": "chat.completion",
        "created": context.created,
        "model": reply.model or context.model,
        "choices": [
            _render_choice(candidate, index, deprecated=deprecated)
            for index, candidate in enumerate(reply.candidates)
        ],
    }
    if reply.usage.tokens_in is not None or reply.usage.tokens_out is not None:
        completion["usage"] = render_usage(reply.usage)
    return _ENCODER.encode(completion)


def _render_choice(candidate: Candidate, index: int, *, deprecated: bool) -> JsonObject:
    calls = ToolCall in map(type, candidate.parts)
    return {
        "index": index,
        "message": _render_message(candidate, deprecated=deprecated),
        "logprobs": render_logprobs(candidate.logprobs) if candidate.logprobs else None,
        "finish_reason": render_stop(candidate.stop, calls=calls, deprecated=deprecated),
    }


class _MessageFields:
    """What the fields of a message hold, each in the order of the parts."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.reasoning: list[str] = []
        self.details: list[JsonObject] = []
        self.refusals: list[str] = []
        self.calls: list[ToolCall] = []
        self.images: list[JsonObject] = []
        self.citations: list[Citation] = []
        self.signature: Signature | None = None
        self._thoughts = ThoughtRenderer()
        self._characters = 0

    def add(self, part: Part) -> None:
        """Add a part of the answer."""
        match part:
            case Thinking():
                self._add_thinking(part)
                return
            case Text():
                self._add_text(part)
            case Refusal():
                self.refusals.append(part.text)
            case ToolCall():
                self.calls.append(part)
            case Media():
                self.images.append(render_image(part, len(self.images)))
            case _:
                return
        self._thoughts.close()

    def _add_text(self, part: Text) -> None:
        self.texts.append(part.text)
        self._characters += len(part.text)
        self.citations += part.citations
        self.signature = part.signature or self.signature

    def _add_thinking(self, part: Thinking) -> None:
        if part.text:
            self.reasoning.append(part.text)
            self._thoughts.add(part.text)
        if part.signature is not None:
            entry = self._thoughts.sign(part.signature, self._characters, len(self.calls))
            self.details.append(entry)


def _render_message(candidate: Candidate, *, deprecated: bool) -> JsonObject:
    parts = candidate.parts
    first = parts[0] if len(parts) == 1 else None
    if type(first) is Text and not first.citations and first.signature is None:  # as in most answers
        return {"role": "assistant", "content": first.text, "refusal": None}
    fields = _MessageFields()
    for part in parts:
        fields.add(part)
    text = "".join(fields.texts)
    refusal = "".join(fields.refusals)
    message: JsonObject = {
        "role": "assistant",
        "content": None if not text and (fields.calls or refusal) else text,
        "refusal": refusal or None,
    }
    if fields.reasoning:
        message["reasoning_content"] = "".join(fields.reasoning)
    if fields.details:
        message["reasoning_details"] = fields.details
    if fields.calls:
        message |= _render_calls(fields.calls, deprecated=deprecated)
    if fields.images:
        message["images"] = fields.images
    annotations = render_citations(fields.citations)
    if annotations:
        message["annotations"] = annotations
    if signature := render_signature(fields.signature):
        message["extra_content"] = render_extra_content(signature)
    return message


def _render_calls(calls: Iterable[ToolCall], *, deprecated: bool) -> JsonObject:
    """Return the calls; the deprecated kind has one only."""
    used: set[str] = set()
    entries = [
        render_call(
            make_unique_id(call.id, used, CHAT_ID),
            call.name,
            "{}" if is_empty(call.arguments) else call.arguments,
            render_signature(call.signature),
        )
        for call in calls
    ]
    return {"function_call": entries[0]["function"]} if deprecated else {"tool_calls": entries}
