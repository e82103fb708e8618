"""Sources outlive generations: what is the same before and after a reload goes on."""

from __future__ import annotations

from typing import Any

import pytest
from twisted.internet.defer import Deferred
from twisted.internet.testing import MemoryReactorClock

from mgw.credentials.provider import CredentialProvider
from mgw.generation import Generation, build_generation
from mgw.nouns.errors import GatewayError
from tests.support.configs import config
from tests.support.deferreds import result_of
from tests.support.token_endpoints import TOKEN_URL, TokenHosts

OAUTH = f"auth: oauth2, oauth: {{token_url: '{TOKEN_URL}', client_id: me, refresh_token: canary-r1%s}}"
PROVIDER = "  {name}: {{kind: openai_compat, base_url: 'http://h/v1', {auth}}}\n"


@pytest.fixture
def hosts() -> TokenHosts:
    return TokenHosts()


def built(hosts: TokenHosts, *providers: tuple[str, str]) -> Generation:
    text = "providers:\n" + "".join(PROVIDER.format(name=name, auth=auth) for name, auth in providers)
    return build_generation(1, config(text), MemoryReactorClock(), 0, hosts.sources)


def obtain(generation: Generation, name: str = "p") -> Deferred[Any]:
    return Deferred.fromCoroutine(generation.credentials[name].obtain(None))


def tokens(waiting: list[Deferred[Any]]) -> set[str]:
    return {result_of(waiter).key.reveal() for waiter in waiting}


SAME = OAUTH % ""


def test_a_thousand_requests_before_and_after_a_reload_make_one_token_request(hosts: TokenHosts) -> None:
    old = built(hosts, ("p", SAME))
    waiting = [obtain(old) for _ in range(500)]
    new = built(hosts, ("p", SAME), ("q", "auth: none"))
    old.retire()
    waiting += [obtain(new) for _ in range(500)]
    assert len(hosts.posts()) == 1
    hosts.newest().answer_token("a1")
    assert tokens(waiting) == {"a1"}
    assert new.credentials["p"].ready(None) is not None
    assert len(hosts.posts()) == 1


def test_a_failing_endpoint_is_asked_once_for_all_before_and_after_a_reload(hosts: TokenHosts) -> None:
    old = built(hosts, ("p", SAME))
    waiting = [obtain(old) for _ in range(500)]
    new = built(hosts, ("p", SAME))
    old.retire()
    waiting += [obtain(new) for _ in range(500)]
    hosts.newest().answer(b"<html>", 500)
    for waiter in waiting:
        with pytest.raises(GatewayError, match="answered 500"):
            result_of(waiter)
    assert len(hosts.posts()) == 1


def test_two_providers_of_one_identity_share_its_token(hosts: TokenHosts) -> None:
    generation = built(hosts, ("p", SAME), ("q", SAME))
    waiting = [obtain(generation, "p"), obtain(generation, "q")]
    assert len(hosts.posts()) == 1
    hosts.newest().answer_token("a1")
    assert tokens(waiting) == {"a1"}


def test_other_settings_are_another_source(hosts: TokenHosts) -> None:
    generation = built(hosts, ("p", SAME), ("q", SAME.replace("client_id: me", "client_id: you")))
    assert generation.credentials["p"] is not generation.credentials["q"]
    assert len(hosts.sources) == 2


def test_a_providers_proxy_leads_to_its_token_endpoint_too(hosts: TokenHosts) -> None:
    proxied = f"proxy: 'http://proxy.example:3128', {SAME}"
    generation = built(hosts, ("p", SAME), ("q", proxied), ("r", proxied), ("s", "auth: adc"))
    assert generation.credentials["p"] is not generation.credentials["q"]
    assert generation.credentials["q"] is generation.credentials["r"]
    assert [None if proxy is None else proxy.host for proxy in hosts.proxies] == [None, "proxy.example"]


def test_a_source_that_nobody_uses_any_more_is_closed(hosts: TokenHosts) -> None:
    old = built(hosts, ("p", SAME), ("q", SAME))
    new = built(hosts, ("p", SAME))
    old.retire()
    assert len(hosts.sources) == 1
    new.retire()
    assert len(hosts.sources) == 0


def test_a_source_stays_while_a_request_of_the_old_generation_is_under_way(hosts: TokenHosts) -> None:
    old = built(hosts, ("p", SAME))
    old.enter()
    built(hosts, ("p", "auth: none"))
    old.retire()
    waiting = obtain(old)
    hosts.newest().answer_token("a1")
    assert tokens([waiting]) == {"a1"}
    assert len(hosts.sources) == 1
    old.leave()
    assert len(hosts.sources) == 0


def test_a_rotated_refresh_token_survives_a_reload_that_changes_the_rest(hosts: TokenHosts) -> None:
    old = built(hosts, ("p", SAME))
    waiting = obtain(old)
    hosts.newest().answer_token("a1", refresh_token="canary-r2")
    result_of(waiting)
    old.retire()
    assert len(hosts.sources) == 0
    new = built(hosts, ("p", OAUTH % ", scopes: more"))
    _ = obtain(new)
    assert hosts.newest().form["refresh_token"] == "canary-r2"


def test_a_generation_that_cannot_be_built_leaves_no_source_behind(hosts: TokenHosts) -> None:
    with pytest.raises(ValueError, match="service_account_file"):
        built(hosts, ("p", SAME), ("q", "auth: adc, service_account_file: /missing"))
    assert len(hosts.sources) == 0


def test_the_tokens_in_use_are_known_to_whoever_hides_them(hosts: TokenHosts) -> None:
    waiting = obtain(built(hosts, ("p", SAME)))
    hosts.newest().answer_token("canary-a1", refresh_token="canary-r2")
    result_of(waiting)
    assert {secret.reveal() for secret in hosts.sources.secrets()} == {
        *("canary-a1", "canary-r1", "canary-r2")
    }


def test_what_is_not_shared_is_closed_at_once(hosts: TokenHosts) -> None:
    closed: list[CredentialProvider] = []

    class Own:
        def close(self) -> None:
            closed.append(own)

    own: Any = Own()
    hosts.sources.release(own)
    assert closed == [own]
