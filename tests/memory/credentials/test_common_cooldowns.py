"""Accounts that several processes use: what one finds out of them, all know."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pytest
from twisted.internet.defer import Deferred
from twisted.internet.testing import MemoryReactorClock

from mgw.credentials.provider import CredentialRefusal
from mgw.credentials.subscription.accounts import TICK_SECONDS
from mgw.credentials.subscription.registry import Subscriptions
from mgw.credentials.subscription.source import REFUSED_COOLDOWN_SECONDS
from mgw.credentials.subscription.store import CredentialStore, StoredCredential
from mgw.generation import Generation, build_generation
from mgw.nouns.secret import Secret
from tests.support.configs import config
from tests.support.subscriptions import PROFILE
from tests.support.token_endpoints import WALL, TokenHosts

POOL = "pool: {credentials: [a, b], profile: example}"
ALONE = "auth: oauth2, oauth: {credentials: a, profile: example}"
Rest = tuple[str, str, str | None, float]


@dataclass
class Process:
    """One of the processes."""

    folder: Path
    auth: str = POOL
    hosts: TokenHosts = field(default_factory=TokenHosts)
    told: list[Rest] = field(default_factory=list)
    others: list[Process] = field(default_factory=list)
    """Who hears what it tells."""
    generation: Generation = field(init=False)

    def __post_init__(self) -> None:
        (self.folder / "example.yaml").write_text(PROFILE)
        text = f"profiles: {{example: {{file: {self.folder}/example.yaml}}}}\n"
        text += f"credential_store: {self.store.path}\n"
        text += f"providers: {{p: {{kind: openai_compat, base_url: 'http://h/v1', {self.auth}}}}}\n"
        self.generation = build_generation(1, config(text), MemoryReactorClock(), 0, self.hosts.sources)
        self.subscriptions.on_cooldown = self._tell

    @property
    def store(self) -> CredentialStore:
        return CredentialStore(self.folder / "credentials" / "store.json")

    @property
    def subscriptions(self) -> Subscriptions:
        return self.hosts.sources.subscriptions

    @property
    def accounts(self) -> set[str | None]:
        """Those that requests are sent with."""
        found = [self.generation.credentials["p"].ready(None, "m") for _ in range(4)]
        return {None if credential is None else credential.account for credential in found}

    def refuse(self, account: str, status: int = 429) -> None:
        """Let the provider refuse a request that was sent with an account."""
        source = self.generation.credentials["p"]
        while (credential := source.ready(None, "m")) is None or credential.account != account:
            assert credential is not None
        refusal = CredentialRefusal(status, [(b"Retry-After", b"60")], "m")
        _ = Deferred.fromCoroutine(source.refused(credential, refusal))

    def _tell(self, *rest: str | float | None) -> None:
        store, account, model, seconds = rest
        assert isinstance(store, str)
        assert isinstance(account, str)
        assert model is None or isinstance(model, str)
        assert isinstance(seconds, float)
        self.told.append((store, account, model, seconds))
        for other in self.others:
            other.subscriptions.learn(store, account, model, seconds)


@pytest.fixture
def processes(tmp_path: Path) -> tuple[Process, Process]:
    log_in(tmp_path, "a")
    log_in(tmp_path, "b")
    one, other = Process(tmp_path), Process(tmp_path)
    one.others, other.others = [other], [one]
    return one, other


def log_in(folder: Path, name: str, token: str = "") -> None:
    """Put an account into the store; it has no refresh token, so a token that is refused stays."""
    entry = StoredCredential(
        profile="example", access_token=Secret(token or f"canary-of-{name}"), created_at=WALL
    )
    store = CredentialStore(folder / "credentials" / "store.json")
    store.update(lambda entries: entries.update({name: entry}))


def test_an_account_that_is_limited_rests_in_all_processes_and_is_told_once(
    processes: tuple[Process, Process],
) -> None:
    one, other = processes
    one.refuse("a")
    assert one.accounts == other.accounts == {"b"}
    assert one.told == [(str(one.store.path), "a", "m", 60.0)]
    assert other.told == [], "no echo"
    other.hosts.clock.advance(60)
    assert other.accounts == {"a", "b"}


def test_a_rest_that_is_learned_leaves_a_longer_one(processes: tuple[Process, Process]) -> None:
    one, other = processes
    one.refuse("a")
    store = str(one.store.path)
    one.subscriptions.learn(store, "a", "m", 5.0)
    one.hosts.clock.advance(59)
    assert one.accounts == {"b"}
    one.subscriptions.learn(store, "a", "m", 0.0)
    assert one.accounts == {"a", "b"}
    assert other.told == []


def test_a_new_login_ends_the_rest_of_a_refused_account_in_each_process(
    tmp_path: Path, processes: tuple[Process, Process]
) -> None:
    one, other = processes
    one.refuse("a", 401)
    assert one.accounts == other.accounts == {"b"}
    log_in(tmp_path, "a", "canary-of-a-new-login")
    other.hosts.clock.advance(TICK_SECONDS)
    assert other.accounts == {"a", "b"}, "though the process that was refused has not looked yet"
    assert other.told == []
    assert one.accounts == {"b"}
    one.hosts.clock.advance(TICK_SECONDS)
    assert one.accounts == {"a", "b"}
    assert one.told == [
        (str(one.store.path), "a", None, REFUSED_COOLDOWN_SECONDS),
        (str(one.store.path), "a", None, 0.0),
    ]
    assert "canary" not in repr(one.told)


def test_whoever_learns_late_of_a_refused_account_takes_the_token_in_the_store_for_the_refused_one(
    tmp_path: Path, processes: tuple[Process, Process]
) -> None:
    """The process that was refused had renewed the token before, which the other has not noticed yet."""
    one, other = processes
    log_in(tmp_path, "a", "canary-of-a-renewed")
    one.hosts.clock.advance(TICK_SECONDS)
    one.refuse("a", 401)
    other.hosts.clock.advance(TICK_SECONDS)
    assert other.accounts == {"b"}


def test_that_another_process_uses_an_account_again_does_not_end_a_rest_that_began_here(
    processes: tuple[Process, Process],
) -> None:
    """Its own token was refused, and is the same as before: perhaps the other has not seen that yet."""
    one, other = processes
    one.others = []
    one.refuse("a", 401)
    other.refuse("a", 401)
    one.subscriptions.learn(str(one.store.path), "a", None, 0.0)
    assert one.accounts == {"b"}


def test_a_process_that_begins_later_is_told_what_is_known(
    tmp_path: Path, processes: tuple[Process, Process]
) -> None:
    one, _ = processes
    one.refuse("a")
    one.hosts.clock.advance(20)
    later = Process(tmp_path)
    assert later.accounts == {"a", "b"}
    assert one.subscriptions.cooldowns() == [(str(one.store.path), "a", "m", 40.0)]
    for rest in one.subscriptions.cooldowns():
        later.subscriptions.learn(*rest)
    assert later.accounts == {"b"}
    for process in (one, later):
        process.hosts.clock.advance(40)
        assert process.subscriptions.cooldowns() == []
        assert process.accounts == {"a", "b"}


def test_one_account_alone_tells_nothing_and_learns_nothing(
    tmp_path: Path, processes: tuple[Process, Process]
) -> None:
    alone, (one, _) = Process(tmp_path, ALONE), processes
    alone.others, one.others = [one], [alone]
    alone.refuse("a", 401)
    one.refuse("a")
    assert alone.told == alone.subscriptions.cooldowns() == []
    assert alone.accounts == {"a"}
