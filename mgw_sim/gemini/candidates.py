"""The candidates of Google's responses, whole and in pieces, text or speech (types: ``google.genai.types``).

The first call of an answer is signed, or else the text that thoughts led to; in a stream that signature
comes behind the text, in a part without text.  A call is never cut: where the room ends in its midst, it is
missing.  A request for audio gets it as one part (source: the speech guide).
"""

import base64
import itertools
from typing import Any, Final

from msgspec import Struct

from mgw_sim.api import Json, Request
from mgw_sim.gemini.conversation import sign
from mgw_sim.media import SAMPLE_RATE, speech_samples
from mgw_sim.model import (
    Completion,
    FinishReason,
    Prompt,
    Text,
    Thinking,
    ToolCall,
    token_count,
    tokenize,
)
from mgw_sim.platform.store import GeneratedContent

_FINISH_REASONS: Final = {
    FinishReason.END: "STOP",
    FinishReason.STOP_SEQUENCE: "STOP",
    FinishReason.LENGTH: "MAX_TOKENS",
    FinishReason.TOOLS: "STOP",
    FinishReason.REFUSAL: "SAFETY",
}
_ORDINARY_REASONS: Final = frozenset({"STOP", "MAX_TOKENS"})
_SAFETY_RATING: Final = {
    "category": "HARM_CATEGORY_DANGEROUS_CONTENT",
    "probability": "HIGH",
    "blocked": True,
}
_SPEECH_MEDIA_TYPE: Final = f"audio/L16;codec=pcm;rate={SAMPLE_RATE}"
_SPEECH_PIECE_SIZE: Final = 960 * 4  # bytes of samples in one piece of a stream


class CandidateSet(Struct, frozen=True):
    """The answers to one request, and what of them it wants to see."""

    prompt: Prompt
    completions: tuple[Completion, ...]
    shows_thoughts: bool
    logprobs: int | None
    """How many alternatives; None where no probabilities are wanted."""


def response(request: Request, candidate_set: CandidateSet) -> Json:
    """The whole answer."""
    reason = request.faults.text("block")
    if reason:
        return _blocked(request, candidate_set.prompt, reason)
    candidates = []
    for index, completion in enumerate(candidate_set.completions):
        parts = _parts(request, index, completion, candidate_set)
        words = [word for part in parts for word in _words(part)]
        candidates.append(
            {
                **_candidate(index, parts, _logprobs(candidate_set, words)),
                **_finish_fields(request, completion),
            }
        )
    return _response(request, candidates, _usage(request, candidate_set))


def responses(request: Request, candidate_set: CandidateSet) -> list[Json]:
    """The answer in pieces; the last of a candidate says why it ends, the last of all counts everything."""
    prompt, reason = candidate_set.prompt, request.faults.text("block")
    if reason:
        return [_blocked(request, prompt, reason)]
    by_candidate = [
        _pieces(request, index, completion, candidate_set)
        for index, completion in enumerate(candidate_set.completions)
    ]
    pieces = [one for turn in by_candidate for one in turn]
    if "interleave" in request.faults:
        pieces = [one for turn in itertools.zip_longest(*by_candidate) for one in turn if one is not None]
    early = {"promptTokenCount": prompt.tokens, "totalTokenCount": prompt.tokens}
    whole = _usage(request, candidate_set)
    streamed = [_response(request, None, early)] if "noise" in request.faults else []
    for place, candidate in enumerate(pieces):
        token_usage = early
        if place == len(pieces) - 1:
            token_usage = whole
        elif request.faults.usage == "each":
            tokens_sent = min(place + 1, whole["candidatesTokenCount"])
            token_usage = {
                **early,
                "candidatesTokenCount": tokens_sent,
                "totalTokenCount": prompt.tokens + tokens_sent,
            }
        streamed.append(_response(request, [candidate], token_usage))
    return streamed


def _pieces(request: Request, index: int, completion: Completion, candidate_set: CandidateSet) -> list[Json]:
    """The candidates that carry one answer; with noise one without content first, and an empty text last."""
    parts = [
        piece for part in _parts(request, index, completion, candidate_set) for piece in _split_part(part)
    ]
    pieces = [_candidate(index, [part], _logprobs(candidate_set, _words(part))) for part in parts]
    if "noise" in request.faults:
        pieces = [{"content": {}, "index": index}, *pieces, _candidate(index, [{"text": ""}], {})]
    elif not pieces:
        pieces = [_candidate(index, [], {})]
    pieces[-1] = {**pieces[-1], **_finish_fields(request, completion)}
    return pieces


def _parts(request: Request, index: int, completion: Completion, candidate_set: CandidateSet) -> list[Json]:
    if completion.finish_reason is FinishReason.REFUSAL:
        return []
    parts: list[Json] = [{"futurePart": {"kind": 1}}] if "unknown" in request.faults else []
    place = 0
    for part in completion.parts:
        match part:
            case Thinking(hidden=False) if candidate_set.shows_thoughts:
                parts.append({"text": part.text, "thought": True})
            case Text():
                parts.append({"text": part.text})
            case ToolCall(whole=True):
                parts.append({"functionCall": _function_call(request, f"_{index}_{place}", part)})
                place += 1
    if "unsigned" not in request.faults:
        _sign(parts, thinking=any(isinstance(part, Thinking) for part in completion.parts))
    return parts


def _function_call(request: Request, place: str, tool_call: ToolCall) -> Json:
    function_call: Json = {} if "no-ids" in request.faults else {"id": request.id("fc_", place)}
    function_call["name"] = tool_call.name
    return {**function_call, "args": tool_call.value} if tool_call.arguments else function_call


def _sign(parts: list[Json], *, thinking: bool) -> None:
    """Sign the first call; without calls, the last text that thoughts led to."""
    calls = [part for part in parts if "functionCall" in part]
    texts = [part for part in parts if "text" in part and not part.get("thought")]
    if calls:
        calls[0]["thoughtSignature"] = sign(calls[0]["functionCall"]["name"])
    elif texts and thinking:
        texts[-1]["thoughtSignature"] = sign(texts[-1]["text"])


def _split_part(part: Json) -> list[Json]:
    """A text part in words; its signature comes behind them in a part without text, as Google sends it."""
    if "text" not in part:
        return [part]
    flags = {"thought": True} if part.get("thought") else {}
    pieces = [{"text": word, **flags} for word in tokenize(part["text"])]
    if "thoughtSignature" in part:
        pieces.append({"text": "", "thoughtSignature": part["thoughtSignature"]})
    return pieces


def _words(part: Json) -> list[str]:
    return [] if part.get("thought") else tokenize(part.get("text", ""))


def _logprobs(candidate_set: CandidateSet, words: list[str]) -> Json:
    """Made-up probabilities, one per token, with as many alternatives as are asked for."""
    if candidate_set.logprobs is None or not words:
        return {}
    most = range(candidate_set.logprobs)
    result: Json = {"chosenCandidates": [_logprob(word, 0) for word in words]}
    if candidate_set.logprobs:
        result["topCandidates"] = [
            {"candidates": [_logprob(word, place) for place in most]} for word in words
        ]
    result["logProbabilitySum"] = -0.25 * len(words)
    return {"logprobsResult": result, "avgLogprobs": -0.25}


def _logprob(word: str, place: int) -> Json:
    token = f"{word}~{place}" if place else word
    return {"token": token, "tokenId": 1000 + place, "logProbability": -0.25 - place}


def _candidate(index: int, parts: list[Json], more: Json) -> Json:
    candidate: Json = {"content": {"parts": parts, "role": "model"}} if parts else {}
    return {**candidate, **more, "index": index}


def _finish_fields(request: Request, completion: Completion) -> Json:
    """Why a candidate ends, with what Google adds to unusual reasons."""
    reason = request.faults.text("stop") or _FINISH_REASONS[completion.finish_reason]
    ending: Json = {"finishReason": reason}
    if reason not in _ORDINARY_REASONS:
        ending["finishMessage"] = f"The answer ended with {reason}."
    if reason == "SAFETY":
        ending["safetyRatings"] = [_SAFETY_RATING]
    return ending


def _blocked(request: Request, prompt: Prompt, reason: str) -> Json:
    """The prompt was not answered: no candidates, and the reason beside them."""
    usage = {"promptTokenCount": prompt.tokens, "totalTokenCount": prompt.tokens}
    feedback = {"blockReason": reason, "safetyRatings": [_SAFETY_RATING]}
    return {"promptFeedback": feedback, **_response(request, None, usage)}


def _response(request: Request, candidates: list[Json] | None, usage: Json) -> Json:
    fields: Json = {} if candidates is None else {"candidates": candidates}
    if request.faults.usage != "none":
        fields["usageMetadata"] = usage
    if "unknown" in request.faults:
        fields["future"] = {"kind": 1}
    name = request.model.removeprefix("models/")
    return {**fields, "modelVersion": name, "responseId": request.id("resp")}


def _usage(request: Request, candidate_set: CandidateSet) -> Json:
    """Cached tokens are part of the prompt's; thoughts are counted beside the candidates'."""
    prompt, completions = candidate_set.prompt, candidate_set.completions
    faults = request.faults
    tokens_in, out = faults.counts(prompt.tokens, sum(completion.tokens for completion in completions))
    thoughts = min(sum(completion.thinking_tokens for completion in completions), out)
    usage: Json = {
        "promptTokenCount": tokens_in,
        "candidatesTokenCount": out - thoughts,
        "totalTokenCount": tokens_in + out,
        "promptTokensDetails": _by_modality(tokens_in, faults.number("audio") or 0),
    }
    if "audio" in faults:
        usage["candidatesTokensDetails"] = _by_modality(out - thoughts, faults.number("audio", place=1) or 0)
    if thoughts:
        usage["thoughtsTokenCount"] = thoughts
    tier = faults.text("served")
    if tier is not None:
        usage["trafficType" if tier.isupper() else "serviceTier"] = (
            tier  # as Vertex has it, and as Gemini has
        )
    cached = min(faults.number("cached") or 0, tokens_in)
    if cached:
        usage["cachedContentTokenCount"] = cached
        usage["cacheTokensDetails"] = [{"modality": "TEXT", "tokenCount": cached}]
    return usage


def _by_modality(tokens: int, audio: int) -> list[Json]:
    """A breakdown of so many tokens, of which some are audio."""
    spoken = [{"modality": "AUDIO", "tokenCount": audio}] if audio else []
    return [{"modality": "TEXT", "tokenCount": max(tokens - audio, 0)}, *spoken]


def wants_speech(body: Json) -> bool:
    """Whether audio is what the answer is to be."""
    modalities = (body.get("generationConfig") or {}).get("responseModalities") or ()
    return any(str(one).upper() == "AUDIO" for one in modalities)


def voice_of(body: Json) -> str:
    """The voice, or that of the first speaker; "" where none was named."""
    speech = _field(body.get("generationConfig") or {}, "speechConfig") or {}
    speakers = _field(_field(speech, "multiSpeakerVoiceConfig") or {}, "speakerVoiceConfigs") or [speech]
    voice = _field(_field(speakers[0], "voiceConfig") or {}, "prebuiltVoiceConfig") or {}
    return str(_field(voice, "voiceName") or "")


def _field(value: Json, name: str) -> Any:  # any JSON value
    """A field in either of the spellings that Google takes: its SDK sends some with underscores."""
    underscored = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)
    return value.get(name, value.get(underscored))


def speech_response(request: Request, body: Json, prompt: Prompt) -> Json:
    """The whole answer."""
    return _speech_response(request, prompt, _speech_samples(request, body, prompt), last=True)


def speech_responses(request: Request, body: Json, prompt: Prompt) -> list[Json]:
    """The same in pieces; the last counts everything."""
    data = _speech_samples(request, body, prompt)
    pieces = [data[at : at + _SPEECH_PIECE_SIZE] for at in range(0, len(data), _SPEECH_PIECE_SIZE)] or [b""]
    return [
        _speech_response(request, prompt, piece, last=place == len(pieces) - 1)
        for place, piece in enumerate(pieces)
    ]


def _speech_samples(request: Request, body: Json, prompt: Prompt) -> bytes:
    size = request.faults.number("size")
    return (
        speech_samples(prompt.text, voice_of(body)) if size is None else GeneratedContent(size).read(0, size)
    )


def _speech_response(request: Request, prompt: Prompt, data: bytes, *, last: bool) -> Json:
    part = {"inlineData": {"mimeType": _SPEECH_MEDIA_TYPE, "data": base64.b64encode(data).decode()}}
    candidate: Json = {"content": {"parts": [part], "role": "model"}, "index": 0}
    usage: Json = {"promptTokenCount": prompt.tokens, "totalTokenCount": prompt.tokens}
    if last:
        candidate["finishReason"] = "STOP"
        output_tokens = token_count(prompt.text)
        usage = {
            "promptTokenCount": prompt.tokens,
            "candidatesTokenCount": output_tokens,
            "totalTokenCount": prompt.tokens + output_tokens,
            "promptTokensDetails": [{"modality": "TEXT", "tokenCount": prompt.tokens}],
            "candidatesTokensDetails": [{"modality": "AUDIO", "tokenCount": output_tokens}],
        }
    name = request.model.removeprefix("models/")
    fields = {"candidates": [candidate], "usageMetadata": usage}
    return {**fields, "modelVersion": name, "responseId": request.id("resp")}
