"""What hosts of Amazon send: frames of its event stream, made without a line of the gateway's."""

from __future__ import annotations

import json
from base64 import b64encode
from struct import pack
from typing import Any
from zlib import crc32


def frame(payload: bytes, headers: bytes = b"") -> bytes:
    """Return a frame."""
    lengths = pack(">II", 16 + len(headers) + len(payload), len(headers))
    summed = lengths + pack(">I", crc32(lengths)) + headers + payload
    return summed + pack(">I", crc32(summed))


def text_header(name: str, value: str) -> bytes:
    """Return a header that is a text."""
    return header(name, 7, pack(">H", len(value.encode())) + value.encode())


def header(name: str, kind: int, value: bytes) -> bytes:
    """Return a header of any type."""
    return pack("B", len(name.encode())) + name.encode() + pack("B", kind) + value


def chunk_frame(data: bytes, **more: Any) -> bytes:
    """Return the frame of an event of a model."""
    payload = json.dumps({"bytes": b64encode(data).decode(), **more}).encode()
    return event_frame("chunk", payload)


def event_frame(name: str, payload: bytes) -> bytes:
    """Return the frame of an event."""
    of_json = text_header(":content-type", "application/json")
    headers = text_header(":event-type", name) + of_json + text_header(":message-type", "event")
    return frame(payload, headers)


def exception_frame(name: str, message: str, key: str = "message") -> bytes:
    """Return the frame of an exception that the service has a name for."""
    of_json = text_header(":content-type", "application/json")
    headers = text_header(":exception-type", name) + of_json + text_header(":message-type", "exception")
    return frame(json.dumps({key: message}).encode(), headers)


def error_frame(code: str, message: str) -> bytes:
    """Return the frame of an error that no service has a name for."""
    texts = ((":error-code", code), (":error-message", message), (":message-type", "error"))
    return frame(b"", b"".join(text_header(*pair) for pair in texts))
