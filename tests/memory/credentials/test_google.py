"""Google's credentials: files, assertions, exchanges, and the metadata server."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import google.auth.jwt
import pytest
from twisted.internet.defer import Deferred

from mgw.config.load import parse
from mgw.credentials import credentials_of
from mgw.credentials.google import PROBE_SECONDS
from mgw.credentials.google_sources import describe_google
from mgw.credentials.provider import CredentialProvider
from mgw.credentials.token_request import TokenRequestError
from mgw.nouns.errors import GatewayError
from mgw.nouns.secret import key_hash
from tests.support.deferreds import result_of
from tests.support.google_keys import (
    EMAIL,
    GOOGLE_TOKEN_URL,
    authorized_user,
    external_account,
    private_pem,
    public_pem,
    service_account,
    write_json,
)
from tests.support.token_endpoints import WALL, TokenHosts

jwt: Any = google.auth.jwt  # Any: it has no types
CLOUD_PLATFORM = "https://www.googleapis.com/auth/cloud-platform"
GOOGLE = "http://oauth2.example"
METADATA = "http://169.254.169.254"
VERTEX = "kind: gemini, base_url: 'https://europe-west4-aiplatform.googleapis.com/v1/projects/p'"
FLAVOR = "Metadata-Flavor: Google\r\n"


@pytest.fixture
def hosts() -> TokenHosts:
    return TokenHosts()


def provider(settings: str, environ: dict[str, str]) -> Any:
    return parse(f"providers: {{p: {{{VERTEX}, {settings}}}}}", "mgw.yaml", environ).providers["p"]


def source(hosts: TokenHosts, settings: str, **environ: str) -> CredentialProvider:
    return credentials_of(provider(settings, environ), hosts.sources)


def obtain(found: CredentialProvider) -> Deferred[Any]:
    return Deferred.fromCoroutine(found.obtain(None))


def token_of(waiting: Deferred[Any]) -> str:
    return str(result_of(waiting).value.reveal())


@pytest.fixture
def key_file(tmp_path: Path) -> str:
    return write_json(tmp_path / "key.json", service_account())


def test_a_service_account_signs_an_assertion_that_another_library_verifies(
    hosts: TokenHosts, key_file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = source(hosts, f"auth: service_account, service_account_file: {key_file}")
    hosts.clock.advance(100)
    waiting = obtain(found)
    post = hosts.newest(GOOGLE)
    assert post.line == b"POST /token"
    form = post.form
    assert form.pop("grant_type") == "urn:ietf:params:oauth:grant-type:jwt-bearer"
    assertion = form.pop("assertion")
    assert not form
    assert jwt.decode_header(assertion) == {"alg": "RS256", "typ": "JWT", "kid": "key-1"}
    monkeypatch.setattr("google.auth._helpers.utcnow", lambda: _at(WALL + 110))
    claims = jwt.decode(assertion, certs=public_pem(), audience=GOOGLE_TOKEN_URL)
    assert claims == {
        "iss": EMAIL,
        "scope": CLOUD_PLATFORM,
        "aud": GOOGLE_TOKEN_URL,
        "iat": WALL + 100,
        "exp": WALL + 3700,
    }
    with pytest.raises(Exception, match="signature"):
        jwt.decode(assertion[:-8] + "AAAAAAAA", certs=public_pem())
    post.answer_token("g1")
    credential = result_of(waiting)
    assert (credential.value.reveal(), credential.key_hash) == ("Bearer g1", key_hash(EMAIL))


def _at(seconds: float) -> Any:
    from datetime import UTC, datetime

    return datetime.fromtimestamp(seconds, UTC).replace(tzinfo=None)


def test_other_scopes_are_asked_for_where_they_are_set(hosts: TokenHosts, key_file: str) -> None:
    settings = f"auth: service_account, service_account_file: {key_file}, oauth: {{scopes: a b}}"
    _ = obtain(source(hosts, settings))
    claims = jwt.decode(hosts.newest(GOOGLE).form["assertion"], verify=False)
    assert claims["scope"] == "a b"


@pytest.mark.parametrize("auth", ["service_account", "adc"])
def test_the_environments_key_file_is_used_where_none_is_set(
    hosts: TokenHosts, key_file: str, auth: str
) -> None:
    found: Any = source(hosts, f"auth: {auth}", GOOGLE_APPLICATION_CREDENTIALS=key_file)
    assert found.key_hash == key_hash(EMAIL)


def test_a_setting_goes_before_the_environment(hosts: TokenHosts, key_file: str) -> None:
    settings = f"auth: adc, service_account_file: {key_file}"
    found: Any = source(hosts, settings, GOOGLE_APPLICATION_CREDENTIALS="/missing")
    assert found.key_hash == key_hash(EMAIL)


@pytest.mark.parametrize("variable", ["HOME", "CLOUDSDK_CONFIG"])
def test_the_file_of_gcloud_is_used_next(hosts: TokenHosts, tmp_path: Path, variable: str) -> None:
    folder = tmp_path if variable == "CLOUDSDK_CONFIG" else tmp_path / ".config" / "gcloud"
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / "application_default_credentials.json", authorized_user())
    waiting = obtain(source(hosts, "auth: adc", **{variable: str(tmp_path)}))
    post = hosts.newest(GOOGLE)
    assert post.form == {
        "grant_type": "refresh_token",
        "client_id": "user-client",
        "client_secret": "canary-user-secret",
        "refresh_token": "canary-user-refresh",
    }
    post.answer_token("g1")
    assert token_of(waiting) == "Bearer g1"


def test_an_external_accounts_token_is_exchanged(hosts: TokenHosts, tmp_path: Path) -> None:
    subject = tmp_path / "subject"
    subject.write_text("pod-token\n")
    file = write_json(tmp_path / "adc.json", external_account(str(subject)))
    waiting = obtain(source(hosts, f"auth: adc, service_account_file: {file}"))
    post = hosts.newest("http://sts.example")
    assert post.line == b"POST /v1/token"
    assert post.form == {
        "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
        "audience": external_account("")["audience"],
        "scope": CLOUD_PLATFORM,
        "requested_token_type": "urn:ietf:params:oauth:token-type:access_token",
        "subject_token": "pod-token",
        "subject_token_type": "urn:ietf:params:oauth:token-type:jwt",
    }
    post.answer_token("g1")
    assert token_of(waiting) == "Bearer g1"


def test_an_external_account_takes_on_a_service_account(hosts: TokenHosts, tmp_path: Path) -> None:
    subject = tmp_path / "subject.json"
    subject.write_text(json.dumps({"id_token": "pod-token"}))
    source_of_token = {
        "file": str(subject),
        "format": {"type": "json", "subject_token_field_name": "id_token"},
    }
    url = f"http://iam.example/v1/projects/-/serviceAccounts/{EMAIL}:generateAccessToken"
    file = write_json(
        tmp_path / "adc.json",
        external_account(
            "",
            credential_source=source_of_token,
            service_account_impersonation_url=url,
            service_account_impersonation={"token_lifetime_seconds": 900},
        ),
    )
    found = source(hosts, f"auth: adc, service_account_file: {file}, oauth: {{scopes: mine}}")
    waiting = obtain(found)
    exchange = hosts.newest("http://sts.example")
    assert (exchange.form["subject_token"], exchange.form["scope"]) == ("pod-token", CLOUD_PLATFORM)
    exchange.answer_token("federated")
    post = hosts.newest("http://iam.example")
    assert post.line == f"POST /v1/projects/-/serviceAccounts/{EMAIL}:generateAccessToken".encode()
    assert post.header(b"authorization") == b"Bearer federated"
    assert json.loads(post.body) == {"scope": ["mine"], "lifetime": "900s"}
    post.answer({"accessToken": "g1", "expireTime": "1990-01-01T00:00:00Z"})
    assert token_of(waiting) == "Bearer g1"
    hosts.clock.advance(869)
    assert found.ready(None) is not None, "its life is what was asked for, whatever our calendar says"
    hosts.clock.advance(1)
    assert found.ready(None) is None


def test_a_refused_impersonation_is_told(hosts: TokenHosts, tmp_path: Path) -> None:
    subject = tmp_path / "subject"
    subject.write_text("pod-token")
    url = "http://iam.example/x:generateAccessToken"
    fields = external_account(str(subject), service_account_impersonation_url=url)
    waiting = obtain(
        source(hosts, f"auth: adc, service_account_file: {write_json(tmp_path / 'a.json', fields)}")
    )
    hosts.newest("http://sts.example").answer_token("federated")
    hosts.newest("http://iam.example").answer({"error": {"message": "canary"}}, 403)
    with pytest.raises(TokenRequestError, match="may impersonate") as failure:
        result_of(waiting)
    assert "canary" not in failure.value.message


def test_the_metadata_server_is_probed_and_then_asked(hosts: TokenHosts) -> None:
    found = source(hosts, "auth: adc")
    waiting = obtain(found)
    probe = hosts.newest(METADATA)
    assert (probe.line, probe.header(b"metadata-flavor")) == (b"GET /", b"Google")
    probe.answer(b"computeMetadata/\n", headers=FLAVOR)
    asked = hosts.newest(METADATA)
    path = b"/computeMetadata/v1/instance/service-accounts/default/token"
    assert asked.line == b"GET " + path + b"?scopes=https://www.googleapis.com/auth/cloud-platform"
    assert asked.header(b"metadata-flavor") == b"Google"
    asked.answer({"access_token": "g1", "expires_in": 100, "token_type": "Bearer"}, headers=FLAVOR)
    assert token_of(waiting) == "Bearer g1"
    hosts.clock.advance(100)
    _ = obtain(found)
    assert hosts.newest(METADATA).line.startswith(b"GET " + path), "once found, it is not probed again"


def test_a_machine_without_a_metadata_server_is_known_in_a_second(hosts: TokenHosts) -> None:
    hosts.endpoint(METADATA).held = True
    waiting = obtain(source(hosts, "auth: adc"))
    hosts.clock.advance(PROBE_SECONDS)
    with pytest.raises(GatewayError, match="no application default credentials were found"):
        result_of(waiting)


def test_whatever_else_answers_at_its_address_is_no_metadata_server(hosts: TokenHosts) -> None:
    waiting = obtain(source(hosts, "auth: adc", GCE_METADATA_HOST="meta.example:8080"))
    hosts.newest("http://meta.example:8080").answer({"access_token": "canary"})
    with pytest.raises(GatewayError, match="no application default credentials were found"):
        result_of(waiting)


WRONG: dict[str, tuple[object, str]] = {
    "no JSON": (b"-----BEGIN PRIVATE KEY-----canary", "not contain a JSON object"),
    "a list": ([], "not contain a JSON object"),
    "no type": ({"canary": 1}, "an unsupported type; expected"),
    "no e-mail": (service_account(client_email=""), "has no client_email"),
    "no key": (service_account(private_key=5), "has no private_key"),
    "a broken key": (service_account(private_key="canary"), "not an unencrypted PEM key"),
    "a cut key": (service_account(private_key=private_pem()[:500]), "not an unencrypted PEM key"),
    "another address": (
        service_account(token_uri="ftp://canary"),
        "no valid URL in token_uri",
    ),
    "aws": (external_account("", credential_source={"environment_id": "aws1"}), "only files are supported"),
    "a program": (external_account("", credential_source={"executable": {}}), "only files are supported"),
    "too large": (b" " * 70_000, "larger than"),
}


@pytest.mark.parametrize(("content", "said"), WRONG.values(), ids=WRONG)
def test_a_file_that_cannot_be_used_is_an_error_at_load_that_shows_nothing_of_it(
    hosts: TokenHosts, tmp_path: Path, content: object, said: str
) -> None:
    file = tmp_path / "key.json"
    file.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    with pytest.raises(ValueError, match=said) as fault:
        source(hosts, f"auth: adc, service_account_file: {file}")
    assert str(fault.value).startswith("providers.p.")
    assert "canary" not in str(fault.value)
    assert len(hosts.sources) == 0


def test_a_missing_file_names_the_setting_or_the_variable(hosts: TokenHosts) -> None:
    with pytest.raises(ValueError, match=r"^providers\.p\.service_account_file: file not found: /missing"):
        source(hosts, "auth: service_account, service_account_file: /missing")
    with pytest.raises(ValueError, match=r"^GOOGLE_APPLICATION_CREDENTIALS: file not found: /missing"):
        source(hosts, "auth: adc", GOOGLE_APPLICATION_CREDENTIALS="/missing")


def test_service_account_takes_no_other_credentials(hosts: TokenHosts, tmp_path: Path) -> None:
    file = write_json(tmp_path / "user.json", authorized_user())
    with pytest.raises(ValueError, match="set auth: adc"):
        source(hosts, f"auth: service_account, service_account_file: {file}")


def test_a_key_that_is_replaced_in_its_file_is_another_source(hosts: TokenHosts, tmp_path: Path) -> None:
    settings = f"auth: service_account, service_account_file: {tmp_path / 'key.json'}"
    write_json(tmp_path / "key.json", service_account())
    old = source(hosts, settings)
    assert source(hosts, settings) is old
    write_json(tmp_path / "key.json", service_account(private_key_id="key-2"))
    assert source(hosts, settings) is not old


def test_what_is_used_can_be_told_without_asking_anybody(tmp_path: Path, key_file: str) -> None:
    told = describe_google(provider(f"auth: adc, service_account_file: {key_file}", {}))
    assert told == f"service account {EMAIL}, tokens from {GOOGLE_TOKEN_URL}"
    told = describe_google(provider("auth: adc", {}))
    assert told == "the service account of this machine, tokens from the metadata server at 169.254.169.254"
    user = write_json(tmp_path / "user.json", authorized_user())
    told = describe_google(provider(f"auth: adc, service_account_file: {user}", {}))
    assert "person's own" in told
    assert "canary" not in told
