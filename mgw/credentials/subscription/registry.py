"""What outlives a reload: what is known of each store, and which accounts are in cooldown."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime

from mgw.config.profile import Profile
from mgw.config.provider import Provider
from mgw.credentials.recent_secrets import NOWHERE, RecentSecrets
from mgw.credentials.subscription.accounts import Accounts, Login
from mgw.credentials.subscription.pool import AccountPool, Cooldowns
from mgw.credentials.subscription.source import SubscriptionSource
from mgw.credentials.subscription.store import CredentialStore
from mgw.credentials.token_request import TokenClient
from mgw.nouns.secret import Secret
from mgw.reactor.daemon_threads import ThreadRunner

T = TypeVar("T")

THREADS = 4
"""The number of threads: one that waits for a lock does not hold up the others."""


@dataclass(slots=True, eq=False, repr=False)
class Subscriptions:
    """Builds the sources of all providers with subscription credentials.

    :param wall: returns unix seconds.
    :param random: returns a number from 0 to 1.
    """

    clock: IReactorTime
    wall: Callable[[], float]
    run: ThreadRunner
    random: Callable[[], float]
    on_cooldown: Callable[[str, str, str | None, float], None] | None = None
    """Told when an account in a pool begins a cooldown: the store, the account, the model (``None``: all),
    and the seconds; 0: its cooldown is over."""
    recent: RecentSecrets = NOWHERE
    """The record of secrets, which learns every token."""
    _accounts: dict[str, Accounts] = field(default_factory=dict)
    _cooldowns: dict[str, Cooldowns] = field(default_factory=dict)
    """The cooldowns of accounts in pools, by store: another pool of the store knows them too."""
    _pools: dict[tuple[str, tuple[str, ...], bool], AccountPool] = field(default_factory=dict)

    def accounts(self, path: str) -> Accounts:
        """Return what is known of a store, which is read if it never was."""
        found = self._accounts.get(path)
        if found is None:
            found = self._accounts[path] = self._open(path)
            found.load()
        return found

    async def read_ahead(self, path: str) -> None:
        """Read a store in a thread if it never was, so that :meth:`accounts` need not do it."""
        if path not in self._accounts:
            accounts = self._open(path)
            await accounts.load_in_thread()
            self._accounts.setdefault(path, accounts)

    def _open(self, path: str) -> Accounts:
        store = CredentialStore(path)
        return Accounts(store, self.clock, self.wall, self.run, self.random, recent=self.recent)

    def source(
        self, provider: Provider, profile: Profile, store: str, client: TokenClient
    ) -> SubscriptionSource:
        """Return the credentials of a provider; accounts in cooldown stay so.

        :param client: asks the profile's endpoints.
        """
        pool = self._pool(store, provider.subscriptions, shares=provider.pool is not None)
        assert provider.profile is not None, "a configuration that was loaded says it"
        logins = [Login(name, provider.profile, profile, client) for name in pool.names]
        cloak = provider.cloak or profile.cloak.mode
        return SubscriptionSource(
            provider.name, self.accounts(store), logins, pool, provider.pool is not None, cloak
        )

    def _pool(self, store: str, names: tuple[str, ...], *, shares: bool) -> AccountPool:
        """Return the pool of these accounts; one account alone shares no cooldowns."""
        key = (store, names, shares)
        if key not in self._pools:
            cooldowns = self._cooldowns_of(store) if shares else Cooldowns(self.clock.seconds)
            self._pools[key] = AccountPool(names, cooldowns)
        return self._pools[key]

    def _cooldowns_of(self, store: str) -> Cooldowns:
        """Return the cooldowns of a store's accounts in pools."""
        if store not in self._cooldowns:
            self._cooldowns[store] = Cooldowns(self.clock.seconds, partial(self._tell_cooldown, store))
        return self._cooldowns[store]

    def _tell_cooldown(self, store: str, account: str, model: str | None, seconds: float) -> None:
        if self.on_cooldown is not None:
            self.on_cooldown(store, account, model, seconds)

    def learn(self, store: str, account: str, model: str | None, seconds: float) -> None:
        """Take in what another process found out and told by its ``on_cooldown``; it is not told again.

        Nothing happens where no pool uses the store.
        """
        cooldowns = self._cooldowns.get(store)
        if cooldowns is None:
            return
        cooldowns.learn(account, model, seconds)
        if model is None and seconds > 0:
            _ = Deferred.fromCoroutine(self._learn_refused(store, account, cooldowns))

    async def _learn_refused(self, store: str, account: str, cooldowns: Cooldowns) -> None:
        """Read the store: another process has seen the token refused that is in there now."""
        token = await self.accounts(store).read_token(account)
        if token is not None:
            cooldowns.learn_refused(account, token)

    def cooldowns(self) -> list[tuple[str, str, str | None, float]]:
        """Return what a new process has to :meth:`learn`: the cooldowns that are under way."""
        return [
            (store, *cooldown)
            for store, cooldowns in self._cooldowns.items()
            for cooldown in cooldowns.under_way()
        ]

    def secrets(self) -> list[Secret]:
        """Return every token that is known."""
        return [secret for accounts in self._accounts.values() for secret in accounts.secrets()]

    async def stop(self) -> None:
        """Let refreshes that have begun come to their end: their tokens are to be written."""
        for accounts in self._accounts.values():
            await accounts.stop()
