"""Find and replace the value of one part of a form at its own position (decisions, part 5).

Rules: RFC 7578 (``multipart/form-data``) over RFC 2046 5.1.  Only delimiters and the heads of parts are
looked at; a file of any size is passed over.  Bare line feeds, a form without its closing delimiter and a
part without its name are refused: two servers that read such a form differently would see different models.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from mgw.errors import GatewayError, Reason
from mgw.wire.splice import FoundValue, Span, replaced

MAX_PARTS: Final = 1000
MAX_PART_HEAD_BYTES: Final = 16 * 1024

_PARAMETER: Final = re.compile(
    rb'[ \t]*;[ \t]*([^\s;="]+)[ \t]*=[ \t]*(?:"((?:[^"\\\r\n]++|\\[^\r\n])*+)"|([^\s;"]*+))'
)
_END_OF_DELIMITER: Final = re.compile(rb"[ \t]*+\r\n|--")
_DISPOSITION: Final = re.compile(rb"\r\ncontent-disposition[ \t]*:[ \t]*form-data", re.IGNORECASE)
_ENCODED: Final = re.compile(
    rb"\r\ncontent-transfer-encoding[ \t]*:[ \t]*(?!7bit|8bit|binary)\S", re.IGNORECASE
)
_QUOTED_PAIR: Final = re.compile(rb'\\(["\\])')
_NOT_IN_A_VALUE: Final = re.compile("[\r\n\x00]")


def find_part(body: bytes, content_type: bytes, name: str = "model") -> FoundValue | None:
    """Return the value of the part called ``name``, or ``None`` where the form has none.

    Of several such parts the last one counts, and the spans of all are returned: the parts' contents.

    Raises: :class:`GatewayError` (``MALFORMED``) for what is no complete form, and for a value that is no
    text.
    """
    wanted = name.encode()
    spans: list[Span] = []
    for head, span in _parts(body, _boundary_of(content_type)):
        if _name_of(head) == wanted:
            if _ENCODED.search(head):
                raise GatewayError(Reason.MALFORMED, f"the part {name!r} must not be encoded", param=name)
            spans.append(span)
    if not spans:
        return None
    start, end = spans[-1]
    try:
        return FoundValue(body[start:end].decode(), tuple(spans))
    except UnicodeDecodeError:
        raise GatewayError(Reason.MALFORMED, f"the part {name!r} is not valid UTF-8", param=name) from None


def splice_part(body: bytes, found: FoundValue, new: str) -> bytes:
    """Return ``body`` with ``new`` at each of the spans; the same object where that changes nothing.

    Raises: :class:`GatewayError` (``MALFORMED``) for a value with line ends, which might end the part.
    """
    if new == found.value:
        return body
    if _NOT_IN_A_VALUE.search(new):
        raise GatewayError(Reason.MALFORMED, "a value in a form has no line ends", param="model")
    return replaced(body, found.spans, new.encode())


def _boundary_of(content_type: bytes) -> bytes:
    kind, _, _ = content_type.partition(b";")
    if kind.strip().lower() == b"multipart/form-data":
        boundary = _parameter(content_type[len(kind) :], b"boundary")
        if boundary and len(boundary) <= 200:
            return boundary
    raise GatewayError(
        Reason.MALFORMED, "the body must be multipart/form-data with a boundary", param="Content-Type"
    )


def _parts(body: bytes, boundary: bytes) -> Iterator[tuple[bytes, Span]]:
    """Yield the head of each part, begun with a line end, and the span of its content."""
    delimiter = b"\r\n--" + boundary
    position = _after_delimiter(body, delimiter[2:], 0) if body.startswith(delimiter[2:]) else None
    if position is None:
        _, position = _next_delimiter(body, delimiter, 0)
    for _ in range(MAX_PARTS):
        if position < 0:
            return
        start = body.find(b"\r\n\r\n", position - 2, position + MAX_PART_HEAD_BYTES)
        if start < 0:
            raise _malformed("the head of a part has no end")
        end, after = _next_delimiter(body, delimiter, position - 2)
        if end < start + 4:
            raise _malformed("a part has no content")
        yield body[position - 2 : start], (start + 4, end)
        position = after
    raise _malformed(f"it has more than {MAX_PARTS} parts")


def _next_delimiter(body: bytes, delimiter: bytes, position: int) -> tuple[int, int]:
    """Return where the next delimiter begins, and where the part after it does, -1 after the last."""
    while (position := body.find(delimiter, position)) >= 0:
        after = _after_delimiter(body, delimiter, position)
        if after is not None:
            return position, after
        position += len(delimiter)
    raise _malformed("it ends before its closing boundary")


def _after_delimiter(body: bytes, delimiter: bytes, position: int) -> int | None:
    """Return where a part begins, -1 after the last one, ``None`` where content only looks similar."""
    match = _END_OF_DELIMITER.match(body, position + len(delimiter))
    if match is None:
        return None
    return -1 if match[0] == b"--" else match.end()


def _name_of(head: bytes) -> bytes:
    disposition = _DISPOSITION.search(head)
    if disposition is None:
        raise _malformed("a part has no Content-Disposition: form-data")
    name = _parameter(head[disposition.end() :], b"name")
    if name is None:
        raise _malformed("a part has no name")
    return name


def _parameter(parameters: bytes, name: bytes) -> bytes | None:
    """Return the value of one of the parameters that a header's value ends with."""
    position = 0
    while (match := _PARAMETER.match(parameters, position)) is not None:
        if match[1].lower() == name:
            return match[3] if match[2] is None else _QUOTED_PAIR.sub(rb"\1", match[2])
        position = match.end()
    return None


def _malformed(what: str) -> GatewayError:
    return GatewayError(Reason.MALFORMED, f"the form is malformed: {what}")
