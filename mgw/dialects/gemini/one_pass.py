"""A simple request for generateContent, decoded in one pass (:mod:`mgw.dialects.one_pass`)."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from msgspec import Meta, Struct
from msgspec.json import Decoder

from mgw.canonical.conversation import NO_SAMPLING, Conversation, Role, Sampling, Text, Turn
from mgw.canonical.features import Feature
from mgw.dialects.dialect import Parsed, ReplyOptions
from mgw.dialects.one_pass import FieldPath, Limit, Number, collect_said, decode_in_one_pass


class _Part(Struct, forbid_unknown_fields=True, gc=False):
    text: Annotated[str, Meta(min_length=1)]


class _Content(Struct, forbid_unknown_fields=True, gc=False):
    role: Literal["user", "model"]
    parts: Annotated[list[_Part], Meta(min_length=1, max_length=1)]


class _Instruction(Struct, forbid_unknown_fields=True):
    parts: Annotated[list[_Part], Meta(min_length=1)]
    role: str | None = None


class _Config(Struct, forbid_unknown_fields=True, rename="camel"):
    temperature: Number | None = None
    top_p: Number | None = None
    top_k: Limit | None = None
    max_output_tokens: Limit | None = None
    stop_sequences: list[str] | None = None


class _Request(Struct, forbid_unknown_fields=True, rename="camel"):
    contents: Annotated[list[_Content], Meta(min_length=1)]
    system_instruction: _Instruction | None = None
    generation_config: _Config | None = None


_DECODER: Final = Decoder(_Request)
_NO_CONFIG: Final = _Config()
_USER: Final = Role.USER  # a member of an enumeration is looked up in Python's slow way each time
_ASSISTANT: Final = Role.ASSISTANT
_SYSTEM: Final = Feature.SYSTEM
_PATHS: Final[tuple[FieldPath, ...]] = (
    ("temperature", Feature.TEMPERATURE, frozenset({"generationConfig.temperature"})),
    ("top_p", Feature.TOP_P, frozenset({"generationConfig.topP"})),
    ("top_k", Feature.TOP_K, frozenset({"generationConfig.topK"})),
    ("max_output_tokens", Feature.MAX_TOKENS, frozenset({"generationConfig.maxOutputTokens"})),
    ("stop_sequences", Feature.STOP, frozenset({"generationConfig.stopSequences"})),
)
_SYSTEM_PATH: Final = frozenset({"systemInstruction"})


def parse_in_one_pass(body: bytes, style: ReplyOptions, *, stream: bool) -> Parsed[Conversation] | None:
    """Return what a simple request means; ``None``: it holds more, or is not valid.

    :param stream: what its path asks for.
    """
    request = decode_in_one_pass(_DECODER, body)
    if request is None:
        return None
    turns: list[Turn] = []
    for content in request.contents:
        if content.role == "user":
            turns.append(Turn(_USER, (Text(content.parts[0].text),)))
        elif turns and turns[-1].role is _ASSISTANT:  # the pieces of one turn
            return None
        else:
            turns.append(Turn(_ASSISTANT, (Text(content.parts[0].text),)))
    config = request.generation_config or _NO_CONFIG
    sampling = Sampling(config.temperature, config.top_p, config.top_k)
    said = collect_said(config, _PATHS)
    instruction = request.system_instruction
    if instruction is not None:
        said[_SYSTEM] = _SYSTEM_PATH
    conversation = Conversation(
        turns=tuple(turns),
        system=() if instruction is None else tuple([Text(part.text) for part in instruction.parts]),
        sampling=NO_SAMPLING if sampling == NO_SAMPLING else sampling,
        max_tokens=config.max_output_tokens,
        stop=tuple(filter(None, config.stop_sequences or ())),
        stream=stream,
    )
    return Parsed(conversation, frozenset(), said, style)
