"""Cross-origin requests of web pages: preflights, and what other responses to a page's origin say (CORS).

A browser lets a page of another origin read a response only if its headers name that origin, and asks with
``OPTIONS`` before it sends anything that a form cannot send.  This says who may read, not who may ask: a
page of another origin, and a client that is no browser, are served without these headers.

Sources: the Fetch standard, 3.3 (CORS protocol); contract 5.20.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import Final
from urllib.parse import unquote_to_bytes

from mgw.config.settings import CorsSettings
from mgw.http.cors_headers import CorsHeaders
from mgw.http.request_head import RequestHead
from mgw.http.response_writer import RelayedHead
from mgw.routing.match import MatchedRoute, RouteTable
from mgw.routing.route import ANY_METHOD
from mgw.routing.routes import PREFLIGHT
from mgw.web.server_response import ServerResponse
from mgw.wire.headers import RawHeaders, values_of

_ANY: Final = "*"
_ALL_METHODS: Final = ("DELETE", "GET", "HEAD", "PATCH", "POST", "PUT")
_is_list_of_names: Final = re.compile(rb"[A-Za-z0-9!#$%&'*+.^_`|~, \t-]+").fullmatch
_EXPOSE: Final = (b"Access-Control-Expose-Headers", b"*")
_VARY: Final = (b"Vary", b"Origin")
_WITHOUT: Final = (b"/ui", b"/v1/dashboard", b"/metrics")
"""What is for operators, with all that is below it."""


class MatchedPreflight(MatchedRoute, frozen=True, kw_only=True):
    """The question of a browser whether a page may send a request."""

    answer: CorsHeaders


_OTHER_ORIGIN: Final = CorsHeaders.of([])
"""Nothing is said to another origin, by a provider neither."""


class CorsRules:
    """The rules of one configuration that has allowed origins."""

    def __init__(self, settings: CorsSettings) -> None:
        self._allowed: Final = frozenset(settings.origins)
        self._max_age: Final = b"%d" % settings.max_age

    def find(
        self, head: RequestHead, raw_path: bytes, matched: MatchedRoute | None = None
    ) -> CorsHeaders | None:
        """Return what the response to a request says of the origin of its page; ``None``: there is none."""
        if isinstance(matched, MatchedPreflight):
            return matched.answer
        origins = values_of(head.headers, b"origin")
        if not origins or head.upgrade is not None or _is_for_operators(raw_path):
            return None
        origin = self._allow_value(origins)
        if origin is None:
            return _OTHER_ORIGIN
        return CorsHeaders.of([(b"Access-Control-Allow-Origin", origin), _EXPOSE, _VARY])

    def match_preflight(
        self, head: RequestHead, raw_path: bytes, table: RouteTable
    ) -> MatchedPreflight | None:
        """Return the preflight that a request is, if the page may ask for what is at its path."""
        if head.method != b"OPTIONS" or head.upgrade is not None or _is_for_operators(raw_path):
            return None
        origin = self._allow_value(values_of(head.headers, b"origin"))
        if origin is None or not values_of(head.headers, b"access-control-request-method"):
            return None
        methods = ", ".join(_methods(table, raw_path)).encode()
        if not methods:
            return None
        answer = [(b"Access-Control-Allow-Origin", origin), (b"Access-Control-Allow-Methods", methods)]
        asked = b", ".join(values_of(head.headers, b"access-control-request-headers"))
        if _is_list_of_names(asked):  # a star in the answer would not cover Authorization
            answer.append((b"Access-Control-Allow-Headers", asked))
        answer += [(b"Access-Control-Max-Age", self._max_age), _VARY]
        return MatchedPreflight(PREFLIGHT, "", answer=CorsHeaders.of(answer))

    def _allow_value(self, origins: Collection[bytes]) -> bytes | None:
        """Return what a response names as allowed; ``None``: this origin is not."""
        if len(origins) != 1:
            return None
        if _ANY in self._allowed:
            return b"*"
        (origin,) = origins
        return origin if origin.decode("latin-1").lower() in self._allowed else None


class CorsResponse(ServerResponse, eq=False, kw_only=True):
    """The response to a request with an origin."""

    cors: CorsHeaders

    def start(self, status: int, reason: bytes, headers: RawHeaders) -> None:
        """Send the head of the response."""
        ServerResponse.start(self, status, reason, self.cors.add_to(headers))

    def start_early(self, status: int, reason: bytes, headers: RawHeaders) -> None:
        """Send the head of the response while the request is still needed."""
        ServerResponse.start_early(self, status, reason, self.cors.add_to(headers))

    def relay_head(self, head: RelayedHead, lines: bytes) -> None:
        """Send the head of a response that is passed on."""
        ServerResponse.relay_head(self, head, self.cors.add_to_lines(lines))

    def relay_whole(self, head: RelayedHead, lines: bytes, body: bytes) -> None:
        """Send all of a response that is passed on."""
        ServerResponse.relay_whole(self, head, self.cors.add_to_lines(lines), body)


def _is_for_operators(raw_path: bytes) -> bool:
    path = unquote_to_bytes(raw_path)
    return path.startswith(_WITHOUT) and any(path == one or path.startswith(one + b"/") for one in _WITHOUT)


def _methods(table: RouteTable, raw_path: bytes) -> Iterator[str]:
    """Yield the methods that a path takes, whichever family it is for."""
    methods = {route.method for route in table.rows_of(raw_path.decode("latin-1"))}
    if ANY_METHOD in methods:
        yield from _ALL_METHODS
        return
    if "GET" in methods:
        methods.add("HEAD")
    yield from sorted(methods)


def cors_rules(settings: CorsSettings) -> CorsRules | None:
    """Return the rules; ``None`` where no origin is allowed."""
    return CorsRules(settings) if settings.origins else None
