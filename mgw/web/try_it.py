"""Requests of the dashboard's page "Try it", with a token in a cookie in place of a key (contract 9.12).

Browsers add cookies to whatever goes to the gateway, so the token alone opens nothing: the request has to be
a POST of a text route that states the gateway's own origin and has no other credential.  What is found here
is not remembered with the head (:mod:`mgw.memo.request_memo`), since the token is valid for a minute.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Final

from mgw.clients.client import Client
from mgw.clients.origins import OwnPages
from mgw.clients.try_it import is_try_it_offered, raw_key, tokens_in, try_it_cookie
from mgw.config.settings import Config
from mgw.http.request_head import RequestHead
from mgw.nouns.families import AUTHORIZATION, FAMILIES, KEY_HEADERS
from mgw.nouns.secret import KEY_HASH_DIGITS, Secret
from mgw.routing.match import MatchedRoute
from mgw.routing.routes import TRY_IT_ROUTES, is_dashboard_api_denied
from mgw.wire.headers import value_of, values_of
from mgw.wire.target import query_value

FindClient = Callable[[bytes], Client | None]
_SAME_ORIGIN: Final = b"same-origin"


class TryItGate:
    """The rules of one configuration that offers the page and requires keys.

    :param find_client: returns whose key with this digest opens the gate now.
    :param wall: returns unix seconds.
    """

    def __init__(self, config: Config, find_client: FindClient, wall: Callable[[], float]) -> None:
        self._pages: Final = OwnPages.of(config)
        self._keys: Final = config.edge_auth.secrets
        self._find_client: Final = find_client
        self._wall: Final = wall
        self._by_key_hash: dict[str, tuple[bytes, Secret]] = {}
        """Made for the first token."""

    def find_client(
        self, matched: MatchedRoute, head: RequestHead, raw_query: bytes | None, peer: str, *, tls: bool
    ) -> Client | None:
        """Return the client that a request without a gateway key is of; ``None``: it is refused."""
        if matched.fault is not None or matched.route.name not in TRY_IT_ROUTES:
            return None
        if not self._is_of_own_page(head, tls=tls) or _has_credential(matched, head, raw_query):
            return None
        secure = self._pages.are_secure(peer, value_of(head.headers, b"x-forwarded-proto"), tls=tls)
        return self._client_of(b"; ".join(values_of(head.headers, b"cookie")), try_it_cookie(secure=secure))

    def _is_of_own_page(self, head: RequestHead, *, tls: bool) -> bool:
        origins = values_of(head.headers, b"origin")
        sites = values_of(head.headers, b"sec-fetch-site")
        if len(origins) != 1 or any(site != _SAME_ORIGIN for site in sites):
            return False
        host = value_of(head.headers, b"host")
        named = None if host is None else host.decode("latin-1")
        return self._pages.include(origins[0].decode("latin-1"), named, tls=tls)

    def _client_of(self, cookies: bytes, name: bytes) -> Client | None:
        now = self._wall()
        for token in tokens_in(cookies, name):
            found = self._known().get(token.key_hash)
            if found is not None and token.is_of(raw_key(found[1]), now):
                return self._find_client(found[0])
        return None

    def _known(self) -> Mapping[str, tuple[bytes, Secret]]:
        """Return the keys that are known, not their digests alone, with their digests."""
        if not self._by_key_hash:
            for key in self._keys:
                digest = sha256(raw_key(key)).digest()
                self._by_key_hash[digest.hex()[:KEY_HASH_DIGITS]] = digest, key
        return self._by_key_hash


def try_it_gate(config: Config, find_client: FindClient, wall: Callable[[], float]) -> TryItGate | None:
    """Return the rules; ``None`` where the page is not offered, or sends its requests without a key."""
    is_denied = is_dashboard_api_denied(config.routes.deny)
    is_needed = config.edge_auth.enabled and is_try_it_offered(config, is_api_denied=is_denied)
    return TryItGate(config, find_client, wall) if is_needed else None


def _has_credential(matched: MatchedRoute, head: RequestHead, raw_query: bytes | None) -> bool:
    """Whether a request has a credential, or what could be one.

    ``Authorization: Basic`` is none: browsers add it for a proxy in front of the gateway.
    """
    for name, value in head.headers:
        lower = name.lower()
        if lower in KEY_HEADERS and value and not (lower == AUTHORIZATION and _is_basic(value)):
            return True
    parameter = FAMILIES[matched.route.family].key_parameter
    return parameter is not None and query_value(raw_query, parameter.decode()) is not None


def _is_basic(value: bytes) -> bool:
    return value.partition(b" ")[0].lower() == b"basic"
