"""The request target: read a raw path or query, and edit it without re-encoding the rest.

Sources: contract 4.11 and 4.12; RFC 3986; for queries the form encoding of the WHATWG URL standard.
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import quote, unquote_to_bytes

from mgw.nouns.errors import GatewayError, Reason
from mgw.wire.similar_names import is_similar

_BAD_ESCAPE: Final = re.compile(rb"%(?![0-9A-Fa-f]{2})")
_ENCODED: Final = re.compile(rb"[%+]").search
"""Whether a part of a query differs from what it says."""
_DOTS: Final = frozenset({b".", b".."})
_UNSAFE_IN_PATH: Final = re.compile("[\x00-\x1f\x7f-\x9f?#%:]")


def split_target(raw: bytes) -> tuple[bytes, bytes | None]:
    """Return the path, and the query without its question mark, ``None`` where there is no question mark."""
    path, mark, query = raw.partition(b"?")
    return path, query if mark else None


def check_path(raw_path: bytes) -> None:
    """Refuse a path that another server may read as a different one.

    :raises GatewayError: ``MALFORMED`` where the path, decoded and then split, has a segment ``.``
    or ``..``, where it holds a NUL, and where a ``%`` begins no escape.  A backslash separates segments too,
    as it does in the WHATWG URL standard and on Windows.
    """
    if b"%" in raw_path:
        if _BAD_ESCAPE.search(raw_path):
            raise GatewayError(Reason.MALFORMED, "the path has a '%' without two hexadecimal digits after it")
        raw_path = unquote_to_bytes(raw_path)
    if b"\x00" in raw_path:
        raise GatewayError(Reason.MALFORMED, "the path contains a NUL character")
    if b"." in raw_path and not _DOTS.isdisjoint(raw_path.replace(b"\\", b"/").split(b"/")):
        raise GatewayError(Reason.MALFORMED, "the path has a segment '.' or '..': resolve it first")


def query_value(raw_query: bytes | None, name: str) -> str | None:
    """Return the first value of a parameter, decoded; bytes that are no UTF-8 become U+FFFD."""
    if raw_query is None or (name.encode() not in raw_query and not _ENCODED(raw_query)):
        return None
    for _, key, value in _parameters(raw_query):
        if key == name:
            return _decode(value)
    return None


def check_stated_once(raw_query: bytes | None, name: str) -> None:
    """Refuse a query that states a parameter twice: servers differ in which of the two counts.

    :raises GatewayError: ``MALFORMED``.
    """
    if raw_query is None or b"&" not in raw_query:
        return
    stated = [key for _, key, _ in _parameters(raw_query) if key == name]
    if len(stated) > 1:
        raise GatewayError(Reason.MALFORMED, f"the query has {name!r} more than once", param=name)


def has_similar_parameter(raw_query: bytes, name: str) -> bool:
    """Whether some server finds a parameter of that name where :func:`query_value` finds none, or another.

    A semicolon separates parameters for some.
    """
    names = [_decode(raw.partition(b"=")[0]) for raw in raw_query.replace(b";", b"&").split(b"&")]
    exact = [key for _, key, _ in _parameters(raw_query) if key == name]
    return sum(is_similar(key, name) for key in names) > len(exact)


def without_parameter(raw_query: bytes | None, names: frozenset[str]) -> bytes | None:
    """Return the query without the parameters of these names, the rest byte for byte.

    ``None`` where nothing is left of it, the same object where none of them occurs.
    """
    parameters = _parameters(raw_query)
    kept = [raw for raw, key, _ in parameters if key not in names]
    if len(kept) == len(parameters):
        return raw_query
    return b"&".join(kept) if kept else None


def with_parameter(raw_query: bytes | None, name: str, value: str) -> bytes:
    """Return the query with one more parameter at its end, percent-encoded, the rest byte for byte."""
    added = f"{quote(name, safe='')}={quote(value, safe='')}".encode()
    return b"%b&%b" % (raw_query, added) if raw_query else added


def replace_parameter(raw_query: bytes, name: str, value: str, new: str) -> bytes:
    """Return the query with ``new``, percent-encoded, in place of a value; the rest byte for byte."""
    kept = [
        b"%b=%b" % (raw.partition(b"=")[0], quote(new, safe="/:").encode())
        if key == name and _decode(raw_value) == value
        else raw
        for raw, key, raw_value in _parameters(raw_query)
    ]
    return b"&".join(kept)


def quote_model_path(model: str, extra_characters: str = "") -> bytes:
    """Return a model's name as it stands in a path: percent-encoded but for unreserved characters and ``/``.

    :param extra_characters: what the vendor's names hold besides, and what means nothing else in its paths.

    :raises GatewayError: ``MALFORMED`` where a path cannot carry the name unchanged.
    """
    if _UNSAFE_IN_PATH.search(model.translate(dict.fromkeys(map(ord, extra_characters)))):
        raise GatewayError(
            Reason.MALFORMED,
            "a model name sent in a path must not contain '?', '#', '%', ':' or control characters",
            param="model",
        )
    if not {"", ".", ".."}.isdisjoint(model.replace("\\", "/").split("/")):
        raise GatewayError(
            Reason.MALFORMED,
            "a model name sent in a path must not have an empty segment, '.' or '..'",
            param="model",
        )
    try:
        return quote(model, safe="/" + extra_characters).encode()
    except UnicodeEncodeError:
        raise GatewayError(Reason.MALFORMED, "the model name is not valid Unicode", param="model") from None


def _parameters(raw_query: bytes | None) -> list[tuple[bytes, str, bytes]]:
    """Return each parameter as sent, its name decoded, and its value as sent."""
    found: list[tuple[bytes, str, bytes]] = []
    if raw_query:
        for raw in raw_query.split(b"&"):
            key, _, value = raw.partition(b"=")
            name = _decode(key) if _ENCODED(key) else key.decode("utf-8", "replace")  # a call less for each
            found.append((raw, name, value))
    return found


def _decode(raw: bytes) -> str:
    if not _ENCODED(raw):
        return raw.decode("utf-8", "replace")
    # The plus first: it is a blank in queries, and itself in paths.  Later, %2B would become a blank too.
    return unquote_to_bytes(raw.replace(b"+", b" ")).decode("utf-8", "replace")
