"""Thoughts and their signatures, both ways.

The vendor refuses thoughts that it did not sign, and a message that ends with a thought ("The final block in
an assistant message cannot be `thinking`").  Its clients keep signatures with the thoughts of their history,
those of other vendors tagged (:mod:`mgw.dialects.signatures`).
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from mgw.canonical.conversation import (
    JsonObject,
    Signature,
)
from mgw.canonical.features import Feature
from mgw.dialects.foreign_history import marked_elements, remove_all, string_of
from mgw.dialects.signatures import Digest, is_tagged, tag_signature
from mgw.nouns.vocabulary import Family
from mgw.wire.json_document import JsonDocument, JsonNode, are_all_siblings
from mgw.wire.json_spans import Edit

THOUGHT_TYPES: Final = frozenset({"thinking", "redacted_thinking"})
_USER: Final = "user"
_ASSISTANT: Final = "assistant"
_SYSTEM: Final = "system"
_UNSIGNED: Final = tag_signature(Signature(Family.ANTHROPIC, ""))
"""Signs a thought of unknown origin: no provider gets it back."""
_SIGNED_BY: Final = MappingProxyType({"thinking": "signature", "redacted_thinking": "data"})


def is_own(signature: Signature | None) -> bool:
    """Whether this vendor made the signature, and it is not empty."""
    return signature is not None and signature.family is Family.ANTHROPIC and signature.value != ""


def drop_last_thoughts(blocks: list[JsonObject], lost: set[Feature]) -> list[JsonObject]:
    """Return the blocks of an assistant's turn without thoughts at its end."""
    end = len(blocks)
    while end and blocks[end - 1]["type"] in THOUGHT_TYPES:
        end -= 1
        lost.add(Feature.THINKING)
    return blocks[:end]


def refuses_thinking(messages: list[JsonObject]) -> bool:
    """Whether thinking with a budget cannot be asked for: the turn in progress was begun without.

    "When `thinking` is enabled, a final `assistant` message must start with a thinking block", where a loop
    of tool use is one assistant turn (guide on extended thinking), and that turn "may not be an `assistant`
    message to be continued".  Adaptive thinking demands no such thing.
    """
    steps = _turn_in_progress(messages)
    if messages[-1]["role"] == _ASSISTANT:
        return True
    ends = steps[:1] + steps[-1:]
    return bool(ends) and all(step["content"][0]["type"] not in THOUGHT_TYPES for step in ends)


def drop_thoughts(messages: list[JsonObject], lost: set[Feature]) -> None:
    """Leave the thoughts of the turn in progress out, for a model that does not think now.

    "When thinking is disabled, an `assistant` message in the final position cannot contain `thinking`."
    """
    for step in _turn_in_progress(messages):
        rest = [block for block in step["content"] if block["type"] not in THOUGHT_TYPES]
        if len(rest) < len(step["content"]):
            lost.add(Feature.THINKING)
            step["content"] = rest


def has_thoughts(messages: list[JsonObject]) -> bool:
    """Whether any of these messages holds a thought."""
    return any(block["type"] in THOUGHT_TYPES for message in messages for block in message["content"])


def _turn_in_progress(messages: list[JsonObject]) -> list[JsonObject]:
    """Return the assistant's messages of the turn that has not ended, the newest first."""
    rest = [message for message in messages if message["role"] != _SYSTEM]
    steps: list[JsonObject] = []
    if rest[-1]["role"] == _ASSISTANT:
        steps.append(rest.pop())
    while len(rest) > 1 and rest[-1]["role"] == _USER and rest[-1]["content"][0]["type"] == "tool_result":
        steps.append(rest[-2])
        del rest[-2:]
    return steps


def render_signature(signature: Signature | None, thought: Digest | str | None = None) -> str:
    """Return a signature as an Anthropic client keeps it: never empty, since it sends it back.

    :param thought: the words that it stands beside; a redacted thought has none.
    """
    if signature is None:
        return _UNSIGNED
    is_own = signature.family is Family.ANTHROPIC and signature.value != ""
    return signature.value if is_own else tag_signature(signature, thought)


def is_weak(signature: Signature | None) -> bool:
    """Whether a signature tells no more than the family of the thought."""
    return signature is None or (signature.value == "" and not signature.redacted)


def find_tagged(document: JsonDocument) -> list[Edit]:
    """Return the edits that remove thoughts with a tagged signature, and redacted ones with tagged data.

    "All messages must have non-empty content", and "consecutive ``user`` or ``assistant`` turns in your
    request will be combined into a single turn", so the neighbours of one that goes may meet (Messages
    reference, ``messages``).
    """
    edits: list[Edit] = []
    gone: list[JsonNode] = []
    for message in marked_elements(document, document.members(document.root), "messages"):
        blocks = marked_elements(document, document.members(message), "content")
        thoughts = [block for block in blocks if _is_thought(document, block)]
        if are_all_siblings(thoughts):
            gone.append(message)
        else:
            edits += remove_all(thoughts)
    return edits + remove_all(gone)


def _is_thought(document: JsonDocument, block: JsonNode) -> bool:
    members = document.members(block)
    signed = _SIGNED_BY.get(string_of(document, members, "type") or "")
    return signed is not None and is_tagged(string_of(document, members, signed) or "")
