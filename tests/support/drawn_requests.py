"""Conversations in no wire's words, drawn by Hypothesis, and what each wire calls them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec
from hypothesis import strategies as st
from msgspec import Struct

from mgw.canonical.conversation import ToolChoice, ToolMode
from mgw.nouns.vocabulary import Effort, Family
from tests.support.rich_requests import PNG

Body = dict[str, Any]  # Any: JSON

CHAT, MESSAGES, GEMINI = Family.OPENAI, Family.ANTHROPIC, Family.GEMINI
PATHS: Final[dict[str, dict[Family, str]]] = {
    "temperature": {
        CHAT: "temperature",
        MESSAGES: "temperature",
        GEMINI: "generationConfig.temperature",
    },
    "top_p": {CHAT: "top_p", MESSAGES: "top_p", GEMINI: "generationConfig.topP"},
    "top_k": {CHAT: "top_k", MESSAGES: "top_k", GEMINI: "generationConfig.topK"},
    "frequency_penalty": {CHAT: "frequency_penalty", GEMINI: "generationConfig.frequencyPenalty"},
    "presence_penalty": {CHAT: "presence_penalty", GEMINI: "generationConfig.presencePenalty"},
    "seed": {CHAT: "seed", GEMINI: "generationConfig.seed"},
    "logprobs": {CHAT: "logprobs", GEMINI: "generationConfig.responseLogprobs"},
    "top_logprobs": {CHAT: "top_logprobs", GEMINI: "generationConfig.logprobs"},
    "max_tokens": {
        CHAT: "max_completion_tokens",
        MESSAGES: "max_tokens",
        GEMINI: "generationConfig.maxOutputTokens",
    },
    "stop": {CHAT: "stop", MESSAGES: "stop_sequences", GEMINI: "generationConfig.stopSequences"},
    "candidates": {CHAT: "n", GEMINI: "generationConfig.candidateCount"},
    "user": {CHAT: "safety_identifier", MESSAGES: "metadata.user_id"},
}
"""The plain fields by their canonical names, and where each wire says them."""
SAMPLING: Final = frozenset(PATHS) - {"max_tokens", "stop", "candidates", "user"}


class Call(Struct, frozen=True):
    """A call and what came of it."""

    name: str
    arguments: Body
    result: str


class Step(Struct, frozen=True):
    """What the user said, and what the model did then."""

    asked: str
    image: str | None
    answered: str | None
    calls: tuple[Call, ...]


class DrawnRequest(Struct, frozen=True):
    """A request in no wire's words."""

    system: str | None
    steps: tuple[Step, ...]
    last: str
    tools: tuple[tuple[str, str | None, Body], ...]
    choice: ToolChoice | None
    plain: dict[str, Any]  # Any: numbers, texts and lists of them
    schema: Body | None
    effort: Effort | None
    stream: bool


NAMES: Final = ("weather", "read_file", "find-it")
words: Final = st.text(st.characters(exclude_categories=("Cs", "Cc", "Z")), min_size=1, max_size=12)
arguments: Final = st.dictionaries(
    words, words | st.integers(-9, 9) | st.booleans() | st.lists(words, max_size=2), max_size=2
)
schemas: Final = st.lists(words, max_size=2, unique=True).map(
    lambda names: {
        "type": "object",
        "properties": {name: {"type": "string"} for name in names},
        "required": names,
        "additionalProperties": False,
    }
)


def encoded(value: Body) -> str:
    return msgspec.json.encode(value).decode()


def is_said_alike(result: str) -> bool:
    """Whether a result's text comes back from generateContent, where an object is one, as it was.

    An object of nothing but one of three keys is a text there, and any other is written anew.
    """
    try:
        said = msgspec.json.decode(result)
    except msgspec.DecodeError:
        return True
    if not isinstance(said, dict):
        return True
    return not said.keys() & {"result", "output", "error"} and encoded(said) == result


results: Final = (words | arguments.map(msgspec.json.encode).map(bytes.decode)).filter(is_said_alike)
calls: Final = st.builds(Call, st.sampled_from(NAMES), arguments, results)
steps: Final = st.builds(
    Step, words, st.none() | st.just(PNG), st.none() | words, st.lists(calls, max_size=3).map(tuple)
).filter(lambda step: step.answered is not None or step.calls)
choices: Final = st.none() | st.sampled_from(
    [ToolChoice(mode) for mode in ToolMode] + [ToolChoice(ToolMode.ANY, (name,)) for name in NAMES]
)
plain: Final = st.fixed_dictionaries(
    {},
    optional={
        "temperature": st.sampled_from([0.0, 0.25, 1.0]),
        "top_p": st.sampled_from([0.5, 0.75]),
        "top_k": st.integers(1, 64),
        "frequency_penalty": st.sampled_from([-0.5, 0.5]),
        "presence_penalty": st.sampled_from([-0.5, 0.5]),
        "seed": st.integers(0, 2**31 - 1),
        "top_logprobs": st.integers(1, 5),
        "max_tokens": st.integers(4000, 9000),
        "stop": st.lists(words, min_size=1, max_size=4, unique=True),
        "candidates": st.integers(2, 4),
        "user": st.sampled_from(["user-a", "b"]),
    },
)


@st.composite
def drawn_requests(draw: st.DrawFn) -> DrawnRequest:
    said = draw(plain)
    effort = draw(st.none() | st.sampled_from([Effort.LOW, Effort.MEDIUM, Effort.HIGH]))
    if effort is not None:  # a model that thinks takes no sampling
        said = {name: value for name, value in said.items() if name not in SAMPLING}
    if "temperature" in said:
        said.pop("top_p", None)  # Anthropic takes one of the two
    if "top_logprobs" in said:
        said["logprobs"] = True
    told = draw(st.lists(steps, max_size=3))
    schema = st.tuples(st.none() | words, schemas)
    tools = (
        tuple((name, *draw(schema)) for name in NAMES)
        if any(step.calls for step in told) or draw(st.booleans())
        else ()
    )
    return DrawnRequest(
        system=draw(st.none() | words),
        steps=tuple(told),
        last=draw(words),
        tools=tools,
        choice=draw(choices) if tools else None,
        plain=said,
        schema=draw(st.none() | schemas),
        effort=effort,
        stream=draw(st.booleans()),
    )


def put(body: Body, path: str, value: Any) -> None:  # Any: JSON
    """Say a value at a path of a request."""
    *holders, key = path.split(".")
    for holder in holders:
        body = body.setdefault(holder, {})
    body[key] = value


# Each wire's words for a drawn request


def chat(drawn: DrawnRequest) -> Body:
    messages: list[Body] = [{"role": "system", "content": drawn.system}] if drawn.system else []
    number = 0
    for step in drawn.steps:
        content: list[Body] = [{"type": "text", "text": step.asked}]
        if step.image:
            url = f"data:image/png;base64,{step.image}"
            content.append({"type": "image_url", "image_url": {"url": url}})
        messages.append({"role": "user", "content": content})
        answer: Body = {"role": "assistant", "content": step.answered}
        results: list[Body] = []
        for call in step.calls:
            number += 1
            function = {"name": call.name, "arguments": encoded(call.arguments)}
            called = {"id": f"call_{number}", "type": "function", "function": function}
            answer.setdefault("tool_calls", []).append(called)
            results.append({"role": "tool", "tool_call_id": f"call_{number}", "content": call.result})
        messages += [answer, *results]
    messages.append({"role": "user", "content": drawn.last})
    body: Body = {"model": "a-model", "messages": messages, "stream": drawn.stream}
    if drawn.tools:
        body["tools"] = [
            {"type": "function", "function": {"name": name, "description": told, "parameters": schema}}
            for name, told, schema in drawn.tools
        ]
    if drawn.choice is not None:
        one = (
            {"type": "function", "function": {"name": drawn.choice.names[0]}} if drawn.choice.names else None
        )
        body["tool_choice"] = one or {"any": "required"}.get(drawn.choice.mode.value, drawn.choice.mode.value)
    if drawn.schema is not None:
        body["response_format"] = {
            "type": "json_schema",
            "json_schema": {"name": "a", "schema": drawn.schema},
        }
    if drawn.effort is not None:
        body["reasoning_effort"] = drawn.effort.value
    return body


def messages(drawn: DrawnRequest) -> Body:
    said: list[Body] = []
    number = 0
    held: list[Body] = []
    for step in drawn.steps:
        content: list[Body] = [*held, {"type": "text", "text": step.asked}]
        if step.image:
            source = {"type": "base64", "media_type": "image/png", "data": step.image}
            content.append({"type": "image", "source": source})
        answer: list[Body] = [{"type": "text", "text": step.answered}] if step.answered else []
        held = []
        for call in step.calls:
            number += 1
            answer.append(
                {"type": "tool_use", "id": f"call_{number}", "name": call.name, "input": call.arguments}
            )
            held.append({"type": "tool_result", "tool_use_id": f"call_{number}", "content": call.result})
        said += [{"role": "user", "content": content}, {"role": "assistant", "content": answer}]
    said.append({"role": "user", "content": [*held, {"type": "text", "text": drawn.last}]})
    body: Body = {"model": "a-model", "max_tokens": 5000, "messages": said, "stream": drawn.stream}
    if drawn.system:
        body["system"] = drawn.system
    if drawn.tools:
        body["tools"] = [
            {"name": name, "description": told, "input_schema": schema} for name, told, schema in drawn.tools
        ]
    if drawn.choice is not None:
        name = {"name": drawn.choice.names[0]} if drawn.choice.names else {}
        body["tool_choice"] = {"type": "tool" if name else drawn.choice.mode.value, **name}
    if drawn.schema is not None:
        put(body, "output_config.format", {"type": "json_schema", "schema": drawn.schema})
    if drawn.effort is not None:
        put(body, "output_config.effort", drawn.effort.value)
        body["thinking"] = {"type": "adaptive"}
    return body


def generate_content(drawn: DrawnRequest) -> Body:
    contents: list[Body] = []
    number = 0
    held: list[Body] = []
    for step in drawn.steps:
        parts: list[Body] = [*held, {"text": step.asked}]
        if step.image:
            parts.append({"inlineData": {"mimeType": "image/png", "data": step.image}})
        answer: list[Body] = [{"text": step.answered}] if step.answered else []
        held = []
        for call in step.calls:
            number += 1
            about = {"id": f"call_{number}", "name": call.name}
            answer.append({"functionCall": {**about, "args": call.arguments}})
            held.append({"functionResponse": {**about, "response": {"result": call.result}}})
        contents += [{"role": "user", "parts": parts}, {"role": "model", "parts": answer}]
    contents.append({"role": "user", "parts": [*held, {"text": drawn.last}]})
    body: Body = {"contents": contents}
    if drawn.system:
        body["systemInstruction"] = {"parts": [{"text": drawn.system}]}
    if drawn.tools:
        declared = [
            {"name": name, "description": told, "parametersJsonSchema": schema}
            for name, told, schema in drawn.tools
        ]
        body["tools"] = [{"functionDeclarations": declared}]
    if drawn.choice is not None:
        names = {"allowedFunctionNames": list(drawn.choice.names)} if drawn.choice.names else {}
        body["toolConfig"] = {"functionCallingConfig": {"mode": drawn.choice.mode.value.upper(), **names}}
    if drawn.schema is not None:
        put(body, "generationConfig.responseMimeType", "application/json")
        put(body, "generationConfig.responseJsonSchema", drawn.schema)
    if drawn.effort is not None:
        put(body, "generationConfig.thinkingConfig.thinkingLevel", drawn.effort.value.upper())
    return body


WRITERS: Final[dict[Family, Callable[[DrawnRequest], Body]]] = {
    CHAT: chat,
    MESSAGES: messages,
    GEMINI: generate_content,
}


def written(drawn: DrawnRequest, family: Family) -> Body:
    """Return a drawn request in a wire's words, as far as it has them."""
    body = WRITERS[family](drawn)
    for name, value in drawn.plain.items():
        if family in PATHS[name]:
            put(body, PATHS[name][family], value)
    return body
