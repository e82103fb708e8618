"""What the dialects share about media: features, kinds, base64, and file signatures.

Base64 is decoded for documents that are plain text alone, which every family writes as text.
"""

from __future__ import annotations

from base64 import b64decode
from codecs import BOM_UTF8
from types import MappingProxyType
from typing import Final

from mgw.canonical.conversation import MediaKind
from mgw.canonical.features import Feature

FEATURES: Final = MappingProxyType(
    {
        MediaKind.IMAGE: Feature.IMAGE,
        MediaKind.DOCUMENT: Feature.DOCUMENT,
        MediaKind.AUDIO: Feature.AUDIO,
        MediaKind.VIDEO: Feature.VIDEO,
    }
)
"""What is lost with media of each kind."""

_KINDS: Final = MappingProxyType(
    {"image": MediaKind.IMAGE, "audio": MediaKind.AUDIO, "video": MediaKind.VIDEO}
)
_BEGINNINGS: Final = (
    ("/9j/", "image/jpeg"),
    ("iVBOR", "image/png"),
    ("R0lGOD", "image/gif"),
    ("UklGR", "image/webp"),
    ("JVBER", "application/pdf"),
)
_TEXTS: Final = frozenset(
    {
        *("application/json", "application/jsonl", "application/x-ndjson", "application/ld+json"),
        *("application/xml", "application/xhtml+xml", "application/yaml", "application/x-yaml"),
        *("application/toml", "application/sql", "application/graphql", "application/csv"),
        *("application/javascript", "application/x-javascript", "application/ecmascript"),
        *("application/typescript", "application/x-typescript", "application/x-python"),
        *("application/x-sh", "application/x-httpd-php", "application/x-tex", "application/x-subrip"),
    }
)
"""What is text beside ``text/*``."""
_TEXT_ENDINGS: Final = ("+json", "+xml", "+yaml")
_STANDARD_ALPHABET: Final = str.maketrans("-_", "+/")


def kind_of(media_type: str | None) -> MediaKind:
    """Return what a media type is; all that is none of the others is a document."""
    return _KINDS.get((media_type or "").partition("/")[0].lower(), MediaKind.DOCUMENT)


def is_text(media_type: str | None) -> bool:
    """Whether a document of this media type is a text that anybody can read."""
    bare = (media_type or "").partition(";")[0].strip().lower()
    return bare.startswith("text/") or bare in _TEXTS or bare.endswith(_TEXT_ENDINGS)


def is_fetched(url: str) -> bool:
    """Whether any vendor could fetch what lies at an address."""
    return url[:8].lower().startswith(("https://", "http://"))


def detect_media_type(data: str) -> str | None:
    """Return the media type of what base64 of a file begins with; ``None`` where nobody knows."""
    return next((name for begin, name in _BEGINNINGS if data.startswith(begin)), None)


def standard_base64(data: str) -> str:
    """Return base64 in the standard alphabet, padded; what cannot be any keeps its length."""
    if "-" in data or "_" in data:
        data = data.translate(_STANDARD_ALPHABET)
    if len(data) % 4 == 0:
        return data
    data = data.rstrip("=")
    return data + "=" * (-len(data) % 4) if len(data) % 4 != 1 else data


def decode_text(data: str) -> str | None:
    """Return the text that base64 holds; ``None`` where it is none, or no UTF-8."""
    try:
        return b64decode(data, validate=True).removeprefix(BOM_UTF8).decode()
    except ValueError:  # binascii.Error, UnicodeDecodeError
        return None
