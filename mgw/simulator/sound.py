"""Made-up speech: a tone for each word, the same for the same text and voice."""

import hashlib
import struct
from typing import Final

from mgw.simulator import mind
from mgw.simulator.store import Made

RATE: Final = 24000
"""Samples of 16 bits in a second, one channel, the low byte first."""
_PER_TOKEN: Final = 480
_LOUD: Final = 8000
_MAGIC: Final = {
    "mp3": b"ID3\x04\x00\x00\x00\x00\x00\x00\xff\xfb\x90\x00",
    "opus": b"OggS\x00\x02",
    "aac": b"\xff\xf1\x50\x80",
    "flac": b"fLaC\x00\x00\x00\x22",
}
MEDIA_TYPES: Final = {
    "mp3": "audio/mpeg",
    "opus": "audio/opus",
    "aac": "audio/aac",
    "flac": "audio/flac",
    "wav": "audio/wav",
    "pcm": "audio/pcm",
}


def samples(text: str, voice: str) -> bytes:
    """The samples of a text: 20 milliseconds for each of its tokens."""
    found = []
    for token in mind.tokens(text):
        seed = hashlib.sha256(f"{voice}\0{token}".encode()).digest()
        half = 10 + seed[0] % 90
        wave = [_LOUD if (place // half) % 2 else -_LOUD for place in range(_PER_TOKEN)]
        found.append(struct.pack(f"<{_PER_TOKEN}h", *wave))
    return b"".join(found)


def wav(data: bytes) -> bytes:
    """Samples behind the header of a RIFF file."""
    form = struct.pack("<4sIHHIIHH", b"fmt ", 16, 1, 1, RATE, RATE * 2, 2, 16)
    body = form + struct.pack("<4sI", b"data", len(data)) + data
    return struct.pack("<4sI4s", b"RIFF", 4 + len(body), b"WAVE") + body


def encoded(text: str, voice: str, wanted: str, size: int | None) -> bytes:
    """Speech in a format: what is compressed begins as such a file does, and is noise from there on."""
    data = samples(text, voice) if size is None else Made(size).read(0, size)
    if wanted == "wav":
        return wav(data)
    return data if wanted == "pcm" else _MAGIC[wanted] + hashlib.sha256(data).digest() + data[::16]
