"""What a scrape says of connections, accounts and tokens of providers."""

from __future__ import annotations

from pathlib import Path

import pytest
from twisted.internet.defer import Deferred

from mgw.credentials.aws.found_keys import FoundKeys
from mgw.credentials.provider import CredentialProvider, CredentialRefusal
from mgw.credentials.renewed_token import RenewedToken
from mgw.credentials.static import NoCredential
from mgw.credentials.token_request import TokenRequestError, TokenResponse
from mgw.nouns.errors import GatewayError
from mgw.ops.exposition import Exposition
from mgw.ops.provider_metrics import ProviderMetrics
from mgw.upstream.client import Upstream
from tests.support.aws_keys import STS, assumed, credentials, error_xml
from tests.support.deferreds import result_of
from tests.support.subscriptions import SubscriptionPlay
from tests.support.token_endpoints import TokenHosts
from tests.support.upstreams import OK, collect_body, get, memory_upstream, outcome_of


def samples(metrics: ProviderMetrics) -> dict[str, float]:
    """The numbers by name and labels, without the prefix of the names."""
    exposition = Exposition(None)
    text = b"".join(part for table in metrics.tables() for part in exposition.render_table(table)).decode()
    found = (line.rpartition(" ") for line in text.splitlines() if not line.startswith("#"))
    return {name.removeprefix("mgw_"): float(number) for name, _, number in found}


def of_upstream(upstream: Upstream) -> ProviderMetrics:
    return ProviderMetrics(upstreams=lambda: {"main": upstream})


def of_source(source: CredentialProvider) -> ProviderMetrics:
    return ProviderMetrics(credentials=lambda: {"main": source})


def test_connections_are_told_by_what_they_do() -> None:
    harness = memory_upstream(max_connections=2)
    metrics = of_upstream(harness.upstream)
    results = [outcome_of(harness.upstream.open(get())) for _ in range(3)]
    found = samples(metrics)
    assert found['upstream_connections{provider="main",state="active"}'] == 2
    assert found['upstream_connections{provider="main",state="idle"}'] == 0
    assert found['upstream_requests_waiting{provider="main"}'] == 1
    assert found['upstream_connections_max{provider="main"}'] == 2
    assert found['upstream_connections_opened_total{provider="main"}'] == 2
    for connection, result in zip(harness.endpoint.connections, results, strict=False):
        connection.send(OK)
        collect_body(result.response)
    harness.clock.advance(1)
    harness.endpoint.connections[0].send(OK)
    collect_body(results[2].response)
    found = samples(metrics)
    assert found['upstream_connections{provider="main",state="idle"}'] == 2
    assert found['upstream_requests_waiting{provider="main"}'] == 0
    assert found['upstream_connections_opened_total{provider="main"}'] == 2


def test_a_provider_without_a_limit_has_no_maximum() -> None:
    assert not [name for name in samples(of_upstream(memory_upstream().upstream)) if "max" in name]


def test_accounts_that_rest_are_counted_until_they_have_rested(tmp_path: Path) -> None:
    play = SubscriptionPlay(tmp_path)
    for name in ("a", "b"):
        play.put(name)
    source = play.source(["a", "b", "nobody"])
    metrics = of_source(source)
    found = samples(metrics)
    assert [found[f'accounts{kind}{{provider="main"}}'] for kind in ("", "_usable", "_resting")] == [3, 2, 0]
    credential = source.ready(None, "m")
    assert credential is not None
    another = result_of(source.refused(credential, CredentialRefusal(429, [(b"retry-after", b"30")], "m")))
    assert another is not None
    assert samples(metrics)['accounts_resting{provider="main"}'] == 1
    with pytest.raises(GatewayError):
        result_of(source.refused(another, CredentialRefusal(429, [(b"retry-after", b"30")], "m")))
    assert samples(metrics)['accounts_resting{provider="main"}'] == 2
    play.clock.advance(30)
    assert samples(metrics)['accounts_resting{provider="main"}'] == 0


def test_an_account_that_rests_for_two_models_is_one(tmp_path: Path) -> None:
    play = SubscriptionPlay(tmp_path)
    play.put("a")
    source = play.source(["a"])
    for model in ("m", "n"):
        source.pool.cooldowns.begin("a", model, 30)
    assert samples(of_source(source))['accounts_resting{provider="main"}'] == 1


def test_tokens_that_could_not_be_had_are_counted() -> None:
    async def fetch() -> TokenResponse:
        raise TokenRequestError("the token endpoint answered 500", 500)

    source = RenewedToken(fetch, "hash")
    metrics = of_source(source)
    assert samples(metrics)['token_refresh_failures_total{provider="main"}'] == 0
    for _ in range(2):
        with pytest.raises(GatewayError):
            result_of(Deferred.fromCoroutine(source.obtain(None)))
    assert samples(metrics)['token_refresh_failures_total{provider="main"}'] == 2


def test_keys_of_aws_that_could_not_be_had_are_counted_too() -> None:
    hosts = TokenHosts()
    metrics = of_source(credentials(hosts.sources, FoundKeys(assumed())))
    assert samples(metrics)['token_refresh_failures_total{provider="main"}'] == 0
    source = metrics.credentials()["main"]
    waiting = Deferred.fromCoroutine(source.obtain(None))
    hosts.newest(STS).answer(error_xml("AccessDenied"), 403)
    with pytest.raises(GatewayError):
        result_of(waiting)
    assert samples(metrics)['token_refresh_failures_total{provider="main"}'] == 1


def test_a_provider_with_a_key_of_its_own_has_neither_accounts_nor_tokens() -> None:
    assert not samples(of_source(NoCredential()))
