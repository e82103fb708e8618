"""Google's generateContent and streamGenerateContent; ``gemini_parts`` has what an answer looks like."""

import json
import re
from typing import Any, Final

from msgspec.structs import replace

from mgw.simulator import mind
from mgw.simulator.answer import Answer, Call, Json, Refusal, Stream, Unary, dump
from mgw.simulator.gemini_errors import error_value
from mgw.simulator.gemini_fields import GENERATE, require
from mgw.simulator.gemini_models import check_model
from mgw.simulator.gemini_parts import Answered, response, responses
from mgw.simulator.gemini_speech import spoken, spoken_in_pieces, wants_speech
from mgw.simulator.gemini_turns import check, prompt_tokens, results, text_of
from mgw.simulator.mind import Choice, Prompt, Tool

JSON_TYPE: Final = "application/json; charset=UTF-8"
_SIGNING: Final = re.compile(r"gemini-(?:[3-9]|\d\d)")  # from Gemini 3 on


def generate(call: Call) -> Answer:
    """``POST …:generateContent``."""
    body = _checked(call)
    if wants_speech(body):
        return pretty(spoken(call, body, _prompt(body)))
    return pretty(response(call, _answered(call, body)))


def stream_generate(call: Call) -> Answer:
    """``POST …:streamGenerateContent``: events with ``?alt=sse``, else a JSON array in pieces."""
    alt = call.query.get("alt", "json")
    if alt not in {"sse", "json"}:
        raise Refusal(400, f"Invalid value for alt: {alt}", "alt")
    body = _checked(call)
    if wants_speech(body):
        told = spoken_in_pieces(call, body, _prompt(body))
    else:
        told = responses(call, _answered(call, body))
    broken = error_value(Refusal(503, "The model is overloaded. Please try again later."))
    if alt == "sse":
        pieces = [b"data: " + dump(one) + b"\r\n\r\n" for one in told]
        end = b"data: " + dump(broken) + b"\r\n\r\n"
        if "odd-error" in call.faults:
            end = json.dumps(broken, indent=2).encode() + b"\n"
        return Stream(tuple(pieces), end, "text/event-stream")
    texts = [json.dumps(one, ensure_ascii=False, indent=2).encode() for one in told]
    array = [(b",\r\n" if index else b"[") + text for index, text in enumerate(texts)]
    end = b",\r\n" + json.dumps(broken, indent=2).encode() + b"\n]"
    return Stream((*array, b"\n]"), end, JSON_TYPE)


def pretty(value: Any) -> Unary:  # any JSON value
    """An answer as Google prints it."""
    return Unary(json.dumps(value, ensure_ascii=False, indent=2).encode() + b"\n", content_type=JSON_TYPE)


def _checked(call: Call) -> Json:
    body = require(call.body, GENERATE, lenient="lenient" in call.faults)
    check(body, signed="strict-signatures" in call.faults or bool(_SIGNING.match(call.model)))
    check_model(call.model, body)
    return body


def _answered(call: Call, body: Json) -> Answered:
    prompt = _prompt(body)
    config = body.get("generationConfig") or {}
    indices = range(config.get("candidateCount") or 1)
    return Answered(
        prompt,
        tuple(mind.answer(replace(prompt, candidate=index), call.faults) for index in indices),
        shows_thoughts=bool((config.get("thinkingConfig") or {}).get("includeThoughts")),
        logprobs=config.get("logprobs") or 0 if config.get("responseLogprobs") else None,
    )


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
        thinks=_thinks(config.get("thinkingConfig") or {}),
    )


def _thinks(thinking: Json) -> bool:
    """Whether thinking is asked for; whether it is shown is another question."""
    asked = thinking.get("includeThoughts") or "thinkingLevel" in thinking or "thinkingBudget" in thinking
    return bool(asked) and thinking.get("thinkingBudget") != 0
