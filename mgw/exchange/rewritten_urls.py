"""Rewrite URLs in responses that would bypass the gateway (contract 4.22).

A client that follows such a URL with its gateway key would show that key to the vendor.  Rewritten are
``X-Goog-Upload-URL``, ``X-Goog-Upload-Control-URL`` and ``Location`` of uploads, and each ``results_url`` of
message batches, where their origin is the provider's; these are the only edits of a same-family response.

The URL of an upload carries a token where callers need a key (:mod:`mgw.exchange.upload_tokens`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from msgspec.json import encode

from mgw.exchange.exchange import Exchange
from mgw.exchange.upload_tokens import PARAMETER, upload_token
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
            address = path + b"?" + (query or b"")
            token = upload_token(client.digest, address, self.now, client.identity)
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
