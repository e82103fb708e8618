"""Made-up embeddings and speech, the same for the same text.

An embedding is a unit vector; speech is a tone for each word.
"""

import base64
import hashlib
import math
import struct
from typing import Final

from mgw_sim.model import tokenize
from mgw_sim.platform.store import GeneratedContent

SAMPLE_RATE: Final = 24000
"""Samples of 16 bits in a second, one channel, the low byte first."""
_SAMPLES_PER_TOKEN: Final = 480
_AMPLITUDE: Final = 8000
_FILE_SIGNATURES: Final = {
    "mp3": b"ID3\x04\x00\x00\x00\x00\x00\x00\xff\xfb\x90\x00",
    "opus": b"OggS\x00\x02",
    "aac": b"\xff\xf1\x50\x80",
    "flac": b"fLaC\x00\x00\x00\x22",
}
AUDIO_MEDIA_TYPES: Final = {
    "mp3": "audio/mpeg",
    "opus": "audio/opus",
    "aac": "audio/aac",
    "flac": "audio/flac",
    "wav": "audio/wav",
    "pcm": "audio/pcm",
}


def unit_vector(text: str, dimensions: int) -> list[float]:
    """A vector of length 1, the same for the same text and number of dimensions."""
    raw = struct.unpack(f"<{dimensions}h", hashlib.shake_256(text.encode()).digest(2 * dimensions))
    length = math.sqrt(sum(value * value for value in raw)) or 1.0
    return [value / length for value in raw]


def base64_floats(vector: list[float]) -> str:
    """Base64 of little-endian 32-bit floats, as ``encoding_format: base64`` asks for."""
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode("ascii")


def speech_samples(text: str, voice: str) -> bytes:
    """The samples of a text: 20 milliseconds for each of its tokens."""
    waves = []
    for token in tokenize(text):
        seed = hashlib.sha256(f"{voice}\0{token}".encode()).digest()
        half = 10 + seed[0] % 90
        wave = [_AMPLITUDE if (place // half) % 2 else -_AMPLITUDE for place in range(_SAMPLES_PER_TOKEN)]
        waves.append(struct.pack(f"<{_SAMPLES_PER_TOKEN}h", *wave))
    return b"".join(waves)


def wav_file(data: bytes) -> bytes:
    """Samples behind the header of a RIFF file."""
    form = struct.pack("<4sIHHIIHH", b"fmt ", 16, 1, 1, SAMPLE_RATE, SAMPLE_RATE * 2, 2, 16)
    body = form + struct.pack("<4sI", b"data", len(data)) + data
    return struct.pack("<4sI4s", b"RIFF", 4 + len(body), b"WAVE") + body


def encode_speech(text: str, voice: str, format_name: str, size: int | None) -> bytes:
    """Speech in a format: what is compressed begins as such a file does, and is noise from there on."""
    samples = speech_samples(text, voice) if size is None else GeneratedContent(size).read(0, size)
    if format_name == "wav":
        return wav_file(samples)
    return (
        samples
        if format_name == "pcm"
        else _FILE_SIGNATURES[format_name] + hashlib.sha256(samples).digest() + samples[::16]
    )
