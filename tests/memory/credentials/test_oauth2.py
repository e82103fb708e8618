"""Each grant of ``auth: oauth2``: its request, and how refresh tokens rotate."""

from __future__ import annotations

import json
from base64 import b64decode
from pathlib import Path
from typing import Any

import pytest
from twisted.internet.defer import Deferred
from twisted.logger import capturedLogs

from mgw.config.secrets import secrets_of
from mgw.credentials import credentials_of
from mgw.credentials.provider import Credential, CredentialProvider, CredentialRefusal
from mgw.credentials.renewed_token import RENEW_SECONDS
from mgw.credentials.token_request import TokenRequestError
from mgw.nouns.secret import key_hash
from tests.support.configs import config
from tests.support.deferreds import result_of
from tests.support.token_endpoints import TOKEN_URL, TokenHosts


@pytest.fixture
def hosts() -> TokenHosts:
    return TokenHosts()


def source(hosts: TokenHosts, oauth: str) -> CredentialProvider:
    entry = f"kind: gemini, auth: oauth2, oauth: {{token_url: '{TOKEN_URL}', {oauth}}}"
    settings = config(f"providers: {{p: {{{entry}}}}}")
    return credentials_of(settings.providers["p"], hosts.sources)


def obtain(found: CredentialProvider) -> Deferred[Credential]:
    return Deferred.fromCoroutine(found.obtain(None))


def token_of(waiting: Deferred[Any]) -> str:
    return str(result_of(waiting).key.reveal())


GRANTS = {
    "client_id: me, client_secret: s1": {
        "grant_type": "client_credentials",
        "client_id": "me",
        "client_secret": "s1",
    },
    "client_id: me, client_secret: s1, scopes: a b, audience: 'https://x', extra: {tenant: t, z: ''}": {
        "grant_type": "client_credentials",
        "client_id": "me",
        "client_secret": "s1",
        "scope": "a b",
        "audience": "https://x",
        "tenant": "t",
        "z": "",
    },
    "client_id: me, refresh_token: r1, scopes: [a, b]": {
        "grant_type": "refresh_token",
        "client_id": "me",
        "refresh_token": "r1",
        "scope": "a b",
    },
    "grant: token_exchange, subject_token_file: FILE, resource: 'https://r'": {
        "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
        "subject_token": "t1",
        "subject_token_type": "urn:ietf:params:oauth:token-type:jwt",
        "resource": "https://r",
    },
    "grant: token_exchange, subject_token_file: FILE, subject_token_type: u, requested_token_type: v, "
    "client_id: me, audience: a": {
        "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
        "subject_token": "t1",
        "subject_token_type": "u",
        "requested_token_type": "v",
        "client_id": "me",
        "audience": "a",
    },
    "grant: jwt_bearer, assertion_file: FILE, scopes: a": {
        "grant_type": "urn:ietf:params:oauth:grant-type:jwt-bearer",
        "assertion": "t1",
        "scope": "a",
    },
    "client_id: me, assertion_file: FILE, scopes: a": {
        "grant_type": "client_credentials",
        "client_id": "me",
        "client_assertion": "t1",
        "client_assertion_type": "urn:ietf:params:oauth:client-assertion-type:jwt-bearer",
        "scope": "a",
    },
    "grant: 'urn:ibm:params:oauth:grant-type:apikey', extra: {apikey: k1}": {
        "grant_type": "urn:ibm:params:oauth:grant-type:apikey",
        "apikey": "k1",
    },
}


@pytest.mark.parametrize("settings", GRANTS)
def test_the_resource_goes_with_every_grant(hosts: TokenHosts, tmp_path: Path, settings: str) -> None:
    file = tmp_path / "t"
    file.write_text("t1\n")
    stated = settings.replace(", resource: 'https://r'", "").replace("FILE", str(file))
    _ = obtain(source(hosts, f"{stated}, resource: 'https://api.example/v1'"))
    assert hosts.newest().form == {
        **GRANTS[settings],
        "resource": "https://api.example/v1",
    }, "RFC 8707 2.2"


@pytest.mark.parametrize(
    ("settings", "form"), GRANTS.items(), ids=["/".join(form) for form in GRANTS.values()]
)
def test_a_grant_is_a_form_of_just_these_fields(
    hosts: TokenHosts, tmp_path: Path, settings: str, form: dict[str, str]
) -> None:
    file = tmp_path / "t"
    file.write_text("t1\n")
    found = source(hosts, settings.replace("FILE", str(file)))
    waiting = obtain(found)
    post = hosts.newest()
    assert post.line == b"POST /token"
    assert post.form == form
    assert post.header(b"authorization") is None
    post.answer_token("a1")
    credential = result_of(waiting)
    assert (credential.header, credential.value.reveal()) == (b"Authorization", "Bearer a1")
    assert found.ready(None) is credential


def test_a_form_field_may_be_in_the_environment_and_is_known_as_a_secret(hosts: TokenHosts) -> None:
    oauth = f"token_url: '{TOKEN_URL}', grant: 'urn:x:y', extra: {{apikey: {{env: API_KEY}}, tenant: blue}}"
    entry = f"providers: {{p: {{kind: gemini, auth: oauth2, oauth: {{{oauth}}}}}}}"
    settings = config(entry, {"API_KEY": "canary-of-environ"})
    _ = obtain(credentials_of(settings.providers["p"], hosts.sources))
    assert hosts.newest().form == {"grant_type": "urn:x:y", "apikey": "canary-of-environ", "tenant": "blue"}
    assert "canary-of-environ" in [secret.reveal() for secret in secrets_of(settings)]
    assert "canary" not in repr(settings)


def test_an_assertion_in_place_of_a_secret_is_read_for_each_token(hosts: TokenHosts, tmp_path: Path) -> None:
    file = tmp_path / "t"
    file.write_text("first\n")
    found = source(hosts, f"client_id: me, assertion_file: {file}")
    waiting = obtain(found)
    assert hosts.newest().form["client_assertion"] == "first"
    hosts.newest().answer_token("a1")
    assert token_of(waiting) == "a1"
    file.write_text("second\n")
    hosts.clock.advance(3600)
    _ = obtain(found)
    assert hosts.newest().form["client_assertion"] == "second"


def test_a_client_may_show_itself_in_a_header(hosts: TokenHosts) -> None:
    _ = obtain(source(hosts, "client_id: 'm:e', client_secret: 's+1', client_auth: basic"))
    post = hosts.newest()
    assert post.form == {"grant_type": "client_credentials"}
    header = post.header(b"authorization") or b""
    assert b64decode(header.removeprefix(b"Basic ")) == b"m%3Ae:s%2B1"


def test_a_vendors_own_form_is_json_with_headers_of_its_own(hosts: TokenHosts, tmp_path: Path) -> None:
    (tmp_path / "t").write_text("t1")
    settings = "headers: {vendor-beta: 'a,b'}, body: json, extra: {organization: o}, scopes: a"
    _ = obtain(source(hosts, f"grant: jwt_bearer, assertion_file: {tmp_path / 't'}, {settings}"))
    post = hosts.newest()
    assert post.header(b"vendor-beta") == b"a,b"
    assert post.header(b"content-type") == b"application/json"
    assert json.loads(post.body) == {
        "grant_type": "urn:ietf:params:oauth:grant-type:jwt-bearer",
        "assertion": "t1",
        "organization": "o",
        "scope": "a",
    }


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ("client_id: me, client_secret: s1", "me"),
        ("grant: token_exchange, subject_token_file: /f, audience: aud", "aud"),
        ("grant: token_exchange, subject_token_file: /f", "/f"),
        ("grant: jwt_bearer, assertion_file: /f", "/f"),
    ],
)
def test_events_name_the_configured_identity(hosts: TokenHosts, settings: str, name: str) -> None:
    found: Any = source(hosts, settings)
    assert found.key_hash == key_hash(name)


def test_a_file_is_read_anew_for_each_exchange(hosts: TokenHosts, tmp_path: Path) -> None:
    file = tmp_path / "t"
    file.write_text("t1")
    found = source(hosts, f"grant: token_exchange, subject_token_file: {file}")
    waiting = obtain(found)
    hosts.newest().answer_token("a1", expires_in=100)
    assert token_of(waiting) == "a1"
    file.write_text("t2")
    hosts.clock.advance(100)
    _ = obtain(found)
    assert hosts.newest().form["subject_token"] == "t2"


@pytest.mark.parametrize("content", [None, "", "two words"])
def test_a_file_without_a_token_is_an_error_that_shows_nothing_of_it(
    hosts: TokenHosts, tmp_path: Path, content: str | None
) -> None:
    file = tmp_path / "t"
    if content is not None:
        file.write_text(content)
    with pytest.raises(TokenRequestError) as failure:
        result_of(obtain(source(hosts, f"grant: jwt_bearer, assertion_file: {file}")))
    assert "the file with the assertion" in failure.value.message
    assert "two" not in failure.value.message
    assert not hosts.posts()


def test_a_new_refresh_token_replaces_the_old_one_and_the_operator_is_told_once(hosts: TokenHosts) -> None:
    with capturedLogs() as events:
        found = source(hosts, "client_id: me, refresh_token: canary-r1")
        used = []
        for number in range(4):
            waiting = obtain(found)
            used.append(hosts.newest().form["refresh_token"])
            new = {} if number == 2 else {"refresh_token": f"canary-r{number + 2}"}
            hosts.newest().answer_token(f"a{number}", expires_in=60, **new)
            assert token_of(waiting) == f"a{number}"
            hosts.clock.advance(60)
    assert used == ["canary-r1", "canary-r2", "canary-r3", "canary-r3"]
    warned = [event for event in events if "replaced the configured refresh token" in event["log_format"]]
    assert len(warned) == 1
    assert "canary" not in str(events)


def test_a_refresh_token_is_used_by_one_request_at_a_time(hosts: TokenHosts) -> None:
    """Two sources of one refresh token: a reload has changed what else is asked for."""
    old, new = (source(hosts, f"client_id: me, refresh_token: r1, scopes: {scope}") for scope in "ab")
    first, second = obtain(old), obtain(new)
    assert [post.form["refresh_token"] for post in hosts.posts()] == ["r1"]
    hosts.newest().answer_token("a1", refresh_token="r2")
    assert token_of(first) == "a1"
    assert [post.form["refresh_token"] for post in hosts.posts()] == ["r1", "r2"]
    hosts.newest().answer_token("b1", refresh_token="r3")
    assert token_of(second) == "b1"


def test_a_refresh_that_fails_lets_the_next_one_try(hosts: TokenHosts) -> None:
    found = source(hosts, "client_id: me, refresh_token: r1")
    waiting = obtain(found)
    hosts.newest().refuse()
    with pytest.raises(TokenRequestError, match="invalid_grant"):
        result_of(waiting)
    waiting = obtain(found)
    hosts.newest().answer_token("a1")
    assert token_of(waiting) == "a1"


def test_a_rotated_refresh_token_arrives_though_every_waiter_left(hosts: TokenHosts) -> None:
    found = source(hosts, "client_id: me, refresh_token: r1")
    waiting = obtain(found)
    waiting.cancel()
    _ = waiting.addErrback(lambda _: None)
    assert not hosts.newest().connection.aborted
    hosts.newest().answer_token("a1", refresh_token="r2", expires_in=100)
    assert found.ready(None) is not None
    hosts.clock.advance(100 - RENEW_SECONDS)
    _ = obtain(found)
    assert hosts.newest().form["refresh_token"] == "r2"


def test_a_refused_token_is_replaced_by_a_new_one(hosts: TokenHosts) -> None:
    found = source(hosts, "client_id: me, client_secret: s1")
    waiting = obtain(found)
    hosts.newest().answer_token("a1")
    refused = Deferred.fromCoroutine(found.refused(result_of(waiting), CredentialRefusal(401)))
    hosts.newest().answer_token("a2")
    assert token_of(refused) == "a2"
