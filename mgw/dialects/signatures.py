"""Thinking signatures, tagged by the gateway with the family that made them (decisions, part 8).

A vendor signs what its models think and wants the signature back unchanged, but its own only.  The gateway
keeps no state, so a signature travels through the client's history inside the client's own dialect, tagged::

    bWd3c2ln  Z3J0  RXdJQkNnPT0=
    tag       head  value

The *tag* is base64 of ``mgwsig``.  The *head* is base64 of three letters: the family (``o``, ``a``, ``g``),
the form (``r``: the value follows as it is, ``e``: as base64 of its UTF-8) and the kind (``t``: beside a
text, ``x``: a redacted thought).  A value that is canonical base64 follows as it is, so that the whole is
valid base64 and no longer than it must be.  Google's SDKs read the field as bytes: they refuse what is no
base64, and give it back in the URL-safe alphabet.  Tag and head are the same in both.
"""

from __future__ import annotations

import binascii
from base64 import b64decode, b64encode
from types import MappingProxyType
from typing import Final

from mgw.canonical.conversation import Signature
from mgw.vocabulary import Family

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


def tagged(signature: Signature) -> str:
    """Return a signature as it travels in any client's history: standard base64."""
    raw = _is_canonical(signature.value)
    head = _HEADS[signature.family, raw, signature.redacted]
    return TAG + head + (signature.value if raw else _encoded(signature.value))


def is_tagged(text: str) -> bool:
    """Whether the gateway had a hand in a signature.

    The tag may stand anywhere: what others put before it does not make the rest a vendor's.
    """
    return TAG in text


def read_signature(text: str, native: Family, *, redacted: bool = False) -> Signature | None:
    """Return what a client's history has as a signature, be it tagged or the ``native`` family's own.

    ``None`` where a tag is damaged: whose it was is no longer known, so nobody may get it.
    """
    if not is_tagged(text):
        return Signature(native, text, redacted)
    standard = text.translate(_STANDARD_ALPHABET)
    standard += "=" * (-len(standard) % 4)  # URL-safe encoders may leave the padding out
    meaning = _MEANINGS.get(standard[len(TAG) : _HEAD_END]) if standard.startswith(TAG) else None
    if meaning is None:
        return None
    family, raw, is_redacted = meaning
    value = standard[_HEAD_END:] if raw else _decoded(standard[_HEAD_END:])
    if value is None or (raw and not _is_canonical(value)):
        return None
    return Signature(family, value, is_redacted)


_LETTERS: Final = MappingProxyType({Family.OPENAI: "o", Family.ANTHROPIC: "a", Family.GEMINI: "g"})
_HEADS: Final = MappingProxyType(
    {
        (family, raw, redacted): b64encode(
            f"{letter}{'r' if raw else 'e'}{'x' if redacted else 't'}".encode()
        ).decode()
        for family, letter in _LETTERS.items()
        for raw in (True, False)
        for redacted in (True, False)
    }
)
_MEANINGS: Final = MappingProxyType({head: meaning for meaning, head in _HEADS.items()})
_HEAD_END: Final = len(TAG) + 4
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
