"""Simple requests, decoded in one pass: what the dialects' parsers share.

Most chats hold texts and a few numbers.  A dialect declares what such a request may hold, to the key and the
type, so that nothing in it can be forgotten.  What holds anything else, or has to be refused, is left to the
dialect's parser of all requests, which understands the same of what a simple request holds.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Final, TypeVar

from msgspec import DecodeError, Meta, Struct
from msgspec.json import Decoder

from mgw.canonical.features import Feature

_MOST: Final = 1000
Number = Annotated[int, Meta(ge=0, le=_MOST)] | Annotated[float, Meta(ge=0, le=_MOST)]
"""A number of sampling; a whole one stays whole."""
Limit = Annotated[int, Meta(ge=1, le=2**53)]

FieldPath = tuple[str, Feature, frozenset[str]]
"""The name of a field, and what it asks for under which path of the client's."""

Request = TypeVar("Request")


def decode_in_one_pass(decoder: Decoder[Request], body: bytes) -> Request | None:
    """Return the simple request that a body is; ``None``: it holds more, or is not valid."""
    try:
        return decoder.decode(body)
    except (DecodeError, UnicodeDecodeError, RecursionError):
        return None


def collect_said(request: Struct, paths: Iterable[FieldPath]) -> dict[Feature, frozenset[str]]:
    """Return what the fields of a request ask for that are there."""
    return {feature: path for name, feature, path in paths if getattr(request, name) is not None}
