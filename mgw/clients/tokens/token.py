"""A signed token (JWT) as it arrives, before anything in it can be believed.

A token is recognised by its shape: three parts in base64url without padding, of which the first two are JSON
objects (RFC 7515 3.1, RFC 7519 3).  Recognising is more lenient than verifying, since a token must not be
taken for a credential of another kind: one that is too large, or that two programs could read differently, is
a token with a :attr:`~UnverifiedToken.flaw`.
"""

from __future__ import annotations

import json
import re
from binascii import a2b_base64
from typing import Any, Final

import msgspec
from msgspec import Struct

MAX_TOKEN_BYTES: Final = 16_384
"""A larger token is recognised, but not valid."""
_PARTS: Final = re.compile(rb"([\w-]+)\.([\w-]+)\.([\w-]*)").fullmatch
"""The third may be empty: a token without a signature is refused, not passed on."""
_is_object: Final = re.compile(rb"[ \t\n\r]*\{").match
_LAST_OF_TWO: Final = frozenset(b"AQgw")
_LAST_OF_THREE: Final = frozenset(b"AEIMQUYcgkosw048")
"""Last digits of a rest of two or three whose unused bits are zero (RFC 4648 3.5)."""
_STANDARD_DIGITS: Final = bytes.maketrans(b"-_", b"+/")

Json = dict[str, Any]  # Any: values of JSON, which whoever reads one checks


class UnverifiedToken(Struct, frozen=True, eq=False, gc=False):
    """The parts of a token; ``header`` and ``claims`` are what it says of itself."""

    header: Json
    claims: Json
    signed: bytes
    """What the signature covers: the first two parts as they arrived, with the dot."""
    signature: bytes
    size: int
    """Bytes of the whole token."""
    flaw: str | None = None
    """Why it is malformed, in words; ``None``: nothing in its form is."""

    def __repr__(self) -> str:
        return f"UnverifiedToken({self.size} bytes)"

    @property
    def issuer(self) -> str | None:
        """The claim ``iss``, if it is text."""
        issuer = self.claims.get("iss")
        return issuer if isinstance(issuer, str) else None

    @property
    def key_id(self) -> str | None:
        """The header's ``kid``, if it is text."""
        key_id = self.header.get("kid")
        return key_id if isinstance(key_id, str) else None


def parse_token(value: bytes) -> UnverifiedToken | None:
    """Take a credential apart, in time proportional to its size; ``None``: it is no token."""
    if value.count(b".") != 2:  # as for all keys, at once
        return None
    parts = _PARTS(value)
    if parts is None:
        return None
    if len(value) > MAX_TOKEN_BYTES:
        return _large_token(value, parts[1], parts[2])
    signature = _decode(parts[3])
    header = _read_object(parts[1])
    if signature is None or header is None:
        return None
    claims = _read_object(parts[2])
    if claims is None:
        return None
    flaw = header.flaw or claims.flaw
    if not all(map(_is_canonical, parts.groups())):
        flaw = "its base64 is not canonical"
    return UnverifiedToken(header.value, claims.value, value[: parts.end(2)], signature, len(value), flaw)


def _large_token(value: bytes, header: bytes, claims: bytes) -> UnverifiedToken | None:
    """Recognise a token that is too large: of such ones, strangers may send many, so little is read."""
    data, issuer = _decode(header), issuer_in(claims)
    if data is None or _is_object(data) is None or issuer is None:
        return None
    return UnverifiedToken({}, {"iss": issuer}, b"", b"", len(value), "it is too large")


def issuer_in(part: bytes) -> str | None:
    """Return the issuer that claims in base64url name; ``None``: they are no claims, or name none.

    This takes a fraction of the time of :func:`parse_token`: words that are no claims may be many.
    """
    data = _decode(part)
    if data is None or _is_object(data) is None:  # as with nearly every word
        return None
    try:
        issuer = msgspec.json.decode(data, type=_Issuer).iss
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        if b"iss" not in data and b"\\" not in data:
            return None
        claims = _read_object(part)
        issuer = None if claims is None else claims.value.get("iss")
    return issuer if isinstance(issuer, str) else None


class _Issuer(Struct, gc=False):
    iss: Any = None  # Any: as somebody else has written it


class _ReadObject(Struct, frozen=True):
    """A JSON object, and why it is malformed although it is one."""

    value: Json
    flaw: str | None = None


def _read_object(part: bytes) -> _ReadObject | None:
    """Read a JSON object; ``None``: it is none, or nested too deeply to be read.

    Of members with the same name the last is the value (RFC 7519 4), but the token is malformed: others may
    read the first.
    """
    data = _decode(part)
    if data is None:
        return None
    try:
        value, repeats = _read_pairs(data)
    except (ValueError, RecursionError):  # no UTF-8, no JSON
        return None
    if not isinstance(value, dict):
        return None
    if repeats:
        return _ReadObject(value, "a name occurs twice in an object")
    try:
        return _ReadObject(msgspec.json.decode(data))  # exact integers
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        # NaN and Infinity, numbers beyond all bounds, half of a surrogate pair.
        return _ReadObject(value, "it contains a value that is not valid JSON")


def _read_pairs(data: bytes) -> tuple[object, bool]:
    """Read JSON, and note whether a name occurs twice in an object."""
    repeats = False

    def take(pairs: list[tuple[str, object]]) -> dict[str, object]:
        nonlocal repeats
        found = dict(pairs)
        repeats = repeats or len(found) != len(pairs)
        return found

    # As float: Python refuses to read integers of more than 4,300 digits.
    return json.loads(data.decode(), object_pairs_hook=take, parse_int=float), repeats


def _decode(part: bytes) -> bytes | None:
    """Decode base64url without padding; ``None``: no bytes are encoded so."""
    missing = -len(part) % 4
    return None if missing == 3 else a2b_base64(part.translate(_STANDARD_DIGITS) + b"=" * missing)


def _is_canonical(part: bytes) -> bool:
    rest = len(part) % 4
    return rest == 0 or part[-1] in (_LAST_OF_TWO if rest == 2 else _LAST_OF_THREE)
