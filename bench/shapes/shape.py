"""What a shape is, and how bodies of a size are made."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from tests.support.repeated import repeated

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


Template = bytes | Callable[[], bytes]
"""A body, or a template of one for :func:`repeated`."""


def shapes(path: str, table: dict[str, Template], headers: tuple[tuple[str, str], ...] = ()) -> list[Shape]:
    """Return the shapes of bodies by their names."""
    return [
        Shape(name, path, repeated(body) if isinstance(body, bytes) else body, headers)
        for name, body in table.items()
    ]


def values(prefix: bytes, kind: str, path: str) -> list[Shape]:
    """Return arrays of small values under a key that nobody knows."""
    units = {
        "arrays": b"[],",
        "objects": b"{},",
        "zeros": b"0,",
        "texts": b'"a",',
        "nested objects": b'{"a":{"a":{}}},',
    }
    rows = {
        f"{kind}: {name}": b'%b,"z":[<<%b>>%b]}' % (prefix, unit, unit[:-1]) for name, unit in units.items()
    }
    return shapes(path, {**rows})
