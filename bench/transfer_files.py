"""The files of the transfers: their bytes are made piece by piece when they are needed, and never kept."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from random import Random

PIECE_BYTES = 64 * 1024
FILE_BYTES = 30 * 1024 * 1024
SMALL_BYTES = 5 * PIECE_BYTES
"""Enough for the gateway to keep it on disk."""
SLOW_SECONDS = 1.5
"""How long whoever is slow takes for a file."""
SLOW_BUFFER = 64 * 1024
"""The receive buffer of whoever is slow: the kernel must not take the file for it."""
BOUNDARY = "4858d12029c95cf3db925fba3f28cf5d"
_PATTERN = Random(30).randbytes(PIECE_BYTES - 8)


def file_pieces(size: int) -> Iterator[bytes]:
    """Give a file of ``size`` bytes, a multiple of the piece; no two pieces are alike."""
    for number in range(size // PIECE_BYTES):
        yield number.to_bytes(8, "big") + _PATTERN


def digest(pieces: Iterable[bytes]) -> str:
    """Hash what comes, in hexadecimal digits."""
    found = sha256()
    for piece in pieces:
        found.update(piece)
    return found.hexdigest()


@dataclass(frozen=True, slots=True)
class Form:
    """A multipart body: what stands before the file, and behind it."""

    head: bytes
    tail: bytes
    file_bytes: int = FILE_BYTES

    @property
    def size(self) -> int:
        """How many bytes it has."""
        return len(self.head) + self.file_bytes + len(self.tail)

    def pieces(self) -> Iterator[bytes]:
        """Give the body."""
        yield self.head
        yield from file_pieces(self.file_bytes)
        yield self.tail


def file_form(file_bytes: int = FILE_BYTES) -> Form:
    """What OpenAI's SDK sends for ``files.create``."""
    return Form(_field("purpose", "user_data") + _FILE_HEAD, b"\r\n" + _END, file_bytes)


def transcription_form(model: str) -> Form:
    """A transcription's form whose model stands last: it is known when the whole file has arrived."""
    return Form(_FILE_HEAD, b"\r\n" + _field("response_format", "json") + _field("model", model) + _END)


_END = f"--{BOUNDARY}--\r\n".encode()
_FILE_HEAD = (
    f"--{BOUNDARY}\r\n"
    'Content-Disposition: form-data; name="file"; filename="talk.wav"\r\n'
    "Content-Type: application/octet-stream\r\n\r\n"
).encode()


def _field(name: str, value: str) -> bytes:
    return f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'.encode()


@dataclass(slots=True)
class Pace:
    """Holds back whoever is to take ``seconds`` for a file; nobody, where that is 0."""

    seconds: float
    _passed: int = 0
    _began: float = field(default_factory=time.perf_counter)

    def passed(self, size: int) -> None:
        """Note that ``size`` bytes have passed, and wait for their time."""
        self._passed += size
        ahead = self._began + self.seconds * self._passed / FILE_BYTES - time.perf_counter()
        if ahead > 0:
            time.sleep(ahead)

    def over(self, pieces: Iterable[bytes]) -> Iterator[bytes]:
        """Give the pieces on, in time."""
        for piece in pieces:
            yield piece
            self.passed(len(piece))
