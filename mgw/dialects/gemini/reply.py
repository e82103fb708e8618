"""A whole answer of generateContent, read.

Source: ``GenerateContentResponse`` of google-genai 3.4; contract 8.20, 8.24.
"""

from __future__ import annotations

from msgspec.structs import replace

from mgw.canonical.conversation import (
    Citation,
    Part,
    Refusal,
    Signature,
    Text,
    Thinking,
    ToolCall,
)
from mgw.canonical.reply import Candidate, Reply, StopReason
from mgw.dialects.arguments import compact
from mgw.dialects.dialect import ReplySource
from mgw.dialects.gemini import wire
from mgw.dialects.gemini.calls import answered_id
from mgw.dialects.gemini.errors import error_in
from mgw.dialects.gemini.media import blob_media
from mgw.dialects.gemini.spoken import Spoken
from mgw.dialects.gemini.stops import FAILURES, block_message, failure_message, stop_of
from mgw.dialects.gemini.usage import usage_of
from mgw.dialects.refusal import AnswerError
from mgw.errors import GatewayError, Reason
from mgw.vocabulary import Family


def parse_reply(body: bytes, source: ReplySource) -> Reply:
    """Return an answer; the source's seed makes the identifiers of calls that have none.

    An array in place of an answer is a stream, which hosts send that do not know ``alt=sse``.

    Raises: :class:`GatewayError` (``UPSTREAM_BROKEN``) for what is no answer, and for one that is nothing but
    a failure of the model; :class:`AnswerError` for an error.
    """
    found = wire.response_of(body) or wire.joined_response_of(body)
    if found is None:
        raise _no_answer(body, "the provider's response is not a generateContent response")
    if found.error:
        raise _no_answer(body, "the upstream failed with an unreadable error")
    blocked = found.prompt_feedback.block_reason if found.prompt_feedback else None
    if found.candidates:
        seed = source.seed
        candidates = [_candidate(candidate, seed, place) for place, candidate in enumerate(found.candidates)]
    elif blocked:
        explained = found.prompt_feedback.block_reason_message if found.prompt_feedback else None
        refusal = Refusal(block_message(blocked, explained))
        candidates = [Candidate((refusal,), StopReason.REFUSAL)]
    else:
        raise _no_answer(body, "the provider's response has no candidates; try again")
    if not any(_says_something(candidate) for candidate in candidates):
        _check_failure(found.candidates or [])
    return Reply(
        tuple(candidates), found.response_id, found.model_version, usage_of(bytes(found.usage_metadata))
    )


def _no_answer(body: bytes, message: str) -> GatewayError:
    """Return the error that an answer is; ``message`` says what is wrong with one that says nothing."""
    error = error_in(body)
    return GatewayError(Reason.UPSTREAM_BROKEN, message) if error is None else AnswerError(error)


def _candidate(candidate: wire.Candidate, seed: str, place: int) -> Candidate:
    spoken = Spoken()
    calls = 0
    for part in wire.parts_of(candidate.content):
        signature = Signature(Family.GEMINI, part.thought_signature) if part.thought_signature else None
        call, blob = part.function_call, part.inline_data
        if call is not None:
            if call.name:
                call_id = call.id or answered_id(seed, place, calls)
                spoken.add(ToolCall(call_id, call.name, compact(call.args), signature))
                calls += 1
        elif blob is not None:
            spoken.add(blob_media(blob.mime_type, blob.data or ""))
        elif part.thought:
            spoken.think(part.text or "", signature)
        elif part.text is not None or signature is not None:
            spoken.say(part.text or "", signature)
    stop, unknown = stop_of(candidate.finish_reason or "STOP", calls=calls > 0)
    parts = list(spoken.finish())
    if stop is StopReason.REFUSAL and not parts and candidate.finish_message:
        parts.append(Refusal(candidate.finish_message))
    return Candidate(
        _cited(parts, wire.citations_of(candidate.citation_metadata)),
        stop,
        unknown_stop=unknown,
        logprobs=wire.logprobs_of(candidate.logprobs_result),
    )


def _cited(parts: list[Part], citations: tuple[Citation, ...]) -> tuple[Part, ...]:
    """Give citations to the last text: Google counts over the whole candidate."""
    if citations:
        for place in range(len(parts) - 1, -1, -1):
            part = parts[place]
            if isinstance(part, Text):
                parts[place] = replace(part, citations=citations)
                break
    return tuple(parts)


def _says_something(candidate: Candidate) -> bool:
    """Whether there is more than thoughts."""
    return any(not isinstance(part, Thinking) for part in candidate.parts)


def _check_failure(candidates: list[wire.Candidate]) -> None:
    for candidate in candidates:
        if candidate.finish_reason in FAILURES:
            message = failure_message(candidate.finish_reason, candidate.finish_message)
            raise GatewayError(Reason.UPSTREAM_BROKEN, message)
