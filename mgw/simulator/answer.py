"""What a dialect hands to the connection: an answer in one piece or in many, or a refusal."""

import json
from collections.abc import Callable
from typing import Any

from msgspec import Struct

from mgw.simulator.faults import Faults

Json = dict[str, Any]  # JSON of the vendors' shapes, read and built field by field


class Unary(Struct, frozen=True):
    """One body with a length."""

    body: bytes
    status: int = 200
    content_type: str = "application/json"
    headers: tuple[tuple[str, str], ...] = ()


class Stream(Struct, frozen=True):
    """Many pieces, one HTTP chunk each; ``broken`` ends a stream in which an error was asked for."""

    pieces: tuple[bytes, ...]
    broken: bytes
    content_type: str = "text/event-stream; charset=utf-8"
    headers: tuple[tuple[str, str], ...] = ()
    status: int = 200


Answer = Unary | Stream


class Refusal(Exception):  # noqa: N818  a refusal is an answer, in each vendor's own words for its status
    """The request is refused; each dialect has its own shape for it."""

    def __init__(self, status: int, message: str, param: str | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.param = param
        self.code = code
        self.retry_after: int | None = None
        """Seconds, where a vendor says so in the body."""


class Call(Struct, frozen=True):
    """One request as the dialects see it: ``headers`` in lower case, ``query`` decoded, ``body`` parsed."""

    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: Json
    model: str
    faults: Faults
    number: int
    now: int

    def id(self, prefix: str, more: int | str = "") -> str:
        """An identifier that no other request shares."""
        return f"{prefix}sim{self.number:08d}{more}"


Handler = Callable[[Call], Answer]


def dump(value: Any) -> bytes:  # any JSON value
    """Compact JSON."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def unary(value: Any) -> Unary:  # any JSON value
    """An answer of compact JSON."""
    return Unary(dump(value))


def sse(value: Any, event: str | None = None) -> bytes:  # any JSON value
    """One server-sent event, with its name where the vendor sends one."""
    name = f"event: {event}\n".encode() if event else b""
    return name + b"data: " + dump(value) + b"\n\n"
