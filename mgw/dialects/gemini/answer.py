"""A whole answer as Google's clients read it, and what answers in pieces share with it.

The first call of an answer is signed: Google's clients send signatures back and its models demand them.  A
call that was cut off is left out, since ``args`` is an object and nothing less; why it ended says it.

Source: ``GenerateContentResponse`` of google-genai 3.4; contract 8.20, 8.24.
"""

from __future__ import annotations

from typing import Final, assert_never

from msgspec import Raw
from msgspec.json import Encoder

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
    ToolResult,
)
from mgw.canonical.reply import Candidate, Reply, StopReason, TokenLogprob
from mgw.dialects.arguments import NOTHING, embedded, is_empty, object_of
from mgw.dialects.dialect import ReplyContext
from mgw.dialects.fillers import left_out
from mgw.dialects.gemini.media import render_media
from mgw.dialects.gemini.parts import call_part, text_part, thought_part
from mgw.dialects.gemini.stops import FINISHES
from mgw.dialects.gemini.thoughts import WrittenThoughts
from mgw.dialects.gemini.usage import usage_metadata
from mgw.dialects.signatures import SKIP_VALIDATOR, tagged
from mgw.vocabulary import Family

_ENCODER: Final = Encoder()
_CUT: Final = frozenset({StopReason.LENGTH, StopReason.REFUSAL})
"""Ends in the middle of something."""


def render_reply(reply: Reply, context: ReplyContext) -> bytes:
    """Return an answer as Google's clients read it."""
    body: JsonObject = {
        "candidates": [_rendered(candidate, index) for index, candidate in enumerate(reply.candidates)]
    }
    usage = usage_metadata(reply.usage)
    if usage:
        body["usageMetadata"] = usage
    body["modelVersion"] = reply.model or context.model
    body["responseId"] = reply.id or context.request_id
    return _ENCODER.encode(body)


def client_signature(signature: Signature | None) -> str | None:
    """Return a signature for a client of Google's: tagged, and none where there is nothing to remember."""
    if signature is None or (signature.family is Family.GEMINI and not signature.value):
        return None
    return tagged(signature)


def whole_args(arguments: str, *, followed: bool) -> Raw | None:
    """Return the ``args`` of a call; ``None`` where it may have been cut off in the middle of them.

    One without any may have been, too, unless it is ``followed`` by something.
    """
    return NOTHING if followed and is_empty(arguments) else object_of(arguments)


def finished_args(arguments: str, stop: StopReason, *, followed: bool) -> Raw | None:
    """Return the ``args`` of a call; ``None`` where the answer was cut off in the middle of them."""
    found = whole_args(arguments, followed=followed)
    return embedded(arguments) if found is None and stop not in _CUT else found


def citation_metadata(citations: list[Citation]) -> JsonObject:
    """Return ``citationMetadata``."""
    return {"citationSources": [_source(citation) for citation in citations]}


def logprobs_result(tokens: tuple[TokenLogprob, ...]) -> JsonObject:
    """Return ``logprobsResult``."""
    return {
        "topCandidates": [
            {"candidates": [{"token": top.token, "logProbability": top.logprob} for top in token.top]}
            for token in tokens
        ],
        "chosenCandidates": [{"token": token.token, "logProbability": token.logprob} for token in tokens],
    }


def media_part(media: Media) -> JsonObject:
    """Return a piece of media; one that lies with another vendor is named."""
    return render_media(media) or text_part(left_out(media))


def call_signature(signature: Signature | None, carried: str | None, *, first: bool) -> str | None:
    """Return what a call is signed with: its own, that of the thought which it carries, or nothing.

    The ``first`` of an answer is signed with what skips the check if with nothing else.
    """
    return client_signature(signature) or carried or (SKIP_VALIDATOR if first else None)


def _rendered(candidate: Candidate, index: int) -> JsonObject:
    parts: list[JsonObject] = []
    thoughts = WrittenThoughts()
    called = False
    last = len(candidate.parts) - 1
    for place, part in enumerate(candidate.parts):
        if isinstance(part, Thinking):
            thoughts.add(part.text)
            signature = None if part.signature is None else thoughts.sign(part.signature)
            parts.append(thought_part(part.text, signature))
            continue
        thoughts.interrupt()
        if not isinstance(part, ToolCall):
            parts += _said(part)
            continue
        args = finished_args(part.arguments, candidate.stop, followed=place < last)
        carried = thoughts.carried()
        if args is not None:
            signature = call_signature(part.signature, carried, first=not called)
            parts.append(call_part(part.id, part.name, args, signature))
            called = True
    said: JsonObject = {
        "content": {"parts": parts or [text_part("")], "role": "model"},
        "finishReason": FINISHES[candidate.stop],
        "index": index,
    }
    citations = [
        citation for part in candidate.parts if isinstance(part, Text) for citation in part.citations
    ]
    if citations:
        said["citationMetadata"] = citation_metadata(citations)
    if candidate.logprobs:
        said["logprobsResult"] = logprobs_result(candidate.logprobs)
    return said


def _said(part: Part) -> list[JsonObject]:
    match part:
        case Text():
            signature = client_signature(part.signature)
            return [text_part(part.text, signature)] if part.text or signature else []
        case Refusal():
            return [text_part(part.text)]
        case Media():
            return [media_part(part)]
        case Thinking() | ToolCall() | ToolResult():  # thoughts and calls are written where they meet
            return []
        case _:
            assert_never(part)


def _source(citation: Citation) -> JsonObject:
    found = {
        "startIndex": citation.start,
        "endIndex": citation.end,
        "uri": citation.url,
        "title": citation.title,
    }
    return {key: value for key, value in found.items() if value is not None}
