"""Media types, compared without their parameters (RFC 9110 8.3.1), and which of them are event streams."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

EVENT_STREAM: Final = b"text/event-stream"
AMAZON_EVENT_STREAM: Final = b"application/vnd.amazon.eventstream"
JSON: Final = b"application/json"
FORM: Final = b"multipart/form-data"
_STREAMS: Final = frozenset({EVENT_STREAM, b"text/plain", b""})
"""What hosts call a stream of events that they were asked for."""


@lru_cache(maxsize=256)
def media_type(content_type: bytes) -> bytes:
    """Return the type without its parameters, in lower case."""
    return content_type.partition(b";")[0].strip().lower()


@lru_cache(maxsize=256)
def is_event_stream(content_type: bytes | None) -> bool:
    """Whether a ``Content-Type`` says that the body is a stream of events; ``None``: there is none."""
    return content_type is not None and media_type(content_type) == EVENT_STREAM


def is_amazon_event_stream(content_type: bytes) -> bool:
    """Whether a ``Content-Type`` says that the body is a stream of Amazon's frames."""
    return media_type(content_type) == AMAZON_EVENT_STREAM


@lru_cache(maxsize=256)
def is_json(content_type: bytes) -> bool:
    """Whether a ``Content-Type`` says that the body is JSON."""
    return media_type(content_type) == JSON


def may_be_event_stream(content_type: bytes | None) -> bool:
    """Whether a body may be one that was asked for: some hosts give it another name, or none."""
    return media_type(content_type or b"") in _STREAMS
