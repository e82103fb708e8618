"""Additions of the gateway in a client's history, removed before a vendor reads it (contract 5.4).

A client that got translated answers has thoughts of other families in its history, and their signatures,
tagged (:mod:`mgw.dialects.signatures`).  When it asks its own family, its body passes through, and the vendor
would refuse them.  So they are cut out of the body where they stand; all else stays byte for byte.

Whatever is damaged, oddly shaped or no JSON stays as it is, and the vendor says what is wrong with it.

Each dialect's ``thoughts`` says where they stand.  A message of which nothing is left goes whole, since
vendors refuse empty ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from mgw.dialects.signatures import TAG
from mgw.nouns.errors import GatewayError
from mgw.wire.byte_search import holds
from mgw.wire.json_document import JsonDocument, JsonNode, removal_spans
from mgw.wire.json_spans import Edit, apply_edits

TAG_BYTES: Final = TAG.encode()
"""A body in which these do not occur has nothing to clean."""

Members = Mapping[str, list[JsonNode]]
FindTagged = Callable[[JsonDocument], list[Edit]]
"""Returns the edits that remove from a request what the gateway has tagged."""


def clean_history(find: FindTagged | None, body: bytes) -> bytes:
    """Return a request's body without what the gateway has tagged; the same object where there is nothing."""
    if find is None or not holds(body, TAG_BYTES):
        return body
    try:
        return apply_edits(body, find(JsonDocument(body)))
    except GatewayError:
        return body


def marked_elements(document: JsonDocument, members: Members, name: str) -> Iterator[JsonNode]:
    """Yield the elements of an array of this name that hold a tag."""
    places = members.get(name)
    return document.elements(places[-1], TAG_BYTES) if places else iter(())


def members_of(document: JsonDocument, members: Members, name: str) -> Members:
    """Return the members of an object of this name."""
    places = members.get(name)
    return document.members(places[-1]) if places else {}


def string_of(document: JsonDocument, members: Members, name: str) -> str | None:
    """Return the string of this name."""
    places = members.get(name)
    return document.string(places[-1]) if places else None


def remove_all(siblings: list[JsonNode]) -> list[Edit]:
    """Return the edits that remove members of one object, or elements of one array."""
    return [(span, b"") for span in removal_spans(sorted(siblings, key=lambda place: place.start))]
