"""The simulator's own reading of multipart bodies (RFC 2046 5.1, RFC 7578), strict and small.

Lines end with CRLF, the closing boundary must be there, and each part of a form has a name.  The parts of
``multipart/related`` (RFC 2387), in which Google takes a file with what is to be known of it, have none.
"""

import re
from typing import Final

from msgspec import Struct

_BOUNDARY: Final = re.compile(r';\s*boundary=(?:"([^"]{1,70})"|([^\s;"]{1,70}))', re.IGNORECASE)
_NAME: Final = re.compile(r';\s*name="((?:[^"\\]|\\.)*)"')
_FILENAME: Final = re.compile(r';\s*filename="((?:[^"\\]|\\.)*)"')
_MOST_HEAD: Final = 8192


class BadFormError(ValueError):
    """What came is no multipart body; the text says why."""


class Part(Struct, frozen=True):
    """One part; ``filename`` is None for a plain field."""

    name: str
    filename: str | None
    content_type: str
    data: bytes


class Form(Struct, frozen=True):
    """The parts, in order."""

    parts: tuple[Part, ...]

    def file(self, *names: str) -> Part | None:
        """The first part of one of these names, or None."""
        return next((part for part in self.parts if part.name in names), None)

    def fields(self) -> dict[str, str]:
        """The plain fields as text; of several with one name the last."""
        return {
            part.name: part.data.decode("utf-8", "replace") for part in self.parts if part.filename is None
        }


def read_form(body: bytes | bytearray, content_type: str) -> Form:
    """Cut a multipart body into its parts.  Raises BadFormError."""
    named = content_type.lower().startswith("multipart/form-data")
    found = _BOUNDARY.search(content_type)
    if found is None:
        raise BadFormError("no boundary in the Content-Type")
    line = b"--" + (found[1] or found[2]).encode()
    start = 0 if body.startswith(line) else body.find(b"\r\n" + line) + 2
    if start == 1:
        raise BadFormError("the boundary does not occur")
    parts = []
    at = start + len(line)
    while body[at : at + 2] != b"--":
        if body[at : at + 2] != b"\r\n":
            raise BadFormError("no line end behind a boundary")
        end = body.find(b"\r\n" + line, at)
        if end < 0:
            raise BadFormError("the closing boundary is missing")
        parts.append(_part(body, at + 2, end, named=named))
        at = end + 2 + len(line)
    return Form(tuple(parts))


def _part(body: bytes | bytearray, start: int, end: int, *, named: bool) -> Part:
    """The part between two boundaries: header lines, an empty line, the data."""
    if body[start : start + 2] == b"\r\n":
        head, data = b"", bytes(body[start + 2 : end])
    else:
        cut = body.find(b"\r\n\r\n", start, min(end, start + _MOST_HEAD))
        if cut < 0:
            raise BadFormError("a part without an empty line behind its headers")
        head, data = bytes(body[start:cut]), bytes(body[cut + 4 : end])
    headers = dict(_header(line) for line in head.decode("utf-8", "replace").split("\r\n") if line)
    disposition = headers.get("content-disposition", "")
    name, filename = _NAME.search(disposition), _FILENAME.search(disposition)
    if named and name is None:
        raise BadFormError("a part without a name")
    return Part(
        name[1] if name else "",
        filename[1] if filename else None,
        headers.get("content-type", "text/plain"),
        data,
    )


def _header(line: str) -> tuple[str, str]:
    name, _, value = line.partition(":")
    return name.strip().lower(), value.strip()
