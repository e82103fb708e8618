"""Addresses in answers that lead past the gateway, turned to it (contract 4.22).

A client that follows such an address with its gateway key would show that key to the vendor.  UrlRewrite are
``X-Goog-Upload-URL``, ``X-Goog-Upload-Control-URL`` and ``Location`` of uploads, and each ``results_url`` of
message batches, where their origin is the provider's; these are the only edits of a same-family answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from msgspec.json import encode

from mgw.errors import GatewayError
from mgw.exchange.client import ClientRequest
from mgw.exchange.exchange import Exchange
from mgw.exchange.upload_tokens import PARAMETER, upload_token
from mgw.routing.match import PROVIDER
from mgw.routing.resolve import Target
from mgw.routing.route import UrlRewrite
from mgw.upstream.address import address_of
from mgw.wire.edit import Edit, edited
from mgw.wire.headers import RawHeaders
from mgw.wire.nested import find_values
from mgw.wire.target import with_parameter, without_parameter

UPLOAD_URLS: Final = frozenset({b"x-goog-upload-url", b"x-goog-upload-control-url", b"location"})
_RESULTS: Final = (("results_url",), ("data", None, "results_url"))
_OURS: Final = frozenset({"key", PROVIDER, PARAMETER})
"""A key would be the gateway's own; what else chooses or opens something here no provider may say."""


@dataclass(slots=True)
class Turning:
    """What turns the addresses of one answer."""

    exchange: Exchange
    target: Target
    own: str
    """The gateway's address, without a slash at its end."""
    version: str
    """The version prefix of the client's path."""
    prefix: str
    """What stands before the path of the provider's base address."""
    now: float

    def headers(self, headers: RawHeaders) -> RawHeaders:
        """Return the headers of an answer with each address of an upload turned."""
        return [
            (name, self._upload_url(value)) if name.lower() in UPLOAD_URLS else (name, value)
            for name, value in headers
        ]

    def body(self, body: bytes) -> bytes:
        """Return the body of an answer with each address of results turned; the same where there is none."""
        try:
            found = find_values(body, *_RESULTS)
        except GatewayError:  # no JSON: whatever it is, it is the provider's
            return body
        edits: list[Edit] = []
        for nested in found:
            turned = self._turned(nested.value)
            if turned is not None:
                edits.append((nested.span, encode(self._at(*turned))))
        return edited(body, edits)

    def _upload_url(self, value: bytes) -> bytes:
        """Turn the address of an upload, which gets a token where callers need a key."""
        turned = self._turned(value.decode("latin-1"), always_provider=True)
        if turned is None:
            return value
        path, query = turned
        edge = self.exchange.generation.config.edge_auth
        if edge.enabled and edge.keys:
            token = upload_token(edge.keys, path + b"?" + (query or b""), self.now)
            query = with_parameter(query, PARAMETER, token)
        return self._at(path, query).encode("latin-1")

    def _turned(self, url: str, *, always_provider: bool = False) -> tuple[bytes, bytes | None] | None:
        """Return the path and query under which the gateway serves an address of the provider's."""
        upstream = self.exchange.generation.upstreams[self.target.provider.name]
        try:
            parts = urlsplit(url)
            is_providers = address_of(url).origin == upstream.origin
        except ValueError:
            return None
        base = self.prefix + upstream.base_path.decode("latin-1")
        if not is_providers or not url.isascii() or not parts.path.startswith(base + "/"):
            return None
        path = (self.version + parts.path[len(base) :]).encode()
        query = without_parameter(parts.query.encode() or None, _OURS)
        if always_provider or not self._is_default():
            query = with_parameter(query, PROVIDER, self.target.provider.name)
        return path, query

    def _is_default(self) -> bool:
        config, route = self.exchange.generation.config, self.exchange.route
        return config.defaults.get(route.default_family) == self.target.provider.name

    def _at(self, path: bytes, query: bytes | None) -> str:
        whole = path if query is None else path + b"?" + query
        return self.own + whole.decode("latin-1")


def turning_of(exchange: Exchange, request: ClientRequest, target: Target) -> Turning | None:
    """Return what turns the addresses of an answer, or ``None`` where they stay as they are."""
    route = exchange.route
    if (
        route.url_rewrite is None
        or request.own_address is None
        or not exchange.generation.config.rewrite_urls
    ):
        return None
    return Turning(
        exchange, target, request.own_address, request.version, route.upstream_prefix, exchange.wall
    )


def turns_body(turning: Turning | None) -> bool:
    """Whether the body of the answer has to be looked at."""
    return turning is not None and turning.exchange.route.url_rewrite is UrlRewrite.RESULTS_URL
