"""Embeddings: unit vectors that depend on the text alone."""

import base64
import hashlib
import math
import struct


def unit_vector(text: str, dimensions: int) -> list[float]:
    """A vector of length 1, the same for the same text and number of dimensions."""
    raw = struct.unpack(f"<{dimensions}h", hashlib.shake_256(text.encode()).digest(2 * dimensions))
    length = math.sqrt(sum(value * value for value in raw)) or 1.0
    return [value / length for value in raw]


def packed(vector: list[float]) -> str:
    """Base64 of little-endian 32-bit floats, as ``encoding_format: base64`` asks for."""
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode("ascii")
