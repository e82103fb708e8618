"""Arguments of tool calls: JSON text in the canonical form and in chat, an object elsewhere.

What is no object (a call that was cut off, or a model that wrote something else) travels as
``{"arguments": "<the text>"}`` where the API takes objects alone.  No text, and ``null``, are no arguments.
"""

from __future__ import annotations

from typing import Final

from msgspec import MsgspecError, Raw
from msgspec.json import Decoder, Encoder
from msgspec.json import format as formatted

from mgw.dialects.refusal import make_encodable

NOTHING: Final = Raw(b"{}")
"""An empty object: the arguments of a call without any."""

_ENCODER: Final = Encoder()
_OBJECT: Final = Decoder(dict[str, Raw])
"""Knows an object without building it."""
_STRING: Final = Decoder(str)
_EMPTY: Final = frozenset({"", "null"})
_LONGEST_EMPTY: Final = 64
"""Characters: a longer text is not looked through for being empty."""
_UNREADABLE: Final = (MsgspecError, UnicodeError, RecursionError)


def is_empty(arguments: str) -> bool:
    """Whether a call's arguments say nothing."""
    return len(arguments) <= _LONGEST_EMPTY and arguments.strip() in _EMPTY


def object_of(text: str) -> Raw | None:
    """Return ``text``, byte for byte, where it is a JSON object."""
    if text[:1] != "{" and text.lstrip(" \t\r\n")[:1] != "{":
        return None
    try:
        _OBJECT.decode(text)
    except _UNREADABLE:
        return None
    return Raw(text)


def embed_arguments(arguments: str) -> Raw:
    """Return the object that ``arguments`` is, its bytes unchanged, or the one that stands for it."""
    if is_empty(arguments):
        return NOTHING
    text = make_encodable(arguments)
    found = object_of(text)
    return Raw(_ENCODER.encode({"arguments": text})) if found is None else found


def compact_arguments(value: Raw) -> str:
    """Return an object of the body as text: without white space, all else as it was spelled.

    A string in place of an object may hold one.
    """
    try:
        text = formatted(bytes(value), indent=-1).decode()
        if text.startswith("{"):
            return text
        return bytes(embed_arguments(_STRING.decode(text) if text.startswith('"') else text)).decode()
    except _UNREADABLE:
        return "{}"
