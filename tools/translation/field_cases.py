"""Every field of every wire, each with small requests that carry it and one that does not.

The walk goes through the vendors' own types (:mod:`tools.translation.sdk_types`).  What they do not tell,
which values are legal and what has to stand beside a field for it to mean something, stands here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from mgw.canonical.conversation import Conversation, Signature
from mgw.dialects.dialect import Parsed, RequestContext
from mgw.dialects.responses.request import parse_request as parse_responses_request
from mgw.dialects.responses.thoughts import seal_thought
from mgw.nouns.vocabulary import Family
from tools.translation.sdk_types import (
    Choice,
    Free,
    Json,
    Listed,
    Node,
    Shape,
    Words,
    chat,
    example,
    generate_content,
    messages,
    responses,
)

Body = dict[str, Any]  # Any: JSON
Build = Callable[[Json], Body]


class _Absent:
    """In place of a value: the field is not there."""


ABSENT: Final = _Absent()


@dataclass(frozen=True)
class Case:
    """A field, and requests that say different things in it."""

    path: str
    values: tuple[Json, ...]
    bodies: tuple[Body, ...]
    """One for each value."""
    without: Body | None
    """``None``: the field must be there."""
    free: bool
    """Its values are not a few words of an enumeration."""
    holder: bool
    """It says nothing that its own fields do not."""
    say: Build
    """A request that says any value in it."""


# Requests -------------------------------------------------------------------------------------------------

_PNG: Final = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
_GIF: Final = "R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7"
_PDF: Final = "JVBERi0xLjQK"
_OTHER_PDF: Final = "JVBERi0xLjUK"
_SCHEMA: Final = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}
_OTHER_SCHEMA: Final = {
    "type": "object",
    "properties": {"town": {"type": "string"}},
    "required": ["town"],
    "additionalProperties": False,
}
_FUNCTION: Final = {"name": "word", "parameters": _SCHEMA}
_CHAT_TOOLS: Final = [{"type": "function", "function": _FUNCTION}]
_CLIENT_TOOLS: Final = [
    *({"type": kind, "name": name} for kind in ("function", "custom") for name in ("word", "other")),
    *({"type": kind} for kind in ("shell", "apply_patch")),
]
SEALED: Final = tuple(
    seal_thought("Hm.", Signature(family, value))
    for family, value in ((Family.ANTHROPIC, "c2ln"), (Family.GEMINI, "c2ln"), (Family.OPENAI, ""))
)
"""A thought of each family, as an item of Responses holds it."""
_IMAGE: Final = {"inlineData": {"mimeType": "image/png", "data": _PNG}}

_VALUES: Final[Mapping[str, tuple[Json, ...]]] = {
    r"\.schema$|JsonSchema$|input_schema$|function\.parameters$": (_SCHEMA, _OTHER_SCHEMA),
    r"allowed_tools\.tools$": ([{"type": "function", "function": {"name": "word"}}],),
    r"budget_tokens$|thinkingBudget$|reasoning\.max_tokens$": (2048, 9000),
    r"max_tokens$|maxOutputTokens$|max_completion_tokens$": (3000, 4000),
    r"topK$": (20, 40),
    r"parameters\.type$": ("OBJECT",),
    r"responseSchema\.type$": ("OBJECT", "ARRAY"),
    r"image_url\.url$": (f"data:image/png;base64,{_PNG}", "https://example.com/a.png"),
    r"file\.file_data$": (f"data:application/pdf;base64,{_PDF}", f"data:application/pdf;base64,{_OTHER_PDF}"),
    r"file\.filename$": ("a.pdf", "b.pdf"),
    r"input_audio\.data$": ("aGk=", "aG8="),
    r"\.arguments$": ('{"a":1}', '{"b":2}'),
    r"url\]?\.url$": ("https://example.com/a", "https://example.com/b"),
    r"image\]\.source\[base64\]\.data$": (_PNG, _PNG.replace("AAE", "AAF", 1)),
    r"document\]\.source\[base64\]\.data$": (_PDF, _OTHER_PDF),
    r"fileUri$": ("https://example.com/a.png", "https://example.com/b.png"),
    r"inlineData\.mimeType$": ("image/png", "image/webp"),
    r"fileData\.mimeType$": ("image/png", "image/webp"),
    r"inlineData\.data$": (_PNG, _PNG.replace("AAE", "AAF", 1)),
    r"responseMimeType$": ("application/json", "text/x.enum"),
    r"^modalities$": (["text"], ["text", "image"], ["text", "audio"]),
    r"^image_config\.aspect_ratio$": ("16:9", "1:1"),
    r"^image_config\.image_size$": ("1K", "2K"),
    r"responseModalities$": (["TEXT"], ["IMAGE"]),
    r"anyOf$": ([{"type": "STRING"}, {"type": "NUMBER"}], [{"type": "STRING"}, {"type": "BOOLEAN"}]),
    r"\.ref$": ("#/defs/a", "#/defs/b"),
    r"logit_bias$": ({"50256": 1}, {"50256": 2}),
    r"metadata\.user_id$": ("word", "other"),
    r"input_image\]\.image_url$": (f"data:image/png;base64,{_PNG}", "https://example.com/a.png"),
    r"input_file\]\.file_data$": (f"data:application/pdf;base64,{_PDF}", _OTHER_PDF),
    r"input_file\]\.file_url$": ("https://example.com/a.pdf", "https://example.com/b.pdf"),
    r"input_file\]\.filename$": ("a.pdf", "b.pdf"),
    r"reasoning\]\.encrypted_content$": SEALED,
    r"max_output_tokens$": (3000, 4000),
    r"\[allowed_tools\]\.tools$": (
        [{"type": "function", "name": "word"}],
        [{"type": "function", "name": "other"}, {"type": "custom", "name": "word"}],
    ),
    r"\[function\]\.parameters$|tool_search\]\.parameters$": (_SCHEMA, _OTHER_SCHEMA),
    r"^include$": (["message.output_text.logprobs"], ["reasoning.encrypted_content"], ["word"]),
    r"tool_search_call\]\.arguments$": ({"a": 1}, {"b": 2}),
}
"""Values of fields whose types do not tell what is legal, by the end of their path."""

_BESIDE: Final[Mapping[tuple[str, str], Body]] = {
    ("ResponseFormatJSONSchema", "*"): {},
    ("JSONSchema", "name"): {"schema": _SCHEMA},
    ("JSONSchema", "description"): {"name": "word", "schema": _SCHEMA},
    ("JSONSchema", "strict"): {"name": "word", "schema": _SCHEMA},
    ("FunctionDefinition", "strict"): _FUNCTION,
    ("File", "*"): {},
    ("FileFile", "filename"): {"file_data": f"data:application/pdf;base64,{_PDF}"},
    ("FileFile", "*"): {},
    ("ChatCompletionStreamOptionsParam", "*"): {},
    ("Part", "thought"): {"text": "word"},
    ("Part", "thoughtSignature"): {"text": "word"},
    ("Part", "videoMetadata"): {
        "fileData": {"fileUri": "https://example.com/a.mp4", "mimeType": "video/mp4"}
    },
    ("Part", "mediaResolution"): {"inlineData": {"mimeType": "image/png", "data": _PNG}},
    ("Part", "mediaProcessing"): {"inlineData": {"mimeType": "image/png", "data": _PNG}},
    ("Part", "*"): {},
    ("Blob", "mimeType"): {"data": "aGk="},
    ("FunctionResponseBlob", "mimeType"): {"data": "aGk="},
    ("ThinkingConfig", "includeThoughts"): {"thinkingLevel": "HIGH"},
    ("ThinkingConfig", "*"): {},
    ("_OpenRouterReasoning", "exclude"): {"effort": "high"},
    ("Blob", "*"): {"mimeType": "image/png", "data": _PNG},
    ("FileData", "*"): {"mimeType": "image/png", "fileUri": "https://example.com/a.png"},
    ("FunctionCall", "*"): {"name": "word", "args": {"a": "b"}},
    ("FunctionResponse", "*"): {"name": "word", "response": {"a": "b"}},
    ("FunctionResponseBlob", "*"): {"mimeType": "image/png", "data": _PNG},
    ("FunctionResponseFileData", "*"): {"mimeType": "image/png", "fileUri": "https://example.com/a.png"},
    ("FunctionDeclaration", "*"): {"name": "word"},
    ("FunctionCallingConfig", "allowedFunctionNames"): {"mode": "ANY"},
    ("Schema", "*"): {"type": "OBJECT", "properties": {"city": {"type": "STRING"}}},
    ("GenerationConfig", "logprobs"): {"responseLogprobs": True},
    ("GenerationConfig", "responseSchema"): {"responseMimeType": "application/json"},
    ("GenerationConfig", "responseJsonSchema"): {"responseMimeType": "application/json"},
    ("Content", "*"): {"parts": [{"text": "word"}]},
    ("CompletionCreateParamsNonStreaming", "top_logprobs"): {"logprobs": True},
    ("CompletionCreateParamsNonStreaming", "stream_options"): {"stream": True},
    ("CompletionCreateParamsNonStreaming", "tool_choice"): {"tools": _CHAT_TOOLS},
    ("CompletionCreateParamsNonStreaming", "parallel_tool_calls"): {"tools": _CHAT_TOOLS},
    ("CompletionCreateParamsNonStreaming", "function_call"): {"functions": [_FUNCTION]},
    ("ChatCompletionAssistantMessageParam", "name"): {"content": "word"},
    ("ChatCompletionAssistantMessageParam", "cache_control"): {"content": "word"},
    ("ChatCompletionAssistantMessageParam", "extra_content"): {"content": "word"},
    ("MessageCreateParamsNonStreaming", "tool_choice"): {
        "tools": [{"name": "word", "input_schema": _SCHEMA}]
    },
    ("GenerateContentRequest", "toolConfig"): {
        "tools": [{"functionDeclarations": [{"name": "word", "parametersJsonSchema": _SCHEMA}]}]
    },
    ("ResponseCreateParamsNonStreaming", "tool_choice"): {"tools": _CLIENT_TOOLS},
    ("ResponseCreateParamsNonStreaming", "parallel_tool_calls"): {"tools": _CLIENT_TOOLS},
    ("ToolFunction", "strict"): {"parameters": _SCHEMA},
    ("ResponseInputFileParam", "file_url"): {},
    ("ResponseInputFileContentParam", "file_url"): {},
    ("GenerateContentRequest", "generationConfig"): {"contents": [{"role": "user", "parts": [_IMAGE]}]},
}
"""What stands beside a field for it to mean something; ``*``: beside any other."""

_LEAST: Final[Mapping[str, Body]] = {
    "FileFile": {"file_data": f"data:application/pdf;base64,{_PDF}"},
    "Blob": {"mimeType": "image/png", "data": _PNG},
    "FileData": {"mimeType": "image/png", "fileUri": "https://example.com/a.png"},
    "FunctionResponseBlob": {"mimeType": "image/png", "data": _PNG},
    "FunctionResponseFileData": {"mimeType": "image/png", "fileUri": "https://example.com/a.png"},
    "FunctionResponsePart": {"inlineData": {"mimeType": "image/png", "data": _PNG}},
    "FunctionCall": {"name": "word", "args": {"a": "b"}},
    "FunctionResponse": {"name": "word", "response": {"a": "b"}},
    "FunctionDeclaration": {"name": "word"},
    "Part": {"text": "word"},
    "Content": {"parts": [{"text": "word"}]},
    "Tool": {"functionDeclarations": [{"name": "word"}]},
    "Schema": {"type": "OBJECT", "properties": {"city": {"type": "STRING"}}},
    "ThinkingConfig": {"thinkingBudget": 2048},
    "OutputConfigParam": {"effort": "low"},
    "ResponseInputImageParam": {"image_url": f"data:image/png;base64,{_PNG}"},
    "ResponseInputImageContentParam": {"image_url": f"data:image/png;base64,{_PNG}"},
    "ResponseInputFileParam": {"file_data": f"data:application/pdf;base64,{_PDF}"},
    "ResponseInputFileContentParam": {"file_data": f"data:application/pdf;base64,{_PDF}"},
    "ResponseReasoningItemParam": {"encrypted_content": SEALED[0]},
    "FunctionCallOutput": {"call_id": "word"},
    "ToolSearchCall": {"call_id": "word"},
    "ResponseToolSearchOutputItemParamParam": {"call_id": "word"},
    "ToolSearchToolParam": {"execution": "client"},
}
"""The least sensible object of a type whose fields are all optional."""


def least(node: Node, path: str) -> Json:
    """Return the least value of a type at a path that a vendor would take."""
    given = _given(path)
    if given:
        return given[0]
    if isinstance(node, Listed):
        return [least(node.item, path)]
    if isinstance(node, Choice):
        return least(node.members[0], path)
    if isinstance(node, Shape):
        return _least_shape(node, path)
    return example(node)


def _least_shape(shape: Shape, path: str) -> Body:
    inner = path if shape.tag is None else f"{path}[{shape.tag}]"
    required = {
        key: least(slot.node, f"{inner}.{key}") for key, slot in shape.fields.items() if slot.required
    }
    return {**shape.fixed, **_LEAST.get(shape.name, {}), **required}


def _given(path: str) -> tuple[Json, ...] | None:
    return next((values for pattern, values in _VALUES.items() if re.search(pattern, path)), None)


def _samples(node: Node, path: str) -> list[Json]:
    given = _given(path)
    if given is not None:
        return list(given)
    if isinstance(node, Words):
        return list(node.values)
    if isinstance(node, Free):
        others = {str: "other", int: 3, float: 0.5, bytes: "aG8=", dict: {"c": "d"}}
        return [example(node), others[node.kind]]
    if isinstance(node, Listed):
        return [[value] for value in _samples(node.item, path)]
    if isinstance(node, Choice):
        return [value for member in node.members for value in _samples(member, path)]
    return [_least_shape(node, path)]


def _is_free(node: Node) -> bool:
    if isinstance(node, Listed):
        return _is_free(node.item)
    if isinstance(node, Choice):
        return any(_is_free(member) for member in node.members)
    return isinstance(node, Free)


def _is_holder(node: Node) -> bool:
    """Whether a field is an object, or several, whose kinds all have fields of their own."""
    if isinstance(node, Listed):
        return _is_holder(node.item)
    if isinstance(node, Choice):
        return all(_is_holder(member) for member in node.members)
    return isinstance(node, Shape) and bool(node.fields)


def _fields_of(shape: Shape, path: str, build: Build) -> Iterator[Case]:
    for key, slot in shape.fields.items():
        here = f"{path}.{key}" if path else key
        beside = _BESIDE.get((shape.name, key), _BESIDE.get((shape.name, "*"), {}))
        base = {**_least_shape(shape, path), **beside} if path else dict(beside)
        if (shape.name, key) in _BESIDE or (shape.name, "*") in _BESIDE:
            base = {
                name: value
                for name, value in base.items()
                if name in {*beside, *shape.fixed} or _needs(shape, name)
            }
        base.pop(key, None)

        def within(value: Json, base: Body = base, key: str = key) -> Body:
            return build(base if value is ABSENT else {**base, key: value})

        samples = _samples(slot.node, here)
        without = None if slot.required else within(ABSENT)
        bodies = tuple(within(value) for value in samples)
        yield Case(here, tuple(samples), bodies, without, _is_free(slot.node), _is_holder(slot.node), within)
        yield from _inside(slot.node, here, within)


def _needs(shape: Shape, name: str) -> bool:
    slot = shape.fields.get(name)
    return slot is not None and slot.required


def _inside(node: Node, path: str, build: Build) -> Iterator[Case]:
    """Yield the fields of the objects that a field holds."""
    if isinstance(node, Listed):
        if isinstance(node.item, Shape | Choice):
            yield from _inside_list(node.item, path, build)
    elif isinstance(node, Choice):
        for member in node.members:
            yield from _inside(member, path, build)
    elif isinstance(node, Shape):
        yield from _fields_of(node, path if node.tag is None else f"{path}[{node.tag}]", build)


def _inside_list(item: Node, path: str, build: Build) -> Iterator[Case]:
    for shape in item.members if isinstance(item, Choice) else (item,):
        if isinstance(shape, Shape):
            yield from _fields_of(shape, f"{path}[{shape.tag or ''}]", lambda value: build([value]))


# What stands around ---------------------------------------------------------------------------------------

_CALL_ID: Final = "call_1"


def _around_chat(body: Body) -> Body:
    said = body.get("messages", [])
    before: list[Json] = [{"role": "user", "content": "Hello"}]
    role = said[0]["role"] if said else None
    if role in {"system", "developer"}:
        before = []
    if role == "tool":
        call = {"id": "word", "type": "function", "function": _CALLED}
        before.append({"role": "assistant", "content": None, "tool_calls": [call]})
    if role == "function":
        before.append({"role": "assistant", "content": None, "function_call": _CALLED})
    after = [{"role": "user", "content": "Go on"}] if role not in {None, "user"} else []
    return {"model": "a-model", **body, "messages": [*before, *said, *after]}


_CALLED: Final = {"name": "word", "arguments": "{}"}


def _around_responses(body: Body) -> Body:
    said = body.get("input", [])
    if isinstance(said, str):
        return {"model": "a-model", **body}
    kind = said[0].get("type", "message") if said else "message"
    role = said[0].get("role") if said else None
    before: list[Json] = [] if role in {"system", "developer"} else [{"role": "user", "content": "Hello"}]
    if kind.endswith("_output"):
        before += [{"type": "function_call", **_CALLED, "call_id": name} for name in ("word", "other")]
    if kind == "reasoning":
        after: list[Json] = [{"role": "assistant", "content": "I see."}]  # a turn does not end with a thought
    else:
        after = [{"role": "assistant", "content": "I see."}] if kind.endswith("_output") else []
    return {
        "model": "a-model",
        **body,
        "input": [*before, *said, *after, {"role": "user", "content": "Go on"}],
    }


def _around_messages(body: Body) -> Body:
    said = body.get("messages", [])
    before: list[Json] = [{"role": "user", "content": "Hello"}]
    if any(block.get("type") == "tool_result" for block in _blocks(said)):
        call = {"type": "tool_use", "id": "word", "name": "word", "input": {}}
        before.append({"role": "assistant", "content": [call]})
    after: list[Json] = []
    if said and said[0]["role"] == "assistant":
        kept = [{"type": "text", "text": "I see."}]  # a turn does not end with a thought
        content = said[0].get("content")
        said = [{**said[0], "content": [*content, *kept]}] if isinstance(content, list) else said
        after = [{"role": "user", "content": "Go on"}]
    return {"model": "a-model", "max_tokens": 20_000, **body, "messages": [*before, *said, *after]}


def _blocks(said: list[Json]) -> list[Body]:
    content = said[0].get("content") if said else None
    return [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []


def _around_contents(body: Body) -> Body:
    said = body.get("contents", [])
    before: list[Json] = [{"role": "user", "parts": [{"text": "Hello"}]}]
    parts = said[0].get("parts", []) if said else []
    if any("functionResponse" in part for part in parts):
        call = {"functionCall": {"id": "word", "name": "word", "args": {}}}
        before.append({"role": "model", "parts": [call]})
    after = [{"role": "user", "parts": [{"text": "Go on"}]}] if said and said[0]["role"] == "model" else []
    return {**body, "contents": [*before, *said, *after]}


@dataclass(frozen=True)
class Client:
    """A wire that clients speak."""

    name: str
    family: Family
    root: Callable[[], Shape]
    around: Callable[[Body], Body]
    top: str
    """The list that every request has."""
    parse: Callable[[bytes, RequestContext], Parsed[Conversation]] | None = None
    """``None``: that of its family's dialect."""


CLIENTS: Final = (
    Client("chat", Family.OPENAI, chat, _around_chat, "messages"),
    Client("messages", Family.ANTHROPIC, messages, _around_messages, "messages"),
    Client("generateContent", Family.GEMINI, generate_content, _around_contents, "contents"),
)


RESPONSES: Final = Client(
    "responses", Family.OPENAI, responses, _around_responses, "input", parse_responses_request
)
"""Apart from the others: what becomes of its fields is decided beforehand, field by field."""


@cache
def cases(client: Client) -> tuple[Case, ...]:
    """Return every field of a wire, with requests that carry it."""
    return tuple(_fields_of(client.root(), "", client.around))
