"""Frames of ``application/vnd.amazon.eventstream``.  Source: botocore's ``eventstream.py``."""

import zlib
from typing import Final

MEDIA_TYPE: Final = "application/vnd.amazon.eventstream"
_STRING: Final = 7
"""The type of a header's value that is a text."""


def frame(headers: dict[str, str], payload: bytes) -> bytes:
    """One frame: both lengths, their sum, headers, payload, the sum of all."""
    encoded = b"".join(
        bytes([len(name)]) + name.encode() + bytes([_STRING]) + len(value).to_bytes(2) + value.encode()
        for name, value in headers.items()
    )
    prelude = (len(encoded) + len(payload) + 16).to_bytes(4) + len(encoded).to_bytes(4)
    message = prelude + zlib.crc32(prelude).to_bytes(4) + encoded + payload
    return message + zlib.crc32(message).to_bytes(4)


def event_frame(event_type: str, payload: bytes) -> bytes:
    """A frame that is an event."""
    headers = {":event-type": event_type, ":content-type": "application/json", ":message-type": "event"}
    return frame(headers, payload)


def exception_frame(exception_type: str, payload: bytes) -> bytes:
    """A frame that says what went wrong."""
    headers = {
        ":exception-type": exception_type,
        ":content-type": "application/json",
        ":message-type": "exception",
    }
    return frame(headers, payload)
