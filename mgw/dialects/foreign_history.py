"""Additions of the gateway in a client's history, removed before a vendor reads it (contract 5.4).

A client that got translated answers has thoughts of other families in its history, and their signatures,
tagged (:mod:`mgw.dialects.signatures`).  When it asks its own family, its body passes through, and the vendor
would refuse them.  So they are cut out of the body where they stand; all else stays byte for byte.

Whatever is damaged, oddly shaped or no JSON stays as it is, and the vendor says what is wrong with it.

A message of which nothing is left goes whole, since vendors refuse empty ones:

* Messages: "all messages must have non-empty content".  "Consecutive ``user`` or ``assistant`` turns in your
  request will be combined into a single turn", so its neighbours may meet (Messages reference, ``messages``).
* generateContent: "contents.parts must not be empty".  Roles need not alternate (google/adk-go#1302).
* Chat: "content" is required but for calls (Chat reference, assistant message).  A message goes when all that
  is left beside its role is null or an empty array; an empty text is left alone.
* Responses: thoughts are items of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Final

from msgspec.json import encode

from mgw.dialects.signatures import SKIP_VALIDATOR, TAG, is_tagged
from mgw.nouns.errors import GatewayError
from mgw.nouns.vocabulary import DialectName
from mgw.wire.json_document import JsonDocument, JsonNode, are_all_siblings, removal_spans
from mgw.wire.json_spans import Edit, apply_edits

TAG_BYTES: Final = TAG.encode()
"""A body in which these do not occur has nothing to clean."""

Members = Mapping[str, list[JsonNode]]


def clean_history(dialect: DialectName, body: bytes) -> bytes:
    """Return a request's body without what the gateway has tagged; the same object where there is nothing."""
    find = _EDITS.get(dialect)
    if find is None or TAG_BYTES not in body:
        return body
    try:
        return apply_edits(body, find(JsonDocument(body)))
    except GatewayError:
        return body


def _messages(document: JsonDocument) -> list[Edit]:
    """Thinking blocks with a tagged signature, and redacted ones with tagged data."""
    edits: list[Edit] = []
    gone: list[JsonNode] = []
    for message in _marked(document, document.members(document.root), "messages"):
        blocks = _marked(document, document.members(message), "content")
        thoughts = [block for block in blocks if _is_thought(document, block)]
        if are_all_siblings(thoughts):
            gone.append(message)
        else:
            edits += _without(thoughts)
    return edits + _without(gone)


def _is_thought(document: JsonDocument, block: JsonNode) -> bool:
    members = document.members(block)
    signed = _SIGNED_BY.get(_text(document, members, "type") or "")
    return signed is not None and is_tagged(_text(document, members, signed) or "")


def _chat(document: JsonDocument) -> list[Edit]:
    """Reasoning with tagged details, and ``extra_content`` with a tagged signature."""
    edits: list[Edit] = []
    gone: list[JsonNode] = []
    for message in _marked(document, document.members(document.root), "messages"):
        members = document.members(message)
        cut = _tagged_members(document, members)
        if cut and _says_nothing(document, members, cut):
            gone.append(message)
            continue
        edits += _without([place for name in cut for place in members[name]])
        for call in _marked(document, members, "tool_calls"):
            of_call = document.members(call)
            if _has_tagged_extra(document, of_call):
                edits += _without(of_call["extra_content"])
    return edits + _without(gone)


def _tagged_members(document: JsonDocument, members: Members) -> set[str]:
    """Return the names of the members of a message that are the gateway's own."""
    cut: set[str] = set()
    if any(
        is_tagged(_text(document, document.members(detail), name) or "")
        for detail in _marked(document, members, "reasoning_details")
        for name in ("signature", "data")
    ):
        cut |= _REASONING & members.keys()
    if _has_tagged_extra(document, members):
        cut.add("extra_content")
    return cut


def _has_tagged_extra(document: JsonDocument, members: Members) -> bool:
    """Whether ``extra_content.google.thought_signature`` is tagged (Google's own place for it in Chat)."""
    google = _inside(document, _inside(document, members, "extra_content"), "google")
    return is_tagged(_text(document, google, "thought_signature") or "")


def _says_nothing(document: JsonDocument, members: Members, cut: set[str]) -> bool:
    return all(_is_empty(document.raw(members[name][-1])) for name in members.keys() - cut - {"role", "name"})


def _is_empty(spelled: bytes) -> bool:
    return spelled == b"null" or (spelled[:1] == b"[" and not spelled[1:-1].strip())


def _responses(document: JsonDocument) -> list[Edit]:
    """Reasoning items with a tagged ``encrypted_content``."""
    gone: list[JsonNode] = []
    for item in _marked(document, document.members(document.root), "input"):
        members = document.members(item)
        is_reasoning = _text(document, members, "type") == "reasoning"
        if is_reasoning and is_tagged(_text(document, members, "encrypted_content") or ""):
            gone.append(item)
    return _without(gone)


def _generate_content(document: JsonDocument) -> list[Edit]:
    """Thoughts of others, and tagged signatures of all else, for which Gemini takes the skip value."""
    request = document.members(document.root)
    edits = _contents(document, request)
    for name in _COUNTED:
        edits += _contents(document, _inside(document, request, name))
    return edits


def _contents(document: JsonDocument, request: Members) -> list[Edit]:
    edits: list[Edit] = []
    gone: list[JsonNode] = []
    for content in _marked(document, request, "contents"):
        thoughts: list[JsonNode] = []
        for part in _marked(document, document.members(content), "parts"):
            members = document.members(part)
            signed = [members[name][-1] for name in _SIGNATURES if name in members]
            tagged = [place for place in signed if is_tagged(document.string(place) or "")]
            if tagged and _is_only_thought(document, members):
                thoughts.append(part)
            else:
                edits += [((place.value, place.end), _SKIP) for place in tagged]
        if are_all_siblings(thoughts):
            gone.append(content)
        else:
            edits += _without(thoughts)
    return edits + _without(gone)


def _is_only_thought(document: JsonDocument, members: Members) -> bool:
    thought = members.get("thought")
    is_thought = thought is not None and document.raw(thought[-1]) == b"true"
    return is_thought and members.keys() <= _OF_THOUGHTS


def _marked(document: JsonDocument, members: Members, name: str) -> Iterator[JsonNode]:
    """Yield the elements of an array of this name that hold a tag."""
    places = members.get(name)
    return document.elements(places[-1], TAG_BYTES) if places else iter(())


def _inside(document: JsonDocument, members: Members, name: str) -> Members:
    places = members.get(name)
    return document.members(places[-1]) if places else {}


def _text(document: JsonDocument, members: Members, name: str) -> str | None:
    places = members.get(name)
    return document.string(places[-1]) if places else None


def _without(siblings: list[JsonNode]) -> list[Edit]:
    return [(span, b"") for span in removal_spans(sorted(siblings, key=lambda place: place.start))]


_SIGNED_BY: Final = MappingProxyType({"thinking": "signature", "redacted_thinking": "data"})
_REASONING: Final = frozenset({"reasoning_details", "reasoning_content", "reasoning"})
_SIGNATURES: Final = ("thoughtSignature", "thought_signature")
_COUNTED: Final = ("generateContentRequest", "generate_content_request")
"""Where a request for a count of tokens may hold the request that is to be counted."""
_OF_THOUGHTS: Final = frozenset({"text", "thought", "partMetadata", "part_metadata", *_SIGNATURES})
_SKIP: Final = encode(SKIP_VALIDATOR)
_EDITS: Final[Mapping[DialectName, Callable[[JsonDocument], list[Edit]]]] = MappingProxyType(
    {
        DialectName.ANTHROPIC: _messages,
        DialectName.OPENAI_CHAT: _chat,
        DialectName.OPENAI_RESPONSES: _responses,
        DialectName.GEMINI: _generate_content,
    }
)
