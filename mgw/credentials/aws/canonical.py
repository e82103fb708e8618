"""A request in the form that SigV4 signs, which must not depend on who carries it.

::

    POST                                   the method
    /model/a%253Ab/invoke                  the path, each segment encoded once more
    limit=20                               the query, sorted
    content-type:application/json          the headers that are signed, sorted by name
    host:bedrock-runtime.eu-central-1.amazonaws.com
    x-amz-content-sha256:…
    x-amz-date:20260102T030405Z

    content-type;host;x-amz-content-sha256;x-amz-date
    …                                      the digest of the body

Sources: AWS, "Create a signed AWS API request"; its test suite of SigV4; botocore's ``auth.py``.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import quote_from_bytes, unquote_to_bytes

from msgspec import Struct

from mgw.wire.headers import RawHeaders

_UNENCODED: Final = "/~"
"""What stands in a path as it is, beside letters, digits and ``-._``."""


class SignedLines(Struct, frozen=True):
    """Headers as they are signed."""

    names: bytes
    """Their names, sorted, with semicolons between them."""
    lines: bytes
    """A line for each of them."""


def canonical_path(path: bytes) -> bytes:
    """Return a path without empty and dot segments, encoded once more than it was sent."""
    kept: list[bytes] = []
    for segment in path.split(b"/"):
        if segment == b"..":
            del kept[-1:]
        elif segment not in (b"", b"."):
            kept.append(segment)
    end = b"/" if kept and path.endswith(b"/") else b""
    return quote_from_bytes(b"/" + b"/".join(kept) + end, _UNENCODED).encode("ascii")


def canonical_query(query: bytes) -> bytes:
    """Return the pairs of a query as they were sent, sorted by name, then by value."""
    if not query:
        return b""
    pairs = [pair.partition(b"=") for pair in query.split(b"&")]
    return b"&".join([b"%b=%b" % pair for pair in sorted((name, value) for name, _, value in pairs)])


def encoded_query(query: bytes) -> bytes:
    """Return a query in AWS's own encoding: the same pairs, in the same order.

    Hosts may encode what they have read anew before they compare signatures, so that ``a+b`` or ``%2f`` would
    be a signature that does not match; in this encoding nothing changes.
    """
    return b"&".join([_encoded_pair(*pair.partition(b"=")) for pair in query.split(b"&") if pair])


def _encoded_pair(name: bytes, equals: bytes, value: bytes) -> bytes:
    return _encoded(name) + equals + _encoded(value)


def _encoded(part: bytes) -> bytes:
    return quote_from_bytes(unquote_to_bytes(part.replace(b"+", b" ")), "").encode("ascii")


def canonical_target(target: bytes) -> bytes:
    """Return the two lines that a target is in: its path and its query."""
    path, _, query = target.partition(b"?")
    return b"%b\n%b" % (canonical_path(path), canonical_query(query))


def canonical_headers(headers: RawHeaders) -> SignedLines:
    """Return headers as they are signed: values of one name joined, and runs of blanks shortened to one."""
    values: dict[bytes, list[bytes]] = {}
    for name, value in headers:
        values.setdefault(name.lower(), []).append(b" ".join(value.split()))
    names = sorted(values)
    lines = b"".join([b"%b:%b\n" % (name, b",".join(values[name])) for name in names])
    return SignedLines(b";".join(names), lines)


def canonical_request(method: bytes, target: bytes, headers: RawHeaders, payload_hash: bytes) -> bytes:
    """Return a whole request as it is signed.

    :param headers: those that are signed, and no others.
    :param payload_hash: what stands for the body, in hexadecimal digits.
    """
    signed = canonical_headers(headers)
    parts = method, canonical_target(target), signed.lines, signed.names, payload_hash
    return b"\n".join(parts)
