"""Media in Gemini's wire, both ways: ``inlineData`` and ``fileData``.

Base64 is URL-safe in what Google's SDKs send, standard everywhere else.  An address goes up with its media
type, which the API wants to know before it fetches anything; where the client does not name it, the path's
ending does, else what is usual for the kind.

Of images Google reads five types; what others stand in is left out of requests.

Sources: ``Blob`` and ``FileData`` of google-genai 3.4; https://ai.google.dev/gemini-api/docs/file-input-methods
and https://ai.google.dev/gemini-api/docs/image-understanding.
"""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import Final

from msgspec.structs import replace

from mgw.canonical.conversation import JsonObject, Media, MediaKind
from mgw.canonical.features import Feature
from mgw.dialects.fields import Fields
from mgw.dialects.media import FEATURES, begun_with, kind_of, plain_text, standard_base64

_USUAL: Final = MappingProxyType(
    {
        MediaKind.IMAGE: "image/jpeg",
        MediaKind.DOCUMENT: "application/pdf",
        MediaKind.AUDIO: "audio/mpeg",
        MediaKind.VIDEO: "video/mp4",
    }
)
"""The media type of what nobody names."""
_ENDINGS: Final = MappingProxyType(
    {
        "png": "image/png",
        "jpg": "image/jpeg",
        "jpeg": "image/jpeg",
        "webp": "image/webp",
        "gif": "image/gif",
        "bmp": "image/bmp",
        "svg": "image/svg+xml",
        "tif": "image/tiff",
        "tiff": "image/tiff",
        "heic": "image/heic",
        "heif": "image/heif",
        "avif": "image/avif",
        "pdf": "application/pdf",
        "txt": "text/plain",
        "md": "text/markdown",
        "csv": "text/csv",
        "html": "text/html",
        "htm": "text/html",
        "xml": "text/xml",
        "rtf": "text/rtf",
        "json": "application/json",
        "wav": "audio/wav",
        "mp3": "audio/mp3",
        "aiff": "audio/aiff",
        "aac": "audio/aac",
        "ogg": "audio/ogg",
        "flac": "audio/flac",
        "mp4": "video/mp4",
        "mpeg": "video/mpeg",
        "mov": "video/mov",
        "avi": "video/avi",
        "webm": "video/webm",
        "wmv": "video/wmv",
        "3gp": "video/3gpp",
    }
)
_IMAGES: Final = MappingProxyType(
    {
        **{name: name for name in ("image/png", "image/jpeg", "image/webp", "image/heic", "image/heif")},
        "image/jpg": "image/jpeg",
        "image/pjpeg": "image/jpeg",
        "image/x-png": "image/png",
    }
)
"""The types of images that Google reads, and what else they are called."""
_ANY_IMAGE: Final = "image/*"
_YOUTUBE: Final = re.compile(r"https?://(?:(?:www\.|m\.|music\.)?youtube\.com|youtu\.be)/")
_GOOGLE_FILE: Final = re.compile(r"(?:https://generativelanguage\.googleapis\.com/\w+/)?files/")
_ENDING: Final = re.compile(r"\.(\w{2,4})$")


def parse_blob(blob: Fields) -> Media:
    """Return what ``inlineData`` holds; a text comes as text."""
    media_type = blob.text("mimeType")
    data = standard_base64(blob.required_text("data"))
    if len(data) % 4:
        raise blob.wrong("data", "not valid base64")
    kind = kind_of(media_type)
    blob.note(FEATURES[kind])
    text = plain_text(data) if media_type is not None and media_type.startswith("text/") else None
    return Media(
        kind,
        media_type,
        data=data if text is None else None,
        text=text,
        name=blob.text("displayName", Feature.MEDIA_NAME),
    )


def parse_file(file: Fields) -> Media:
    """Return what ``fileData`` points at: a file of Google's, or an address."""
    uri = file.required_text("fileUri")
    media_type = file.text("mimeType") or None
    kind = MediaKind.VIDEO if _YOUTUBE.match(uri) else kind_of(media_type or named_type(uri))
    name = file.text("displayName", Feature.MEDIA_NAME)
    file.note(FEATURES[kind])
    if _GOOGLE_FILE.match(uri):
        file.note(Feature.FILE_ID)
        return Media(kind, media_type, file_id=uri, name=name)
    return Media(kind, media_type, url=uri, name=name)


def blob_media(media_type: str | None, data: str) -> Media:
    """Return what the model drew or said."""
    return Media(kind_of(media_type), media_type, data=standard_base64(data))


def named_type(uri: str) -> str | None:
    """Return the media type that the ending of an address implies."""
    ending = _ENDING.search(uri.partition("?")[0].partition("#")[0])
    return _ENDINGS.get(ending[1].lower()) if ending else None


def is_google_file(file_id: str) -> bool:
    """Whether a file of the client's is one that lies with Google."""
    return _GOOGLE_FILE.match(file_id) is not None


def readable(media: Media) -> Media | None:
    """Return media as Google reads them; ``None`` for an image of a type that it does not."""
    if media.kind is not MediaKind.IMAGE:
        return media
    stated = media if media.media_type != _ANY_IMAGE else replace(media, media_type=None)
    found = _IMAGES.get(_type_of(stated).partition(";")[0].strip().lower())
    return None if found is None else replace(media, media_type=found)


def render_media(media: Media) -> JsonObject | None:
    """Return the part for media other than text; ``None`` for a file that lies with another vendor."""
    if media.data is not None:
        return {"inlineData": {"mimeType": _type_of(media), "data": media.data}}
    uri = media.url
    if uri is None and media.file_id is not None and is_google_file(media.file_id):
        uri = media.file_id
    if uri is None:
        return None
    return {"fileData": {"mimeType": _type_of(media), "fileUri": uri}}


def _type_of(media: Media) -> str:
    """Return the media type that is stated, that the beginning or the address implies, or the usual one."""
    if media.media_type:
        return media.media_type
    if media.data is not None:
        return begun_with(media.data) or _USUAL[media.kind]
    if media.url is not None and _YOUTUBE.match(media.url):
        return "video/*"
    return named_type(media.url or "") or _USUAL[media.kind]
