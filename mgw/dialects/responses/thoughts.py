"""Reasoning items: thoughts and signatures, both ways.

Towards clients, ``encrypted_content`` holds all that the provider wants again, since clients send reasoning
items back as they are, but some lose the summary, and some build it anew: the tagged signature, then a ``.``
and the base64 of the thought's words where it has any (contract 11.6).  An item may also stand for the
signature of something that has no place for one of its own: the call behind it, or the text before it.

OpenAI keeps nothing of a request that says ``store: false``, so what its models thought comes back with the
next request, encrypted (contract 11.9).  The signature of such a thought is ``ID:ENCRYPTED_CONTENT``, which
is all that is needed to write the item again: the words that a client reads are a summary, which no model
reads.  Without a legal ``ID`` nothing stands before the colon, and a value without a colon is all content.
"""

from __future__ import annotations

import binascii
import re
from base64 import b64decode, b64encode
from typing import Final

from msgspec import Struct

from mgw.canonical.conversation import JsonObject, Signature
from mgw.dialects.foreign_history import marked_elements, remove_all, string_of
from mgw.dialects.signatures import (
    Digest,
    TagKind,
    is_tagged,
    open_tag,
    tag_preceding,
    tag_signature,
)
from mgw.nouns.vocabulary import Family
from mgw.wire.json_document import JsonDocument, JsonNode
from mgw.wire.json_spans import Edit

UNSIGNED: Final = Signature(Family.OPENAI, "")
"""The signature of thoughts that nobody signed, as those of hosts that speak chat."""
_SEPARATOR: Final = "."
_AFTER_ID: Final = ":"
_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")


class Sealed(Struct, frozen=True):
    """What an ``encrypted_content`` of the gateway's holds."""

    kind: TagKind
    """``THOUGHT``: the item's own; ``REDACTED``: the item is one; ``ADJACENT``: of the call behind it;
    ``PRECEDING``: of the text before it."""
    signature: Signature
    words: str = ""
    """The words of a thought."""


def seal_thought(words: str, signature: Signature | None) -> str:
    """Return the field for a thought; a redacted one has no words."""
    signature = signature or UNSIGNED
    tag = tag_signature(signature, words)
    if not words or signature.redacted:
        return tag
    return tag + _SEPARATOR + b64encode(words.encode("utf-8", "surrogatepass")).decode()


def seal_call_signature(signature: Signature) -> str:
    """Return the field of an item that stands for the signature of the call behind it."""
    return tag_signature(signature)


def seal_text_signature(signature: Signature) -> str:
    """Return the field of an item that stands for the signature of the text before it."""
    return tag_preceding(signature)


def unseal(content: str) -> Sealed | None:
    """Return what a client sent back; ``None``: it is not the gateway's, or was damaged or altered."""
    tag, separator, encoded = content.partition(_SEPARATOR)
    tagged = open_tag(tag)
    if tagged is None:
        return None
    words = _decode(encoded)
    if words is None or (separator and tagged.kind is not TagKind.THOUGHT):
        return None
    if tagged.digest is not None and tagged.digest != str(Digest(words)):
        return None
    return Sealed(tagged.kind, tagged.signature, words)


def _decode(encoded: str) -> str | None:
    try:
        return b64decode(encoded, validate=True).decode("utf-8", "surrogatepass")
    except (binascii.Error, ValueError):
        return None


def sign_thought(item_id: object, encrypted_content: object, *, has_words: bool) -> Signature | None:
    """Return the signature of an item's thought; ``None``: it has neither words nor a signature.

    A thought that nobody can read is all signature.
    """
    if type(encrypted_content) is not str or not encrypted_content:
        return UNSIGNED if has_words else None
    known = item_id if type(item_id) is str and _ID.fullmatch(item_id) else ""
    return Signature(Family.OPENAI, f"{known}{_AFTER_ID}{encrypted_content}", redacted=not has_words)


def render_thought(signature: Signature | None) -> JsonObject | None:
    """Return the item of a thought; ``None``: it is none that OpenAI encrypted.

    Hosts that speak chat sign with a JSON object, which has colons, too.
    """
    if signature is None or signature.family is not Family.OPENAI:
        return None
    item_id, separator, content = signature.value.partition(_AFTER_ID)
    if not separator:
        item_id, content = "", item_id
    if not content or (item_id and not _ID.fullmatch(item_id)):
        return None
    item: JsonObject = {"type": "reasoning", "summary": [], "encrypted_content": content}
    return {**item, "id": item_id} if item_id else item


def find_tagged(document: JsonDocument) -> list[Edit]:
    """Return the edits that remove reasoning items with a tagged ``encrypted_content``."""
    gone: list[JsonNode] = []
    for item in marked_elements(document, document.members(document.root), "input"):
        members = document.members(item)
        is_reasoning = string_of(document, members, "type") == "reasoning"
        if is_reasoning and is_tagged(string_of(document, members, "encrypted_content") or ""):
            gone.append(item)
    return remove_all(gone)
