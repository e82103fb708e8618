"""A simple request for a chat completion, decoded in one pass (:mod:`mgw.dialects.one_pass`)."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from msgspec import Meta, Struct
from msgspec.json import Decoder

from mgw.canonical.conversation import NO_SAMPLING, Conversation, Role, Sampling, Text, Turn
from mgw.canonical.features import Feature
from mgw.dialects.dialect import DEFAULT_OPTIONS, Parsed, ReplyOptions
from mgw.dialects.one_pass import FieldPath, Limit, Number, collect_said, decode_in_one_pass


class _Message(Struct, forbid_unknown_fields=True, gc=False):
    role: Literal["system", "user", "assistant"]
    content: Annotated[str, Meta(min_length=1)]


class _StreamOptions(Struct, forbid_unknown_fields=True):
    include_usage: bool | None = None


class _Request(Struct, forbid_unknown_fields=True):
    model: str
    messages: Annotated[list[_Message], Meta(min_length=1)]
    max_tokens: Limit | None = None
    max_completion_tokens: Limit | None = None
    temperature: Number | None = None
    top_p: Number | None = None
    stop: list[str] | str | None = None
    stream: bool | None = None
    stream_options: _StreamOptions | None = None


_DECODER: Final = Decoder(_Request)
_USER: Final = Role.USER  # a member of an enumeration is looked up in Python's slow way each time
_ASSISTANT: Final = Role.ASSISTANT
_SYSTEM: Final = Feature.SYSTEM
_PATHS: Final[tuple[FieldPath, ...]] = (
    ("max_tokens", Feature.MAX_TOKENS, frozenset({"max_tokens"})),
    ("max_completion_tokens", Feature.MAX_TOKENS, frozenset({"max_completion_tokens"})),
    ("temperature", Feature.TEMPERATURE, frozenset({"temperature"})),
    ("top_p", Feature.TOP_P, frozenset({"top_p"})),
    ("stop", Feature.STOP, frozenset({"stop"})),
)
_SYSTEM_PATH: Final = frozenset({"messages[].content"})


def parse_in_one_pass(body: bytes) -> Parsed[Conversation] | None:
    """Return what a simple request means; ``None``: it holds more, or is not valid."""
    request = decode_in_one_pass(_DECODER, body)
    if request is None or (request.max_tokens is not None and request.max_completion_tokens is not None):
        return None
    system: list[Text] = []
    turns: list[Turn] = []
    for message in request.messages:
        if message.role == "user":
            turns.append(Turn(_USER, (Text(message.content),)))
        elif message.role == "assistant":
            turns.append(Turn(_ASSISTANT, (Text(message.content),)))
        elif turns:
            return None
        else:
            system.append(Text(message.content))
    said = collect_said(request, _PATHS)
    if system:
        said[_SYSTEM] = _SYSTEM_PATH
    stop = [request.stop] if isinstance(request.stop, str) else request.stop or ()
    has_sampling = request.temperature is not None or request.top_p is not None
    conversation = Conversation(
        turns=tuple(turns),
        system=tuple(system),
        sampling=Sampling(request.temperature, request.top_p) if has_sampling else NO_SAMPLING,
        max_tokens=request.max_tokens or request.max_completion_tokens,
        stop=tuple(filter(None, stop)),
        stream=request.stream is True,
    )
    options = request.stream_options
    style = (
        ReplyOptions(include_usage=True) if options is not None and options.include_usage else DEFAULT_OPTIONS
    )
    return Parsed(conversation, frozenset(), said, style)
