"""Thinking signatures, tagged by the gateway with the family that made them (contract 8.10).

A vendor signs what its models think and wants the signature back unchanged, but its own only.  The gateway
keeps no state, so a signature travels through the client's history inside the client's own dialect, tagged::

    bWd3c2ln  Z3Jk  q83vASNF  RXdJQkNnPT0=
    tag       head  digest    value

The *tag* is base64 of ``mgwsig``.  The *head* is base64 of three letters: the family (``o``, ``a``, ``g``),
the form (``r``: the value follows as it is, ``e``: as base64 of its UTF-8) and the kind (``d``: beside a
thought whose *digest* comes first, ``t``: beside a text, ``x``: a redacted thought, ``p``: of the text that
precedes it, where a tag stands apart from what it signs).  The digest tells when a client has altered the
thought.  Tags beside thoughts had none before, so that ``t`` may stand there, too.

A value that is canonical base64 follows as it is, so that the whole is valid base64 and no longer than it
must be.  Google's SDKs read the field as bytes: they refuse what is no base64, and give it back in the
URL-safe alphabet.  Tag and head are the same in both.
"""

from __future__ import annotations

import binascii
import re
from base64 import b64decode, b64encode
from enum import StrEnum
from hashlib import blake2b
from types import MappingProxyType
from typing import Final

from msgspec import Struct

from mgw.canonical.conversation import Signature
from mgw.nouns.families import FAMILIES
from mgw.nouns.vocabulary import Family

TAG: Final = "bWd3c2ln"
"""What every tagged signature begins with."""

SKIP_VALIDATOR: Final = "skip_thought_signature_validator"
"""What Gemini takes in place of a signature that history does not have.

Sources: https://ai.google.dev/gemini-api/docs/thought-signatures (FAQ, which also names
``context_engineering_is_the_way_to_go``) and, as the only one, Vertex AI's page of that name ("Using REST or
manual handling").  It stands in the JSON literally: encoded once more, as SDKs do with bytes, it has been
refused (googleapis/go-genai#711, langchain-ai/langchain-google#1972).  Being legal URL-safe base64 of 24
bytes, it passes through SDKs that decode and encode the field.
"""


class TagKind(StrEnum):
    """What a tagged signature belongs to; the value is its letter in the head."""

    ADJACENT = "t"
    """The text, or the call, beside it."""
    REDACTED = "x"
    """A redacted thought, which it stands for."""
    THOUGHT = "d"
    """The thought beside it, whose digest it holds."""
    PRECEDING = "p"
    """The text before it."""


class Tagged(Struct, frozen=True):
    """What is in a tag."""

    kind: TagKind
    signature: Signature
    digest: str | None = None
    """The digest of the words of a thought."""


class Digest:
    """The digest of a thought's words as they come, in pieces of any size."""

    __slots__ = ("_hash",)

    def __init__(self, words: str = "") -> None:
        self._hash = blake2b(words.encode("utf-8", "surrogatepass"), digest_size=_DIGEST_BYTES)

    def add(self, words: str) -> None:
        """Go on with more of them."""
        self._hash.update(words.encode("utf-8", "surrogatepass"))

    def __str__(self) -> str:
        return b64encode(self._hash.digest()).decode()


def names_reasoning_item(signature: Signature) -> bool:
    """Whether a signature is ``ID:ENCRYPTED_CONTENT`` of OpenAI's Responses, which is the whole of a thought.

    Hosts that speak chat have JSON objects and base64 in its place.
    """
    return signature.family is Family.OPENAI and _REASONING_ITEM.match(signature.value) is not None


def tag_signature(signature: Signature, thought: Digest | str | None = None) -> str:
    """Return a signature as it travels in any client's history: standard base64.

    :param thought: the words beside it, where they are a thought's; a redacted one has none.
    """
    raw = _is_canonical(signature.value)
    value = signature.value if raw else _encoded(signature.value)
    if thought is None or signature.redacted:
        kind = TagKind.REDACTED if signature.redacted else TagKind.ADJACENT
        return TAG + _HEADS[signature.family, raw, kind] + value
    digest = Digest(thought) if isinstance(thought, str) else thought
    return f"{TAG}{_HEADS[signature.family, raw, TagKind.THOUGHT]}{digest}{value}"


def tag_preceding(signature: Signature) -> str:
    """Return the signature of a text, to stand behind that text instead of beside it."""
    raw = _is_canonical(signature.value)
    value = signature.value if raw else _encoded(signature.value)
    return TAG + _HEADS[signature.family, raw, TagKind.PRECEDING] + value


def open_tag(text: str) -> Tagged | None:
    """Return what is in a tag; ``None``: it is damaged, or no tag of the gateway's."""
    return _opened(text) if is_tagged(text) else None


def is_tagged(text: str) -> bool:
    """Whether the gateway had a hand in a signature.

    The tag may stand anywhere: what others put before it does not make the rest a vendor's.
    """
    return TAG in text


def untag_signature(text: str, native: Family, *, redacted: bool = False) -> Signature | None:
    """Return what a client's history has as a signature, be it tagged or the ``native`` family's own.

    ``None`` where a tag is damaged: whose it was is no longer known, so nobody may get it.
    """
    if not is_tagged(text):
        return Signature(native, text, redacted)
    found = _opened(text)
    return None if found is None else found.signature


def is_altered(text: str, words: str) -> bool:
    """Whether a tagged signature belongs to other words than the thought beside it; a damaged tag does."""
    if not is_tagged(text):
        return False
    found = _opened(text)
    return found is None or (found.digest is not None and found.digest != str(Digest(words)))


def _opened(text: str) -> Tagged | None:
    """Return what is in a tag; ``None``: the tag is damaged."""
    standard = text.translate(_STANDARD_ALPHABET)
    standard += "=" * (-len(standard) % 4)  # URL-safe encoders may leave the padding out
    meaning = _MEANINGS.get(standard[len(TAG) : _HEAD_END]) if standard.startswith(TAG) else None
    if meaning is None:
        return None
    family, raw, kind = meaning
    begin = _HEAD_END + (_DIGEST_LENGTH if kind is TagKind.THOUGHT else 0)
    digest = standard[_HEAD_END:begin] or None
    if kind is TagKind.THOUGHT and not _DIGEST.fullmatch(digest or ""):
        return None
    value = standard[begin:] if raw else _decoded(standard[begin:])
    if value is None or (raw and not _is_canonical(value)):
        return None
    return Tagged(kind, Signature(family, value, kind is TagKind.REDACTED), digest)


_DIGEST_BYTES: Final = 6
_DIGEST_LENGTH: Final = 8
_DIGEST: Final = re.compile(r"[A-Za-z0-9+/]{8}")
_LETTERS: Final = MappingProxyType({family: row.signature_letter for family, row in FAMILIES.items()})
_HEADS: Final = MappingProxyType(
    {
        (family, raw, kind): b64encode(f"{letter}{'r' if raw else 'e'}{kind.value}".encode()).decode()
        for family, letter in _LETTERS.items()
        for raw in (True, False)
        for kind in TagKind
    }
)
_MEANINGS: Final = MappingProxyType({head: meaning for meaning, head in _HEADS.items()})
_HEAD_END: Final = len(TAG) + 4
_REASONING_ITEM: Final = re.compile("[A-Za-z0-9_-]{0,64}:.", re.DOTALL)
_STANDARD_ALPHABET: Final = str.maketrans("-_", "+/")


def _is_canonical(value: str) -> bool:
    """Whether a value is standard base64, the way an encoder writes it."""
    try:
        return value != "" and b64encode(b64decode(value, validate=True)).decode() == value
    except ValueError:  # binascii.Error, or not ASCII
        return False


def _encoded(value: str) -> str:
    return b64encode(value.encode("utf-8", "surrogatepass")).decode()


def _decoded(encoded: str) -> str | None:
    try:
        return b64decode(encoded, validate=True).decode("utf-8", "surrogatepass")
    except (binascii.Error, ValueError):
        return None
