"""Images, documents, audio and video in chat completions, both ways.

Sources: the SDK's ``ChatCompletionContentPartParam`` and its members; RFC 2397 for ``data:`` URLs.  Beside
OpenAI's own parts stand those that hosts add: ``video_url`` and ``audio_url`` (vLLM, OpenRouter),
``document_url`` (Mistral), ``file_url`` (Perplexity; also base64), and ``images`` in answers (OpenRouter).

What a request has no part for leaves a note in its place, and a :class:`Feature` that is lost: video, audio
that is neither WAV nor MP3, files of another vendor's store, documents at a URL, URLs that one vendor alone
can read (``gs:``).  OpenAI refuses images that are no PNG, JPEG, GIF or WebP; other hosts may take more, and
get them.  A document that is text (Markdown, CSV, JSON and the like, in base64 or not) becomes text, with its
title: chat takes PDF files alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from msgspec.structs import replace

from mgw.canonical.conversation import JsonObject, Media, MediaKind
from mgw.canonical.features import Feature
from mgw.dialects.fields import Fields, none_of
from mgw.dialects.media import (
    FEATURES,
    decode_text,
    detect_media_type,
    is_fetched,
    is_text,
    kind_of,
    standard_base64,
)
from mgw.dialects.openai.thoughts import parse_extra_content, render_extra_content
from mgw.dialects.placeholders import describe_document, describe_omission
from mgw.dialects.refusal import no_addresses
from mgw.dialects.signatures import tag_signature
from mgw.nouns.kinds import KINDS
from mgw.nouns.model_row import ModelRow
from mgw.nouns.vocabulary import Kind

_DATA_URL: Final = re.compile(r"data:([^,;]*)((?:;[^,;]*)*),", re.IGNORECASE)
_BASE64: Final = re.compile("[A-Za-z0-9+/_-]+={0,2}")
_SHORTEST_FILE: Final = 16
_MAYBE_BASE64: Final = "file_url"
"""Perplexity takes "base64-encoded bytes (no prefix needed)" there, too."""
_REMOTE_URL: Final = re.compile(r"(?:https?|gs)://", re.IGNORECASE)
_AUDIO_TYPES: Final = MappingProxyType({"wav": "audio/wav", "mp3": "audio/mpeg"})
"""The media types of the two formats that the reference names."""
_AUDIO_FORMATS: Final = MappingProxyType(
    {
        "audio/wav": "wav",
        "audio/x-wav": "wav",
        "audio/wave": "wav",
        "audio/vnd.wave": "wav",
        "audio/mpeg": "mp3",
        "audio/mp3": "mp3",
    }
)
"""The format of each media type of audio that chat takes."""
_TYPES_BY_EXTENSION: Final = MappingProxyType(
    {
        "pdf": "application/pdf",
        "txt": "text/plain",
        "md": "text/markdown",
        "csv": "text/csv",
        "html": "text/html",
        "json": "application/json",
        "xml": "text/xml",
        "docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
        "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
        "pptx": "application/vnd.openxmlformats-officedocument.presentationml.presentation",
    }
)
_DETAILS: Final = MappingProxyType({"low": "low", "high": "high", "original": "ultra_high"})
_RENDERED_DETAILS: Final = MappingProxyType({"low": "low", "high": "high", "ultra_high": "high"})
_DEFAULT_DETAILS: Final = (None, "auto")
"""Resolutions that need no word."""
_IMAGE_TYPES: Final = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
"""What OpenAI takes as data ("Image input requirements" of its guide on images and vision)."""
_MISSPELLED_TYPES: Final = MappingProxyType({"image/jpg": "image/jpeg", "image/pjpeg": "image/jpeg"})


def parse_url(url: str, kind: MediaKind) -> Media | None:
    """Return the media of a URL; ``None`` where it is neither ``https:`` nor ``data:``."""
    split = _split_data_url(url)
    if split is not None:
        return Media(kind, media_type=split[0], data=split[1])
    return Media(kind, url=url) if _is_remote(url) else None


def parse_images(message: Fields) -> list[Media]:
    """Take the images of an assistant's message, as answers of image models have them (OpenRouter)."""
    images: list[Media] = []
    for block in message.objects("images"):
        block.skip("type", "index")
        image = _parse_image_url(block)
        signature = parse_extra_content(block)
        images.append(image if signature is None else replace(image, signature=signature))
    if images:
        message.note(Feature.IMAGE, "images")
    return images


def _split_data_url(url: str) -> tuple[str | None, str] | None:
    """Return the media type and the base64 of a ``data:`` URL; ``None`` where it is none."""
    match = _DATA_URL.match(url)
    if match is None or ";base64" not in match[2].lower():
        return None
    return match[1].strip().lower() or None, standard_base64(url[match.end() :])


def _is_remote(url: str) -> bool:
    """Whether a provider could fetch this."""
    return _REMOTE_URL.match(url) is not None


def _is_base64(text: str) -> bool:
    """Whether a text is base64 of a file, and no address that somebody forgot the scheme of."""
    return len(text) >= _SHORTEST_FILE and _BASE64.fullmatch(text) is not None


def type_by_name(name: str | None) -> str | None:
    """Return the media type that the extension of a file's name implies."""
    return _TYPES_BY_EXTENSION.get(name.rpartition(".")[2].lower()) if name else None


def _url_parser(key: str, kind: MediaKind, *, maybe_base64: bool = False) -> Callable[[Fields], Media]:
    """Return the parser of media at a URL; ``maybe_base64``: it may be base64 as well, without ``data:``."""

    def parse(block: Fields) -> Media:
        value = block.take(key)
        if value is None:
            raise block.missing(key)
        if type(value) is str:  # Mistral writes the URL itself
            if maybe_base64 and _is_base64(value):
                return Media(kind, data=standard_base64(value))
            return parse_url_field(block, key, value, kind, None)
        if type(value) is not dict:
            raise block.mistyped(key, dict, value)
        inner = Fields(value, block.ledger, block, key)
        url = inner.required_text("url")
        if maybe_base64 and _is_base64(url):
            return Media(kind, data=standard_base64(url))
        return parse_url_field(inner, "url", url, kind, parse_detail(inner))

    return parse


def parse_detail(inner: Fields) -> str | None:
    """Take ``detail``; ``auto`` is what a model does by itself."""
    detail = inner.text("detail", Feature.MEDIA_DETAIL)
    if detail is None or detail == "auto":
        return None
    if detail not in _DETAILS:
        raise none_of(inner, "detail", detail, ("auto", *_DETAILS))
    return _DETAILS[detail]


def parse_url_field(fields: Fields, key: str, url: str, kind: MediaKind, detail: str | None) -> Media:
    """Return the media of a URL that was taken from ``key``.

    :raises GatewayError: ``MALFORMED`` where it is neither an address nor a ``data:`` URL.
    """
    media = parse_url(url, kind)
    if media is None:
        raise fields.wrong(key, "must be an https: URL or a base64 data: URL")
    if media.media_type is not None:  # LiteLLM takes documents here, too
        kind = kind_of(media.media_type)
    return Media(kind, media.media_type, media.data, media.url, detail=detail)


def _parse_input_audio(block: Fields) -> Media:
    inner = block.nested("input_audio")
    if inner is None:
        raise block.missing("input_audio")
    audio_format = inner.required_text("format").lower()
    return Media(
        MediaKind.AUDIO,
        _AUDIO_TYPES.get(audio_format, f"audio/{audio_format}"),
        standard_base64(inner.required_text("data")),
    )


def _parse_file(block: Fields) -> Media:
    inner = block.nested("file")
    if inner is None:
        raise block.missing("file")
    name = inner.text("filename", Feature.MEDIA_NAME)
    stated = inner.text("format")  # LiteLLM's name for the media type
    data = inner.text("file_data")
    if data is None:
        file_id = inner.text("file_id", Feature.FILE_ID)
        if file_id is None:
            raise inner.wrong("", "file_data or file_id is required")
        if _is_remote(file_id):  # LiteLLM's place for a URL
            return Media(kind_of(stated), stated, url=file_id, name=name)
        return Media(kind_of(stated), stated, file_id=file_id, name=name)
    if _is_remote(data):  # OpenRouter's place for a URL
        return Media(kind_of(stated), stated, url=data, name=name)
    return parse_file_data(data, name, stated)


def parse_file_data(data: str, name: str | None, stated: str | None = None) -> Media:
    """Return a file that the request holds, as base64 or as a ``data:`` URL; its name may tell the type."""
    media_type, encoded = _split_data_url(data) or (None, standard_base64(data))
    return _document(media_type or stated or type_by_name(name) or "application/pdf", encoded, name)


def _document(media_type: str, encoded: str, name: str | None) -> Media:
    """Return a file that the request holds; a text is text."""
    text = decode_text(encoded) if is_text(media_type) else None
    if text is not None:
        return Media(MediaKind.DOCUMENT, media_type, text=text, name=name)
    return Media(kind_of(media_type), media_type, encoded, name=name)


def _document_url_parser(key: str, name_key: str) -> Callable[[Fields], Media]:
    """Return the parser of a document at a URL, with its name beside it."""
    parse_block = _url_parser(key, MediaKind.DOCUMENT, maybe_base64=key == _MAYBE_BASE64)

    def parse(block: Fields) -> Media:
        name = block.text(name_key, Feature.MEDIA_NAME)
        media = parse_block(block)
        media_type = media.media_type or type_by_name(name)
        if media.data is not None:
            media_type = media_type or detect_media_type(media.data)
            return _document(media_type or "application/pdf", media.data, name)
        return Media(kind_of(media_type), media_type, url=media.url, name=name)

    return parse


_parse_image_url: Final = _url_parser("image_url", MediaKind.IMAGE)
MEDIA_PARSERS: Final[Mapping[str, Callable[[Fields], Media]]] = MappingProxyType(
    {
        "image_url": _parse_image_url,
        "video_url": _url_parser("video_url", MediaKind.VIDEO),
        "audio_url": _url_parser("audio_url", MediaKind.AUDIO),
        "input_audio": _parse_input_audio,
        "file": _parse_file,
        "document_url": _document_url_parser("document_url", "document_name"),
        "file_url": _document_url_parser("file_url", "file_name"),
    }
)
"""The parser of each type of part that is media."""


def render_text(text: str) -> JsonObject:
    """Return a part that is text."""
    return {"type": "text", "text": text}


def render_image(media: Media, index: int) -> JsonObject:
    """Return an image of an answer, an entry of ``images``."""
    url = media.url or f"data:{media.media_type or 'image/png'};base64,{media.data}"
    image: JsonObject = {"type": "image_url", "image_url": {"url": url}, "index": index}
    if media.signature is not None:
        image["extra_content"] = render_extra_content(tag_signature(media.signature))
    return image


def render_media(media: Media, kind: Kind, row: ModelRow, lost: set[Feature]) -> list[JsonObject]:
    """Return the parts of a request that carry a piece of media, and note what they do not.

    :raises GatewayError: ``MALFORMED`` for a URL that the model does not fetch.
    """
    media = _decode_text(media)
    if media.text is not None:
        text = describe_document(media)
        return [render_text(text)] if text else []
    part = _RENDERERS[media.kind](media, kind, row, lost) if media.file_id is None else None
    if media.detail not in _DEFAULT_DETAILS and (part is None or media.kind is not MediaKind.IMAGE):
        lost.add(Feature.MEDIA_DETAIL)
    if part is None:
        lost.add(FEATURES[media.kind] if media.file_id is None else Feature.FILE_ID)
        part = render_text(describe_omission(media))
    return [render_text(media.context), part] if media.context else [part]


def _decode_text(media: Media) -> Media:
    """Return a document that is text in base64 as the text that it is."""
    if media.kind is not MediaKind.DOCUMENT or media.data is None or not is_text(media.media_type):
        return media
    text = decode_text(media.data)
    return media if text is None else replace(media, data=None, text=text)


def _render_image_part(media: Media, kind: Kind, row: ModelRow, lost: set[Feature]) -> JsonObject | None:
    url = _image_url(media, kind, row)
    if url is None:
        return None
    image: JsonObject = {"url": url}
    if media.detail not in _DEFAULT_DETAILS:
        if media.detail in _RENDERED_DETAILS:
            image["detail"] = _RENDERED_DETAILS[media.detail]
        else:
            lost.add(Feature.MEDIA_DETAIL)
    if media.name is not None:
        lost.add(Feature.MEDIA_NAME)
    return {"type": "image_url", "image_url": image}


def _image_url(media: Media, kind: Kind, row: ModelRow) -> str | None:
    """Return the URL of an image; ``None`` where the provider takes no such."""
    if media.data is None:
        url = media.url or ""
        if not is_fetched(url):
            return None
        if not row.addresses:
            raise no_addresses(url)
        return url
    media_type = media.media_type or "image/png"
    if KINDS[kind].is_strict:
        media_type = media_type.partition(";")[0].strip().lower()
        media_type = _MISSPELLED_TYPES.get(media_type, media_type)
        if media_type not in _IMAGE_TYPES:
            return None
    return f"data:{media_type};base64,{media.data}"


def _render_file(media: Media, kind: Kind, row: ModelRow, lost: set[Feature]) -> JsonObject | None:  # noqa: ARG001 - one shape
    if media.data is None:
        return None
    media_type = media.media_type or "application/pdf"
    name = media.name or ("document.pdf" if media_type == "application/pdf" else "document")
    return {"type": "file", "file": {"filename": name, "file_data": f"data:{media_type};base64,{media.data}"}}


def _render_audio(media: Media, kind: Kind, row: ModelRow, lost: set[Feature]) -> JsonObject | None:  # noqa: ARG001 - one shape
    audio_format = _AUDIO_FORMATS.get((media.media_type or "").partition(";")[0].strip().lower())
    if media.data is None or audio_format is None:
        return None
    return {"type": "input_audio", "input_audio": {"data": media.data, "format": audio_format}}


def _render_video(media: Media, kind: Kind, row: ModelRow, lost: set[Feature]) -> JsonObject | None:  # noqa: ARG001 - one shape
    return None


_RENDERERS: Final = MappingProxyType(
    {
        MediaKind.IMAGE: _render_image_part,
        MediaKind.DOCUMENT: _render_file,
        MediaKind.AUDIO: _render_audio,
        MediaKind.VIDEO: _render_video,
    }
)
