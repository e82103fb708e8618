"""Ask Google for sound within the client's own bytes.

``:generateSpeech`` takes a generateContent body and goes to ``:generateContent`` (contract 4.25).  What
has to be said there, and may be missing, is put in at its place; nothing else of the body changes.
"""

from __future__ import annotations

from typing import Final

from mgw.wire.json_document import Document, JsonNode
from mgw.wire.json_spans import Edit, apply_edits

_CONFIG: Final = ("generationConfig", "generation_config")
_MODALITIES: Final = ("responseModalities", "response_modalities")
"""Both spellings, which proto3 JSON takes alike."""
_SOUND: Final = b'["AUDIO"]'
_NOTHING: Final = b"null"
_NONE: Final = frozenset({_NOTHING, b"[]"})


def with_audio_modality(body: bytes) -> bytes:
    """Return ``body`` with ``responseModalities: ["AUDIO"]`` where it says none; else the same object.

    ``null`` and an empty list say none, as in all of proto3 JSON.  A body of another shape is left alone: it
    is Google's to refuse.

    Raises: :class:`GatewayError` (``MALFORMED``) for what is no JSON, or is nested too deeply.
    """
    document = Document(body)
    if not _is_object(body, document.root):
        return body
    config, spelling = _stated(document, document.root, _CONFIG)
    member = b'"%b":%b' % (_MODALITIES[spelling].encode(), _SOUND)
    if config is None:
        new = b'"%b":{%b}' % (_CONFIG[0].encode(), member)
        return apply_edits(body, [_inserted(document, document.root, new)])
    if document.raw(config) == _NOTHING:
        return apply_edits(body, [((config.value, config.end), b"{%b}" % member)])
    if not _is_object(body, config):
        return body
    modalities, _ = _stated(document, config, _MODALITIES)
    if modalities is None:
        return apply_edits(body, [_inserted(document, config, member)])
    if b"".join(document.raw(modalities).split()) in _NONE:
        return apply_edits(body, [((modalities.value, modalities.end), _SOUND)])
    return body


def _stated(document: Document, holder: JsonNode, spellings: tuple[str, ...]) -> tuple[JsonNode | None, int]:
    """Return the member that counts, and which spelling it has: the last one that says something."""
    members = document.members(holder)
    found = [(place, number) for number, key in enumerate(spellings) for place in members.get(key, [])]
    found.sort(key=lambda one: one[0].start)
    saying = [one for one in found if document.raw(one[0]) != _NOTHING]
    kept = saying or found
    return kept[-1] if kept else (None, 0)


def _is_object(body: bytes, place: JsonNode) -> bool:
    return body.startswith(b"{", place.value)


def _inserted(document: Document, holder: JsonNode, member: bytes) -> Edit:
    """Return the edit that makes ``member`` the first of an object."""
    behind = holder.value + 1
    return (behind, behind), member + (b"," if document.members(holder) else b"")
