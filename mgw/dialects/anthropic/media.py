"""Images and documents, both ways.

Sources: the SDK's ``ImageBlockParam`` and ``DocumentBlockParam``.  Images are JPEG, PNG, GIF or WebP;
documents are PDF or plain text, and only PDF by URL.  Whatever has no such form is left out, with a word
in its place, and reported: audio, video, other types, and files that lie with another vendor, be it as a file
of its store or at an address that it alone can read (``gs:``).
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from mgw.canonical.conversation import JsonObject, Media, MediaKind, Text
from mgw.canonical.features import Feature
from mgw.dialects.anthropic.cache_control import last_breakpoint, parse_cache_control
from mgw.dialects.fields import Fields, none_of
from mgw.dialects.media import decode_text, detect_media_type, is_fetched, is_text
from mgw.dialects.refusal import no_addresses
from mgw.nouns.model_row import ModelRow

PDF: Final = "application/pdf"
TEXT_PLAIN: Final = "text/plain"
_IMAGES: Final = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})
_MISSPELLED: Final = {"image/jpg": "image/jpeg", "image/pjpeg": "image/jpeg", "application/x-pdf": PDF}


def parse_image(block: Fields) -> Media:
    """Parse an image block; what the vendor is to do with its size stays unread."""
    source, kind = _parse_source(block)
    media = _parse_location(source, kind, MediaKind.IMAGE)
    if media is None:
        raise none_of(source, "type", kind, ("base64", "url", "file"))
    return _with_context(media, block)


def parse_document(block: Fields) -> list[Text | Media]:
    """Parse a document block; one that is made of texts and images becomes these."""
    source, kind = _parse_source(block)
    media = _parse_location(source, kind, MediaKind.DOCUMENT)
    if kind == "text":
        media_type = source.text("media_type") or TEXT_PLAIN
        media = Media(MediaKind.DOCUMENT, media_type, text=source.required_text("data"))
    elif kind == "content":
        return _parse_blocks(source, block)
    if media is None:
        raise none_of(source, "type", kind, ("base64", "text", "url", "content", "file"))
    return [_with_context(media, block)]


def _parse_source(block: Fields) -> tuple[Fields, str]:
    source = block.nested("source")
    if source is None:
        raise block.missing("source")
    return source, source.required_text("type")


def _parse_location(source: Fields, kind: str, media: MediaKind) -> Media | None:
    """Parse a source of a type that images and documents share."""
    if kind == "base64":
        return Media(media, source.required_text("media_type"), data=source.required_text("data"))
    if kind == "url":
        return Media(media, url=source.required_text("url"))
    if kind == "file":
        source.note(Feature.FILE_ID, "file_id")
        return Media(media, file_id=source.required_text("file_id"))
    return None


def _with_context(media: Media, block: Fields) -> Media:
    """Return media with what stands beside its source."""
    return Media(
        media.kind,
        media.media_type,
        media.data,
        media.url,
        media.file_id,
        media.text,
        block.text("title", Feature.MEDIA_NAME) if media.kind is MediaKind.DOCUMENT else None,
        block.text("context") if media.kind is MediaKind.DOCUMENT else None,
        cache=parse_cache_control(block),
    )


def _parse_blocks(source: Fields, block: Fields) -> list[Text | Media]:
    value = source.take("content")
    if type(value) is str:
        return [_with_context(Media(MediaKind.DOCUMENT, TEXT_PLAIN, text=value), block)]
    parts: list[Text | Media] = []
    for inner in source.opened("content", value):
        kind = inner.required_text("type")
        if kind == "text":
            parts.append(Text(inner.required_text("text"), parse_cache_control(inner)))
        elif kind == "image":
            parts.append(parse_image(inner))
        else:
            raise none_of(inner, "type", kind, ("text", "image"))
    texts = [part for part in parts if isinstance(part, Text)]
    if len(texts) == len(parts):
        whole = _with_context(
            Media(MediaKind.DOCUMENT, TEXT_PLAIN, text="\n".join(text.text for text in texts)), block
        )
        return [replace(whole, cache=whole.cache or last_breakpoint(texts))]
    document = _with_context(Media(MediaKind.DOCUMENT), block)
    if document.cache is not None:
        parts[-1] = replace(parts[-1], cache=document.cache)
    heading = "\n".join(text for text in (document.name, document.context) if text)
    return [Text(heading), *parts] if heading else parts


def render_media(media: Media, lost: set[Feature], row: ModelRow) -> JsonObject | None:
    """Return the block without its cache mark; ``None`` where there is none.

    :raises GatewayError: ``MALFORMED`` for an address that the model does not fetch.
    """
    source = None
    if media.detail is not None:
        lost.add(Feature.MEDIA_DETAIL)
    if media.kind is MediaKind.IMAGE:
        source = _render_image_source(media, row)
    elif media.kind is MediaKind.DOCUMENT:
        source = _render_document_source(media, row)
    if source is None:
        return None
    block: JsonObject = {"type": media.kind.value, "source": source}
    return _with_name(block, media, lost)


def _with_name(block: JsonObject, media: Media, lost: set[Feature]) -> JsonObject:
    if media.kind is MediaKind.DOCUMENT:
        if media.name:
            block["title"] = media.name
        if media.context:
            block["context"] = media.context
        return block
    if media.name is not None:
        lost.add(Feature.MEDIA_NAME)
    return block


def _render_image_source(media: Media, row: ModelRow) -> JsonObject | None:
    if media.url is not None:
        return _render_url(media.url, row)
    media_type = _media_type(media)
    if media.data is None or media_type not in _IMAGES:
        return None
    return {"type": "base64", "media_type": media_type, "data": media.data}


def _render_document_source(media: Media, row: ModelRow) -> JsonObject | None:
    if media.text is not None:
        return {"type": "text", "media_type": TEXT_PLAIN, "data": media.text} if media.text.strip() else None
    media_type = _media_type(media)
    if media.url is not None:
        return _render_url(media.url, row) if media_type in {None, PDF} else None
    if media.data is None:
        return None
    if media_type == PDF:
        return {"type": "base64", "media_type": PDF, "data": media.data}
    if not is_text(media_type):
        return None
    text = decode_text(media.data)
    return {"type": "text", "media_type": TEXT_PLAIN, "data": text} if text and text.strip() else None


def _media_type(media: Media) -> str | None:
    """Return the type as this vendor spells it, without parameters.

    An image's own begin goes before what is stated ("Image does not match the provided media type").
    """
    stated = (media.media_type or "").partition(";")[0].strip().lower()
    if media.data is not None and (not stated or media.kind is MediaKind.IMAGE):
        found = detect_media_type(media.data)
        if found is not None:
            return found
    return _MISSPELLED.get(stated, stated) or None


def _render_url(url: str, row: ModelRow) -> JsonObject | None:
    if not is_fetched(url):
        return None
    if not row.addresses:
        raise no_addresses(url)
    return {"type": "url", "url": url}
