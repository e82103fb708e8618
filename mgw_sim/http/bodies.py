"""Bodies: those of requests, as their route takes them, and those of downloads, whole or in part.

Multipart (RFC 2046 5.1, RFC 7578) is read strictly: lines end with CRLF, the closing boundary must be there,
and each part of a form has a name.  The parts of ``multipart/related`` (RFC 2387), in which Google takes a
file with its metadata, have none.  Downloads follow RFC 9110 13 and 14.
"""

import hashlib
import json
import re
import zlib
from collections.abc import Mapping
from typing import Any, Final

import zstandard

from mgw_sim.api import (
    ApiError,
    Content,
    DownloadResponse,
    Form,
    FormPart,
    Json,
    Request,
    Response,
    UnaryResponse,
)
from mgw_sim.http.router import BodyKind

_MAX_BODY: Final = 256 * 1024 * 1024
_BOUNDARY: Final = re.compile(r';\s*boundary=(?:"([^"]{1,70})"|([^\s;"]{1,70}))', re.IGNORECASE)
_NAME: Final = re.compile(r';\s*name="((?:[^"\\]|\\.)*)"')
_FILENAME: Final = re.compile(r';\s*filename="((?:[^"\\]|\\.)*)"')
_MAX_PART_HEAD: Final = 8192
_RANGE: Final = re.compile(r"bytes=(\d*)-(\d*)")
_SAMPLE_SIZE: Final = 4096


def read_body(
    raw: bytearray, headers: Mapping[str, str], body_kind: BodyKind, *, is_upload: bool
) -> tuple[Json, Form | None]:
    """The JSON object or the form that a body is, as far as its route wants to know.  Raises ApiError."""
    content_type = headers.get("content-type", "")
    media_type = content_type.partition(";")[0].strip().lower()
    if body_kind is BodyKind.JSON and media_type != "application/json":
        raise ApiError(400, f"Unsupported content type {media_type!r}: expected application/json.")
    if body_kind is BodyKind.NOTHING:
        return {}, None
    if media_type.startswith("multipart/"):
        return {}, _read_multipart(raw, content_type)
    is_json = media_type == "application/json" and (bool(raw) or body_kind is BodyKind.JSON)
    if not is_json or (is_upload and "x-goog-upload-offset" in headers):
        return {}, None
    return _parse_object(_decode(raw, headers.get("content-encoding", "identity"))), None


def _read_multipart(raw: bytearray, content_type: str) -> Form:
    try:
        return read_form(raw, content_type)
    except BadFormError as error:
        raise ApiError(400, f"We could not parse the multipart body of your request: {error}") from None


def _parse_object(raw: bytes | bytearray) -> Json:
    try:
        value: Any = json.loads(raw.decode("utf-8"), parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise ApiError(400, f"We could not parse the JSON body of your request: {error}") from None
    if not isinstance(value, dict):
        raise ApiError(400, "The request body must be a JSON object.")
    return value


def _refuse_constant(word: str) -> float:
    raise ValueError(f"{word} is not valid JSON")


def _decode(raw: bytearray, coding: str) -> bytes | bytearray:
    try:
        match coding.strip().lower():
            case "identity":
                return raw
            case "gzip":
                return zlib.decompressobj(wbits=31).decompress(raw, _MAX_BODY)
            case "zstd":
                return zstandard.ZstdDecompressor().decompressobj().decompress(bytes(raw))
    except (zlib.error, zstandard.ZstdError):
        raise ApiError(400, f"The body is not valid {coding}.") from None
    raise ApiError(400, f"Unsupported Content-Encoding {coding!r}.")


class BadFormError(ValueError):
    """What came is no multipart body; the text says why."""


def read_form(body: bytes | bytearray, content_type: str) -> Form:
    """Cut a multipart body into its parts.  Raises BadFormError."""
    is_form_data = content_type.lower().startswith("multipart/form-data")
    boundary_match = _BOUNDARY.search(content_type)
    if boundary_match is None:
        raise BadFormError("no boundary in the Content-Type")
    delimiter = b"--" + (boundary_match[1] or boundary_match[2]).encode()
    start = 0 if body.startswith(delimiter) else body.find(b"\r\n" + delimiter) + 2
    if start == 1:
        raise BadFormError("the boundary does not occur")
    parts = []
    at = start + len(delimiter)
    while body[at : at + 2] != b"--":
        if body[at : at + 2] != b"\r\n":
            raise BadFormError("no line break after a boundary")
        end = body.find(b"\r\n" + delimiter, at)
        if end < 0:
            raise BadFormError("the closing boundary is missing")
        parts.append(_read_part(body, at + 2, end, is_form_data=is_form_data))
        at = end + 2 + len(delimiter)
    return Form(tuple(parts))


def _read_part(body: bytes | bytearray, start: int, end: int, *, is_form_data: bool) -> FormPart:
    """The part between two boundaries: header lines, an empty line, the data."""
    if body[start : start + 2] == b"\r\n":
        head, data = b"", bytes(body[start + 2 : end])
    else:
        head_end = body.find(b"\r\n\r\n", start, min(end, start + _MAX_PART_HEAD))
        if head_end < 0:
            raise BadFormError("a part without an empty line after its headers")
        head, data = bytes(body[start:head_end]), bytes(body[head_end + 4 : end])
    headers = dict(_split_header(line) for line in head.decode("utf-8", "replace").split("\r\n") if line)
    disposition = headers.get("content-disposition", "")
    name, filename = _NAME.search(disposition), _FILENAME.search(disposition)
    if is_form_data and name is None:
        raise BadFormError("a part without a name")
    return FormPart(
        name[1] if name else "",
        filename[1] if filename else None,
        headers.get("content-type", "text/plain"),
        data,
    )


def _split_header(line: str) -> tuple[str, str]:
    name, _, value = line.partition(":")
    return name.strip().lower(), value.strip()


def download(request: Request, content: Content, content_type: str, filename: str | None) -> Response:
    """Answer with a content: all of it, a part, or nothing, as the client's headers ask."""
    name = (filename or request.ids[-1]).rpartition("/")[2].replace('"', "")
    tag = _entity_tag(content)
    headers = (
        ("Content-Disposition", f'attachment; filename="{name}"'),
        ("Accept-Ranges", "bytes"),
        ("ETag", tag),
    )
    if request.headers.get("if-none-match") in {tag, "*"}:
        return UnaryResponse(b"", 304, content_type, headers)
    byte_range = _RANGE.fullmatch(request.headers.get("range", "").strip())
    if (
        byte_range is None
        or not (byte_range[1] or byte_range[2])
        or request.headers.get("if-range", tag) != tag
    ):
        return DownloadResponse(content, 0, content.size, 200, content_type, headers)
    start, stop = _byte_range(byte_range[1], byte_range[2], content.size)
    if start >= stop:
        return UnaryResponse(b"", 416, content_type, (*headers, ("Content-Range", f"bytes */{content.size}")))
    part = ("Content-Range", f"bytes {start}-{stop - 1}/{content.size}")
    return DownloadResponse(content, start, stop, 206, content_type, (*headers, part))


def _byte_range(first: str, last: str, size: int) -> tuple[int, int]:
    """Return the range up to before a position: ``5-9``, ``5-`` or, counted from the end, ``-5``."""
    if not first:
        return max(0, size - int(last)), size
    return int(first), min(size, int(last) + 1) if last else size


def _entity_tag(content: Content) -> str:
    """A validator: the length and a sample stand for all of it."""
    digest = hashlib.sha256(
        content.read(0, _SAMPLE_SIZE) + content.read(max(0, content.size - _SAMPLE_SIZE), _SAMPLE_SIZE)
    )
    return f'"{content.size:x}-{digest.hexdigest()[:16]}"'
