"""What carries credentials in the head of a request, and how a value that is none shows it."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import unquote_to_bytes

from mgw.nouns.families import AUTHORIZATION, FAMILIES, KEY_HEADERS
from mgw.nouns.vocabulary import Family
from mgw.wire.headers import RawHeaders

_IN_NO_CREDENTIAL: Final = re.compile(rb"[^!-~]|[\"'`,]")
"""What no provider's credential holds.  A proxy that joins repeated headers puts a comma between two of them,
and one of the two may be an edge key."""
_MOST_DECODINGS: Final = 3
SUBPROTOCOL: Final = b"Sec-WebSocket-Protocol"
QUERY: Final = b"?%b="

Carrier = tuple[bytes, bytes, bytes | None]
"""What carries a credential, the credential, and the scheme of ``Authorization``."""


def read_headers(family: Family, headers: RawHeaders) -> tuple[list[Carrier], list[bytes]]:
    """Return the carriers among the headers, those of one kind of provider last, and the other values."""
    carriers: list[Carrier] = []
    of_kinds: list[Carrier] = []
    others, last = [], FAMILIES[family].kind_key_headers
    for raw_name, raw_value in headers:
        name = raw_name.lower()
        if name not in KEY_HEADERS:
            others.append(raw_value)
            continue
        value, scheme = _carried(family, name, raw_value)
        if value is not None:
            (of_kinds if name in last else carriers).append((name, value, scheme))
    return carriers + of_kinds, others


def read_query(family: Family, raw_query: bytes) -> list[Carrier]:
    """Return the carriers in a query."""
    parameter = FAMILIES[family].key_parameter
    if parameter is None or (b"%" not in raw_query and parameter not in raw_query):
        return []
    carriers: list[Carrier] = []
    for field in raw_query.split(b"&"):
        raw_name, _, raw_value = field.partition(b"=")
        if raw_value and (unquote_to_bytes(raw_name) if b"%" in raw_name else raw_name) == parameter:
            carriers.append((QUERY % parameter, unquote_to_bytes(raw_value.replace(b"+", b" ")), None))
    return carriers


def dashboard_flaw(carrier: bytes) -> str:
    """Say that a value is a key of the dashboard."""
    return f"the credential {place_of(carrier)} is a dashboard key, which is valid only for the dashboard"


def encoded_flaw(carrier: bytes) -> str:
    """Say that a value is not the key alone, as it is."""
    return f"the credential {place_of(carrier)} is encoded or has extra characters: send the key unchanged"


def visible_flaw(value: bytes, carrier: bytes) -> str | None:
    """Say why a value is nobody's credential, whatever keys there are."""
    if not value:
        return "the Authorization header does not have the form 'Bearer <key>'"
    flaw = _IN_NO_CREDENTIAL.search(value)
    if flaw is not None:
        return f"the credential {place_of(carrier)} contains {_named(flaw[0])}, which is not allowed in a key"
    return encoded_flaw(carrier) if any(map(_IN_NO_CREDENTIAL.search, decodings(value))) else None


def decodings(raw: bytes) -> list[bytes]:
    """Return what a value says, and what it says percent-decoded, over and over."""
    found = [raw]
    while b"%" in found[-1] and len(found) <= _MOST_DECODINGS:
        found.append(unquote_to_bytes(found[-1]))
    return found


def readings(raw: bytes) -> list[bytes]:
    """Return what a value may stand for in a header or in a form, where ``+`` is a blank."""
    found = decodings(raw)
    return found + decodings(raw.replace(b"+", b" ")) if b"+" in raw else found


def place_of(carrier: bytes) -> str:
    """Say where a credential stands."""
    return "after Bearer" if carrier == AUTHORIZATION else f"in {carrier.decode()}"


def _named(character: bytes) -> str:
    if character in b" \t":
        return "a space or tab"
    if character in b"\r\n":
        return "a line break"
    if character == b",":
        return "a comma"
    return "a quotation mark" if character in b"\"'`" else "a character outside visible ASCII"


def _carried(family: Family, name: bytes, raw_value: bytes) -> tuple[bytes | None, bytes | None]:
    """Return the credential of a carrier, if it counts here, and the scheme of ``Authorization``."""
    row = FAMILIES[family]
    if name == AUTHORIZATION:
        scheme, _, value = raw_value.partition(b" ")
        known = scheme.lower() in row.key_schemes
        # RFC 9110 11.4: any number of spaces between the two, and nothing else
        return (value.strip(b" "), scheme) if known else (b"", None)
    if raw_value and name in row.key_headers:
        return raw_value, None
    return None, None
