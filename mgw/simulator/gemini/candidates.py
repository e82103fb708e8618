"""The candidates of Google's responses, whole and in pieces, text or speech (types: ``google.genai.types``).

The first call of an answer is signed, or else the text that thoughts led to; in a stream that signature
comes behind the text, in a part without text.  A call is never cut: where the room ends in its midst, it is
missing.  A request for audio gets it as one part (source: the speech guide).
"""

import base64
import itertools
from typing import Any, Final

from msgspec import Struct

from mgw.simulator.api import Json, Request
from mgw.simulator.gemini.conversation import sign
from mgw.simulator.media import SAMPLE_RATE, speech_samples
from mgw.simulator.model import (
    Completion,
    FinishReason,
    Prompt,
    Text,
    Thinking,
    ToolCall,
    token_count,
    tokenize,
)
from mgw.simulator.platform.store import GeneratedContent

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
    outcomes: tuple[Completion, ...]
    shows_thoughts: bool
    logprobs: int | None
    """How many alternatives; None where no probabilities are wanted."""


def response(call: Request, answered: CandidateSet) -> Json:
    """The whole answer."""
    reason = call.faults.text("block")
    if reason:
        return _blocked(call, answered.prompt, reason)
    candidates = []
    for index, outcome in enumerate(answered.outcomes):
        parts = _parts(call, index, outcome, answered)
        words = [word for part in parts for word in _words(part)]
        candidates.append(
            {**_candidate(index, parts, _logprobs(answered, words)), **_finish_fields(call, outcome)}
        )
    return _response(call, candidates, _usage(call, answered))


def responses(call: Request, answered: CandidateSet) -> list[Json]:
    """The answer in pieces; the last of a candidate says why it ends, the last of all counts everything."""
    prompt, reason = answered.prompt, call.faults.text("block")
    if reason:
        return [_blocked(call, prompt, reason)]
    told = [_pieces(call, index, outcome, answered) for index, outcome in enumerate(answered.outcomes)]
    found = [one for turn in told for one in turn]
    if "interleave" in call.faults:
        found = [one for turn in itertools.zip_longest(*told) for one in turn if one is not None]
    early = {"promptTokenCount": prompt.tokens, "totalTokenCount": prompt.tokens}
    whole = _usage(call, answered)
    streamed = [_response(call, None, early)] if "noise" in call.faults else []
    for place, candidate in enumerate(found):
        counted = early
        if place == len(found) - 1:
            counted = whole
        elif call.faults.text("usage") == "each":
            said = min(place + 1, whole["candidatesTokenCount"])
            counted = {**early, "candidatesTokenCount": said, "totalTokenCount": prompt.tokens + said}
        streamed.append(_response(call, [candidate], counted))
    return streamed


def _pieces(call: Request, index: int, outcome: Completion, answered: CandidateSet) -> list[Json]:
    """The candidates that carry one answer; with noise one without content first, and an empty text last."""
    parts = [piece for part in _parts(call, index, outcome, answered) for piece in _split_part(part)]
    told = [_candidate(index, [part], _logprobs(answered, _words(part))) for part in parts]
    if "noise" in call.faults:
        told = [{"content": {}, "index": index}, *told, _candidate(index, [{"text": ""}], {})]
    elif not told:
        told = [_candidate(index, [], {})]
    told[-1] = {**told[-1], **_finish_fields(call, outcome)}
    return told


def _parts(call: Request, index: int, outcome: Completion, answered: CandidateSet) -> list[Json]:
    if outcome.finish is FinishReason.REFUSAL:
        return []
    found: list[Json] = [{"futurePart": {"kind": 1}}] if "unknown" in call.faults else []
    place = 0
    for part in outcome.parts:
        match part:
            case Thinking(hidden=False) if answered.shows_thoughts:
                found.append({"text": part.text, "thought": True})
            case Text():
                found.append({"text": part.text})
            case ToolCall(whole=True):
                found.append({"functionCall": _function_call(call, f"_{index}_{place}", part)})
                place += 1
    if "unsigned" not in call.faults:
        _sign(found, thinking=any(isinstance(part, Thinking) for part in outcome.parts))
    return found


def _function_call(call: Request, place: str, use: ToolCall) -> Json:
    made: Json = {} if "no-ids" in call.faults else {"id": call.id("fc_", place)}
    made["name"] = use.name
    return {**made, "args": use.value} if use.arguments else made


def _sign(parts: list[Json], *, thinking: bool) -> None:
    """Sign the first call; without calls, the last text that thoughts led to."""
    calls = [part for part in parts if "functionCall" in part]
    spoken = [part for part in parts if "text" in part and not part.get("thought")]
    if calls:
        calls[0]["thoughtSignature"] = sign(calls[0]["functionCall"]["name"])
    elif spoken and thinking:
        spoken[-1]["thoughtSignature"] = sign(spoken[-1]["text"])


def _split_part(part: Json) -> list[Json]:
    """A text part in words; its signature comes behind them in a part without text, as Google sends it."""
    if "text" not in part:
        return [part]
    thought = {"thought": True} if part.get("thought") else {}
    pieces = [{"text": word, **thought} for word in tokenize(part["text"])]
    if "thoughtSignature" in part:
        pieces.append({"text": "", "thoughtSignature": part["thoughtSignature"]})
    return pieces


def _words(part: Json) -> list[str]:
    return [] if part.get("thought") else tokenize(part.get("text", ""))


def _logprobs(answered: CandidateSet, words: list[str]) -> Json:
    """Made-up probabilities, one per token, with as many alternatives as are asked for."""
    if answered.logprobs is None or not words:
        return {}
    most = range(answered.logprobs)
    result: Json = {"chosenCandidates": [_logprob(word, 0) for word in words]}
    if answered.logprobs:
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


def _finish_fields(call: Request, outcome: Completion) -> Json:
    """Why a candidate ends, with what Google adds to unusual reasons."""
    reason = call.faults.text("stop") or _FINISH_REASONS[outcome.finish]
    ending: Json = {"finishReason": reason}
    if reason not in _ORDINARY_REASONS:
        ending["finishMessage"] = f"The answer ended with {reason}."
    if reason == "SAFETY":
        ending["safetyRatings"] = [_SAFETY_RATING]
    return ending


def _blocked(call: Request, prompt: Prompt, reason: str) -> Json:
    """The prompt was not answered: no candidates, and the reason beside them."""
    usage = {"promptTokenCount": prompt.tokens, "totalTokenCount": prompt.tokens}
    feedback = {"blockReason": reason, "safetyRatings": [_SAFETY_RATING]}
    return {"promptFeedback": feedback, **_response(call, None, usage)}


def _response(call: Request, candidates: list[Json] | None, usage: Json) -> Json:
    found: Json = {} if candidates is None else {"candidates": candidates}
    if call.faults.text("usage") != "none":
        found["usageMetadata"] = usage
    if "unknown" in call.faults:
        found["future"] = {"kind": 1}
    name = call.model.removeprefix("models/")
    return {**found, "modelVersion": name, "responseId": call.id("resp")}


def _usage(call: Request, answered: CandidateSet) -> Json:
    """Cached tokens are part of the prompt's; thoughts are counted beside the candidates'."""
    prompt, outcomes = answered.prompt, answered.outcomes
    thoughts = sum(outcome.thinking_tokens for outcome in outcomes)
    out = sum(outcome.tokens for outcome in outcomes)
    usage: Json = {
        "promptTokenCount": prompt.tokens,
        "candidatesTokenCount": out - thoughts,
        "totalTokenCount": prompt.tokens + out,
        "promptTokensDetails": [{"modality": "TEXT", "tokenCount": prompt.tokens}],
    }
    if thoughts:
        usage["thoughtsTokenCount"] = thoughts
    cached = min(call.faults.number("cached") or 0, prompt.tokens)
    if cached:
        usage["cachedContentTokenCount"] = cached
        usage["cacheTokensDetails"] = [{"modality": "TEXT", "tokenCount": cached}]
    return usage


def wants_speech(body: Json) -> bool:
    """Whether audio is what the answer is to be."""
    wanted = (body.get("generationConfig") or {}).get("responseModalities") or ()
    return any(str(one).upper() == "AUDIO" for one in wanted)


def _voice(body: Json) -> str:
    """The voice, or that of the first speaker; "" where none was named."""
    said = _field(body.get("generationConfig") or {}, "speechConfig") or {}
    several = _field(_field(said, "multiSpeakerVoiceConfig") or {}, "speakerVoiceConfigs") or [said]
    one = _field(_field(several[0], "voiceConfig") or {}, "prebuiltVoiceConfig") or {}
    return str(_field(one, "voiceName") or "")


def _field(value: Json, name: str) -> Any:  # any JSON value
    """A field in either of the spellings that Google takes: its SDK sends some with underscores."""
    underscored = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)
    return value.get(name, value.get(underscored))


def speech_response(call: Request, body: Json, prompt: Prompt) -> Json:
    """The whole answer."""
    return _speech_response(call, prompt, _speech_samples(call, body, prompt), last=True)


def speech_responses(call: Request, body: Json, prompt: Prompt) -> list[Json]:
    """The same in pieces; the last counts everything."""
    data = _speech_samples(call, body, prompt)
    pieces = [data[at : at + _SPEECH_PIECE_SIZE] for at in range(0, len(data), _SPEECH_PIECE_SIZE)] or [b""]
    return [
        _speech_response(call, prompt, piece, last=place == len(pieces) - 1)
        for place, piece in enumerate(pieces)
    ]


def _speech_samples(call: Request, body: Json, prompt: Prompt) -> bytes:
    size = call.faults.number("size")
    return speech_samples(prompt.text, _voice(body)) if size is None else GeneratedContent(size).read(0, size)


def _speech_response(call: Request, prompt: Prompt, data: bytes, *, last: bool) -> Json:
    part = {"inlineData": {"mimeType": _SPEECH_MEDIA_TYPE, "data": base64.b64encode(data).decode()}}
    candidate: Json = {"content": {"parts": [part], "role": "model"}, "index": 0}
    usage: Json = {"promptTokenCount": prompt.tokens, "totalTokenCount": prompt.tokens}
    if last:
        candidate["finishReason"] = "STOP"
        said = token_count(prompt.text)
        usage = {
            "promptTokenCount": prompt.tokens,
            "candidatesTokenCount": said,
            "totalTokenCount": prompt.tokens + said,
            "promptTokensDetails": [{"modality": "TEXT", "tokenCount": prompt.tokens}],
            "candidatesTokensDetails": [{"modality": "AUDIO", "tokenCount": said}],
        }
    name = call.model.removeprefix("models/")
    shown = {"candidates": [candidate], "usageMetadata": usage}
    return {**shown, "modelVersion": name, "responseId": call.id("resp")}
