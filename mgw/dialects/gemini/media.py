"""Media, both ways: ``inlineData`` and ``fileData``, and the resolution at which the model sees them.

Base64 is URL-safe in what Google's SDKs send, standard everywhere else.  An address goes up with its media
type, which the API wants to know before it fetches anything; where the client does not name it, the path's
ending does, else what is usual for the kind.

Google reads five types of images; others are left out of requests.

Sources: ``Blob`` and ``FileData`` of google-genai 3.4; https://ai.google.dev/gemini-api/docs/file-input-methods
and https://ai.google.dev/gemini-api/docs/image-understanding.
"""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import Final

from msgspec.structs import replace

from mgw.canonical.conversation import JsonObject, Media, MediaKind, Signature
from mgw.canonical.features import Feature
from mgw.dialects.fields import Fields
from mgw.dialects.gemini.proto_json import parse_enum
from mgw.dialects.media import FEATURES, decode_text, detect_media_type, kind_of, standard_base64

_DEFAULT_TYPES: Final = MappingProxyType(
    {
        MediaKind.IMAGE: "image/jpeg",
        MediaKind.DOCUMENT: "application/pdf",
        MediaKind.AUDIO: "audio/mpeg",
        MediaKind.VIDEO: "video/mp4",
    }
)
"""The media type of what nobody names."""
_TYPES_BY_EXTENSION: Final = MappingProxyType(
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
_IMAGE_TYPES: Final = MappingProxyType(
    {
        **{name: name for name in ("image/png", "image/jpeg", "image/webp", "image/heic", "image/heif")},
        "image/jpg": "image/jpeg",
        "image/pjpeg": "image/jpeg",
        "image/x-png": "image/png",
    }
)
"""The types of images that Google reads, and what else they are called."""
_ANY_IMAGE: Final = "image/*"
RESOLUTIONS: Final = tuple(f"MEDIA_RESOLUTION_{name}" for name in ("UNSPECIFIED", "LOW", "MEDIUM", "HIGH"))
"""``MediaResolution`` by its numbers."""
_PART_RESOLUTIONS: Final = (*RESOLUTIONS, "MEDIA_RESOLUTION_ULTRA_HIGH")
_DETAILS: Final = frozenset({"low", "medium", "high", "ultra_high"})
"""The names of resolutions, as the canonical form has them."""
_YOUTUBE: Final = re.compile(r"https?://(?:(?:www\.|m\.|music\.)?youtube\.com|youtu\.be)/")
_GOOGLE_FILE: Final = re.compile(r"(?:https://generativelanguage\.googleapis\.com/\w+/)?files/")
_EXTENSION: Final = re.compile(r"\.(\w{2,4})$")


def parse_media(part: Fields, detail: str | None) -> Media | None:
    """Return the media that a part holds; ``detail`` is the resolution of images that state none."""
    blob = part.nested("inlineData")
    file = None if blob is not None else part.nested("fileData")
    media = _parse_blob(blob) if blob is not None else _parse_file(file) if file is not None else None
    if media is None:
        return None
    detail = _parse_part_resolution(part) or (detail if media.kind is MediaKind.IMAGE else None)
    return media if detail is None else replace(media, detail=detail)


def parse_resolution(level: str | None) -> str | None:
    """Return the canonical name of a resolution; ``None`` for none that is known."""
    name = (level or "").upper().removeprefix("MEDIA_RESOLUTION_").lower()
    return name if name in _DETAILS else None


def _parse_part_resolution(part: Fields) -> str | None:
    """Return the resolution that a part states; one that is not known stays unread."""
    resolution = part.nested("mediaResolution")
    if resolution is None:
        return None
    level = parse_resolution(parse_enum(resolution, "level", _PART_RESOLUTIONS))
    if level is None:
        resolution.leave()
    else:
        resolution.note(Feature.MEDIA_DETAIL)
    return level


def _parse_blob(blob: Fields) -> Media:
    """Return what ``inlineData`` holds; a text comes as text."""
    media_type = blob.text("mimeType")
    data = standard_base64(blob.required_text("data"))
    if len(data) % 4:
        raise blob.wrong("data", "not valid base64")
    kind = kind_of(media_type)
    blob.note(FEATURES[kind])
    text = decode_text(data) if media_type is not None and media_type.startswith("text/") else None
    return Media(
        kind,
        media_type,
        data=data if text is None else None,
        text=text,
        name=blob.text("displayName", Feature.MEDIA_NAME),
    )


def _parse_file(file: Fields) -> Media:
    """Return what ``fileData`` points at: a file of Google's, or an address."""
    uri = file.required_text("fileUri")
    media_type = file.text("mimeType") or None
    kind = MediaKind.VIDEO if _YOUTUBE.match(uri) else kind_of(media_type or _guess_type(uri))
    name = file.text("displayName", Feature.MEDIA_NAME)
    file.note(FEATURES[kind])
    if _GOOGLE_FILE.match(uri):
        file.note(Feature.FILE_ID)
        return Media(kind, media_type, file_id=uri, name=name)
    return Media(kind, media_type, url=uri, name=name)


def parse_reply_media(media_type: str | None, data: str, signature: Signature | None = None) -> Media:
    """Return the media of the model's own: the ``inlineData`` of a response."""
    return Media(kind_of(media_type), media_type, data=standard_base64(data), signature=signature)


def normalize_media(media: Media) -> Media | None:
    """Return media as Google reads them; ``None`` for an image of a type that it does not."""
    if media.kind is not MediaKind.IMAGE:
        return media
    stated = media if media.media_type != _ANY_IMAGE else replace(media, media_type=None)
    found = _IMAGE_TYPES.get(_media_type(stated).partition(";")[0].strip().lower())
    return None if found is None else replace(media, media_type=found)


def render_media(media: Media) -> JsonObject | None:
    """Return the part for media other than text; ``None`` for a file that lies with another vendor."""
    if media.data is not None:
        return {"inlineData": {"mimeType": _media_type(media), "data": media.data}}
    uri = media.url
    if uri is None and media.file_id is not None and _GOOGLE_FILE.match(media.file_id):
        uri = media.file_id
    if uri is None:
        return None
    return {"fileData": {"mimeType": _media_type(media), "fileUri": uri}}


def _media_type(media: Media) -> str:
    """Return the media type that is stated, that the beginning or the address implies, or the usual one."""
    if media.media_type:
        return media.media_type
    if media.data is not None:
        return detect_media_type(media.data) or _DEFAULT_TYPES[media.kind]
    if media.url is not None and _YOUTUBE.match(media.url):
        return "video/*"
    return _guess_type(media.url or "") or _DEFAULT_TYPES[media.kind]


def _guess_type(uri: str) -> str | None:
    """Return the media type that the ending of an address implies."""
    extension = _EXTENSION.search(uri.partition("?")[0].partition("#")[0])
    return _TYPES_BY_EXTENSION.get(extension[1].lower()) if extension else None
