"""A whole answer of chat completions, both ways.

Source: the SDK's ``ChatCompletion``.  A message is read as a delta that holds everything
(:mod:`mgw.dialects.openai.choice`), so an answer says the same, streamed or not.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from msgspec import DecodeError, Struct
from msgspec.json import Decoder, Encoder

from mgw.canonical.conversation import (
    Citation,
    JsonObject,
    Media,
    Refusal,
    Signature,
    Text,
    Thinking,
    ToolCall,
)
from mgw.canonical.reply import NO_USAGE, Broke, Candidate, Reply, ReplyEvent
from mgw.dialects.arguments import is_empty
from mgw.dialects.dialect import ReplyContext, ReplySource
from mgw.dialects.identifiers import CHAT_ID, unused_id
from mgw.dialects.metering import attempt
from mgw.dialects.openai.answer import (
    annotations_of,
    call_object,
    completion_id,
    extra_object,
    finish_word,
    logprobs_object,
    usage_object,
)
from mgw.dialects.openai.choice import Choice, ChoiceReader
from mgw.dialects.openai.content import image_object
from mgw.dialects.openai.errors import error_in, is_error
from mgw.dialects.openai.gather import gathered
from mgw.dialects.openai.meter import read_usage
from mgw.dialects.openai.thoughts import Thoughts
from mgw.dialects.refusal import AnswerError, spoken_by_proxy
from mgw.errors import GatewayError, Reason


class _Completion(Struct):
    """The fields of an answer that are read; Any: hosts write all kinds of types."""

    id: Any = None
    model: Any = None
    choices: list[Choice] | None = None
    error: Any = None


_DECODER: Final = Decoder(_Completion)
_ENCODER: Final = Encoder()


def parse_reply(body: bytes, source: ReplySource) -> Reply:
    """Understand a whole answer; identifiers that it lacks are made from the source's seed.

    Raises: :class:`GatewayError` (``UPSTREAM_BROKEN``) for what is no answer.
    """
    try:
        found = _DECODER.decode(body)
    except (DecodeError, UnicodeDecodeError, RecursionError):
        raise _no_answer(body, "the upstream's response is not a chat completion") from None
    if found.error or any(choice.error for choice in found.choices or ()):
        raise AnswerError(error_in(body))
    if not found.choices:
        raise _no_answer(body, "the upstream's response has no choices")
    return Reply(
        tuple(_candidate(choice, number, source.seed) for number, choice in enumerate(found.choices)),
        found.id if type(found.id) is str else None,
        found.model if type(found.model) is str else None,
        attempt(read_usage, body, NO_USAGE),
    )


def _no_answer(body: bytes, message: str) -> GatewayError:
    """Return what is wrong with an answer: the error that it is, else what a proxy says, else ``message``."""
    if is_error(body):
        return AnswerError(error_in(body))
    words = spoken_by_proxy(body)
    return GatewayError(Reason.UPSTREAM_BROKEN, f"{message}: {words}" if words else message)


def _candidate(choice: Choice, number: int, seed: str) -> Candidate:
    reader = ChoiceReader(number, seed)
    events: list[ReplyEvent] = []
    message = choice.message or choice.delta
    if message is not None and type(message.tool_calls) is list:  # each entry is a call of its own
        message.tool_calls = [
            {**call, "index": place} for place, call in enumerate(message.tool_calls) if type(call) is dict
        ]
    reader.take(Choice(delta=message, finish_reason=choice.finish_reason, logprobs=choice.logprobs), events)
    if not reader.ended:
        reader.finish("stop", events)
    if events and isinstance(events[-1], Broke):
        raise GatewayError(Reason.UPSTREAM_BROKEN, events[-1].error.message)
    return gathered(events)


def render_reply(reply: Reply, context: ReplyContext) -> bytes:
    """Write a whole answer."""
    completion: JsonObject = {
        "id": completion_id(reply.id, context),
        "object": "chat.completion",
        "created": context.created,
        "model": reply.model or context.model,
        "choices": [
            _choice(candidate, index, deprecated=context.options.legacy_functions)
            for index, candidate in enumerate(reply.candidates)
        ],
    }
    if reply.usage.tokens_in is not None or reply.usage.tokens_out is not None:
        completion["usage"] = usage_object(reply.usage)
    return _ENCODER.encode(completion)


def _choice(candidate: Candidate, index: int, *, deprecated: bool) -> JsonObject:
    calls = any(isinstance(part, ToolCall) for part in candidate.parts)
    return {
        "index": index,
        "message": _message(candidate, deprecated=deprecated),
        "logprobs": logprobs_object(candidate.logprobs) if candidate.logprobs else None,
        "finish_reason": finish_word(candidate.stop, calls=calls, deprecated=deprecated),
    }


class _Said:
    """What a message says, by kind, in the order of the parts."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.told: list[str] = []
        self.details: list[JsonObject] = []
        self.refusals: list[str] = []
        self.calls: list[ToolCall] = []
        self.images: list[JsonObject] = []
        self.citations: list[Citation] = []
        self.signature: Signature | None = None
        self._thoughts = Thoughts()
        self._characters = 0

    def take(self, part: object) -> None:
        """Take a part of the answer."""
        match part:
            case Thinking():
                self._think(part)
                return
            case Text():
                self._say(part)
            case Refusal():
                self.refusals.append(part.text)
            case ToolCall():
                self.calls.append(part)
            case Media():
                self.images.append(image_object(part, len(self.images)))
            case _:
                return
        self._thoughts.close()

    def _say(self, part: Text) -> None:
        self.texts.append(part.text)
        self._characters += len(part.text)
        self.citations += part.citations
        self.signature = part.signature or self.signature

    def _think(self, part: Thinking) -> None:
        if part.text:
            self.told.append(part.text)
            self._thoughts.add(part.text)
        if part.signature is not None:
            entry = self._thoughts.sign(part.signature, self._characters, len(self.calls))
            self.details.append(entry)


def _message(candidate: Candidate, *, deprecated: bool) -> JsonObject:
    said = _Said()
    for part in candidate.parts:
        said.take(part)
    text = "".join(said.texts)
    refusal = "".join(said.refusals)
    message: JsonObject = {
        "role": "assistant",
        "content": None if not text and (said.calls or refusal) else text,
        "refusal": refusal or None,
    }
    if said.told:
        message["reasoning_content"] = "".join(said.told)
    if said.details:
        message["reasoning_details"] = said.details
    if said.calls:
        message |= _calls(said.calls, deprecated=deprecated)
    if said.images:
        message["images"] = said.images
    annotations = annotations_of(said.citations)
    if annotations:
        message["annotations"] = annotations
    if said.signature is not None:
        message["extra_content"] = extra_object(said.signature)
    return message


def _calls(calls: Iterable[ToolCall], *, deprecated: bool) -> JsonObject:
    """Return the calls; the deprecated kind has one only."""
    used: set[str] = set()
    written = [
        call_object(
            unused_id(call.id, used, CHAT_ID),
            call.name,
            "{}" if is_empty(call.arguments) else call.arguments,
            call.signature,
        )
        for call in calls
    ]
    return {"function_call": written[0]["function"]} if deprecated else {"tool_calls": written}
