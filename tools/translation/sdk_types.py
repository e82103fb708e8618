"""The vendors' own request types, as one small tree: what a client of each wire can say.

The SDKs of OpenAI and Anthropic describe requests by typed dictionaries, Google's by pydantic models whose
fields its converters put on the wire.  Both become :data:`Node`.  What a type does not tell is stated here:
fields of an API version that the newest types have dropped, and what other hosts of the chat wire add.
"""

from __future__ import annotations

import datetime
import types as builtin_types
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cache
from typing import Any, Final, Literal, Required, Union, get_args, get_origin

import anthropic.types.message_create_params as anthropic_params
import openai.types.chat.completion_create_params as openai_params
import openai.types.responses.response_create_params as responses_params
from google.genai import models as gemini_converters
from google.genai import types as gemini_types
from pydantic import BaseModel
from typing_extensions import TypedDict, get_type_hints, is_typeddict

Annotation = Any  # what a type hint is has no type of its own
Json = Any  # JSON of whatever type


@dataclass(frozen=True)
class Words:
    """One of a few values."""

    values: tuple[Json, ...]


@dataclass(frozen=True)
class Free:
    """Any value of a plain type: ``str``, ``int``, ``float``, ``dict``, ``bytes``."""

    kind: type


@dataclass(frozen=True)
class Listed:
    """An array."""

    item: Node


@dataclass(frozen=True)
class Choice:
    """One of several types."""

    members: tuple[Node, ...]


@dataclass
class Shape:
    """An object with known fields; ``tag`` is what its kind is called in a union."""

    name: str
    fields: dict[str, Slot] = field(default_factory=dict)
    tag: str | None = None
    fixed: dict[str, Json] = field(default_factory=dict)
    """What makes it this kind: no field of its own."""


@dataclass(frozen=True)
class Slot:
    """A field of an object."""

    node: Node
    required: bool


Node = Words | Free | Listed | Choice | Shape

_PLAIN: Final = {str: str, int: int, float: float, bytes: bytes, object: dict, dict: dict}
_NOTHING: Final = (type(None),)


def node_of(hint: Annotation, inside: tuple[str, ...] = ()) -> Node | None:
    """Return the tree of a type; ``None`` for what is no JSON, and for a type in itself."""
    origin: Annotation = get_origin(hint)
    args = get_args(hint)
    if origin in {Union, builtin_types.UnionType}:
        return _union([arg for arg in args if arg not in _NOTHING], inside)
    if origin is Literal:
        return Words(args)
    if hint is bool:
        return Words((True, False))
    if hint is Any:
        return Free(dict)
    if origin is dict:
        return Free(dict)
    if origin is not None and len(args) == 1:  # a list of whatever name
        item = node_of(args[0], inside)
        return None if item is None else Listed(item)
    return _named(hint, inside)


def _named(hint: Annotation, inside: tuple[str, ...]) -> Node | None:
    if hint in _PLAIN:
        return Free(_PLAIN[hint])
    if hint is datetime.datetime:
        return Words(("2026-01-02T03:04:05Z",))
    if not isinstance(hint, type) or hint.__name__ in inside:
        return None
    if issubclass(hint, Enum):
        return Words(tuple(member.value for member in hint if not member.value.endswith("_UNSPECIFIED")))
    within = (*inside, hint.__name__)
    if is_typeddict(hint):
        return _of_kinds(_shape(hint.__name__, _dictionary_slots(hint), within))
    if issubclass(hint, BaseModel):
        return _shape(hint.__name__, _model_slots(hint), within)
    return None


def _union(hints: list[Annotation], inside: tuple[str, ...]) -> Node | None:
    members: list[Node] = []
    for hint in hints:
        found = node_of(hint, inside)
        if isinstance(found, Choice):
            members += found.members
        elif found is not None:
            members.append(found)
    if Free(str) in members:  # names of models and the like, beside any text
        members = [one for one in members if not isinstance(one, Words)]
    return members[0] if len(members) == 1 else Choice(tuple(members)) if members else None


def _dictionary_slots(hint: Annotation) -> Iterator[tuple[str, Annotation, bool]]:
    for name, inner in get_type_hints(hint, include_extras=True).items():
        origin: Annotation = get_origin(inner)
        required = origin is Required
        yield name, get_args(inner)[0] if required else inner, required


def _model_slots(hint: type[BaseModel]) -> Iterator[tuple[str, Annotation, bool]]:
    for name, info in hint.model_fields.items():
        yield info.alias or name, info.annotation, False


def _shape(name: str, slots: Iterator[tuple[str, Annotation, bool]], inside: tuple[str, ...]) -> Shape:
    shape = Shape(name)
    for key, hint, required in slots:
        node = node_of(hint, inside)
        if node is None:
            continue
        if key == "type" and isinstance(node, Words) and len(node.values) == 1:
            shape.tag = node.values[0]
            shape.fixed[key] = node.values[0]
        else:
            shape.fields[key] = Slot(node, required)
    return shape


def _of_kinds(shape: Shape) -> Node:
    """Return an object as one for each role or type that it may have."""
    for key in ("role", "type"):
        slot = shape.fields.get(key)
        if slot is not None and slot.required and isinstance(slot.node, Words):
            rest = {name: other for name, other in shape.fields.items() if name != key}
            kinds = [Shape(shape.name, rest, kind, {key: kind}) for kind in slot.node.values]
            return kinds[0] if len(kinds) == 1 else Choice(tuple(kinds))
    return shape


def of(hint: Annotation) -> Shape:
    """Return the tree of a type that is an object."""
    found = node_of(hint)
    assert isinstance(found, Shape), hint
    return found


# What the types do not say --------------------------------------------------------------------------------


class AnthropicVersion20230601(TypedDict, total=False):
    """API version 2023-06-01 (https://platform.claude.com/docs/en/api/versioning, Messages reference).

    Source of the three: ``MessageCreateParams`` of anthropic 0.x, before the newest types dropped them.
    """

    temperature: float
    top_p: float
    top_k: int


class _Mark(TypedDict, total=False):
    type: Required[Literal["ephemeral"]]
    ttl: Literal["5m", "1h"]


class _OpenRouterReasoning(TypedDict, total=False):
    effort: Literal["none", "minimal", "low", "medium", "high", "xhigh"]
    max_tokens: int
    exclude: bool
    enabled: bool


class _HostThinking(TypedDict, total=False):
    type: Required[Literal["enabled", "disabled", "adaptive"]]
    budget_tokens: int


class ChatOfHosts(TypedDict, total=False):
    """What other hosts of the chat wire take.

    Sources: https://openrouter.ai/docs/use-cases/reasoning-tokens, https://api-docs.deepseek.com,
    https://docs.litellm.ai/docs/completion/input, https://docs.vllm.ai (``top_k``).
    """

    top_k: int
    reasoning: _OpenRouterReasoning
    thinking: _HostThinking
    image_config: _ImageConfig


class _ImageConfig(TypedDict, total=False):
    aspect_ratio: str
    image_size: str


class _ReasoningDetail(TypedDict, total=False):
    type: Required[Literal["reasoning.text"]]
    text: Required[str]
    signature: str


class _AnsweredImage(TypedDict, total=False):
    type: Required[Literal["image_url"]]
    image_url: Required[_Address]


class _Address(TypedDict, total=False):
    url: Required[str]


class _ExtraContent(TypedDict, total=False):
    google: Required[_GoogleExtra]


class _GoogleExtra(TypedDict, total=False):
    thought_signature: str


class AssistantOfHosts(TypedDict, total=False):
    """What other hosts put into an assistant's message.

    Sources: https://api-docs.deepseek.com/guides/reasoning_model, OpenRouter as above;
    https://ai.google.dev/gemini-api/docs/openai (``extra_content``).
    """

    reasoning_content: str
    reasoning: str
    reasoning_details: list[_ReasoningDetail]
    images: list[_AnsweredImage]
    extra_content: _ExtraContent
    cache_control: _Mark


class CallOfHosts(TypedDict, total=False):
    """Google's place for the signature of a call."""

    extra_content: _ExtraContent


class MarkOfHosts(TypedDict, total=False):
    """A cache mark on a part or a tool (OpenRouter, LiteLLM)."""

    cache_control: _Mark


# The three wires ------------------------------------------------------------------------------------------


@cache
def chat() -> Shape:
    """Return a request of chat completions."""
    root = of(openai_params.CompletionCreateParamsNonStreaming)
    root.fields |= of(ChatOfHosts).fields
    root.fields["stream"] = Slot(Words((True, False)), required=False)
    mark = of(MarkOfHosts).fields
    for message in members(root.fields["messages"].node):
        if message.tag == "assistant":
            message.fields |= of(AssistantOfHosts).fields
            for call in members(message.fields["tool_calls"].node):
                call.fields |= of(CallOfHosts).fields if call.tag == "function" else {}
        if message.tag == "user":
            for part in members(message.fields["content"].node):
                part.fields |= mark
    for tool in members(root.fields["tools"].node):
        if tool.tag == "function":
            tool.fields |= mark
    return root


@cache
def messages() -> Shape:
    """Return a request of the messages API."""
    root = of(anthropic_params.MessageCreateParamsNonStreaming)
    root.fields |= of(AnthropicVersion20230601).fields
    root.fields["stream"] = Slot(Words((True, False)), required=False)
    return root


_UNIONS: Final[Mapping[str, Annotation]] = {
    "tools": list[gemini_types.Tool],
    "systemInstruction": gemini_types.Content,
    "responseSchema": gemini_types.Schema,
}
"""Fields of the SDK that take its user's objects as well: what becomes of them."""


class _Api:
    """What the converters ask of the client that calls them."""

    def __init__(self, *, vertexai: bool) -> None:
        self.vertexai = vertexai


@cache
def generate_content() -> Shape:
    """Return a request of generateContent: where Google's converters put each field of a configuration."""
    contents = _contents()
    config = of(gemini_types.GenerationConfig)
    config.fields["responseSchema"] = Slot(of(gemini_types.Schema), required=False)
    root = Shape("GenerateContentRequest", {"contents": Slot(Listed(contents), required=True)})
    for name, info in gemini_types.GenerateContentConfig.model_fields.items():
        alias = info.alias or name
        node = node_of(_UNIONS.get(alias, info.annotation))
        placed = None if node is None else _placed(alias, example(node))
        if node is None or placed is None:
            continue
        holder, key = placed
        (config if holder == "generationConfig" else root).fields[key] = Slot(node, required=False)
    root.fields["generationConfig"] = Slot(config, required=False)
    return root


def _contents() -> Choice:
    content = of(gemini_types.Content)
    rest = {"parts": Slot(content.fields["parts"].node, required=True)}
    return Choice(tuple(Shape("Content", rest, role, {"role": role}) for role in ("user", "model")))


def _placed(alias: str, value: Json) -> tuple[str, str] | None:
    """Return the object and the key in which a field of the SDK's configuration travels, if it does."""
    try:
        config = gemini_types.GenerateContentConfig.model_validate({alias: value})
    except ValueError as error:
        raise AssertionError(f"{alias}: no example for it: {value}") from error
    for vertexai in (False, True):
        convert = (
            gemini_converters._GenerateContentConfig_to_vertex
            if vertexai
            else gemini_converters._GenerateContentConfig_to_mldev
        )
        beside: dict[str, Json] = {}
        try:
            inside = convert(_Api(vertexai=vertexai), config, beside, None)  # type: ignore[arg-type]  # a stand-in
        except ValueError:  # a field of the other mode
            continue
        if beside:
            return "", next(iter(beside))
        if inside:
            return "generationConfig", next(iter(inside))
    return None


@cache
def responses() -> Shape:
    """Return a request of Responses."""
    root = of(responses_params.ResponseCreateParamsNonStreaming)
    root.fields["stream"] = Slot(Words((True, False)), required=False)
    for item in members(root.fields["input"].node):
        if item.name == "AdditionalTools":  # has a role as well as a type
            item.tag = "additional_tools"
            item.fixed = {"type": "additional_tools", **item.fixed}
    return root


def members(node: Node) -> list[Shape]:
    """Return the kinds of objects that a field holds."""
    if isinstance(node, Listed):
        return members(node.item)
    if isinstance(node, Choice):
        return [shape for member in node.members for shape in members(member)]
    return [node] if isinstance(node, Shape) else []


def example(node: Node) -> Json:
    """Return the least value of a type."""
    if isinstance(node, Words):
        return node.values[0]
    if isinstance(node, Free):
        return {str: "word", int: 2, float: 0.25, bytes: "aGk=", dict: {"a": "b"}}[node.kind]
    if isinstance(node, Listed):
        return [example(node.item)]
    if isinstance(node, Choice):
        return example(node.members[0])
    required = {key: example(slot.node) for key, slot in node.fields.items() if slot.required}
    return {**node.fixed, **required}
