"""Insert text before the system prompt of a relayed request, in place.

Sources: the vendors' references of messages (``system``: text, or blocks), chat completions (the first
messages) and responses (``instructions``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import MappingProxyType
from typing import Any, Final

from msgspec.json import encode

from mgw.nouns.vocabulary import DialectName
from mgw.wire.json_document import JsonDocument, JsonNode
from mgw.wire.json_spans import Edit

_BETWEEN: Final = "\n\n"
_OPENING_BRACKET: Final = b"["
_QUOTE: Final = b'"'


def prepend_system(dialect: DialectName, body: bytes, texts: Sequence[str]) -> list[Edit]:
    """Return the edits that put texts in front of the system prompt; none for a body that has another shape.

    :raises GatewayError: ``MALFORMED`` for what is no JSON.
    """
    document = JsonDocument(body)
    members = document.members(document.root)
    return _PREPEND[dialect](document, members, texts) if members else []


_Members = dict[str, list[JsonNode]]


def _prepend_to_messages(document: JsonDocument, members: _Members, texts: Sequence[str]) -> list[Edit]:
    blocks: list[Any] = [{"type": "text", "text": text} for text in texts]  # Any: JSON
    found = members.get("system")
    if found is None:
        return [_member(document, "system", encode(blocks))]
    node = found[-1]
    raw = document.raw(node)
    if raw.startswith(_OPENING_BRACKET):
        return [_elements(node, raw, encode(blocks)[1:-1])]
    if raw.startswith(_QUOTE) and document.string(node):
        own = b'{"type":"text","text":%b}' % raw
        return [((node.value, node.end), b"%b,%b]" % (encode(blocks)[:-1], own))]
    return [((node.value, node.end), encode(blocks))]


def _prepend_to_chat(document: JsonDocument, members: _Members, texts: Sequence[str]) -> list[Edit]:
    found = members.get("messages")
    raw = b"" if found is None else document.raw(found[-1])
    if found is None or not raw.startswith(_OPENING_BRACKET):
        return []
    messages = [{"role": "system", "content": text} for text in texts]
    return [_elements(found[-1], raw, encode(messages)[1:-1])]


def _prepend_to_responses(document: JsonDocument, members: _Members, texts: Sequence[str]) -> list[Edit]:
    text = _BETWEEN.join(texts)
    found = members.get("instructions")
    if found is None:
        return [_member(document, "instructions", encode(text))]
    node = found[-1]
    raw = document.raw(node)
    if raw.startswith(_QUOTE) and document.string(node):
        return [((node.value, node.value + 1), encode(text + _BETWEEN)[:-1])]
    return [((node.value, node.end), encode(text))]


def _member(document: JsonDocument, key: str, value: bytes) -> Edit:
    """Return the edit that adds a member at the begin of an object that has some."""
    at = document.root.value + 1
    return ((at, at), b'"%b":%b,' % (key.encode(), value))


def _elements(node: JsonNode, raw: bytes, elements: bytes) -> Edit:
    """Return the edit that adds elements at the begin of an array."""
    is_empty = raw[1:-1].isspace() or len(raw) == len("[]")
    at = node.value + 1
    return ((at, at), elements if is_empty else elements + b",")


_PREPEND: Final = MappingProxyType[
    DialectName, Callable[[JsonDocument, _Members, Sequence[str]], list[Edit]]
](
    {
        DialectName.ANTHROPIC: _prepend_to_messages,
        DialectName.OPENAI_CHAT: _prepend_to_chat,
        DialectName.OPENAI_RESPONSES: _prepend_to_responses,
    }
)
PREPENDING: Final = frozenset(_PREPEND)
"""Dialects of which the system prompt can be prepended to."""
