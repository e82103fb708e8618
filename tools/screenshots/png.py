"""Make PNG files small: a screenshot has few colors that matter, so 256 of them suffice (PNG, W3C 2025).

A color that is not among the 256 becomes a near one that is more frequent; how near follows from the picture.
"""

from __future__ import annotations

import struct
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

from msgspec import Struct

_SIGNATURE: Final = b"\x89PNG\r\n\x1a\n"
_CHANNELS: Final = {2: 3, 6: 4}
"""Samples of a pixel, by the type of color: with and without transparency."""
_MOST: Final = 256
_STEP: Final = 2

Color = tuple[int, int, int]


class Pixels(Struct, frozen=True):
    """A picture: its colors, row by row."""

    width: int
    rows: list[list[Color]]


def read(data: bytes) -> Pixels:
    """Return the pixels of a PNG with 8 bits a sample and no interlacing, as browsers write it."""
    if not data.startswith(_SIGNATURE):
        message = "this is not a PNG"
        raise ValueError(message)
    chunks = list(_chunks(data))
    width, _, depth, kind, *_, interlaced = struct.unpack(">IIBBBBB", chunks[0][1])
    if depth != 8 or kind not in _CHANNELS or interlaced:
        message = f"a PNG of another form: {depth} bits, type {kind}"
        raise ValueError(message)
    samples = zlib.decompress(b"".join(body for name, body in chunks if name == b"IDAT"))
    channels = _CHANNELS[kind]
    return Pixels(width, [_colors(row, channels) for row in _unfiltered(samples, width * channels, channels)])


def _chunks(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    place = len(_SIGNATURE)
    while place < len(data):
        size, name = struct.unpack_from(">I4s", data, place)
        yield name, data[place + 8 : place + 8 + size]
        place += size + 12


def _colors(row: bytes, channels: int) -> list[Color]:
    return list(zip(row[0::channels], row[1::channels], row[2::channels], strict=True))


def _unfiltered(samples: bytes, length: int, channels: int) -> Iterator[bytes]:
    """Undo the filters of rows (PNG 9): each sample may be relative to those left of it and above it."""
    above = bytes(length)
    for start in range(0, len(samples), length + 1):
        row = bytearray(samples[start + 1 : start + 1 + length])
        _undo(samples[start], row, above, channels)
        above = bytes(row)
        yield above


def _undo(filter_type: int, row: bytearray, above: bytes, channels: int) -> None:
    if filter_type == 2:
        row[:] = bytes((sample + up) & 255 for sample, up in zip(row, above, strict=True))
    elif filter_type:
        for place in range(len(row)):
            left = row[place - channels] if place >= channels else 0
            corner = above[place - channels] if place >= channels else 0
            row[place] = (row[place] + _predicted(filter_type, left, above[place], corner)) & 255


def _predicted(filter_type: int, left: int, up: int, corner: int) -> int:
    if filter_type == 1:
        return left
    if filter_type == 3:
        return (left + up) // 2
    estimate = left + up - corner
    return min((left, up, corner), key=lambda near: abs(estimate - near))


def reduce(data: bytes) -> bytes:
    """Return the same picture with at most 256 colors, as small as zlib makes it."""
    pixels = read(data)
    counts = Counter(color for row in pixels.rows for color in row)
    palette, places = _palette(counts)
    rows = b"".join(b"\0" + bytes([places[color] for color in row]) for row in pixels.rows)
    head = struct.pack(">IIBBBBB", pixels.width, len(pixels.rows), 8, 3, 0, 0, 0)
    return _SIGNATURE + b"".join(
        (
            _chunk(b"IHDR", head),
            _chunk(b"PLTE", bytes(sample for color in palette for sample in color)),
            _chunk(b"IDAT", zlib.compress(rows, 9)),
            _chunk(b"IEND", b""),
        )
    )


def _chunk(name: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))


def _palette(counts: Counter[Color]) -> tuple[list[Color], dict[Color, int]]:
    """Return the colors that are kept, and for each color of the picture which of them stands for it."""
    ordered = [color for color, _ in sorted(counts.items(), key=lambda item: (-item[1], item[0]))]
    distance = 0
    while True:
        found = _covering(ordered, distance)
        if found is not None:
            return found
        distance += _STEP


def _covering(colors: Iterable[Color], distance: int) -> tuple[list[Color], dict[Color, int]] | None:
    """Keep the most frequent colors and drop those as near to one of them; None if too many are left."""
    kept: list[Color] = []
    places: dict[Color, int] = {}
    for color in colors:
        near = (
            min(enumerate(kept), key=lambda item: _distance(item[1], color), default=None)
            if distance
            else None
        )
        if near is not None and _distance(near[1], color) <= distance:
            places[color] = near[0]
        elif len(kept) == _MOST:
            return None
        else:
            places[color] = len(kept)
            kept.append(color)
    return kept, places


def _distance(one: Color, other: Color) -> int:
    return max(abs(one[0] - other[0]), abs(one[1] - other[1]), abs(one[2] - other[2]))
