"""Media as chat completions write them: ``data:`` addresses, plain addresses, base64, and audio formats.

Sources: the SDK's ``ChatCompletionContentPartImageParam``, ``…InputAudioParam`` and ``File``; RFC 2397 for
``data:`` addresses.
"""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import Final

from mgw.dialects.media import standard_base64

_DATA: Final = re.compile(r"data:([^,;]*)((?:;[^,;]*)*),", re.IGNORECASE)
_ADDRESS: Final = re.compile(r"(?:https?|gs)://", re.IGNORECASE)

AUDIO_TYPES: Final = MappingProxyType({"wav": "audio/wav", "mp3": "audio/mpeg"})
"""The media types of the two formats that the reference names."""
AUDIO_FORMATS: Final = MappingProxyType(
    {
        "audio/wav": "wav",
        "audio/x-wav": "wav",
        "audio/wave": "wav",
        "audio/vnd.wave": "wav",
        "audio/mpeg": "mp3",
        "audio/mp3": "mp3",
    }
)
"""The format of each media type that this wire takes."""

_BY_ENDING: Final = MappingProxyType(
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


def split_data_url(url: str) -> tuple[str | None, str] | None:
    """Return the media type and the base64 of a ``data:`` address; ``None`` where it is no such address."""
    found = _DATA.match(url)
    if found is None or ";base64" not in found[2].lower():
        return None
    return found[1].strip().lower() or None, standard_base64(url[found.end() :])


def is_address(url: str) -> bool:
    """Whether a provider could fetch this."""
    return _ADDRESS.match(url) is not None


def type_by_name(name: str | None) -> str | None:
    """Return the media type that the ending of a file's name implies."""
    return _BY_ENDING.get(name.rpartition(".")[2].lower()) if name else None
