"""Content of a message, and the parts that it is made of.

Sources: the SDK's ``ChatCompletionContentPartParam`` and the messages that hold it.  Beside OpenAI's own
parts stand those that hosts add: ``thinking`` (Mistral), media (:mod:`mgw.dialects.openai.media`), and
``cache_control`` on any part (OpenRouter, LiteLLM).  OpenAI's ``prompt_cache_breakpoint`` is a directive of
its own family, which is dropped across families (contract 8.27), and reported.
"""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType
from typing import Any, Final

from msgspec.structs import replace

from mgw.canonical.conversation import (
    CacheMark,
    JsonObject,
    Media,
    Refusal,
    Text,
    Thinking,
    ToolCall,
)
from mgw.canonical.features import Feature
from mgw.dialects.fields import Fields, bare_text, none_of
from mgw.dialects.media import FEATURES
from mgw.dialects.openai.media import MEDIA_PARSERS
from mgw.dialects.openai.thoughts import UNSIGNED, parse_extra_content, render_extra_content
from mgw.nouns.errors import GatewayError

ContentPart = Text | Media | Thinking | Refusal

SYSTEM_PARTS: Final = frozenset({"text"})
USER_PARTS: Final = frozenset(
    {"text", "image_url", "input_audio", "file", "video_url", "audio_url", "document_url", "file_url"}
)
"""What the messages of users and tools hold."""
ASSISTANT_PARTS: Final = frozenset({"text", "refusal", "thinking"})

_TTLS: Final = frozenset({"5m", "1h"})


def parse_content(message: Fields, allowed: frozenset[str]) -> list[ContentPart]:
    """Return the parts of ``content``; none where it is absent, null or empty."""
    value = message.take("content")
    if type(value) is str:
        return [Text(value)] if value else []
    parts: list[ContentPart] = []
    for index, block in enumerate(message.elements("content", value)):
        text = bare_text(block)  # every kind of message may have texts
        if text is None:
            parts.append(_parse_part(message.open_element("content", index, block), allowed))
        else:
            parts.append(Text(text))
    return parts


def _parse_part(block: Fields, allowed: frozenset[str]) -> ContentPart:
    kind = block.required_text("type")
    if kind not in allowed:
        raise none_of(block, "type", kind, sorted(allowed))
    if kind not in MEDIA_PARSERS:
        return _PARSERS[kind](block)
    media = MEDIA_PARSERS[kind](block)
    _note(block, FEATURES[media.kind], kind)
    cache = parse_cache_control(block)
    return media if cache is None else replace(media, cache=cache)


def _parse_text(block: Fields) -> Text:
    return Text(block.required_text("text"), parse_cache_control(block))


def _parse_refusal(block: Fields) -> Refusal:
    _note(block, Feature.REFUSAL, "refusal")
    return Refusal(block.required_text("refusal"))


def _parse_thinking(block: Fields) -> Thinking:
    _note(block, Feature.THINKING, "thinking")
    block.skip("closed")
    return Thinking(parse_thinking_text(block.take("thinking")), UNSIGNED)


def parse_thinking_text(value: Any) -> str:  # Any: JSON of whatever type
    """Return the text of Mistral's ``thinking``: a string, or an array of text parts."""
    if type(value) is list:
        texts = [item.get("text") for item in value if type(item) is dict]
        return "".join(text for text in texts if type(text) is str)
    return value if type(value) is str else ""


def _note(block: Fields, feature: Feature, kind: str) -> None:
    """Note a feature under a block that is chosen by its type: ``messages[].content[file]``."""
    block.ledger.note(feature, f"{block.path().removesuffix('[]')}[{kind}]")


_PARSERS: Final[MappingProxyType[str, Callable[[Fields], ContentPart]]] = MappingProxyType(
    {"text": _parse_text, "refusal": _parse_refusal, "thinking": _parse_thinking}
)


def parse_cache_control(fields: Fields) -> CacheMark | None:
    """Take Anthropic's ``cache_control``, which hosts that speak chat take, too."""
    mark = fields.nested("cache_control") if fields.unread else None
    if mark is None:
        return None
    fields.note(Feature.CACHE, "cache_control")
    mark.skip("type")
    ttl = mark.text("ttl")
    if ttl is not None and ttl not in _TTLS:
        mark.leave("ttl")
        ttl = None
    return CacheMark(ttl)


def parse_calls(message: Fields) -> list[ToolCall]:
    """Take ``tool_calls``."""
    if "tool_calls" not in message.unread:
        return []
    calls = message.elements("tool_calls", message.take("tool_calls"))
    return [
        _parse_bare_call(call) or _parse_call(message.open_element("tool_calls", index, call))
        for index, call in enumerate(calls)
    ]


def _parse_bare_call(call: JsonObject) -> ToolCall | None:
    """Return an entry that holds what every call has and nothing else; ``None``: it is another."""
    function = call.get("function")
    if len(call) != 3 or call.get("type") != "function" or type(function) is not dict or len(function) != 2:
        return None
    call_id, name, arguments = call.get("id"), function.get("name"), function.get("arguments")
    if type(call_id) is str and type(name) is str and type(arguments) is str:
        return ToolCall(call_id, name, arguments)
    return None


def _parse_call(call: Fields) -> ToolCall:
    """Return an entry of ``tool_calls``."""
    kind = call.text("type") or "function"
    if kind != "function":
        raise not_a_function(call, kind)
    function = call.nested("function")
    if function is None:
        raise call.missing("function")
    call_id, name = call.required_text("id"), function.required_text("name")
    arguments = function.text("arguments") or ""
    function.skip("parsed_arguments")
    if not call.unread:
        return ToolCall(call_id, name, arguments)
    call.skip("index")  # of an SDK that gathered a stream
    return ToolCall(call_id, name, arguments, parse_extra_content(call), parse_cache_control(call))


def not_a_function(fields: Fields, kind: str) -> GatewayError:
    """Return the refusal of a tool that is no function: no other family could run it."""
    return fields.wrong(
        "type",
        f"tools of type {kind[:64]!r} cannot be translated, only functions; a provider with the "
        "OpenAI API accepts them unchanged",
    )


def render_call(call_id: str, name: str, arguments: str, signature: str | None) -> JsonObject:
    """Return an entry of ``tool_calls``."""
    call: JsonObject = {
        "id": call_id,
        "type": "function",
        "function": {"name": name, "arguments": arguments},
    }
    if signature is not None:
        call["extra_content"] = render_extra_content(signature)
    return call
