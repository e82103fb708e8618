"""Rewrite URLs in responses that would bypass the gateway (contract 4.22).

A client that follows such a URL with its gateway key would show that key to the vendor.  Rewritten are
``X-Goog-Upload-URL``, ``X-Goog-Upload-Control-URL`` and ``Location`` of uploads, and each ``results_url`` of
message batches, where their origin is the provider's; these are the only edits of a same-family response.

Google's SDK sends the chunks of an upload to the URL that the start of it gave, without any key.  So the URL
that the gateway hands out carries a token: an HMAC over the provider, the path and the query with its upload
id, valid for a day.  Its key is derived from the digest of the client's edge key, of which the configuration
may hold no more: so all workers and hosts agree, the token stands for exactly that key with its limits, and
it dies with it (contract 4.24).  A hint says which key that is, so that a token which somebody has made up is
not compared with each of them.
"""

from __future__ import annotations

import hmac
import re
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from msgspec.json import encode

from mgw.clients.key_hints import KeyHints, key_hint
from mgw.exchange.exchange import Exchange
from mgw.memo.client_request import ClientRequest
from mgw.nouns.errors import GatewayError
from mgw.routing.match import PROVIDER
from mgw.routing.resolve import Target
from mgw.routing.route import UrlRewrite
from mgw.upstream.address import path_below
from mgw.wire.headers import RawHeaders
from mgw.wire.json_spans import Edit, apply_edits
from mgw.wire.nested_strings import find_nested_strings
from mgw.wire.target import with_parameter, without_parameter

PARAMETER: Final = "mgw"
"""Where the token of an upload stands in its URL."""
LIFETIME_SECONDS: Final = 24 * 60 * 60
_TOKEN: Final = re.compile(r"([0-9]{1,12})-([0-9a-f]{8})-([0-9a-f]{64})")
_PURPOSE: Final = b"mgw upload address"
UPLOAD_URLS: Final = frozenset({b"x-goog-upload-url", b"x-goog-upload-control-url", b"location"})
_RESULTS_URLS: Final = (("results_url",), ("data", None, "results_url"))
_RESERVED_PARAMETERS: Final = frozenset({"key", PROVIDER, PARAMETER})
"""A key would be the gateway's own; no provider may set what else chooses or opens something here."""


@dataclass(slots=True, eq=False, repr=False)
class UrlRewriter:
    """Rewrites the URLs of one response."""

    exchange: Exchange
    target: Target
    own_url: str
    """The gateway's URL, without a slash at its end."""
    version: str
    """The version prefix of the client's path."""
    prefix: str
    """What stands before the path of the provider's base URL."""
    now: float

    def headers(self, headers: RawHeaders) -> RawHeaders:
        """Return the headers of a response with each URL of an upload rewritten."""
        return [
            (name, self._upload_url(value)) if name.lower() in UPLOAD_URLS else (name, value)
            for name, value in headers
        ]

    def body(self, body: bytes) -> bytes:
        """Return the body of a response with each URL of results rewritten; the same where there is none."""
        try:
            found = find_nested_strings(body, *_RESULTS_URLS)
        except GatewayError:  # no JSON: whatever it is, it is the provider's
            return body
        edits: list[Edit] = []
        for nested in found:
            target = self._gateway_target(nested.value)
            if target is not None:
                edits.append((nested.span, encode(self._at(*target))))
        return apply_edits(body, edits)

    def _upload_url(self, value: bytes) -> bytes:
        """Rewrite the URL of an upload, which gets a token where callers need a key."""
        target = self._gateway_target(value.decode("latin-1"), always_provider=True)
        if target is None:
            return value
        path, query = target
        client = self.exchange.client
        if client is not None:
            token = upload_token(client.digest, path + b"?" + (query or b""), self.now)
            query = with_parameter(query, PARAMETER, token)
        return self._at(path, query).encode("latin-1")

    def _gateway_target(
        self, url: str, *, always_provider: bool = False
    ) -> tuple[bytes, bytes | None] | None:
        """Return the path and query under which the gateway serves a URL of the provider's."""
        upstream = self.exchange.generation.upstreams[self.target.provider.name]
        found = path_below(upstream.address, self.prefix, url)
        if found is None:
            return None
        path = (self.version + found[0]).encode()
        query = without_parameter(found[1].encode() or None, _RESERVED_PARAMETERS)
        if always_provider or not self._is_default():
            query = with_parameter(query, PROVIDER, self.target.provider.name)
        return path, query

    def _is_default(self) -> bool:
        config, route = self.exchange.generation.config, self.exchange.route
        return config.defaults.get(route.default_family) == self.target.provider.name

    def _at(self, path: bytes, query: bytes | None) -> str:
        whole = path if query is None else path + b"?" + query
        return self.own_url + whole.decode("latin-1")


def url_rewriter_for(exchange: Exchange, request: ClientRequest, target: Target) -> UrlRewriter | None:
    """Return what rewrites the URLs of a response, or ``None`` where they stay as they are."""
    route, own_address = exchange.route, exchange.own_address
    rewrites_urls = exchange.generation.config.rewrite_urls
    if route.url_rewrite is None or own_address is None or not rewrites_urls:
        return None
    return UrlRewriter(exchange, target, own_address, request.version, route.call.prefix, exchange.wall)


def rewrites_body(rewriter: UrlRewriter | None) -> bool:
    """Whether the body of the response has to be looked at."""
    return rewriter is not None and rewriter.exchange.route.url_rewrite is UrlRewrite.RESULTS_URL


def upload_token(digest: bytes, address: bytes, now: float) -> str:
    """Return the token of an address, which stands for the key with this SHA-256.

    :param address: the path and the query that it stands for, the provider among the parameters.
    :param now: unix seconds.
    """
    expires = int(now) + LIFETIME_SECONDS
    return f"{expires}-{key_hint(digest)}-{_token_mac(digest, address, expires)}"


def key_of_token(keys: KeyHints, address: bytes, token: str, now: float) -> bytes | None:
    """Return the digest of the key that a token stands for on this address; compared in constant time."""
    match = _TOKEN.fullmatch(token)
    if match is None or int(match[1]) < now:
        return None
    for digest in keys.find(match[2]):
        if hmac.compare_digest(_token_mac(digest, address, int(match[1])), match[3]):
            return digest
    return None


def _token_mac(digest: bytes, address: bytes, expires: int) -> str:
    derived = hmac.digest(digest, _PURPOSE, "sha256")
    return hmac.new(derived, b"%d\n%b" % (expires, address), sha256).hexdigest()
