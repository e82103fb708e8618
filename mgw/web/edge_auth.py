"""Who may come in, and which of the credentials that came in is the client's own (decisions, part 3).

All carriers are looked at, none is logged: the first that matches an edge key opens the gate, the first that
matches none is the client's own credential.  ``Authorization`` comes before the other carriers, wherever it
stands among the headers.  An edge key never goes upstream, whatever carried it and however it was wrapped: a
key in quotes or with a line break behind it opens nothing, and is nobody's own credential either.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from hmac import compare_digest
from typing import Final
from urllib.parse import unquote_to_bytes

from msgspec import Struct

from mgw.config.model import EdgeAuth
from mgw.credentials.provider import ClientKey
from mgw.errors import GatewayError, Reason
from mgw.exchange.upload_tokens import PARAMETER, is_good
from mgw.secret import Secret
from mgw.vocabulary import Family
from mgw.wire.headers import RawHeaders
from mgw.wire.target import query_value, without_parameter

_TOKEN: Final = frozenset({PARAMETER})
_AUTHORIZATION: Final = b"authorization"
_HEADERS: Final = frozenset({_AUTHORIZATION, b"x-api-key", b"x-goog-api-key"})
_KEY: Final = b"key"
"""The parameter that carries a credential on Gemini's routes."""
_NAMES_A_CREDENTIAL: Final = re.compile(rb"(?i)key|token|auth|secret")

_IN_NO_CREDENTIAL: Final = re.compile(rb"[^!-~]|[\"'`,]")
"""What no provider's credential holds.  A proxy that joins repeated headers puts a comma between two of them,
and one of the two may be an edge key."""
_WRAPPING: Final = bytes(range(0x21)) + b"\"'`<>()[]{},;:+\x7f\x80\x85\x98\x99\x9c\x9d\xa0\xab\xbb\xc2\xe2"
"""What people and shells leave around a key: blanks, line breaks, quotes of all kinds in UTF-8, brackets."""
_BLANKED: Final = bytes.maketrans(_WRAPPING, b" " * len(_WRAPPING))
_MOST_DECODINGS: Final = 3
_MOST_WORDS: Final = 16

_SHORTEST_SECRET: Final = 8
"""A shorter key may well be a word, which means something else where it stands in no carrier."""
_LEFT_ALONE: Final = _HEADERS | {b"host", b"content-type", b"content-encoding", b"accept"}
"""Carriers, which never go upstream as they are, and headers whose words mean what they say."""

_WANTED: Final = "this gateway wants one of its keys: send Authorization: Bearer <key> or x-api-key: <key>"


class Caller(Struct, frozen=True):
    """A client that may come in."""

    key: ClientKey | None
    """Its own credential for the provider."""
    raw_query: bytes | None
    """The query without the credentials that stood in it."""
    headers: RawHeaders
    """The headers, without any that repeats an edge key where no credential belongs."""
    flaw: str | None = None
    """What is wrong with a credential that could not be used."""


class Upload(Struct, frozen=True):
    """A request to an upload address, which may bring a token in place of an edge key."""

    raw_path: bytes
    now: float
    """Unix seconds."""


@dataclass(slots=True)
class _Found:
    """What the carriers of one request hold."""

    opened: bool
    own: ClientKey | None = None
    flaw: str | None = None


class EdgeGate:
    """The edge keys of one configuration, compared in constant time."""

    def __init__(self, settings: EdgeAuth) -> None:
        self._closed = settings.enabled
        self._keys = settings.keys
        values = [key.reveal().encode("latin-1") for key in settings.keys]
        self._digests = [sha256(value).digest() for value in values]
        self._secrets = [value for value in values if len(value) >= _SHORTEST_SECRET]
        words = b"|".join(map(re.escape, self._secrets))
        self._mention = re.compile(rb"(?<![0-9A-Za-z])(?:%b)(?![0-9A-Za-z])" % words)

    def admit(
        self,
        family: Family,
        headers: RawHeaders,
        raw_query: bytes | None,
        upload: Upload | None = None,
    ) -> Caller:
        """Let a request in.

        :param family: of the route, which decides what counts as a carrier.
        :param upload: where the route is one of uploads: then the query may hold a token.
        :raises GatewayError: ``EDGE_KEY`` where a key is wanted and none fits.
        """
        found = _Found(opened=not self._closed)
        if upload is not None and raw_query is not None:
            raw_query, good = self._without_token(raw_query, upload)
            found.opened = found.opened or good
        self._read_headers(family, headers, found)
        if raw_query is not None:
            raw_query = self._read_query(family, raw_query, found)
        if not found.opened:
            message = _WANTED if found.flaw is None else f"{_WANTED}; {found.flaw}"
            raise GatewayError(Reason.EDGE_KEY, message)
        return Caller(found.own, raw_query, self._unmentioned(headers), found.flaw)

    def _without_token(self, raw_query: bytes, upload: Upload) -> tuple[bytes | None, bool]:
        """Take the token out of a query; return the rest, and whether the token is good for this address."""
        token = query_value(raw_query, PARAMETER)
        if token is None:
            return raw_query, False
        rest = without_parameter(raw_query, _TOKEN)
        address = upload.raw_path + b"?" + (rest or b"")
        return rest, is_good(self._keys, address, token, upload.now)

    def _read_headers(self, family: Family, headers: RawHeaders, found: _Found) -> None:
        for carrier, value, scheme in _carried(family, headers):
            if self._fits(value):
                found.opened = True
                continue
            flaw = self._flaw_of(value, carrier)
            if flaw is not None:
                found.flaw = found.flaw or flaw
            elif found.own is None or (found.own.scheme is None and scheme is not None):
                found.own = ClientKey(Secret(value.decode("latin-1")), scheme, family)

    def _read_query(self, family: Family, raw_query: bytes, found: _Found) -> bytes | None:
        """Take what is or repeats a credential out of a query, and return the rest."""
        fields = raw_query.split(b"&")
        kept = [field for field in fields if not self._is_taken(family, field, found)]
        if len(kept) == len(fields):
            return raw_query
        return b"&".join(kept) or None

    def _is_taken(self, family: Family, field: bytes, found: _Found) -> bool:
        raw_name, equals, raw_value = field.partition(b"=")
        name = unquote_to_bytes(raw_name) if b"%" in raw_name else raw_name
        if name == _KEY and family is Family.GEMINI:
            self._read_geminis_key(unquote_to_bytes(raw_value.replace(b"+", b" ")), found)
            return True
        if not self._digests:
            return False
        readings = _readings(raw_value if equals else raw_name)
        if any(map(self._mentions, readings)):
            return True
        return _NAMES_A_CREDENTIAL.search(name) is not None and any(map(self._wraps, readings))

    def _read_geminis_key(self, value: bytes, found: _Found) -> None:
        if not value:
            return
        if self._fits(value):
            found.opened = True
            return
        flaw = self._flaw_of(value, b"?key=")
        if flaw is not None:
            found.flaw = found.flaw or flaw
        elif found.own is None:
            found.own = ClientKey(Secret(value.decode("latin-1")), None, Family.GEMINI)

    def _fits(self, value: bytes) -> bool:
        digest = sha256(value).digest()
        fits = False
        for known in self._digests:
            fits |= compare_digest(known, digest)
        return fits

    def _wraps(self, value: bytes) -> bool:
        """Whether a value is an edge key, as it is or with something around it."""
        if self._fits(value) or self._fits(value.strip(_WRAPPING)):
            return True
        words = value.translate(_BLANKED).split(b" ", _MOST_WORDS)
        return len(words) > 1 and any(map(self._fits, words))

    def _mentions(self, words: bytes) -> bool:
        """Whether an edge key that is no mere word stands among other words."""
        return bool(self._secrets) and self._mention.search(words) is not None

    def _flaw_of(self, value: bytes, carrier: bytes) -> str | None:
        """Say why a value is no credential; the words do not tell whether an edge key is inside."""
        if not value:
            return "the Authorization header holds no 'Bearer <key>'"
        flaw = _IN_NO_CREDENTIAL.search(value)
        if flaw is not None:
            return f"the credential {_shown(carrier)} holds {_named(flaw[0])}, which is part of no key"
        readings = _readings(value)
        encoded = any(map(_IN_NO_CREDENTIAL.search, _decodings(value)))
        if encoded or any(map(self._wraps, readings)) or any(map(self._mentions, readings)):
            return f"the credential {_shown(carrier)} is encoded, or more than a key: send the key as it is"
        return None

    def _unmentioned(self, headers: RawHeaders) -> RawHeaders:
        """Return the headers without those that repeat an edge key: a ``Referer`` holds a whole address."""
        if not self._secrets:
            return headers
        everything = b"\n".join([value for name, value in headers if name.lower() not in _HEADERS])
        if not any(map(self._mentions, _readings(everything))):
            return headers
        return [pair for pair in headers if not self._repeats(*pair)]

    def _repeats(self, name: bytes, value: bytes) -> bool:
        return name.lower() not in _LEFT_ALONE and any(map(self._mentions, _readings(value)))


def _decodings(raw: bytes) -> list[bytes]:
    """Return what a value says, and what it says percent-decoded, over and over."""
    found = [raw]
    while b"%" in found[-1] and len(found) <= _MOST_DECODINGS:
        found.append(unquote_to_bytes(found[-1]))
    return found


def _readings(raw: bytes) -> list[bytes]:
    """Return what a value may stand for in a header or in a form, where ``+`` is a blank."""
    found = _decodings(raw)
    return found + _decodings(raw.replace(b"+", b" ")) if b"+" in raw else found


def _shown(carrier: bytes) -> str:
    return "behind Bearer" if carrier == _AUTHORIZATION else f"in {carrier.decode()}"


def _named(character: bytes) -> str:
    if character in b" \t":
        return "a blank"
    if character in b"\r\n":
        return "a line break"
    if character == b",":
        return "a comma"
    return "a quotation mark" if character in b"\"'`" else "a character outside visible ASCII"


def _carried(family: Family, headers: RawHeaders) -> Iterator[tuple[bytes, bytes, bytes | None]]:
    """Yield carrier and credential of each header, with the scheme of ``Authorization`` or ``None``."""
    for raw_name, raw_value in headers:
        name = raw_name.lower()
        if name not in _HEADERS:
            continue
        if name == _AUTHORIZATION:
            scheme, _, value = raw_value.partition(b" ")
            known = scheme.lower() == b"bearer" or (scheme.lower() == b"token" and family is Family.GEMINI)
            # RFC 9110 11.4: any number of spaces between the two, and nothing else
            yield (name, value.strip(b" "), scheme) if known else (name, b"", None)
        elif raw_value and (name == b"x-api-key" or family is Family.GEMINI):
            yield name, raw_value, None
