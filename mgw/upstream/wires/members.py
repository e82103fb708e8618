"""The members at the top of a JSON body: some are cut and some put in front, and all else stays as it is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec.json import encode

from mgw.nouns.errors import GatewayError, Reason
from mgw.wire.json_document import JsonDocument, JsonNode, removal_spans
from mgw.wire.json_spans import Edit

Members = Mapping[str, list[JsonNode]]
"""The members of an object by their keys, of which each may be stated several times."""


def open_object(body: bytes) -> tuple[JsonDocument, Members]:
    """Return a body and the members of the object that it is.

    :raises GatewayError: ``MALFORMED``: it is none.
    """
    document = JsonDocument(body)
    if body[document.root.start : document.root.start + 1] != b"{":
        raise GatewayError(Reason.MALFORMED, "the body must be a JSON object")
    return document, document.members(document.root)


def splice_members(
    document: JsonDocument, members: Members, added: Mapping[str, object], cut: Iterable[str]
) -> list[Edit]:
    """Return the splices that put members in front, but for those that are there, and cut others."""
    removed = sorted((node for key in cut for node in members.get(key, ())), key=_start)
    written = [b"%b:%b" % (encode(key), encode(value)) for key, value in added.items() if key not in members]
    found: list[Edit] = [(span, b"") for span in removal_spans(removed)]
    if not written:
        return found
    place = document.root.start + 1
    is_empty = len(removed) == sum(map(len, members.values()))
    text = b",".join(written) + (b"" if is_empty else b",")
    return [((place, place), text), *found]


def _start(node: JsonNode) -> int:
    return node.start
