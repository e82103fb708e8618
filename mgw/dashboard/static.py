"""The dashboard's pages: files that are read once, at the start.

What may be asked for is what was found then, by its name, so no path leads anywhere else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from gzip import compress
from hashlib import sha256
from pathlib import Path
from types import MappingProxyType
from typing import Final

from twisted.web.server import Request

from mgw.dashboard.responses import NO_STORE, send, send_nothing
from mgw.wire.headers import RawHeaders

HOME: Final = "index.html"
SIGN_IN: Final = "sign-in.html"

TYPES: Final = MappingProxyType(
    {
        ".html": b"text/html; charset=utf-8",
        ".js": b"text/javascript; charset=utf-8",
        ".css": b"text/css; charset=utf-8",
        ".svg": b"image/svg+xml",
        ".png": b"image/png",
        ".ico": b"image/x-icon",
        ".woff2": b"font/woff2",
        ".txt": b"text/plain; charset=utf-8",
    }
)
"""The media types by the ending of a name; files of other endings are not served."""
_POLICY: Final = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    b"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_OF_PAGES: Final = (
    NO_STORE,
    (b"Content-Security-Policy", _POLICY),
    # Not no-referrer: with that, a form's Origin is "null" even for its own server (Fetch standard, 3.2).
    (b"Referrer-Policy", b"same-origin"),
)
_MIN_COMPRESSED: Final = 1024
_LEVEL: Final = 4
"""Three times as fast as the usual one: nothing else happens meanwhile."""


@dataclass(slots=True)
class StaticFile:
    """One file."""

    content_type: bytes
    content: bytes
    tag: bytes = field(init=False)
    """The ``ETag`` of the file."""
    _compressed: bytes | None = None

    def __post_init__(self) -> None:
        self.tag = b'"%b"' % sha256(self.content).hexdigest()[:32].encode()

    def compressed(self) -> bytes:
        """Return the content in gzip's format, made when it is first wanted."""
        if self._compressed is None:
            self._compressed = compress(self.content, _LEVEL, mtime=0)
        return self._compressed


@dataclass(frozen=True, slots=True)
class StaticFiles:
    """All files, by their names."""

    files: Mapping[str, StaticFile]

    def __contains__(self, name: str) -> bool:
        return name in self.files

    def assets(self) -> list[str]:
        """Return the names of all files that are no pages."""
        return [name for name in self.files if not name.endswith(".html")]

    def send_page(self, request: Request, name: str, status: int = 200) -> None:
        """Send a page."""
        _send(request, status, self.files[name], list(_OF_PAGES))

    def send_asset(self, request: Request, name: str) -> None:
        """Send what a page is made of; a browser asks each time whether it has changed."""
        file = self.files[name]
        headers: RawHeaders = [(b"Cache-Control", b"no-cache"), (b"ETag", file.tag)]
        if file.tag in (request.getHeader(b"if-none-match") or b""):
            send_nothing(request, 304, headers)
        else:
            _send(request, 200, file, headers)


def read_files(folder: Path) -> StaticFiles:
    """Read the files of a folder and of the folders in it; a name has the folders, with slashes."""
    paths = sorted(path for path in folder.rglob("*") if path.suffix in TYPES and path.is_file())
    return StaticFiles(
        {
            path.relative_to(folder).as_posix(): StaticFile(TYPES[path.suffix], path.read_bytes())
            for path in paths
        }
    )


def _send(request: Request, status: int, file: StaticFile, headers: RawHeaders) -> None:
    content = file.content
    if file.content_type.startswith(b"text/") and len(content) >= _MIN_COMPRESSED:
        headers.append((b"Vary", b"Accept-Encoding"))
        if b"gzip" in (request.getHeader(b"accept-encoding") or b""):
            content = file.compressed()
            headers.append((b"Content-Encoding", b"gzip"))
    send(request, status, file.content_type, content, headers)
