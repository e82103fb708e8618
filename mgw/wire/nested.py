"""Find string values deep in a JSON body, at their own positions.

For the few routes whose body repeats the model of the path.  Not for hot paths: every token is looked at, but
only where such a model has to be replaced.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

from mgw.errors import GatewayError, Reason
from mgw.wire.splice import FoundValue

Path = tuple[str | None, ...]
"""Keys from the top; ``None`` stands for every element of an array."""

_TOKEN: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"|[{}\[\],:]', re.DOTALL)
_ELEMENT: Final = None
_CLOSING: Final = frozenset({b"}", b"]"})
_BETWEEN: Final = frozenset({b",", b":"})


def find_nested(body: bytes, path: Path) -> list[FoundValue]:
    """Return each string value that stands at ``path``, with its one span, in the body's order.

    :raises GatewayError: ``MALFORMED`` for what is no JSON, or is nested too deeply to be checked.
    """
    _check(body)
    found: list[FoundValue] = []
    here: list[str | None] = []  # the key, or the element, that each open container is at
    is_key = False
    for match in _TOKEN.finditer(body):
        token = match[0]
        if token == b"{":
            here.append("")
            is_key = True
        elif token == b"[":
            here.append(_ELEMENT)
            is_key = False
        elif token in _CLOSING:
            here.pop()
            is_key = False
        elif token in _BETWEEN:
            is_key = token == b"," and here[-1] is not _ELEMENT
        elif is_key:
            here[-1] = _text(token)
        elif len(here) == len(path) and tuple(here) == path:
            found.append(FoundValue(_text(token), (match.span(),)))
    return found


def _check(body: bytes) -> None:
    try:
        msgspec.json.decode(body, type=msgspec.Raw)
    except msgspec.DecodeError as error:
        raise GatewayError(Reason.MALFORMED, f"the body is not valid JSON: {error}") from None
    except RecursionError:
        raise GatewayError(Reason.MALFORMED, "the body is nested too deeply") from None


def _text(literal: bytes) -> str:
    try:
        return msgspec.json.decode(literal, type=str)
    except (msgspec.DecodeError, UnicodeDecodeError):  # half a surrogate pair, or no UTF-8: nobody's name
        return "\ufffd"
