"""Access to the dashboard.

With keys (its own and those of edge auth in its groups; without either, those of edge auth that may do
anything): who has one, in a header or as the cookie of a session.  A token of a client in its groups opens it
as a key does (:mod:`mgw.dashboard.token_access`).  Without keys: clients on this machine that name it as
such.  A request that a page of another origin sends is refused where it could do harm: a browser adds what it
knows of the dashboard to it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from hashlib import sha256
from math import inf
from typing import TYPE_CHECKING, Final

from twisted.internet.address import IPv4Address, IPv6Address

from mgw.clients.origins import Host, OwnPages, parse_host
from mgw.clients.peers import client_behind, is_loopback, is_trusted
from mgw.config.dashboard import edge_keys_of_dashboard, tokens_open
from mgw.config.edge_auth import EdgeAuthSettings, digest_of
from mgw.config.key_settings import NamedKeySettings
from mgw.config.settings import Config
from mgw.config.time_zones import zone_of
from mgw.dashboard.cookies import SECONDS, CookieSessions, cookie_name
from mgw.dashboard.token_access import NOT_ACCEPTED, TokenAccess
from mgw.identity.keys_dir import digests_of
from mgw.nouns.errors import GatewayError, Reason
from mgw.nouns.secret import KEY_HASH_DIGITS, Secret
from mgw.nouns.token_flaw import TokenFlaw
from mgw.nouns.token_refusal import TokenRefusedError
from mgw.routing.match import is_denied
from mgw.routing.routes import DASHBOARD_ROUTES
from mgw.routing.table import denied_routes

if TYPE_CHECKING:
    from twisted.web.server import Request  # no more than its type: see mgw.dashboard.recorder

_API: Final = next(route for route in DASHBOARD_ROUTES if route.name == "dashboard_api")
SAFE_METHODS: Final = frozenset({b"GET", b"HEAD"})
_OF_PROXIES: Final = re.compile(
    rb"via|.*(?:client-?ip|real-?ip|forwarded|external-address|"
    rb"(?:connecting|originating|remote|user|source)-(?:ip|addr)).*"
)
"""What proxies say of themselves, or of those whom they speak for, who may be anywhere: names of headers."""
_OTHER_SITES: Final = frozenset({b"cross-site", b"same-site"})
_BEARER: Final = b"bearer"
_MOST_KEYS: Final = 8
"""How many keys or tokens of one request are looked at: a head has room for hundreds."""

_WANTED: Final = "the dashboard requires a key: sign in at /ui, or send Authorization: Bearer <key>"
_UNRESTRICTED: Final = "; an edge_auth key with models or limits, or in a group with these, is not accepted"
_OF_GROUPS: Final = "; of edge_auth, only keys in one of dashboard.groups are accepted"
_WITH_TOKENS: Final = (
    "the dashboard requires a key, or a token of a client in one of dashboard.groups: sign in at /ui, or "
    "send Authorization: Bearer <key or token>"
)
_ONLY_LOCAL: Final = (
    "without a key, the dashboard is available only to clients on the same machine that do not use a proxy: "
    "set dashboard.keys, or turn on edge_auth with a key that has neither models nor limits"
)
_FOREIGN_HOST: Final = (
    "without a key, the dashboard is available only at localhost, 127.0.0.1 and [::1]: use one of these "
    "addresses, or set dashboard.keys"
)
_FOREIGN_ORIGIN: Final = (
    "pages from another origin may not use the dashboard: if this is its own page behind a proxy, set "
    "public_url"
)


def _nothing() -> None:
    """Tell nobody."""


@dataclass(slots=True, eq=False, repr=False)
class Access:
    """The rules of one process, by the configuration that it uses now.

    :param rejected: counts a request whose ``key`` or ``origin`` does not fit.
    """

    sessions: CookieSessions
    rejected: Callable[[str], None]
    tokens: TokenAccess
    on_change: Callable[[], None] = _nothing
    """Called when those who have been let in may have lost the right to it."""
    learned: list[Secret] = field(default_factory=list)
    """Keys that are configured by their digests, and have been sent."""
    _config: Config | None = None
    _digests: frozenset[bytes] = frozenset()
    """The digests of the keys.  Nobody can steer a digest, so the time of a search tells nothing of a key."""
    _unseen: set[bytes] = field(default_factory=set)
    _ends: Mapping[str, float] = field(default_factory=dict)
    """When keys end, in Unix seconds, by the first digits of their digests."""
    _has_key_files: bool = False
    _pages: OwnPages | None = None
    _wanted: str = _WANTED

    def use(self, config: Config, further: Sequence[NamedKeySettings] = ()) -> None:
        """Keep the rules of this configuration from now on.

        :param further: the keys of key files.
        """
        own, every_edge = config.dashboard.keys, config.edge_auth
        self._has_key_files = every_edge.enabled and every_edge.keys_dir is not None
        if further:
            every_edge = every_edge.model_copy(update={"keys": (*every_edge.keys, *further)})
        edge = edge_keys_of_dashboard(config.dashboard, every_edge)
        known: dict[bytes, bytes | None] = {
            bytes.fromhex(digest_of(key)): key.reveal().encode("latin-1") for key in (*own, *edge.secrets)
        }
        named = [bytes.fromhex(digest.reveal()) for key in edge.named for digest in digests_of(key)]
        keys = dict.fromkeys(named) | known
        self._ends = _ends_of(edge)
        self._config = config
        self._digests, self._unseen = frozenset(keys), set(named) - known.keys()
        self._pages = OwnPages.of(config)
        self.sessions.use(keys)
        self.tokens.use(config)
        self._wanted = self._words(
            config, is_partial=bool(edge.keys) and len(edge.keys) < len(every_edge.keys)
        )
        self.on_change()

    @property
    def has_keys(self) -> bool:
        """Whether a key is needed: also where files may have one at any moment."""
        return bool(self._digests) or self._has_key_files or self.tokens.may_open

    def digest_of(self, key: bytes) -> bytes | None:
        """Return the digest of a key that opens the dashboard."""
        digest = sha256(key).digest()
        if digest not in self._digests or self._has_ended(digest):
            return None
        if digest in self._unseen:
            self._unseen.discard(digest)
            secret = Secret(key.decode("latin-1"))
            self.learned += [] if secret in self.learned else [secret]
        return digest

    def check(self, request: Request) -> None:
        """Let a request in.

        :raises GatewayError: ``EDGE_KEY`` or ``ORIGIN``.
        """
        refusal = self._refusal(request)
        if isinstance(refusal, TokenRefusedError):
            raise self.refused_token(refusal)
        if refusal is not None:
            raise self.refused(*refusal)

    async def wait_for_keys(self, request: Request) -> None:
        """Wait while the key of a request's token may be on its way, some seconds at most."""
        if self.tokens.may_open:
            for value in _keys_of(request):
                await self.tokens.wait(value)

    def admits(self, request: Request) -> bool:
        """Whether a request that was let in would be let in now."""
        config = self._config
        is_served = config is not None and not is_denied(_API, denied_routes(config))
        return is_served and self._refusal(request) is None

    def seconds_left(self, request: Request) -> float | None:
        """Return for how long a request is let in, where nothing changes; ``None``: for ever."""
        if not self.has_keys:
            return None
        ends = max(filter(None, map(self._end_of, _keys_of(request))), default=None)
        if ends is None:
            ends = self._session_end(request) or 0.0
        return None if ends == inf else max(0.0, ends - self.sessions.wall())

    def begin_session(self, value: bytes) -> tuple[bytes, int] | None:
        """Return the cookie of a new session for whoever has a key or token, and for how many seconds.

        ``None``: it does not open the dashboard.
        """
        digest = self.digest_of(value)
        if digest is not None:
            return self.sessions.begin(digest), SECONDS
        token = self.tokens.find(value)
        if token is None:
            return None
        seconds = max(1, min(SECONDS, int(token.until - self.sessions.wall())))
        return self.tokens.sessions.begin(token.value, token.until), seconds

    def session_key_of(self, request: Request) -> str | None:
        """Return the first digits of the digest of the key that a browser has signed in with."""
        return self.sessions.key_hash_of(_cookies_of(request), cookie_name(secure=self.is_secure(request)))

    def sign_out(self, request: Request) -> None:
        """End the sessions of a browser."""
        cookies, name = _cookies_of(request), cookie_name(secure=self.is_secure(request))
        self.sessions.end(cookies, name)
        self.tokens.sessions.end(cookies, name)
        self.on_change()

    def check_own_page(self, request: Request) -> None:
        """Refuse what no page of the dashboard sends: an ``Origin`` is required.

        :raises GatewayError: ``ORIGIN``.
        """
        if request.getHeader(b"origin") is None or self._is_of_another_page(request):
            raise self.refused("origin", _FOREIGN_ORIGIN)

    def check_origin(self, request: Request) -> None:
        """Refuse what pages of other origins may not send, whoever looks at them.

        :raises GatewayError: ``ORIGIN``.
        """
        if self._is_refused_page(request):
            raise self.refused("origin", _FOREIGN_ORIGIN)

    def client_of(self, request: Request) -> str:
        """Return the address of the client, which trusted proxies may name."""
        stated = b",".join(request.requestHeaders.getRawHeaders(b"x-forwarded-for", ()))
        proxies = () if self._config is None else self._config.trusted_proxies
        return client_behind(_peer_of(request), stated.decode("latin-1"), proxies)

    def refused(self, what: str, message: str) -> GatewayError:
        """Count a refusal, and return it.

        :param what: ``key`` or ``origin``.
        """
        self.rejected(what)
        return GatewayError(Reason.EDGE_KEY if what == "key" else Reason.ORIGIN, message)

    def refused_token(self, refusal: TokenRefusedError) -> TokenRefusedError:
        """Count the refusal of a token, and return it."""
        self.rejected("rule" if refusal.flaw is TokenFlaw.NO_RULE else "token")
        self.tokens.count(refusal)
        return refusal

    def is_secure(self, request: Request) -> bool:
        """Whether the browser speaks TLS, be it with a proxy before us."""
        tls, said = bool(request.isSecure()), request.getHeader(b"x-forwarded-proto")
        return tls if self._pages is None else self._pages.are_secure(_peer_of(request), said, tls=tls)

    def _refusal(self, request: Request) -> tuple[str, str] | TokenRefusedError | None:
        """Return what does not fit about a request, ``key`` or ``origin``, and what is said of it.

        If it has a token that opens nothing anywhere, return the refusal of that.
        """
        if self._is_refused_page(request):
            return "origin", _FOREIGN_ORIGIN
        if not self.has_keys:
            return self._local_refusal(request)
        if self._has_key(request) or self._session_end(request) is not None:
            return None
        refusals = map(self.tokens.refusal_of, _keys_of(request))
        return next(filter(None, refusals), None) or ("key", self._wanted)

    @staticmethod
    def _words(config: Config, *, is_partial: bool) -> str:
        """Return what is said to a request without a key.

        :param is_partial: whether some keys of edge auth open the dashboard, and others do not.
        """
        words, tokens = _WANTED, ""
        if config.edge_auth.enabled and config.edge_auth.jwt:
            may_open = tokens_open(config.dashboard, config.edge_auth)
            words, tokens = (_WITH_TOKENS, "") if may_open else (_WANTED, NOT_ACCEPTED)
        others = _OF_GROUPS if config.dashboard.groups else _UNRESTRICTED
        return words + (others if is_partial else "") + tokens

    def _local_refusal(self, request: Request) -> tuple[str, str] | None:
        peer = _peer_of(request)
        proxies = () if self._config is None else self._config.trusted_proxies
        if _is_forwarded(request) or not is_loopback(peer) or is_trusted(peer, proxies):
            return "key", _ONLY_LOCAL
        host = _host_of(request)
        return None if host is not None and host.is_loopback else ("origin", _FOREIGN_HOST)

    def _is_refused_page(self, request: Request) -> bool:
        """Whether a request is a page's of another origin that may not send it."""
        if not self._is_of_another_page(request):
            return False
        return request.method not in SAFE_METHODS or not self._has_key(request)

    def _has_key(self, request: Request) -> bool:
        return any(self._end_of(key) is not None for key in _keys_of(request))

    def _end_of(self, value: bytes) -> float | None:
        """Return when a key or token that opens the dashboard ends, in Unix seconds; ``None``: it is none."""
        digest = self.digest_of(value)
        if digest is not None:
            return self._ends.get(_name_of(digest), inf)
        token = self.tokens.find(value)
        return None if token is None else token.until

    def _session_end(self, request: Request) -> float | None:
        """Return when the session of a browser ends, in unix seconds; ``None``: it has none."""
        cookies, name = _cookies_of(request), cookie_name(secure=self.is_secure(request))
        ends = self.sessions.end_of(cookies, name)
        if ends is None:
            return self.tokens.session_end(cookies, name)
        of_key = self._ends.get(self.session_key_of(request) or "") if self._ends else None
        if of_key is None:
            return ends
        return None if of_key <= self.sessions.wall() else min(ends, of_key)

    def _has_ended(self, digest: bytes) -> bool:
        ends = self._ends.get(_name_of(digest))
        return ends is not None and ends <= self.sessions.wall()

    def _is_of_another_page(self, request: Request) -> bool:
        """Whether a browser says that a page of another origin sends a request.

        Where it wants an image or a script it names no origin, only how far away its site is.  Who follows a
        link may come from anywhere: the other page does not see what comes.
        """
        stated = request.requestHeaders.getRawHeaders(b"origin", ())
        if not stated:
            opened = request.method in SAFE_METHODS and request.getHeader(b"sec-fetch-dest") == b"document"
            return request.getHeader(b"sec-fetch-site") in _OTHER_SITES and not opened
        return len(stated) > 1 or not self._is_own(stated[0].decode("latin-1"), request)

    def _is_own(self, stated: str, request: Request) -> bool:
        """Whether an origin is the dashboard's own, as the client or the operator names it."""
        host = request.getHeader(b"host")
        named = None if host is None else host.decode("latin-1")
        pages = self._pages
        return pages is not None and pages.include(stated, named, tls=bool(request.isSecure()))


def _ends_of(edge_auth: EdgeAuthSettings) -> dict[str, float]:
    """Return when keys end that have an end, by the first digits of their digests."""
    zone, found = zone_of(edge_auth.timezone), dict[str, float]()
    ends_of = cache(
        lambda expiry: inf if expiry is None else expiry.ends(zone)
    )  # most have one of a few dates
    for key in edge_auth.named:
        ends: float = ends_of(key.expires)
        if key.previous is not None:
            until = min(ends, ends_of(key.previous.expires))
            found[key.previous.sha256.reveal()[:KEY_HASH_DIGITS]] = until
        if key.sha256 is not None and ends != inf:
            found[key.sha256.reveal()[:KEY_HASH_DIGITS]] = ends
    return found


def _name_of(digest: bytes) -> str:
    return digest.hex()[:KEY_HASH_DIGITS]


def _peer_of(request: Request) -> str:
    """Return the address that a request came from; empty for a UNIX socket."""
    address = request.getClientAddress()
    return str(address.host) if isinstance(address, IPv4Address | IPv6Address) else ""


def _cookies_of(request: Request) -> bytes:
    """Return all cookies of a request; some proxies send each in a header of its own (RFC 9113 8.2.3)."""
    return b"; ".join(request.requestHeaders.getRawHeaders(b"cookie", ()))


def _is_forwarded(request: Request) -> bool:
    """Whether a request has passed a proxy.

    One that says nothing of it, and replaces the Host by our address: nginx with its defaults does that, but
    speaks HTTP/1.0, as no browser does.
    """
    if request.clientproto != b"HTTP/1.1":
        return True
    names = [name.lower().replace(b"_", b"-") for name, _ in request.requestHeaders.getAllRawHeaders()]
    return any(map(_OF_PROXIES.fullmatch, names))


def _host_of(request: Request) -> Host | None:
    stated = request.getHeader(b"host")
    return None if stated is None else parse_host(stated.decode("latin-1"))


def _keys_of(request: Request) -> list[bytes]:
    """Return the first keys that the headers of a request carry."""
    found = []
    for value in request.requestHeaders.getRawHeaders(b"authorization", ()):
        scheme, _, key = value.partition(b" ")
        if scheme.lower() == _BEARER:
            found.append(key.strip(b" "))
    return [*found, *request.requestHeaders.getRawHeaders(b"x-api-key", ())][:_MOST_KEYS]
