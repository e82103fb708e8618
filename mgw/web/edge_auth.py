"""Who may come in, and which of the credentials that came in is the client's own (decisions, part 3).

All carriers are looked at, none is logged: the first that matches an edge key opens the gate, the first that
matches none is the client's own credential.  ``Authorization`` comes before the other carriers, wherever it
stands among the headers.  An edge key never goes upstream, whatever carried it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
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

_SCHEMES: Final = frozenset({b"bearer", b"token"})
_TOKEN: Final = frozenset({PARAMETER})
_HEADERS: Final = frozenset({b"authorization", b"x-api-key", b"x-goog-api-key"})
_SEVERAL: Final = re.compile(rb"[\s,]")
"""What no credential holds.  A proxy that joins repeated headers puts a comma between two of them, and one of
the two may be an edge key."""


class Caller(Struct, frozen=True):
    """A client that may come in."""

    key: ClientKey | None
    """Its own credential for the provider."""
    raw_query: bytes | None
    """The query without the credentials that stood in it."""


class Upload(Struct, frozen=True):
    """A request to an upload address, which may bring a token in place of an edge key."""

    raw_path: bytes
    now: float
    """Unix seconds."""


class EdgeGate:
    """The edge keys of one configuration, compared in constant time."""

    def __init__(self, settings: EdgeAuth) -> None:
        self._closed = settings.enabled
        self._keys = settings.keys
        self._digests = [sha256(key.reveal().encode("latin-1")).digest() for key in settings.keys]

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
        opened = not self._closed
        if upload is not None and raw_query is not None:
            raw_query, good = self._without_token(raw_query, upload)
            opened = opened or good
        own: ClientKey | None = None
        for value, scheme in _carried(family, headers):
            if self._fits(value):
                opened = True
            elif _SEVERAL.search(value):
                continue
            elif own is None or (own.scheme is None and scheme is not None):
                own = ClientKey(Secret(value.decode("latin-1")), scheme, family)
        if raw_query is not None and (b"key=" in raw_query or b"%" in raw_query):  # an escape may spell it
            raw_query, edge, other = self._of_query(family, raw_query)
            opened = opened or edge
            if own is None and other is not None:
                own = ClientKey(Secret(other.decode("latin-1")), None, family)
        if not opened:
            raise GatewayError(
                Reason.EDGE_KEY,
                "this gateway wants one of its keys: send Authorization: Bearer <key> or x-api-key: <key>",
            )
        return Caller(own, raw_query)

    def _without_token(self, raw_query: bytes, upload: Upload) -> tuple[bytes | None, bool]:
        """Take the token out of a query; return the rest, and whether the token is good for this address."""
        token = query_value(raw_query, PARAMETER)
        if token is None:
            return raw_query, False
        rest = without_parameter(raw_query, _TOKEN)
        address = upload.raw_path + b"?" + (rest or b"")
        return rest, is_good(self._keys, address, token, upload.now)

    def _fits(self, value: bytes) -> bool:
        digest = sha256(value).digest()
        fits = False
        for known in self._digests:
            fits |= compare_digest(known, digest)
        return fits

    def _of_query(self, family: Family, raw_query: bytes) -> tuple[bytes | None, bool, bytes | None]:
        """Take credentials out of a query; return the rest, whether an edge key was there, another key."""
        kept: list[bytes] = []
        opened = False
        other: bytes | None = None
        for field in raw_query.split(b"&"):
            name, _, raw = field.partition(b"=")
            if unquote_to_bytes(name) != b"key":
                kept.append(field)
                continue
            value = unquote_to_bytes(raw.replace(b"+", b" "))
            if self._fits(value):
                opened = True
            elif family is not Family.GEMINI:
                kept.append(field)  # an ordinary parameter there
            elif other is None and value:
                other = value
        return b"&".join(kept) or None, opened, other


def _carried(family: Family, headers: RawHeaders) -> Iterator[tuple[bytes, bytes | None]]:
    """Yield each credential that the headers carry, with the scheme of ``Authorization`` or ``None``."""
    for raw_name, raw_value in headers:
        name = raw_name.lower()
        if name not in _HEADERS:
            continue
        if name == b"authorization":
            scheme, _, value = raw_value.partition(b" ")
            value = value.strip()
            if (
                value
                and scheme.lower() in _SCHEMES
                and (scheme.lower() == b"bearer" or family is Family.GEMINI)
            ):
                yield value, scheme
        elif raw_value and (name == b"x-api-key" or family is Family.GEMINI):
            yield raw_value.strip(), None
