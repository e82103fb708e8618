"""Google's generateContent and streamGenerateContent (types: ``google.genai.types`` 3.x)."""

import json
from typing import Any, Final

from msgspec.structs import replace

from mgw.simulator import mind
from mgw.simulator.answer import Answer, Call, Json, Refusal, Stream, Unary, dump
from mgw.simulator.gemini_errors import error_value
from mgw.simulator.gemini_fields import GENERATE, require
from mgw.simulator.gemini_turns import check, prompt_tokens, results, sign, text_of
from mgw.simulator.mind import Choice, Finish, Outcome, Prompt, Tool

JSON_TYPE: Final = "application/json; charset=UTF-8"
_FINISHES: Final = {
    Finish.END: "STOP",
    Finish.STOP_SEQUENCE: "STOP",
    Finish.LENGTH: "MAX_TOKENS",
    Finish.TOOLS: "STOP",
    Finish.REFUSAL: "SAFETY",
}


def generate(call: Call) -> Answer:
    """``POST …:generateContent``."""
    prompt, outcomes = _outcomes(call)
    candidates = [
        _candidate(index, _parts(call, index, outcome), _FINISHES[outcome.finish])
        for index, outcome in enumerate(outcomes)
    ]
    return pretty(_response(call, candidates, _usage(call, prompt, outcomes)))


def stream_generate(call: Call) -> Answer:
    """``POST …:streamGenerateContent``: events with ``?alt=sse``, else a JSON array in pieces."""
    alt = call.query.get("alt", "json")
    if alt not in {"sse", "json"}:
        raise Refusal(400, f"Invalid value for alt: {alt}", "alt")
    prompt, outcomes = _outcomes(call)
    responses = _responses(call, prompt, outcomes)
    broken = error_value(Refusal(503, "The model is overloaded. Please try again later."))
    if alt == "sse":
        pieces = [b"data: " + dump(response) + b"\r\n\r\n" for response in responses]
        return Stream(tuple(pieces), b"data: " + dump(broken) + b"\r\n\r\n", "text/event-stream")
    texts = [json.dumps(response, ensure_ascii=False, indent=2).encode() for response in responses]
    array = [(b",\r\n" if index else b"[") + text for index, text in enumerate(texts)]
    end = b",\r\n" + json.dumps(broken, indent=2).encode() + b"\n]"
    return Stream((*array, b"\n]"), end, JSON_TYPE)


def pretty(value: Any) -> Unary:  # any JSON value
    """An answer as Google prints it."""
    return Unary(json.dumps(value, ensure_ascii=False, indent=2).encode() + b"\n", content_type=JSON_TYPE)


def _outcomes(call: Call) -> tuple[Prompt, list[Outcome]]:
    body = require(call.body, GENERATE, lenient="lenient" in call.faults)
    check(body, signed="strict-signatures" in call.faults or call.model.startswith("gemini-3"))
    prompt = _prompt(body)
    count = (body.get("generationConfig") or {}).get("candidateCount") or 1
    outcomes = [mind.answer(replace(prompt, candidate=index), call.faults) for index in range(count)]
    return prompt, outcomes


def _prompt(body: Json) -> Prompt:
    config = body.get("generationConfig") or {}
    calling = (body.get("toolConfig") or {}).get("functionCallingConfig") or {}
    mode = str(calling.get("mode", "AUTO")).upper()
    users = [
        content for content in body["contents"] if content.get("role", "user") == "user" and text_of(content)
    ]
    schema = config.get("responseJsonSchema", config.get("responseSchema"))
    return Prompt(
        text=text_of(users[-1]) if users else "",
        tokens=prompt_tokens(body),
        tools=tuple(
            Tool(function["name"], function.get("parametersJsonSchema", function.get("parameters")))
            for tool in body.get("tools") or ()
            for function in tool.get("functionDeclarations") or ()
        ),
        choice={"ANY": Choice.ANY, "NONE": Choice.NONE}.get(mode, Choice.AUTO),
        allowed=tuple(calling.get("allowedFunctionNames") or ()),
        results=results(body["contents"]),
        schema=True if schema is None and config.get("responseMimeType") == "application/json" else schema,
        max_tokens=config.get("maxOutputTokens"),
        stops=tuple(config.get("stopSequences") or ()),
        thinks=bool((config.get("thinkingConfig") or {}).get("includeThoughts")),
    )


def _parts(call: Call, index: int, outcome: Outcome) -> list[Json]:
    """The parts: thoughts, text, calls; the first call is signed, or else the text that thoughts led to."""
    if outcome.finish is Finish.REFUSAL:
        return []
    parts: list[Json] = [{"text": outcome.thinking, "thought": True}] if outcome.thinking else []
    if outcome.text:
        parts.append({"text": outcome.text})
        if outcome.thinking and not outcome.uses:
            parts[-1]["thoughtSignature"] = sign(outcome.text)
    for place, use in enumerate(outcome.uses):
        made = {
            "id": call.id("fc_", f"_{index}_{place}"),
            "name": use.name,
            "args": json.loads(use.arguments),
        }
        parts.append({"functionCall": made})
        if place == 0:
            parts[-1]["thoughtSignature"] = sign(use.name)
    return parts


def _candidate(index: int, parts: list[Json], finish: str | None) -> Json:
    candidate: Json = {"content": {"parts": parts, "role": "model"}} if parts else {}
    if finish:
        candidate["finishReason"] = finish
    return {**candidate, "index": index}


def _response(call: Call, candidates: list[Json], usage: Json) -> Json:
    return {
        "candidates": candidates,
        "usageMetadata": usage,
        "modelVersion": call.model.removeprefix("models/"),
        "responseId": call.id("resp"),
    }


def _usage(call: Call, prompt: Prompt, outcomes: list[Outcome]) -> Json:
    """Cached tokens are part of the prompt's; thoughts are counted beside the candidates'."""
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
    if call.faults.number("cached"):
        usage["cachedContentTokenCount"] = min(call.faults.number("cached") or 0, prompt.tokens)
    return usage


def _responses(call: Call, prompt: Prompt, outcomes: list[Outcome]) -> list[Json]:
    """One response per piece; the last of a candidate says why it ends, the last of all counts everything."""
    found: list[tuple[int, list[Json], str | None]] = []
    for index, outcome in enumerate(outcomes):
        pieces = [piece for part in _parts(call, index, outcome) for piece in _cut(part)]
        for place, piece in enumerate(pieces):
            found.append((index, [piece], _FINISHES[outcome.finish] if place == len(pieces) - 1 else None))
        if not pieces:
            found.append((index, [], _FINISHES[outcome.finish]))
    early = {"promptTokenCount": prompt.tokens, "totalTokenCount": prompt.tokens}
    return [
        _response(
            call,
            [_candidate(index, parts, finish)],
            _usage(call, prompt, outcomes) if place == len(found) - 1 else early,
        )
        for place, (index, parts, finish) in enumerate(found)
    ]


def _cut(part: Json) -> list[Json]:
    """A text part in words; its signature comes behind them in a part without text, as Google sends it."""
    if "text" not in part:
        return [part]
    thought = {"thought": True} if part.get("thought") else {}
    pieces = [{"text": word, **thought} for word in mind.tokens(part["text"])]
    if "thoughtSignature" in part:
        pieces.append({"text": "", "thoughtSignature": part["thoughtSignature"]})
    return pieces
