"""What passes between the HTTP side and the vendors' handlers: a request, and its response or an ApiError."""

import json
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from enum import Enum
from typing import Any, Protocol

from msgspec import Struct, field

from mgw_sim.faults import Faults
from mgw_sim.platform.store import Store

Json = dict[str, Any]  # JSON of the vendors' shapes, read and built field by field


class FormPart(Struct, frozen=True):
    """One part; ``filename`` is None for a plain field."""

    name: str
    filename: str | None
    content_type: str
    data: bytes


class Form(Struct, frozen=True):
    """The parts, in order."""

    parts: tuple[FormPart, ...]

    def file(self, *names: str) -> FormPart | None:
        """The first part of one of these names, or None."""
        return next((part for part in self.parts if part.name in names), None)

    def fields(self) -> dict[str, str]:
        """The plain fields as text; of several with one name the last."""
        return {
            part.name: part.data.decode("utf-8", "replace") for part in self.parts if part.filename is None
        }


class Family(Enum):
    """The vendors in whose wire format a route speaks."""

    OPENAI = "openai"
    ANTHROPIC = "anthropic"
    GEMINI = "gemini"
    BEDROCK = "bedrock"
    """Anthropic's models behind Amazon's InvokeModel."""
    VERTEX = "vertex"
    """Anthropic's models behind Google's rawPredict."""


class UnaryResponse(Struct, frozen=True):
    """One body with a length."""

    body: bytes
    status: int = 200
    content_type: str = "application/json"
    headers: tuple[tuple[str, str], ...] = ()

    @property
    def size(self) -> int:
        """The length of the body."""
        return len(self.body)


class Content(Protocol):
    """Bytes that need not all be there at once."""

    @property
    def size(self) -> int:
        """How many there are."""

    def read(self, position: int, size: int) -> bytes:
        """Return ``size`` bytes from a position on; fewer at the end."""


class DownloadResponse(Struct, frozen=True):
    """Bytes of a content, from ``start`` to before ``stop``, with a length; read as the client takes them."""

    content: Content
    start: int
    stop: int
    status: int = 200
    content_type: str = "application/octet-stream"
    headers: tuple[tuple[str, str], ...] = ()

    @property
    def size(self) -> int:
        """The length of the body."""
        return self.stop - self.start


class StreamResponse(Struct, frozen=True):
    """Many pieces, one HTTP chunk each; ``error_piece`` ends one in which an error was asked for."""

    pieces: tuple[bytes, ...]
    error_piece: bytes
    content_type: str = "text/event-stream; charset=utf-8"
    headers: tuple[tuple[str, str], ...] = ()
    status: int = 200


Response = UnaryResponse | StreamResponse | DownloadResponse


class Close(Struct, frozen=True):
    """The end of a WebSocket, with a code and a reason (RFC 6455 7.4)."""

    code: int
    reason: str = ""


Outgoing = str | bytes | Close
"""What a session says: a text message, a binary one, or the end."""


class Session(Protocol):
    """What answers the messages of one WebSocket.

    What is returned is taken message by message, while other messages arrive: who returns an iterator that
    makes them on the way can stop it from there.
    """

    faults: Faults
    """The faults that hold now: a session whose model comes in a message adds those of its name."""

    def open(self) -> Iterable[Outgoing]:
        """What is said before the client has said anything."""

    def receive(self, message: str | bytes) -> Iterable[Outgoing]:
        """What is said to a message; the session's own state has changed when this returns."""


class WebSocketResponse(Struct, frozen=True):
    """The upgrade is accepted; ``subprotocol`` is one of those that the client offered."""

    session: Session
    subprotocol: str | None = None
    headers: tuple[tuple[str, str], ...] = ()
    status: int = 101


Answer = Response | WebSocketResponse


class ApiError(Exception):
    """The request is refused; each vendor has its own shape for it."""

    def __init__(self, status: int, message: str, param: str | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.param = param
        self.code = code
        self.retry_after: int | None = None
        """The seconds to wait, where a vendor says so in the body."""


class Request(Struct, frozen=True):
    """One request as the handlers see it: ``headers`` in lower case, ``query`` decoded, ``body`` parsed.

    ``template`` is the route's path, and ``ids`` are what stands in the place of its wildcards.
    """

    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: Json
    model: str
    faults: Faults
    number: int
    now: int
    family: Family = Family.OPENAI
    method: str = "POST"
    template: str = ""
    ids: tuple[str, ...] = ()
    raw: bytes | bytearray = b""
    form: Form | None = None
    origin: str = "http://localhost"
    store: Store = field(default_factory=Store)
    lenient: bool = False
    """Identifiers that nobody knows are taken for known ones."""

    def id(self, prefix: str, more: int | str = "") -> str:
        """An identifier that no other request shares."""
        return f"{prefix}sim{self.number:08d}{more}"


Handler = Callable[[Request], Response]


def dump_json(value: Any) -> bytes:  # any JSON value
    """Compact JSON."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def json_response(value: Any) -> UnaryResponse:  # any JSON value
    """A response of compact JSON."""
    return UnaryResponse(dump_json(value))


def sse_event(value: Any, event: str | None = None) -> bytes:  # any JSON value
    """One server-sent event, with its name where the vendor sends one."""
    name = f"event: {event}\n".encode() if event else b""
    return name + b"data: " + dump_json(value) + b"\n\n"


def rfc3339(seconds: int) -> str:
    """A moment as RFC 3339, in UTC."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
