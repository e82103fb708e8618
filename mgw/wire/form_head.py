"""Read the headers of a form: its boundary, and the heads of its parts.

Rules: RFC 7578 (``multipart/form-data``) over RFC 2046 5.1.
"""

from __future__ import annotations

import re
from typing import Final

from mgw.errors import GatewayError, Reason

_MAX_BOUNDARY_BYTES: Final = 200
_PARAMETER: Final = re.compile(
    rb'[ \t]*;[ \t]*([^\s;="]+)[ \t]*=[ \t]*(?:"((?:[^"\\\r\n]++|\\[^\r\n])*+)"|([^\s;"]*+))'
)
_DISPOSITION: Final = re.compile(rb"\r\ncontent-disposition[ \t]*:[ \t]*form-data", re.IGNORECASE)
_ENCODED: Final = re.compile(
    rb"\r\ncontent-transfer-encoding[ \t]*:[ \t]*(?!7bit|8bit|binary)\S", re.IGNORECASE
)
_QUOTED_PAIR: Final = re.compile(rb'\\(["\\])')


def boundary_of(content_type: bytes) -> bytes:
    """Return the boundary that a ``Content-Type`` states; it has no line ends.

    Raises: :class:`GatewayError` (``MALFORMED``) for anything but a form with a boundary.
    """
    kind, _, _ = content_type.partition(b";")
    if kind.strip().lower() == b"multipart/form-data":
        boundary = _parameter(content_type[len(kind) :], b"boundary")
        if boundary and len(boundary) <= _MAX_BOUNDARY_BYTES:
            return boundary
    raise GatewayError(
        Reason.MALFORMED, "the body must be multipart/form-data with a boundary", param="Content-Type"
    )


def name_of(head: bytes) -> bytes:
    """Return the name of a part by its head, each line of which is begun with a line end.

    Raises: :class:`GatewayError` (``MALFORMED``) for a part without one.
    """
    disposition = _DISPOSITION.search(head)
    if disposition is None:
        raise malformed("a part has no Content-Disposition: form-data")
    name = _parameter(head[disposition.end() :], b"name")
    if name is None:
        raise malformed("a part has no name")
    return name


def is_encoded(head: bytes) -> bool:
    """Whether a part's content is spelled in something like base64 (RFC 7578 4.7)."""
    return _ENCODED.search(head) is not None


def malformed(what: str) -> GatewayError:
    """Return the refusal of a form that two servers may read differently."""
    return GatewayError(Reason.MALFORMED, f"the form is malformed: {what}")


def _parameter(parameters: bytes, name: bytes) -> bytes | None:
    """Return the value of one of the parameters that a header's value ends with."""
    position = 0
    while (match := _PARAMETER.match(parameters, position)) is not None:
        if match[1].lower() == name:
            return match[3] if match[2] is None else _QUOTED_PAIR.sub(rb"\1", match[2])
        position = match.end()
    return None
