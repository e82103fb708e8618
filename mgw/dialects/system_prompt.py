"""Insert text before the system prompt of a relayed request, in place.

Each dialect's ``request`` says where the system prompt stands in its bodies.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mgw.wire.json_document import JsonDocument, JsonNode
from mgw.wire.json_spans import Edit

Members = dict[str, list[JsonNode]]
"""The members of a body, by their names."""
PrependSystem = Callable[[JsonDocument, Members, Sequence[str]], list[Edit]]
"""Returns the edits that put texts in front of the system prompt; none for a body that has another shape."""


def prepend_system(prepend: PrependSystem, body: bytes, texts: Sequence[str]) -> list[Edit]:
    """Return the edits that put texts in front of the system prompt; none for a body that has another shape.

    :raises GatewayError: ``MALFORMED`` for what is no JSON.
    """
    document = JsonDocument(body)
    members = document.members(document.root)
    return prepend(document, members, texts) if members else []


def add_member(document: JsonDocument, key: str, value: bytes) -> Edit:
    """Return the edit that adds a member at the begin of an object that has some."""
    at = document.root.value + 1
    return ((at, at), b'"%b":%b,' % (key.encode(), value))


def add_elements(node: JsonNode, raw: bytes, elements: bytes) -> Edit:
    """Return the edit that adds elements at the begin of an array."""
    is_empty = raw[1:-1].isspace() or len(raw) == len("[]")
    at = node.value + 1
    return ((at, at), elements if is_empty else elements + b",")
