"""The ``encrypted_content`` of reasoning items: thoughts and signatures on their way through a client.

Clients keep reasoning items whole and send them back as they are, but some lose the summary, and some build
it anew.  So the field holds all that the provider wants again: the tagged signature, then a ``.`` and the
base64 of the thought's words where it has any (contract 11.6).  An item may also stand for the signature of
something that has no place for one of its own: the call behind it, or the text before it.
"""

from __future__ import annotations

import binascii
from base64 import b64decode, b64encode
from typing import Final

from msgspec import Struct

from mgw.canonical.conversation import Signature
from mgw.dialects.signatures import Digest, TagKind, open_tag, tag_preceding, tag_signature
from mgw.nouns.vocabulary import Family

UNSIGNED: Final = Signature(Family.OPENAI, "")
"""The signature of thoughts that nobody signed, as those of hosts that speak chat."""
_SEPARATOR: Final = "."


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
