"""Who we are to a provider, for every way that needs no token source."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock

from mgw.config.auths import AuthMode
from mgw.config.problems import ConfigError
from mgw.credentials import credentials_of
from mgw.credentials.provider import ClientKey, Credential, CredentialProvider, CredentialRefusal
from mgw.credentials.renewed_token import RenewedToken
from mgw.credentials.token_file import CHECK_SECONDS, TokenFile
from mgw.exchange.offload import run_inline
from mgw.nouns.errors import GatewayError, Reason
from mgw.nouns.kinds import KINDS
from mgw.nouns.secret import Secret, key_hash
from mgw.nouns.vocabulary import Family, Kind
from mgw.reactor.regular_file import MAX_TOKEN_FILE
from tests.support.configs import config
from tests.support.deferreds import result_of
from tests.support.google_keys import service_account, write_json
from tests.support.token_endpoints import TokenHosts


def source(entry: str) -> CredentialProvider:
    settings = config(f"providers: {{p: {{{entry}}}}}")
    return credentials_of(settings.providers["p"], TokenHosts().sources)


def shown(credential: Credential) -> tuple[bytes, str]:
    return credential.header, credential.value.reveal()


def client(value: str, scheme: bytes | None, family: Family = Family.OPENAI) -> ClientKey:
    return ClientKey(Secret(value), scheme, family)


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ("kind: openai, api_key: k1", (b"Authorization", "Bearer k1")),
        ("kind: openai_compat, base_url: 'http://h/v1', api_key: k1", (b"Authorization", "Bearer k1")),
        ("kind: anthropic, api_key: k1", (b"x-api-key", "k1")),
        ("kind: gemini, api_key: k1", (b"x-goog-api-key", "k1")),
        ("kind: anthropic, auth: bearer, api_key: k1", (b"Authorization", "Bearer k1")),
        ("kind: gemini, auth: bearer, api_key: k1", (b"Authorization", "Bearer k1")),
    ],
)
def test_a_configured_key_travels_in_its_kinds_header(entry: str, expected: tuple[bytes, str]) -> None:
    credential = result_of(source(entry).obtain(client("other", b"Bearer")))
    assert shown(credential) == expected
    assert credential.key_hash == key_hash("k1")


@pytest.mark.parametrize(
    ("kind", "key", "expected"),
    [
        ("openai", client("c1", b"Bearer"), (b"Authorization", "Bearer c1")),
        ("openai", client("c1", None), (b"Authorization", "Bearer c1")),
        ("anthropic", client("c1", None, Family.ANTHROPIC), (b"x-api-key", "c1")),
        ("anthropic", client("c1", b"bearer", Family.ANTHROPIC), (b"Authorization", "bearer c1")),
        ("gemini", client("c1", b"Token", Family.GEMINI), (b"Authorization", "Token c1")),
        ("gemini", client("c1", None, Family.GEMINI), (b"x-goog-api-key", "c1")),
    ],
)
def test_a_provider_without_a_key_gets_the_clients_own(
    kind: str, key: ClientKey, expected: tuple[bytes, str]
) -> None:
    assert shown(result_of(source(f"kind: {kind}").obtain(key))) == expected


@pytest.mark.parametrize("key", [None, client("c1", b"Bearer", Family.ANTHROPIC)])
def test_a_clients_key_never_goes_to_another_family(key: ClientKey | None) -> None:
    with pytest.raises(GatewayError) as refusal:
        result_of(source("kind: openai").obtain(key))
    assert refusal.value.reason is Reason.NO_PROVIDER_KEY
    assert "'p'" in refusal.value.message


def test_a_key_in_azures_header_goes_to_azure_alone() -> None:
    key = replace(client("c1", None), kind_header=b"api-key")
    azure = source("kind: azure_openai, base_url: 'https://a.openai.azure.com/openai/v1'")
    assert shown(result_of(azure.obtain(key))) == (b"api-key", "c1")
    for kind in ("openai", "openai_compat, base_url: 'http://h/v1'", "anthropic", "gemini"):
        for auth in ("", ", auth: client_bearer"):
            with pytest.raises(GatewayError) as refusal:
                result_of(source(f"kind: {kind}{auth}").obtain(key))
            assert refusal.value.reason is Reason.NO_PROVIDER_KEY
            assert "c1" not in refusal.value.message


def test_client_bearer_takes_the_clients_token_whatever_its_family() -> None:
    key = client("c1", b"Bearer", Family.ANTHROPIC)
    credential = result_of(source("kind: gemini, auth: client_bearer").obtain(key))
    assert shown(credential) == (b"Authorization", "Bearer c1")


@pytest.mark.parametrize("key", [None, client("c1", None), client("c1", b"Token")])
def test_client_bearer_without_a_bearer_is_refused(key: ClientKey | None) -> None:
    with pytest.raises(GatewayError) as refusal:
        result_of(source("kind: gemini, auth: client_bearer").obtain(key))
    assert refusal.value.reason is Reason.NO_PROVIDER_KEY


def test_a_token_file_is_read_again_when_it_changed(tmp_path: Path) -> None:
    path, clock = tmp_path / "token", Clock()
    path.write_text("  first\n")
    tokens = TokenFile("p", str(path), clock, run_inline)
    first = result_of(tokens.obtain(None))
    path.write_text("second!")
    assert result_of(tokens.obtain(None)) is first
    clock.advance(CHECK_SECONDS)
    second = result_of(tokens.obtain(None))
    assert shown(second) == (b"Authorization", "Bearer second!")
    assert second.key_hash == first.key_hash == key_hash(str(path))


def test_a_token_in_a_file_may_be_so_long_and_no_longer(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("t" * MAX_TOKEN_FILE)
    tokens = TokenFile("p", str(path), Clock(), run_inline)
    assert shown(result_of(tokens.obtain(None))) == (b"Authorization", f"Bearer {'t' * MAX_TOKEN_FILE}")
    path.write_text("t" * (MAX_TOKEN_FILE + 1))
    with pytest.raises(GatewayError, match="does not contain exactly one token"):
        result_of(TokenFile("p", str(path), Clock(), run_inline).obtain(None))


def test_a_refused_token_is_read_again_at_once(tmp_path: Path) -> None:
    path, clock = tmp_path / "token", Clock()
    path.write_text("first")
    tokens = TokenFile("p", str(path), clock, run_inline)
    first = result_of(tokens.obtain(None))
    assert tokens.refusable(401)
    assert not tokens.refusable(429)
    assert result_of(tokens.refused(first, CredentialRefusal(401))) is None
    path.write_text("newer")
    os.utime(path, ns=(1, 1))
    another = result_of(tokens.refused(first, CredentialRefusal(401)))
    assert another is not None
    assert shown(another) == (b"Authorization", "Bearer newer")


def test_a_pipe_in_place_of_a_token_file_is_not_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "token"
    os.mkfifo(path)
    with pytest.raises(GatewayError, match="cannot be read: not a regular file"):
        result_of(TokenFile("p", str(path), Clock(), run_inline).obtain(None))


def test_those_who_wait_for_a_token_file_share_one_reading(tmp_path: Path) -> None:
    path, clock, works = tmp_path / "token", Clock(), []
    path.write_text("first")

    def run(work: Callable[[], Any]) -> Deferred[Any]:
        waiting: Deferred[Any] = Deferred()
        works.append((work, waiting))
        return waiting

    tokens = TokenFile("p", str(path), clock, run)
    waiting = [Deferred.fromCoroutine(tokens.obtain(None)) for _ in range(100)]
    ((work, done),) = works
    done.callback(work())
    assert len({id(result_of(waiter)) for waiter in waiting}) == 1
    clock.advance(CHECK_SECONDS)
    waiting = [Deferred.fromCoroutine(tokens.obtain(None)) for _ in range(100)]
    works[1][1].errback(FileNotFoundError(2, "No such file or directory"))
    failed = []
    for waiter in waiting:
        with pytest.raises(GatewayError, match="No such file") as refusal:
            result_of(waiter)
        failed.append(refusal.value)
    assert len({id(error) for error in failed}) == 100, "an error that many raise keeps a traceback of each"


@pytest.mark.parametrize("content", [None, "", "two words", "bad\x00"])
def test_a_token_file_without_a_token_is_a_502_that_names_the_provider(
    tmp_path: Path, content: str | None
) -> None:
    path = tmp_path / "token"
    if content is not None:
        path.write_text(content)
    with pytest.raises(GatewayError) as refusal:
        result_of(TokenFile("p", str(path), Clock(), run_inline).obtain(None))
    assert refusal.value.reason is Reason.CREDENTIAL_SOURCE
    assert "'p'" in refusal.value.message
    assert "two words" not in refusal.value.message


def test_a_credential_never_prints_its_value() -> None:
    credential = result_of(source("kind: openai, api_key: canary-7f3a").obtain(None))
    assert "canary" not in repr(credential)
    assert "canary" not in repr(client("canary-7f3a", None))


@pytest.mark.parametrize("kind", ["openai", "openai_compat", "anthropic", "gemini"])
@pytest.mark.parametrize("family", list(Family))
def test_a_provider_that_wants_no_credential_is_sent_none(kind: str, family: Family) -> None:
    entry = f"kind: {kind}, base_url: 'http://h/v1', auth: none"
    for key in (None, client("own-key-1", b"Bearer", family)):
        assert shown(result_of(source(entry).obtain(key))) == (b"", "")


OWN = {
    "key": "api_key: k1",
    "file": "token_file: /run/token",
    "oauth": "oauth: {token_url: 'http://idp/t', client_id: c, client_secret: s}",
    "account": "service_account_file: %s",
    "aws": "aws: {region: us-east-1, service: bedrock, access_key_id: a, secret_access_key: b}",
}
NEEDS: dict[AuthMode | None, list[set[str]]] = {
    None: [set(), {"key"}, {"file"}],
    AuthMode.API_KEY: [{"key"}],
    AuthMode.BEARER: [{"key"}],
    AuthMode.TOKEN_FILE: [{"file"}],
    AuthMode.OAUTH2: [{"oauth"}],
    AuthMode.SERVICE_ACCOUNT: [{"account"}],
    AuthMode.ADC: [set(), {"account"}],
    AuthMode.AWS: [{"aws"}],  # else the host would have to say the region
    AuthMode.CLIENT_BEARER: [set()],
    AuthMode.NONE: [set()],
}


def works(kind: Kind, auth: AuthMode | None, own: set[str]) -> bool:
    """Whether hosts of a kind can be sent what comes of these settings."""
    row = KINDS[kind]
    if auth is AuthMode.AWS and not row.takes_aws:
        return False
    if not row.takes_keys and (auth is AuthMode.API_KEY or (auth is None and own == {"key"})):
        return False
    return own in NEEDS[auth] and not (row.needs_credential and auth is None and not own)


@pytest.mark.parametrize("kind", list(Kind))
@pytest.mark.parametrize("auth", [None, *AuthMode])
def test_what_cannot_work_is_refused_at_load_and_the_rest_has_a_source(
    kind: Kind, auth: AuthMode | None, tmp_path: Path
) -> None:
    account = write_json(tmp_path / "key.json", service_account())
    for number in range(2 ** len(OWN)):
        own = {name for bit, name in enumerate(OWN) if number >> bit & 1}
        stated = () if auth is None else (f"auth: {auth}",)
        settings = [OWN[name].replace("%s", account) for name in OWN if name in own]
        entry = ", ".join([f"kind: {kind}", "base_url: 'http://h/v1'", *stated, *settings])
        if not works(kind, auth, own):
            with pytest.raises(ConfigError, match=r"mgw.yaml:1: providers\.p\."):
                source(entry)
            continue
        found = source(entry)
        if auth is AuthMode.AWS:
            continue
        if isinstance(found, TokenFile | RenewedToken):
            assert found.refusable(401)
            continue
        credential = result_of(found.obtain(client("c1", b"Bearer", KINDS[kind].family)))
        expected = "" if auth is AuthMode.NONE else "k1" if own else "c1"
        assert credential.key.reveal() == expected
        assert credential.of_client == (expected == "c1")
