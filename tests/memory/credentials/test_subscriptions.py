"""Subscriptions outlive generations: one refresh for all who ask, and rests that a reload does not end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from twisted.internet.defer import Deferred
from twisted.internet.testing import MemoryReactorClock

from mgw.credentials.provider import CredentialRefusal
from mgw.credentials.subscription.store import CredentialStore, StoredCredential
from mgw.generation import Generation, build_generation
from mgw.nouns.errors import GatewayError, Reason
from mgw.nouns.secret import Secret
from tests.support.configs import config
from tests.support.deferreds import result_of
from tests.support.subscriptions import PROFILE
from tests.support.token_endpoints import WALL, TokenHosts

ONE = "auth: oauth2, oauth: {credentials: a, profile: example}"
LIMITED = CredentialRefusal(429, [(b"Retry-After", b"60")], "m")


class Play:
    """A store, and generations that use it one after another."""

    def __init__(self, folder: Path) -> None:
        self.hosts = TokenHosts()
        self.folder = folder
        self.store = CredentialStore(folder / "credentials" / "store.json")
        (folder / "example.yaml").write_text(PROFILE)

    def put(self, *names: str, lifetime: float) -> None:
        entries = {
            name: StoredCredential(
                profile="example",
                access_token=Secret(f"token-of-{name}"),
                refresh_token=Secret(f"refresh-of-{name}"),
                expires_at=WALL + lifetime,
                created_at=WALL - 3600,
            )
            for name in names
        }
        self.store.update(lambda found: found.update(entries))

    def built(self, **providers: str) -> Generation:
        text = f"profiles: {{example: {{file: {self.folder}/example.yaml}}}}\n"
        text += f"credential_store: {self.store.path}\nproviders:\n"
        for name, auth in providers.items():
            text += f"  {name}: {{kind: openai_compat, base_url: 'http://h/v1', {auth}}}\n"
        return build_generation(1, config(text), MemoryReactorClock(), 0, self.hosts.sources)


@pytest.fixture
def play(tmp_path: Path) -> Play:
    return Play(tmp_path)


def pool_of(*names: str) -> str:
    return f"pool: {{credentials: [{', '.join(names)}], profile: example}}"


def obtain(generation: Generation, name: str = "p") -> Deferred[Any]:
    return Deferred.fromCoroutine(generation.credentials[name].obtain(None, "m"))


def accounts_used(generation: Generation, name: str = "p") -> set[str | None]:
    found = [generation.credentials[name].ready(None, "m") for _ in range(4)]
    return {None if credential is None else credential.account for credential in found}


def limit(generation: Generation, account: str, name: str = "p") -> None:
    """Let a provider limit an account."""
    source = generation.credentials[name]
    while (credential := source.ready(None, "m")) is None or credential.account != account:
        assert credential is not None
    result_of(source.refused(credential, LIMITED))


def test_a_thousand_requests_before_and_after_a_reload_make_one_refresh(play: Play) -> None:
    play.put("a", lifetime=-1)
    old = play.built(p=ONE)
    waiting = [obtain(old) for _ in range(500)]
    new = play.built(p=ONE, q=pool_of("a"))
    old.retire()
    waiting += [obtain(new) for _ in range(250)] + [obtain(new, "q") for _ in range(250)]
    (post,) = play.hosts.posts()
    post.answer_token("a1")
    assert {result_of(waiter).value.reveal() for waiter in waiting} == {"Bearer a1"}
    assert len(play.hosts.posts()) == 1
    assert play.store.read()["a"].access_token == Secret("a1")


def test_a_failing_endpoint_is_asked_once_for_all_before_and_after_a_reload(play: Play) -> None:
    play.put("a", lifetime=-1)
    old = play.built(p=ONE)
    waiting = [obtain(old) for _ in range(500)]
    new = play.built(p=ONE)
    old.retire()
    waiting += [obtain(new) for _ in range(500)]
    (post,) = play.hosts.posts()
    post.answer({"error": "server_error"}, 500)
    for waiter in [*waiting, obtain(new)]:
        with pytest.raises(GatewayError) as failed:
            result_of(waiter)
        assert failed.value.reason is Reason.CREDENTIAL_SOURCE
    assert len(play.hosts.posts()) == 1


def test_a_refresh_goes_on_after_the_reload_that_took_its_provider_away(play: Play) -> None:
    play.put("a", lifetime=-1)
    old = play.built(p=ONE)
    waiter = obtain(old)
    _ = waiter.addErrback(lambda _: None)
    waiter.cancel()
    play.built(q="auth: none")
    old.retire()
    play.hosts.newest().answer_token("a1", refresh_token="rotated")
    assert play.store.read()["a"].refresh_token == Secret("rotated")


def test_accounts_that_rest_go_on_resting_in_a_pool_with_one_account_more(play: Play) -> None:
    play.put("a", "b", "c", lifetime=3600)
    old = play.built(p=pool_of("a", "b"))
    limit(old, "a")
    new = play.built(p=pool_of("a", "b", "c"))
    old.retire()
    assert accounts_used(new) == {"b", "c"}


def test_an_account_that_one_pool_lets_rest_rests_in_the_others_too(play: Play) -> None:
    play.put("a", "b", "c", lifetime=3600)
    generation = play.built(p=pool_of("a", "b"), q=pool_of("c", "a"), r=ONE)
    limit(generation, "a")
    assert accounts_used(generation, "q") == {"c"}
    assert accounts_used(generation, "r") == {"a"}, "one account alone never rests"
