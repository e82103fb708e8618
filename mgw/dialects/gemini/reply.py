"""A complete response of generateContent, both ways, and why it ended: the table of contract 8.20.

Towards clients the first call of a response is signed (see :mod:`mgw.dialects.gemini.thoughts`), and a call
that was cut off is left out, since ``args`` is an object and nothing less; the finish reason tells why.

Sources: ``GenerateContentResponse``, ``FinishReason`` and ``BlockedReason`` of google-genai 3.4; contract
8.20, 8.24.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final, assert_never

from msgspec import Raw
from msgspec.json import Encoder
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
    ToolResult,
)
from mgw.canonical.reply import Candidate, Reply, StopReason, TokenLogprob
from mgw.canonical.speech import SpeechReply
from mgw.dialects.arguments import NOTHING, compact_arguments, embed_arguments, is_empty, object_of
from mgw.dialects.dialect import ReplyContext, ReplySource
from mgw.dialects.gemini.blocks import PartJoiner, make_call_id, render_call, render_text, render_thought
from mgw.dialects.gemini.candidates import (
    NULL,
    CandidateShape,
    ContentShape,
    decode_response,
    decode_response_array,
    parse_citations,
    parse_logprobs,
    sole_text,
    split_parts,
)
from mgw.dialects.gemini.errors import find_error
from mgw.dialects.gemini.media import parse_reply_media, render_media
from mgw.dialects.gemini.thoughts import ThoughtSigner, render_call_signature, render_signature
from mgw.dialects.gemini.usage import parse_usage, render_usage
from mgw.dialects.placeholders import describe_omission
from mgw.dialects.refusal import AnswerError
from mgw.nouns.errors import GatewayError, Reason
from mgw.nouns.vocabulary import Family

_ENDS: Final = (
    "STOP",
    "OTHER",
    "LANGUAGE",
    "NO_IMAGE",
    "IMAGE_OTHER",
    "CONTINUATION",
    "ESCALATION",
    "FINISH_REASON_UNSPECIFIED",
)
_REFUSALS: Final = (
    "SAFETY",
    "RECITATION",
    "BLOCKLIST",
    "PROHIBITED_CONTENT",
    "SPII",
    "MODEL_ARMOR",
    "JAILBREAK",
    "PUP_LIMITED_DISABLED",
    "IMAGE_SAFETY",
    "IMAGE_PROHIBITED_CONTENT",
    "IMAGE_RECITATION",
)
FAILURES: Final = frozenset(
    {
        "MALFORMED_FUNCTION_CALL",
        "MALFORMED_RESPONSE",
        "UNEXPECTED_TOOL_CALL",
        "TOO_MANY_TOOL_CALLS",
        "MISSING_THOUGHT_SIGNATURE",
    }
)
"""The model failed; with nothing else in the response, asking again is all that helps."""
_END: Final = StopReason.END  # a member of an enumeration is looked up in Python's slow way each time
_TOOL_USE: Final = StopReason.TOOL_USE
_REFUSAL: Final = StopReason.REFUSAL
_STOPS: Final = MappingProxyType(
    {
        **dict.fromkeys(_ENDS, StopReason.END),
        **dict.fromkeys(FAILURES, StopReason.END),
        **dict.fromkeys(_REFUSALS, StopReason.REFUSAL),
        "MAX_TOKENS": StopReason.LENGTH,
    }
)
BLOCKED: Final = "SAFETY"
"""What ends a candidate whose prompt was blocked in the middle of it."""
_FINISH_REASONS: Final = MappingProxyType(
    {
        StopReason.END: "STOP",
        StopReason.STOP_SEQUENCE: "STOP",
        StopReason.LENGTH: "MAX_TOKENS",
        StopReason.TOOL_USE: "STOP",
        StopReason.REFUSAL: "SAFETY",
    }
)
"""What each is towards Google's clients."""
_CUT_OFF: Final = frozenset({StopReason.LENGTH, StopReason.REFUSAL})
"""Ends in the middle of something."""
_ENCODER: Final = Encoder()


def parse_reply(body: bytes, source: ReplySource) -> Reply:
    """Return a response; the source's seed makes the identifiers of calls that have none.

    An array in place of a response is a stream, which hosts send that do not know ``alt=sse``.

    :raises GatewayError: ``UPSTREAM_BROKEN`` for what is no response, and for one that is nothing
    but a failure of the model; :class:`AnswerError` for an error.
    """
    found = decode_response(body) or decode_response_array(body)
    if found is None:
        raise _response_error(body, "the provider's response is not a generateContent response")
    if found.error:
        raise _response_error(body, "the upstream failed with an unreadable error")
    blocked = found.prompt_feedback.block_reason if found.prompt_feedback else None
    if found.candidates:
        seed = source.seed
        candidates = [
            _parse_candidate(candidate, seed, place) for place, candidate in enumerate(found.candidates)
        ]
    elif blocked:
        explained = found.prompt_feedback.block_reason_message if found.prompt_feedback else None
        refusal = Refusal(describe_block(blocked, explained))
        candidates = [Candidate((refusal,), StopReason.REFUSAL)]
    else:
        raise _response_error(body, "the provider's response has no candidates; try again")
    _check_failure(found.candidates or [], candidates)
    return Reply(
        tuple(candidates), found.response_id, found.model_version, parse_usage(bytes(found.usage_metadata))
    )


def _response_error(body: bytes, message: str) -> GatewayError:
    """Return the error that a response is; ``message`` is for one that holds no words."""
    error = find_error(body)
    return GatewayError(Reason.UPSTREAM_BROKEN, message) if error is None else AnswerError(error)


def _parse_candidate(candidate: CandidateShape, seed: str, place: int) -> Candidate:
    parts, calls = _parse_parts(candidate.content, seed, place)
    stop, unknown = parse_stop(candidate.finish_reason or "STOP", calls=calls > 0)
    if stop is _REFUSAL and not parts and candidate.finish_message:
        parts.append(Refusal(candidate.finish_message))
    if candidate.citation_metadata is not NULL:
        _add_citations(parts, parse_citations(candidate.citation_metadata))
    return Candidate(
        tuple(parts),
        stop,
        unknown_stop=unknown,
        logprobs=() if candidate.logprobs_result is NULL else parse_logprobs(candidate.logprobs_result),
    )


def _parse_parts(content: ContentShape | None, seed: str, place: int) -> tuple[list[Part], int]:
    """Return the parts of a candidate, and how many of them are calls."""
    text = sole_text(content)
    if text is not None:
        return [Text(text)], 0
    joiner = PartJoiner()
    calls = 0
    for part in split_parts(content):
        signature = Signature(Family.GEMINI, part.thought_signature) if part.thought_signature else None
        call, blob = part.function_call, part.inline_data
        if call is not None:
            if call.name:
                call_id = call.id or make_call_id(seed, place, calls)
                joiner.add(ToolCall(call_id, call.name, compact_arguments(call.args), signature))
                calls += 1
        elif blob is not None:
            joiner.add(parse_reply_media(blob.mime_type, blob.data or "", signature))
        elif part.thought:
            joiner.add_thought(part.text or "", signature)
        elif part.text is not None or signature is not None:
            joiner.add_text(part.text or "", signature)
    return list(joiner.finish()), calls


def _add_citations(parts: list[Part], citations: tuple[Citation, ...]) -> None:
    """Give citations to the last text: Google counts over the whole candidate."""
    if citations:
        for place in range(len(parts) - 1, -1, -1):
            part = parts[place]
            if isinstance(part, Text):
                parts[place] = replace(part, citations=citations)
                break


def _has_content(candidate: Candidate) -> bool:
    """Whether there is more than thoughts."""
    return any(type(part) is not Thinking for part in candidate.parts)


def _check_failure(shapes: list[CandidateShape], candidates: list[Candidate]) -> None:
    """Refuse a response that is nothing but a failure."""
    for shape in shapes:
        if shape.finish_reason in FAILURES and not any(map(_has_content, candidates)):
            message = describe_failure(shape.finish_reason, shape.finish_message)
            raise GatewayError(Reason.UPSTREAM_BROKEN, message)


def parse_stop(finish: str, *, calls: bool) -> tuple[StopReason, str | None]:
    """Return why a response ended, and Google's own word for it where that is not known."""
    stop = _STOPS.get(finish.upper())  # Google's SDKs read these in any case
    unknown = finish if stop is None else None
    stop = stop or _END
    return (_TOOL_USE if calls and stop is _END else stop), unknown


def describe_failure(finish: str, explained: str | None) -> str:
    """Return a sentence for a response that is nothing but a failure."""
    message = f"the model's response is empty ({finish}); try again"
    return f"{message}: {explained}" if explained else message


def describe_block(reason: str, explained: str | None) -> str:
    """Return a sentence for a prompt that was blocked."""
    return explained or f"The prompt was blocked: {reason}."


def render_reply(reply: Reply, context: ReplyContext) -> bytes:
    """Return a response as Google's clients read it."""
    candidates = [_render_candidate(candidate, index) for index, candidate in enumerate(reply.candidates)]
    return render_response(candidates, reply, context)


def render_response(candidates: list[JsonObject], reply: Reply | SpeechReply, context: ReplyContext) -> bytes:
    """Return a response with these candidates, and with the counts and names of the reply."""
    body: JsonObject = {"candidates": candidates}
    usage = render_usage(reply.usage)
    if usage:
        body["usageMetadata"] = usage
    body["modelVersion"] = reply.model or context.model
    body["responseId"] = reply.id or context.request_id
    return _ENCODER.encode(body)


def _render_candidate(candidate: Candidate, index: int) -> JsonObject:
    parts: list[JsonObject] = []
    signer = ThoughtSigner()
    called = False
    last = len(candidate.parts) - 1
    for place, part in enumerate(candidate.parts):
        if isinstance(part, Thinking):
            signer.add(part.text)
            signature = None if part.signature is None else signer.sign(part.signature)
            parts.append(render_thought(part.text, signature))
            continue
        signer.interrupt()
        if not isinstance(part, ToolCall):
            parts += _render_part(part)
            continue
        args = render_args(part.arguments, candidate.stop, followed=place < last)
        carried = signer.pop_carried()
        if args is not None:
            signature = render_call_signature(part.signature, carried, first=not called)
            parts.append(render_call(part.id, part.name, args, signature))
            called = True
    rendered: JsonObject = {
        "content": {"parts": parts or [render_text("")], "role": "model"},
        "finishReason": render_stop(candidate.stop),
        "index": index,
    }
    citations = [
        citation for part in candidate.parts if isinstance(part, Text) for citation in part.citations
    ]
    if citations:
        rendered["citationMetadata"] = render_citations(citations)
    if candidate.logprobs:
        rendered["logprobsResult"] = render_logprobs(candidate.logprobs)
    return rendered


def _render_part(part: Part) -> list[JsonObject]:
    match part:
        case Text():
            signature = render_signature(part.signature)
            return [render_text(part.text, signature)] if part.text or signature else []
        case Refusal():
            return [render_text(part.text)]
        case Media():
            return [render_reply_media(part)]
        case Thinking() | ToolCall() | ToolResult():  # thoughts and calls are rendered where they meet
            return []
        case _:
            assert_never(part)


def render_stop(stop: StopReason) -> str:
    """Return the finish reason for Google's clients."""
    return _FINISH_REASONS[stop]


def render_whole_args(arguments: str, *, followed: bool) -> Raw | None:
    """Return the ``args`` of a call; ``None`` where it may have been cut off in the middle of them.

    One without any may have been, too, unless it is ``followed`` by something.
    """
    return NOTHING if followed and is_empty(arguments) else object_of(arguments)


def render_args(arguments: str, stop: StopReason, *, followed: bool) -> Raw | None:
    """Return the ``args`` of a call; ``None`` where the response was cut off in the middle of them."""
    found = render_whole_args(arguments, followed=followed)
    return embed_arguments(arguments) if found is None and stop not in _CUT_OFF else found


def render_citations(citations: list[Citation]) -> JsonObject:
    """Return ``citationMetadata``."""
    return {"citationSources": [_render_citation(citation) for citation in citations]}


def _render_citation(citation: Citation) -> JsonObject:
    found = {
        "startIndex": citation.start,
        "endIndex": citation.end,
        "uri": citation.url,
        "title": citation.title,
    }
    return {key: value for key, value in found.items() if value is not None}


def render_logprobs(tokens: tuple[TokenLogprob, ...]) -> JsonObject:
    """Return ``logprobsResult``."""
    return {
        "topCandidates": [
            {"candidates": [{"token": top.token, "logProbability": top.logprob} for top in token.top]}
            for token in tokens
        ],
        "chosenCandidates": [{"token": token.token, "logProbability": token.logprob} for token in tokens],
    }


def render_reply_media(media: Media) -> JsonObject:
    """Return a piece of media; one that lies with another vendor is named."""
    return render_media(media) or render_text(describe_omission(media))
