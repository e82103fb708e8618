"""Images, files and sound, both ways (contract 11.4, 11.9).

===============  =============================================================================================
``input_image``  ``image_url`` (``data:`` or an address), ``detail``
``input_file``   ``file_data``, ``file_url``, ``filename``; its media type is stated, else the name's, else
                 that of PDF
``input_audio``  as in chat completions
===============  =============================================================================================

Files that lie with OpenAI (``file_id``) leave a note in their place and are reported.
"""

from __future__ import annotations

from msgspec.structs import replace

from mgw.canonical.conversation import (
    JsonObject,
    Media,
    MediaKind,
)
from mgw.canonical.features import Feature
from mgw.dialects.dialect import RenderOptions
from mgw.dialects.fields import Fields
from mgw.dialects.media import is_fetched, kind_of
from mgw.dialects.openai.media import (
    MEDIA_PARSERS,
    parse_detail,
    parse_file_data,
    parse_url_field,
    type_by_name,
)
from mgw.dialects.openai.media import render_media as render_chat_media


def parse_media(block: Fields, kind: str) -> Media:
    """Parse a part that is an image, a file or sound."""
    if kind == "input_audio":
        return MEDIA_PARSERS["input_audio"](block)
    return _parse_image(block) if kind == "input_image" else _parse_file(block)


def _parse_image(block: Fields) -> Media:
    url = block.text("image_url")
    detail = parse_detail(block)
    if url is not None:
        return parse_url_field(block, "image_url", url, MediaKind.IMAGE, detail)
    file_id = block.text("file_id", Feature.FILE_ID)
    if file_id is None:
        raise block.wrong("", "image_url is required")
    return Media(MediaKind.IMAGE, file_id=file_id, detail=detail)


def _parse_file(block: Fields) -> Media:
    name = block.text("filename", Feature.MEDIA_NAME)
    data = block.text("file_data")
    if data is not None:
        return parse_file_data(data, name)
    url = block.text("file_url")
    if url is not None:
        return _parse_address(block, url, name)
    file_id = block.text("file_id", Feature.FILE_ID)
    if file_id is None:
        raise block.wrong("", "file_data or file_url is required")
    return Media(MediaKind.DOCUMENT, file_id=file_id, name=name)


def _parse_address(block: Fields, url: str, name: str | None) -> Media:
    """Return the document that lies at an address."""
    media = parse_url_field(block, "file_url", url, MediaKind.DOCUMENT, None)
    if media.data is not None:
        return parse_file_data(url, name)
    media_type = type_by_name(name)
    return Media(kind_of(media_type), media_type, url=media.url, name=name)


def render_text(text: str) -> JsonObject:
    """Return a text as the user says it."""
    return {"type": "input_text", "text": text}


def render_media(media: Media, options: RenderOptions, lost: set[Feature]) -> list[JsonObject]:
    """Return the parts that carry a piece of media, and note what they do not.

    They are those of chat, but for documents at an address, which only Responses take, and sound, which only
    chat takes.

    :raises GatewayError: ``MALFORMED`` for the URL of an image that the model does not fetch.
    """
    if media.kind is MediaKind.DOCUMENT and media.url is not None and is_fetched(media.url):
        if media.name is not None:
            lost.add(Feature.MEDIA_NAME)
        if media.detail not in {None, "auto"}:
            lost.add(Feature.MEDIA_DETAIL)
        part: JsonObject = {"type": "input_file", "file_url": media.url}
        return [render_text(media.context), part] if media.context else [part]
    if media.kind is MediaKind.AUDIO:
        media = replace(media, data=None)
    return [_convert(part) for part in render_chat_media(media, options.kind, options.row, lost)]


def _convert(part: JsonObject) -> JsonObject:
    """Return a part of chat as one of Responses, which are flat."""
    if part["type"] == "text":
        return render_text(part["text"])
    if part["type"] == "file":
        return {"type": "input_file", **part["file"]}
    image = part["image_url"]
    return {"type": "input_image", "image_url": image["url"], "detail": image.get("detail", "auto")}
