"""Credentials that outlive a configuration: one source per identity, shared by its users (contract 3.17).

A token, the request under way for it and a rotated refresh token belong to what was configured: two providers
with the same settings share them, and so do the generations before and after a reload.  A source that no
generation uses any more is closed.  What is known of the clock of a host is kept in the same way.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine, Hashable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from random import random
from typing import TYPE_CHECKING, Any, Protocol, TypeVar
from weakref import WeakValueDictionary

import msgspec
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime

from mgw.config.environment import refresh_tokens_below
from mgw.config.proxy import ProxyAddress
from mgw.config.secrets import parts_of, secrets_in
from mgw.credentials.exchange_queue import ExchangeQueue
from mgw.credentials.provider import CredentialProvider
from mgw.credentials.recent_secrets import RecentSecrets
from mgw.credentials.refresh_tokens import RefreshTokenFile, RefreshTokens
from mgw.credentials.renewed_token import BEARER, Renewal, RenewedToken, SharedFetch, TokenFetch
from mgw.credentials.signed_again import SignedAgain
from mgw.credentials.subscription.registry import THREADS, Subscriptions
from mgw.credentials.subscription.store import CredentialStore
from mgw.credentials.token_request import TokenClient
from mgw.nouns.secret import Secret, key_hash
from mgw.reactor.daemon_threads import DaemonThreads, ThreadRunner
from mgw.reactor.single_flight import gather

if TYPE_CHECKING:
    from mgw.credentials.aws.clock import HostClock
    from mgw.reactor.treq_client import HTTPClient

T = TypeVar("T", bound=CredentialProvider)


class TokenShare(Protocol):
    """Lets this process ask another one for its tokens."""

    def __call__(self, identity: str, fetch: TokenFetch, *, single_use: bool) -> SharedFetch:
        """Return what asks for the token of an identity.

        :param identity: its digest (:func:`identity_digest`).
        :param fetch: gets a token without the other process.
        :param single_use: what ``fetch`` sends may be accepted once, so no two processes may send it.
        """
        ...


class FileWatcher(Protocol):
    """A source that uses others, by what stands in files."""

    def look(self) -> Coroutine[Deferred[Any], Any, None]:
        """Look at the files now, and use the sources that they lead to."""
        ...


def identity_digest(identity: Hashable) -> str:
    """Return what is the same in each process that has the same configuration, and shows nothing of it.

    :param identity: values of :mod:`msgspec`, of which any may be secret.
    """
    return sha256(msgspec.json.encode(identity, enc_hook=_reveal)).hexdigest()


def _reveal(value: object) -> str:
    assert isinstance(value, Secret), "the only type that needs a hook"
    return value.reveal()


@dataclass(slots=True, eq=False, repr=False)
class _Shared:
    source: CredentialProvider
    identity: Hashable
    users: int = 0
    secrets: list[Secret] = field(init=False)
    """The secrets that were configured for it, in a file or elsewhere."""

    def __post_init__(self) -> None:
        self.secrets = [part for secret in secrets_in(self.identity) for part in parts_of(secret)]


@dataclass(slots=True, eq=False, repr=False)
class CredentialSources:
    """The sources of credentials of a process, by identity.

    :param open_client: makes what asks token endpoints through a proxy, or without one.
    :param subscriptions: keeps the accounts of subscriptions, by rules of its own.
    :param monotonic: seconds on a clock that nobody sets.
    :param wall: seconds since 1970.
    :param share: asks another process for renewed tokens; ``None``: this one gets them.
    :param recent: the tokens that came and went; what asks token endpoints has the same.
    """

    clock: IReactorTime
    open_client: Callable[[ProxyAddress | None], TokenClient]
    subscriptions: Subscriptions
    monotonic: Callable[[], float] = time.monotonic
    wall: Callable[[], float] = time.time
    refresh_tokens: RefreshTokens = field(default_factory=RefreshTokens)
    share: TokenShare | None = None
    recent: RecentSecrets = field(default_factory=RecentSecrets)
    watchers: set[FileWatcher] = field(default_factory=set)
    """The sources that follow files."""
    clocks: WeakValueDictionary[Hashable, HostClock] = field(default_factory=WeakValueDictionary)
    """What is known of hosts' clocks, by provider and host, while something is signed for them."""
    exchanges: WeakValueDictionary[str, ExchangeQueue] = field(default_factory=WeakValueDictionary)
    """The exchanges of callers' tokens, by the address of the endpoint."""
    signed_again: SignedAgain = field(default_factory=SignedAgain)
    """How often requests were sent once more because of how they were signed, since the process began."""
    _clients: dict[ProxyAddress | None, TokenClient] = field(default_factory=dict)
    _by_identity: dict[Hashable, _Shared] = field(default_factory=dict)
    _by_source: dict[int, _Shared] = field(default_factory=dict)
    """The shared parts by the ``id`` of the source object, which need not be hashable."""

    @property
    def run(self) -> ThreadRunner:
        """What runs the reading of files."""
        return self.subscriptions.run

    def client(self, proxy: ProxyAddress | None = None) -> TokenClient:
        """Return what asks token endpoints through a provider's proxy; ``None``: without one."""
        if proxy not in self._clients:
            self._clients[proxy] = self.open_client(proxy)
        return self._clients[proxy]

    def exchange_queue(self, url: str) -> ExchangeQueue:
        """Return the queue of an endpoint at which callers' tokens are exchanged."""
        queue = self.exchanges.get(url)
        if queue is None:
            queue = self.exchanges[url] = ExchangeQueue(self.clock)
        return queue

    def use(self, identity: Hashable, build: Callable[[], T]) -> T:
        """Return the source of an identity, built if nobody uses it yet; the caller releases it."""
        shared = self._by_identity.get(identity)
        if shared is None:
            shared = _Shared(build(), identity)
            self._by_identity[identity] = self._by_source[id(shared.source)] = shared
        shared.users += 1
        source: Any = shared.source  # Any: what was built for an identity is of its type
        return source  # type: ignore[no-any-return]  # as above

    def use_token(
        self, identity: Hashable, name: str, fetch: TokenFetch, *, single_use: bool = False
    ) -> RenewedToken:
        """Return the renewed token of an identity; ``fetch`` gets it if nobody else does yet.

        :param name: what ``key_hash`` is made of.
        :param single_use: no two processes may ``fetch``, as what is sent may be accepted once.
        """
        return self.use(identity, lambda: self.renewed(identity, name, fetch, single_use=single_use))

    def renewed(
        self,
        identity: Hashable,
        name: str,
        fetch: TokenFetch,
        renewal: Renewal = BEARER,
        *,
        single_use: bool = False,
    ) -> RenewedToken:
        """Return a new source, which gets what it gives out from another process where there is one.

        :param renewal: what it gives out; for the rest see :meth:`use_token`.
        """
        digest = identity_digest(identity)
        shared = None if self.share is None else self.share(digest, fetch, single_use=single_use)
        return RenewedToken(fetch, key_hash(name), self.monotonic, digest, shared, self.recent, renewal)

    def find_token(self, identity: str) -> RenewedToken | None:
        """Return the renewed token of an identity if it is in use.

        :param identity: its digest.
        """
        for shared in self._by_identity.values():
            if isinstance(shared.source, RenewedToken) and shared.source.identity == identity:
                return shared.source
        return None

    async def look_for_token(self, identity: str) -> RenewedToken | None:
        """Return the renewed token of an identity as :meth:`find_token` does.

        Another process may know it from a file that has changed and at which this one has not looked since.
        """
        found = self.find_token(identity)
        if found is None and self.watchers:
            await gather(watcher.look() for watcher in list(self.watchers))
            found = self.find_token(identity)
        return found

    def release(self, source: CredentialProvider) -> None:
        """Close a source if this was the last who used it; one that is not shared is closed at once."""
        shared = self._by_source.get(id(source))
        if shared is None:
            source.close()
            return
        shared.users -= 1
        if not shared.users:
            del self._by_source[id(source)], self._by_identity[shared.identity]
            self.recent.note(shared.identity)  # requests that began with it may still be under way
            source.close()

    def secrets(self) -> list[Secret]:
        """Return what no log may show: what sources were configured with, and tokens in use and of late."""
        found = [*self.recent, *self.refresh_tokens.secrets(), *self.subscriptions.secrets()]
        for shared in self._by_identity.values():
            found += shared.secrets
            found += shared.source.secrets if isinstance(shared.source, RenewedToken) else ()
        return found

    async def stop(self) -> None:
        """Let what has begun come to its end, then close connections; generations release their sources."""
        await self.refresh_tokens.stop(self.clock)
        await self.subscriptions.stop()
        for client in self._clients.values():
            client.close()

    def __len__(self) -> int:
        return len(self._by_identity)


def open_sources(
    reactor: Any,  # Any: a reactor has no one type
    open_http: Callable[[ProxyAddress | None], tuple[HTTPClient, Callable[[], None]]],
    environ: Mapping[str, str],
) -> CredentialSources:
    """Return the sources of a process, with threads for the files of stores.

    :param open_http: returns what sends requests to token endpoints, and what closes it.
    :param environ: says where refresh tokens are kept.
    """
    recent = RecentSecrets()

    def open_client(proxy: ProxyAddress | None) -> TokenClient:
        from mgw.credentials.token_client import HttpTokenClient  # treq takes long to import

        http, close = open_http(proxy)
        return HttpTokenClient(http, reactor, close, recent)

    threads = DaemonThreads(reactor, "mgw-credentials", THREADS)
    subscriptions = Subscriptions(reactor, time.time, threads.defer, random, recent=recent)
    directory = Path(refresh_tokens_below(environ))

    def open_file(name: str) -> RefreshTokenFile:
        store = CredentialStore(directory / f"{name}.json")
        return RefreshTokenFile(store, threads.defer, reactor, time.time)

    tokens = RefreshTokens(open_file)
    return CredentialSources(reactor, open_client, subscriptions, refresh_tokens=tokens, recent=recent)
