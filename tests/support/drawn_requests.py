"""Conversations in no wire's words, drawn by Hypothesis, and what each wire calls them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar
from unicodedata import category

import msgspec
from msgspec import Struct

from mgw.canonical.conversation import ToolChoice, ToolMode
from mgw.nouns.vocabulary import Effort, Family
from tests.support.dice import Dice
from tests.support.dice import written as written_by_dice
from tests.support.rich_requests import PNG

_T = TypeVar("_T")
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
_NO_LETTERS: Final = frozenset({"Cs", "Cc", "Zs", "Zl", "Zp"})


def _a_letter(dice: Dice) -> str:
    number = dice.below(256)
    if number < 200:
        return chr(0x21 + number % 94)
    letter = chr(dice.below(0x11) << 16 | dice.below(256) << 8 | dice.below(256))
    return "é" if category(letter) in _NO_LETTERS else letter


def _a_word(dice: Dice) -> str:
    return _a_letter(dice) + "".join(dice.several(_a_letter, 11))


def _maybe(write: Callable[[Dice], _T], dice: Dice) -> _T | None:
    return write(dice) if dice.below(2) else None


def _an_argument(dice: Dice) -> Any:  # Any: JSON
    match dice.below(4):
        case 0:
            return _a_word(dice)
        case 1:
            return dice.below(19) - 9
        case 2:
            return dice.below(2) == 1
    return dice.several(_a_word, 2)


def _arguments(dice: Dice) -> Body:
    return dict(dice.several(lambda dice: (_a_word(dice), _an_argument(dice)), 2))


def _a_schema(dice: Dice) -> Body:
    names = list(dict.fromkeys(dice.several(_a_word, 2)))
    return {
        "type": "object",
        "properties": {name: {"type": "string"} for name in names},
        "required": names,
        "additionalProperties": False,
    }


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


def _a_call(dice: Dice) -> Call:
    name, arguments = dice.one_of(NAMES), _arguments(dice)
    result = encoded(_arguments(dice)) if dice.below(2) else _a_word(dice)
    return Call(name, arguments, result if is_said_alike(result) else "fine")


def _a_step(dice: Dice) -> Step:
    asked, image = _a_word(dice), dice.one_of((None, PNG))
    calls = tuple(dice.several(_a_call, 3))
    return Step(asked, image, _maybe(_a_word, dice) if calls else _a_word(dice), calls)


_CHOICES: Final = (
    None,
    *(ToolChoice(mode) for mode in ToolMode),
    *(ToolChoice(ToolMode.ANY, (name,)) for name in NAMES),
)
_PLAIN: Final[dict[str, Callable[[Dice], Any]]] = {  # Any: numbers, texts and lists of them
    "temperature": lambda dice: dice.one_of((0.0, 0.25, 1.0)),
    "top_p": lambda dice: dice.one_of((0.5, 0.75)),
    "top_k": lambda dice: 1 + dice.below(64),
    "frequency_penalty": lambda dice: dice.one_of((-0.5, 0.5)),
    "presence_penalty": lambda dice: dice.one_of((-0.5, 0.5)),
    "seed": lambda dice: dice.below(128) << 24 | dice.below(256) << 16 | dice.below(256),
    "top_logprobs": lambda dice: 1 + dice.below(5),
    "max_tokens": lambda dice: 4000 + 20 * dice.below(250),
    "stop": lambda dice: list(dict.fromkeys([_a_word(dice), *dice.several(_a_word, 3)])),
    "candidates": lambda dice: 2 + dice.below(3),
    "user": lambda dice: dice.one_of(("user-a", "b")),
}


def _a_request(dice: Dice) -> DrawnRequest:
    said = {name: write(dice) for name, write in _PLAIN.items() if dice.below(2)}
    effort = dice.one_of((None, None, Effort.LOW, Effort.MEDIUM, Effort.HIGH))
    if effort is not None:  # a model that thinks takes no sampling
        said = {name: value for name, value in said.items() if name not in SAMPLING}
    if "temperature" in said:
        said.pop("top_p", None)  # Anthropic takes one of the two
    if "top_logprobs" in said:
        said["logprobs"] = True
    told = dice.several(_a_step, 3)
    tools = (
        tuple((name, _maybe(_a_word, dice), _a_schema(dice)) for name in NAMES)
        if any(step.calls for step in told) or dice.below(2)
        else ()
    )
    return DrawnRequest(
        system=_maybe(_a_word, dice),
        steps=tuple(told),
        last=_a_word(dice),
        tools=tools,
        choice=dice.one_of(_CHOICES) if tools else None,
        plain=said,
        schema=_maybe(_a_schema, dice),
        effort=effort,
        stream=dice.below(2) == 1,
    )


DRAWN_REQUESTS: Final = written_by_dice(_a_request, 1024)


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
