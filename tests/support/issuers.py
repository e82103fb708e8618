"""Issuers of tokens in memory: their keys, and what fetches these, with a clock in hand."""

from __future__ import annotations

import json
from base64 import urlsafe_b64encode
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from typing import Any, Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.logger import ILogObserver, LogEvent, formatEvent, globalLogPublisher
from zope.interface import implementer

from mgw.app.issuer_keys import OF_FILE
from mgw.clients.tokens.key_set import MAX_SET_BYTES, KeySet, parse_key_set
from mgw.config.jwt import JwtSettings
from mgw.config.proxy import ProxyAddress
from mgw.exchange.offload import run_inline
from mgw.identity.issuers import IssuerKeys
from mgw.identity.jwks_fetch import HttpKeyFetch
from mgw.identity.jwks_file import JwksFile
from mgw.identity.key_feed import FetchingFeed, KeyFetch
from mgw.identity.key_refresh import OVER_HTTP
from mgw.identity.key_source import KeySource
from mgw.nouns.secret import Secret
from mgw.reactor.treq_client import HTTPClient
from tests.support.token_endpoints import TokenHosts, TokenPost

HOST: Final = "https://login.example.com"
ISSUER: Final = f"{HOST}/realms/main"
JWKS: Final = f"{HOST}/keys"


def jwk(kid: str | None, material: str = "one", **members: object) -> dict[str, Any]:
    """A key of Ed25519; the same material is the same key."""
    public = Ed25519PrivateKey.from_private_bytes(sha256(material.encode()).digest()).public_key()
    x = urlsafe_b64encode(public.public_bytes_raw()).rstrip(b"=").decode()
    return {"kty": "OKP", "crv": "Ed25519", "x": x, **({} if kid is None else {"kid": kid}), **members}


def key_set(*keys: dict[str, Any]) -> bytes:
    """A set of keys as an issuer publishes it."""
    return json.dumps({"keys": keys}).encode()


def discovery(**changes: object) -> dict[str, object]:
    """A discovery document."""
    return {"issuer": ISSUER, "jwks_uri": JWKS, **changes}


def entry(**changes: object) -> JwtSettings:
    """An entry of ``edge_auth.jwt``."""
    settings = {"name": "corp", "issuer": ISSUER, "audience": "mgw", "rules": [{}], **changes}
    return JwtSettings.model_validate(settings)


def ids_of(keys: KeySet | None) -> set[str | None] | None:
    """The ids of keys."""
    return None if keys is None else {key.key_id for key in keys.keys}


@implementer(ILogObserver)
class IssuerLines:
    """What the log says of issuers; use it in a ``with``."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def __call__(self, event: LogEvent) -> None:
        if str(event["log_namespace"]).startswith(("mgw.identity", "mgw.workers")):
            self.lines.append(formatEvent(event))

    def __enter__(self) -> list[str]:
        globalLogPublisher.addObserver(self)
        return self.lines

    def __exit__(self, *_: object) -> None:
        globalLogPublisher.removeObserver(self)


@dataclass(eq=False)
class IssuerBench:
    """What fetches the keys of issuers in one process, over HTTP in memory."""

    clock: Clock = field(default_factory=Clock)
    told: list[tuple[str, bytes | None, float | None]] = field(default_factory=list)
    """What other processes were told."""
    taken: Deferred[None] | None = None
    """Fires when these have taken over what they were told."""
    secrets: list[Secret] = field(default_factory=list)
    opened: list[tuple[str | None, ProxyAddress | None]] = field(default_factory=list)
    """The ``ca_file`` and the proxy of each fetch."""
    closed: list[KeySource] = field(default_factory=list)
    parsed: list[bytes] = field(default_factory=list)
    changes: int = 0
    shift: float = 0.0
    """By how much the clock of timers was set."""
    hosts: TokenHosts = field(init=False)
    feed: FetchingFeed = field(init=False)
    keys: IssuerKeys = field(init=False)

    def __post_init__(self) -> None:
        self.hosts = TokenHosts(self.clock)
        self.feed = FetchingFeed(self.clock, self.monotonic, self._open_fetch, self._tell)
        self.keys = IssuerKeys(
            self.clock, self.monotonic, self.feed, self._on_change, on_stale=self.feed.log_stale
        )

    def _tell(self, source: str, document: bytes | None, age: float | None) -> Deferred[None] | None:
        self.told.append((source, document, age))
        return self.taken

    def monotonic(self) -> float:
        return self.clock.seconds() + self.shift

    def begin(self, *entries: JwtSettings) -> None:
        """Fetch the keys of entries."""
        self.keys.use(entries)
        self.keys.begin()

    def asked(self, origin: str = HOST) -> list[TokenPost]:
        """The requests that a host got."""
        return self.hosts.posts(origin)

    def newest(self, origin: str = HOST) -> TokenPost:
        """The request that came last."""
        return self.hosts.newest(origin)

    def serve(self, *keys: dict[str, Any], headers: str = "") -> None:
        """Answer the fetch under way, which is one of ``jwks_url``."""
        self.newest().answer(key_set(*keys), headers=headers)

    def ids(self, name: str = "corp") -> set[str | None] | None:
        """The ids of an entry's keys."""
        return ids_of(self.keys.keys_of(name))

    def asks(self, name: str = "corp") -> list[float] | None:
        """Ask for keys; the list has the time at which the answer came, once it has."""
        return self._when(self.keys.ask(name))

    def waits_for_first(self, name: str = "corp") -> list[float] | None:
        """Wait for the first keys, likewise."""
        return self._when(self.keys.first(name))

    def _when(self, waiting: Deferred[None] | None) -> list[float] | None:
        if waiting is None:
            return None
        came: list[float] = []
        _ = waiting.addCallback(lambda _: came.append(self.clock.seconds()))
        return came

    def _on_change(self) -> None:
        self.changes += 1

    def _compute(self, work: Callable[[], Any], /) -> Any:  # Any: whatever is computed
        if isinstance(work, partial) and work.func is parse_key_set:
            self.parsed.append(work.args[0])
        return run_inline(work)

    async def _open_http(
        self, ca_file: str | None, proxy: ProxyAddress | None
    ) -> tuple[HTTPClient, Callable[[], None]]:
        self.opened.append((ca_file, proxy))
        return self.hosts.http(MAX_SET_BYTES), lambda: None

    def _open_fetch(self, source: KeySource) -> KeyFetch:
        def close() -> None:
            self.closed.append(source)

        if source.jwks_file is not None:
            return KeyFetch(JwksFile(source.jwks_file, run_inline, self._compute), OF_FILE, close)
        fetch = HttpKeyFetch(source, self._open_http, run_inline, self._compute, self.secrets.append)
        return KeyFetch(fetch, OVER_HTTP, close)
