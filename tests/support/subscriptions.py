"""Subscription credentials in memory: a store in a temporary directory, a fake clock, token endpoints."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from mgw.config.load import parse_profile
from mgw.config.profile import CloakMode, Profile
from mgw.credentials.subscription.accounts import Accounts, Login
from mgw.credentials.subscription.pool import AccountPool, Cooldowns
from mgw.credentials.subscription.source import SubscriptionSource
from mgw.credentials.subscription.store import CredentialStore, StoredCredential
from mgw.exchange.offload import run_inline
from mgw.nouns.secret import Secret
from tests.support.token_endpoints import TokenHosts

WALL = 1_800_000_000.0
"""Unix seconds at the begin of each clock."""
PROFILE = """
client_id: the-client
token: {url: "http://idp.example/token"}
"""


def profile(text: str = PROFILE) -> Profile:
    """Return the profile that a text means."""
    return parse_profile(text, "profile.yaml", {})


@dataclass
class SubscriptionPlay:
    """A store, and what a process knows of it."""

    folder: Path
    text: str = PROFILE
    hosts: TokenHosts = field(default_factory=TokenHosts)
    luck: float = 0.0
    store: CredentialStore = field(init=False)
    accounts: Accounts = field(init=False)

    def __post_init__(self) -> None:
        self.store = CredentialStore(self.folder / "credentials" / "store.json")
        self.clock = self.hosts.clock
        self.accounts = self.another_process()

    def another_process(self) -> Accounts:
        """Return what another process would know."""
        return Accounts(self.store, self.clock, self.wall, run_inline, self.random)

    def random(self) -> float:
        return self.luck

    def wall(self) -> float:
        return WALL + self.clock.seconds()

    def put(self, name: str, token: str | None = None, **more: Any) -> None:  # Any: fields of an entry
        """Put an entry into the store as ``mgw auth login`` does, and let the process read it."""
        entry = StoredCredential(
            profile="example",
            access_token=Secret(token or f"token-of-{name}"),
            refresh_token=Secret(f"refresh-of-{name}"),
            expires_at=self.wall() + 3600,
            created_at=self.wall() - 3600,
        )
        self.store.update(lambda entries: entries.update({name: replace(entry, **more)}))
        self.accounts.load()

    def login(self, name: str) -> Login:
        return Login(name, "example", profile(self.text), self.hosts.client)

    def source(
        self,
        names: Sequence[str],
        *,
        is_pool: bool = True,
        cloak: CloakMode = CloakMode.AUTO,
        cooldowns: Cooldowns | None = None,
    ) -> SubscriptionSource:
        """Return a source; ``cooldowns`` are those of another source that has the same store."""
        pool = AccountPool(names, cooldowns or Cooldowns(self.clock.seconds))
        logins = [self.login(name) for name in names]
        return SubscriptionSource("p", self.accounts, logins, pool, is_pool, cloak)
