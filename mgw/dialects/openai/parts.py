"""Parts of a turn, written as content of a message.

Sources: the SDK's ``ChatCompletionContentPartParam``.  What this wire has no part for leaves a word in its
place, and a :class:`Feature` that is lost: video, audio that is neither WAV nor MP3, files of another
vendor's store, documents at an address, addresses that one vendor alone can read (``gs:``).  OpenAI refuses
images that are no PNG, JPEG, GIF or WebP; other hosts may take more, and get them.  A document that is text
(Markdown, CSV, JSON and the like, in base64 or not) becomes text, with its title: chat takes PDF files alone.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from msgspec.structs import replace

from mgw.canonical.conversation import JsonObject, Media, MediaKind
from mgw.canonical.features import Feature
from mgw.dialects.fillers import left_out, told
from mgw.dialects.media import FEATURES, is_fetched, is_text, plain_text
from mgw.dialects.model_row import ModelRow
from mgw.dialects.openai.media import AUDIO_FORMATS
from mgw.dialects.refusal import no_addresses
from mgw.kinds import KINDS
from mgw.vocabulary import Kind

_DETAILS: Final = MappingProxyType({"low": "low", "high": "high", "ultra_high": "high"})
_IMAGES: Final = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
"""What OpenAI takes as data ("Image input requirements" of its guide on images and vision)."""
_MISSPELLED: Final = MappingProxyType({"image/jpg": "image/jpeg", "image/pjpeg": "image/jpeg"})
_UNSAID: Final = (None, "auto")
"""Resolutions that need no word."""


def text_part(text: str) -> JsonObject:
    """Return a part that is text."""
    return {"type": "text", "text": text}


def media_parts(media: Media, kind: Kind, row: ModelRow, lost: set[Feature]) -> list[JsonObject]:
    """Return the parts that say a piece of media, and note what they do not.

    Raises: :class:`GatewayError` (``MALFORMED``) for an address that the model does not fetch.
    """
    media = _as_text(media)
    if media.text is not None:
        text = told(media)
        return [text_part(text)] if text else []
    said = _WRITERS[media.kind](media, kind, row, lost) if media.file_id is None else None
    if media.detail not in _UNSAID and (said is None or media.kind is not MediaKind.IMAGE):
        lost.add(Feature.MEDIA_DETAIL)
    if said is None:
        lost.add(FEATURES[media.kind] if media.file_id is None else Feature.FILE_ID)
        said = text_part(left_out(media))
    return [text_part(media.context), said] if media.context else [said]


def _as_text(media: Media) -> Media:
    """Return a document that is text in base64 as the text that it is."""
    if media.kind is not MediaKind.DOCUMENT or media.data is None or not is_text(media.media_type):
        return media
    text = plain_text(media.data)
    return media if text is None else replace(media, data=None, text=text)


def _image(media: Media, kind: Kind, row: ModelRow, lost: set[Feature]) -> JsonObject | None:
    url = _image_url(media, kind, row)
    if url is None:
        return None
    image: JsonObject = {"url": url}
    if media.detail not in _UNSAID:
        if media.detail in _DETAILS:
            image["detail"] = _DETAILS[media.detail]
        else:
            lost.add(Feature.MEDIA_DETAIL)
    if media.name is not None:
        lost.add(Feature.MEDIA_NAME)
    return {"type": "image_url", "image_url": image}


def _image_url(media: Media, kind: Kind, row: ModelRow) -> str | None:
    """Return the address of an image; ``None`` where the provider takes no such."""
    if media.data is None:
        url = media.url or ""
        if not is_fetched(url):
            return None
        if not row.addresses:
            raise no_addresses(url)
        return url
    said = media.media_type or "image/png"
    if KINDS[kind].is_strict:
        said = said.partition(";")[0].strip().lower()
        said = _MISSPELLED.get(said, said)
        if said not in _IMAGES:
            return None
    return f"data:{said};base64,{media.data}"


def _document(media: Media, kind: Kind, row: ModelRow, lost: set[Feature]) -> JsonObject | None:  # noqa: ARG001 - one shape
    if media.data is None:
        return None
    said = media.media_type or "application/pdf"
    name = media.name or ("document.pdf" if said == "application/pdf" else "document")
    return {"type": "file", "file": {"filename": name, "file_data": f"data:{said};base64,{media.data}"}}


def _audio(media: Media, kind: Kind, row: ModelRow, lost: set[Feature]) -> JsonObject | None:  # noqa: ARG001 - one shape
    form = AUDIO_FORMATS.get((media.media_type or "").partition(";")[0].strip().lower())
    if media.data is None or form is None:
        return None
    return {"type": "input_audio", "input_audio": {"data": media.data, "format": form}}


def _video(media: Media, kind: Kind, row: ModelRow, lost: set[Feature]) -> JsonObject | None:  # noqa: ARG001 - one shape
    return None


_WRITERS: Final = MappingProxyType(
    {
        MediaKind.IMAGE: _image,
        MediaKind.DOCUMENT: _document,
        MediaKind.AUDIO: _audio,
        MediaKind.VIDEO: _video,
    }
)
