"""A simple request for a message, decoded in one pass (:mod:`mgw.dialects.one_pass`)."""

from __future__ import annotations

from typing import Final, Literal

from msgspec import Struct
from msgspec.json import Decoder

from mgw.canonical.conversation import NO_SAMPLING, Conversation, Role, Sampling, Text, Turn
from mgw.canonical.features import Feature
from mgw.dialects.anthropic.blocks import BILLING_PREFIX
from mgw.dialects.dialect import Parsed
from mgw.dialects.one_pass import FieldPath, Limit, Number, collect_said, decode_in_one_pass


class _Block(Struct, forbid_unknown_fields=True, gc=False):
    type: Literal["text"]
    text: str


class _Message(Struct, forbid_unknown_fields=True, gc=False):
    role: Literal["user", "assistant"]
    content: list[_Block] | str


class _Request(Struct, forbid_unknown_fields=True):
    model: str
    max_tokens: Limit
    messages: list[_Message]
    system: list[_Block] | str | None = None
    temperature: Number | None = None
    top_p: Number | None = None
    top_k: Limit | None = None
    stop_sequences: list[str] | None = None
    stream: bool | None = None


_DECODER: Final = Decoder(_Request)
_USER: Final = Role.USER  # a member of an enumeration is looked up in Python's slow way each time
_ASSISTANT: Final = Role.ASSISTANT
_PATHS: Final[tuple[FieldPath, ...]] = (
    ("max_tokens", Feature.MAX_TOKENS, frozenset({"max_tokens"})),
    ("system", Feature.SYSTEM, frozenset({"system"})),
    ("temperature", Feature.TEMPERATURE, frozenset({"temperature"})),
    ("top_p", Feature.TOP_P, frozenset({"top_p"})),
    ("top_k", Feature.TOP_K, frozenset({"top_k"})),
    ("stop_sequences", Feature.STOP, frozenset({"stop_sequences"})),
)


def parse_in_one_pass(body: bytes) -> Parsed[Conversation] | None:
    """Return what a simple request means; ``None``: it holds more, or is not valid."""
    request = decode_in_one_pass(_DECODER, body)
    if request is None:
        return None
    system = () if request.system is None else _parse_texts(request.system)
    for text in system:
        if text.text.startswith(BILLING_PREFIX):
            return None
    sampling = Sampling(request.temperature, request.top_p, request.top_k)
    turns = [
        Turn(_USER if message.role == "user" else _ASSISTANT, _parse_texts(message.content))
        for message in request.messages
    ]
    conversation = Conversation(
        turns=tuple(turns),
        system=system,
        sampling=NO_SAMPLING if sampling == NO_SAMPLING else sampling,
        max_tokens=request.max_tokens,
        stop=tuple(filter(None, request.stop_sequences or ())),
        stream=request.stream is True,
    )
    return Parsed(conversation, frozenset(), collect_said(request, _PATHS))


def _parse_texts(content: list[_Block] | str) -> tuple[Text, ...]:
    if isinstance(content, str):
        return (Text(content),)
    return tuple([Text(block.text) for block in content])
