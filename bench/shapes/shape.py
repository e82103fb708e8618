"""What a shape is, and how bodies of a size are made."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

MIB = 2**20
LARGEST = 32 * MIB
"""``max_body_bytes``."""
CHAT, MESSAGES = "/v1/chat/completions", "/v1/messages"
HEAD = b"HTTP/1.1 %d OK\r\nContent-Type: %b\r\nConnection: close\r\n%b\r\n"
REACHED = 418
"""The status of an answer that no gateway makes: the request has reached its provider."""
USER = b'{"model":"%b","messages":[{"role":"user","content":"x"}]'
"""The beginning of a body of chat, to be filled with a model."""
SHORT = b'{"error":{"message":"no","type":"t"}}'


def whole(
    body: bytes, status: int = 400, kind: bytes = b"application/json", more: bytes = b""
) -> list[bytes]:
    """The bytes of an answer."""
    head = HEAD % (status, kind, b"Content-Length: %d\r\n" % len(body) + more)
    return [head, body]


@dataclass(frozen=True)
class Shape:
    """One request, and what the provider answers."""

    name: str
    path: str
    body: Callable[[], bytes]
    headers: tuple[tuple[str, str], ...] = ()
    answer: Callable[[], Iterable[bytes]] = lambda: whole(SHORT, REACHED)
    counted: int | None = None
    """The size that memory is compared with, where it is not the body's."""
    method: str = "POST"


def filled(before: bytes, unit: bytes, after: bytes, size: int = LARGEST) -> Callable[[], bytes]:
    """A body of ``size`` bytes of one unit over and over."""
    return lambda: before + unit * ((size - len(before) - len(after)) // len(unit)) + after


def numbered(
    before: bytes, unit: bytes, after: bytes, size: int = LARGEST, most: int = 10**9
) -> Callable[[], bytes]:
    """The same, each unit with its number, at most ``most`` of them."""

    def body() -> bytes:
        pieces, length, number = [before], len(before) + len(after), 0
        while length < size and number < most:
            piece = unit.replace(b"%d", b"%d" % number)
            pieces.append(piece)
            length += len(piece)
            number += 1
        if length > size:
            pieces.pop()
        return b"".join(pieces) + after

    return body


def values(prefix: bytes, kind: str, path: str, after: bytes = b"]}") -> list[Shape]:
    """Arrays of small values under a key that nobody knows."""
    units = {
        "arrays": b"[],",
        "objects": b"{},",
        "zeros": b"0,",
        "texts": b'"a",',
        "nested objects": b'{"a":{"a":{}}},',
    }
    return [
        Shape(f"{kind}: {name}", path, filled(prefix + b',"z":[', unit, unit[:-1] + after))
        for name, unit in units.items()
    ]
