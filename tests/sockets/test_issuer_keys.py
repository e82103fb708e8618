"""Public keys of issuers, fetched by gateways that run: one process, and two workers behind a supervisor."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pytest

from tests.support.certificates import authority
from tests.support.deployment import providers
from tests.support.gateway import GatewayProcess, start_gateway
from tests.support.issuers import jwk, key_set
from tests.support.raw_upstream import RawUpstream, Turn, counted, start_upstream
from tests.support.tls_front import start_tls_front
from tests.support.waiting import wait_until

EDGE: Final = "edge-canary-fixed-0001"
HEAD: Final = {"Authorization": f"Bearer {EDGE}"}
TOKEN: Final = "canary-token-of-a-pod-0001"


@dataclass
class Provider:
    """An identity provider on the loopback."""

    upstream: RawUpstream
    issuer: str = ""
    jwks_uri: str = ""
    keys: bytes = key_set(jwk("a"))
    status: int = 200
    seen: list[tuple[str, bytes | None]] = field(default_factory=list)
    """The paths that were asked for, with what was shown there."""

    def answer(self, turn: Turn) -> None:
        """Be an identity provider."""
        self.seen.append((turn.target, turn.value(b"authorization")))
        document = json.dumps({"issuer": self.issuer, "jwks_uri": self.jwks_uri}).encode()
        body = self.keys if turn.target == "/keys" else document
        turn.send(counted(body, b"Content-Type: application/json", status=self.status))


@pytest.fixture
def provider() -> Iterator[Provider]:
    with start_upstream() as upstream:
        found = Provider(upstream, f"{upstream.url}/realm", f"{upstream.url}/keys")
        upstream.script = found.answer
        yield found


def config_text(provider: Provider, more: str = "", rest: str = "") -> str:
    corp = f"{{name: corp, issuer: '{provider.issuer}', audience: mgw, rules: [{{}}]{more}}}"
    return (
        providers(provider.upstream.url)
        + f"\nedge_auth: {{enabled: true, keys: [{EDGE}], jwt: [{corp}]}}\n{rest}\n"
    )


def fetches(gateway: GatewayProcess, result: str = "ok") -> float:
    return gateway.metric(f'mgw_jwks_fetches_total{{issuer="corp",result="{result}"}}', HEAD)


@pytest.mark.parametrize("workers", ["", "workers: 2"])
def test_keys_are_fetched_at_start_and_kept_by_a_reload(provider: Provider, workers: str) -> None:
    with start_gateway(config_text(provider, rest=workers)) as gateway:
        gateway.log(b"issuer corp: keys added: 'a'")
        assert fetches(gateway) == 1
        assert 0 <= gateway.metric('mgw_jwks_age_seconds{issuer="corp"}', HEAD) < 60
        assert [path for path, _ in provider.seen] == ["/realm/.well-known/openid-configuration", "/keys"]
        gateway.rewrite(config_text(provider, ", clock_skew: 5", workers) + "\nlisten: 127.0.0.1:0\n")
        gateway.signal(signal.SIGHUP)
        wait_until(lambda: gateway.metric("mgw_config_generation ", HEAD) == 2, "the reload")
        assert (len(provider.seen), fetches(gateway)) == (2, 1)
        provider.keys = key_set(jwk("b", "two"))
        changed = config_text(provider, f", jwks_url: '{provider.jwks_uri}'", workers)
        gateway.rewrite(changed + "\nlisten: 127.0.0.1:0\n")
        gateway.signal(signal.SIGHUP)
        gateway.log(b"issuer corp: keys added: 'b'")
        assert (len(provider.seen), fetches(gateway)) == (3, 2)
        assert gateway.stop() == 0
        assert b"internal error" not in gateway.stderr.data
        assert b"Traceback" not in gateway.stderr.data


def test_an_issuer_that_is_away_at_start_is_asked_again(provider: Provider) -> None:
    provider.status = 503
    with start_gateway(config_text(provider)) as gateway:
        gateway.log(b"issuer corp: the keys could not be fetched: the discovery document at ")
        assert fetches(gateway, "failed") >= 1
        assert "mgw_jwks_age_seconds{" not in gateway.get("/metrics", HEAD).decode()
        provider.status = 200
        gateway.log(b"issuer corp: keys added: 'a'")
        assert fetches(gateway) == 1


def test_a_provider_that_wants_a_token_and_has_authorities_of_its_own(
    provider: Provider, tmp_path: Path
) -> None:
    """As the API server of Kubernetes, the address of which is another one than its name."""
    ca = authority(tmp_path)
    token_file = tmp_path / "token"
    token_file.write_text(TOKEN)
    with (
        start_tls_front(provider.upstream.port, ca) as port,
        start_tls_front(provider.upstream.port, ca) as other,
    ):
        provider.issuer, provider.jwks_uri = f"https://localhost:{port}", f"https://localhost:{other}/keys"
        with start_gateway(config_text(provider, f", token_file: {token_file}")) as gateway:
            gateway.log(b"the keys could not be fetched: the discovery document at https://localhost:")
            assert not provider.seen, "nothing is said to a host that nobody vouches for"
        settings = f", ca_file: {ca.ca_file}, token_file: {token_file}"
        with start_gateway(config_text(provider, settings, "workers: 2")) as gateway:
            gateway.log(b"issuer corp: keys added: 'a'")
            assert [shown for _, shown in provider.seen] == [f"Bearer {TOKEN}".encode()] * 2


@pytest.mark.parametrize("workers", ["", "workers: 2"])
def test_a_gateway_ends_in_order_while_an_issuer_does_not_answer(provider: Provider, workers: str) -> None:
    provider.upstream.script = Turn.wait_until_left
    with start_gateway(config_text(provider, rest=workers)) as gateway:
        provider.upstream.wait_for(lambda: len(provider.upstream.turns) == 1, "the fetch")
        assert gateway.get("/healthz"), "nobody waits for it"
        assert gateway.stop() == 0
        provider.upstream.wait_until_left()
        for words in (b"Traceback", b"Unhandled", b"internal error"):
            assert words not in gateway.stderr.data


def test_keys_in_a_file_are_followed(provider: Provider, tmp_path: Path) -> None:
    file = tmp_path / "keys.json"
    file.write_bytes(key_set(jwk("a")))
    with start_gateway(config_text(provider, f", jwks_file: {file}", "workers: 2")) as gateway:
        gateway.log(b"issuer corp: keys added: 'a'")
        file.write_bytes(key_set(jwk("a"), jwk("b", "two")))
        gateway.log(b"issuer corp: keys added: 'b'")
        file.unlink()
        gateway.log(b"issuer corp: the keys could not be fetched: jwks_file cannot be read")
        assert fetches(gateway) == 2
        assert not provider.seen
