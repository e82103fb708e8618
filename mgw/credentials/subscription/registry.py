"""What outlives a reload: what is known of each store, and which accounts rest."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from twisted.internet.interfaces import IReactorTime

from mgw.config.profile import Profile
from mgw.config.provider import Provider
from mgw.credentials.subscription.accounts import Accounts, Login, Runner
from mgw.credentials.subscription.pool import AccountPool, Rests
from mgw.credentials.subscription.source import SubscriptionSource
from mgw.credentials.subscription.store import CredentialStore
from mgw.credentials.token_request import TokenClient
from mgw.secret import Secret

T = TypeVar("T")

THREADS = 4
"""One that waits for a lock keeps the others from nothing."""


@dataclass(slots=True)
class Subscriptions:
    """Builds the sources of all providers with subscription credentials.

    :param wall: returns unix seconds.
    :param random: returns a number from 0 to 1.
    """

    clock: IReactorTime
    wall: Callable[[], float]
    run: Runner
    random: Callable[[], float]
    _accounts: dict[str, Accounts] = field(default_factory=dict)
    _rests: dict[str, Rests] = field(default_factory=dict)
    """Of the accounts in pools, by store: a pool with one account more, or another pool, knows them too."""
    _pools: dict[tuple[str, tuple[str, ...], bool], AccountPool] = field(default_factory=dict)

    def accounts(self, path: str) -> Accounts:
        """Return what is known of a store, which is read if it never was."""
        found = self._accounts.get(path)
        if found is None:
            found = Accounts(CredentialStore(path), self.clock, self.wall, self.run, self.random)
            found.load()
            self._accounts[path] = found
        return found

    def source(
        self, provider: Provider, profile: Profile, store: str, client: TokenClient
    ) -> SubscriptionSource:
        """Return the credentials of a provider; accounts that rest go on resting.

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
        """Return the pool of these accounts; one account alone has no rests that it shares."""
        key = (store, names, shares)
        if key not in self._pools:
            now = self.clock.seconds
            rests = self._rests.setdefault(store, Rests(now)) if shares else Rests(now)
            self._pools[key] = AccountPool(names, rests)
        return self._pools[key]

    def secrets(self) -> list[Secret]:
        """Return every token that is known."""
        return [secret for accounts in self._accounts.values() for secret in accounts.secrets()]

    async def stop(self) -> None:
        """Let refreshes that have begun come to their end: their tokens are to be written."""
        for accounts in self._accounts.values():
            await accounts.stop()
