"""A law: each secret of a file that is read, and each token that comes, is known to whoever hides secrets."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from typing import Any, get_args, get_type_hints

import pytest
from msgspec import Struct
from twisted.internet.defer import Deferred
from twisted.internet.testing import MemoryReactorClock

import mgw.config
import mgw.credentials
from mgw.credentials import credentials_of
from mgw.credentials.aws.found_keys import FoundKeys
from mgw.credentials.aws.keys import AwsKeys, FixedKeys
from mgw.credentials.on_behalf import OnBehalfOf
from mgw.credentials.provider import CallerToken, CredentialProvider
from mgw.credentials.recent_secrets import RecentSecrets
from mgw.credentials.renewed_token import SharedFetch
from mgw.credentials.subscription.store import CredentialStore, StoredCredential
from mgw.credentials.subscription.token_exchange import ProfileEndpoints
from mgw.credentials.token_file import CHECK_SECONDS
from mgw.credentials.token_request import TokenRequestError, TokenResponse
from mgw.generation import build_generation
from mgw.nouns.secret import Secret
from tests.support.aws_keys import (
    CONTAINER,
    INSTANCE,
    STS,
    answer_instance,
    assumed,
    container,
    credentials,
    error_xml,
    keys_json,
    role_xml,
    web_identity,
)
from tests.support.aws_keys import obtain as aws_obtain
from tests.support.configs import config
from tests.support.deferreds import result_of
from tests.support.google_keys import (
    authorized_user,
    external_account,
    private_pem,
    service_account,
    write_json,
)
from tests.support.subscriptions import profile
from tests.support.token_endpoints import TOKEN_URL, WALL, TokenHosts

PROVIDER = "providers: {{p: {{kind: openai_compat, base_url: 'http://h/v1', {0}}}}}\n"
CLIENT = f"token_url: '{TOKEN_URL}', client_id: me, client_secret: canary-client-secret"


@pytest.fixture
def hosts() -> TokenHosts:
    return TokenHosts()


def known(hosts: TokenHosts) -> set[str]:
    return {secret.reveal() for secret in hosts.sources.secrets()}


def source(hosts: TokenHosts, settings: str) -> CredentialProvider:
    provider = config(PROVIDER.format(settings)).providers["p"]
    return credentials_of(provider, hosts.sources)


def obtain(found: CredentialProvider) -> Deferred[Any]:
    return Deferred.fromCoroutine(found.obtain(None))


def google(hosts: TokenHosts, path: Path, fields: dict[str, object]) -> CredentialProvider:
    return source(hosts, f"auth: adc, service_account_file: {write_json(path / 'google.json', fields)}")


def secrets_of_a_service_account(hosts: TokenHosts, path: Path) -> set[str]:
    google(hosts, path, service_account())
    lines = private_pem().splitlines()[1:-1]
    assert len(lines) > 20
    return {private_pem(), *lines}


def secrets_of_a_user(hosts: TokenHosts, path: Path) -> set[str]:
    google(hosts, path, authorized_user())
    return {"canary-user-secret", "canary-user-refresh"}


def secrets_of_an_external_account(hosts: TokenHosts, path: Path) -> set[str]:
    subject = path / "subject"
    subject.write_text("canary-subject-token")
    fields = external_account(str(subject), client_id="id", client_secret="canary-external")
    impersonation = "https://iam.example/v1/robot:generateAccessToken"
    found = google(hosts, path, {**fields, "service_account_impersonation_url": impersonation})
    assert "canary-external" in known(hosts)
    waiting = obtain(found)
    hosts.newest("http://sts.example").answer_token("canary-federated")
    hosts.newest("https://iam.example").answer({"accessToken": "canary-impersonated"})
    result_of(waiting)
    return {"canary-external", "canary-subject-token", "canary-federated", "canary-impersonated"}


def secrets_of_a_grant(hosts: TokenHosts, path: Path) -> set[str]:
    more = "client_auth: basic, extra: {code: canary-extra}, headers: {X-Key: canary-header}"
    waiting = obtain(source(hosts, f"auth: oauth2, oauth: {{{CLIENT}, {more}, audience: canary-audience}}"))
    hosts.newest().answer_token("canary-access", refresh_token="canary-refresh", id_token="canary-id")
    result_of(waiting)
    assert "canary-audience" not in known(hosts), "whom a token is for is no secret"
    basic = "bWU6Y2FuYXJ5LWNsaWVudC1zZWNyZXQ="
    came = {"canary-access", "canary-refresh", "canary-id"}
    return {"canary-client-secret", "canary-extra", "canary-header", basic, *came}


def secrets_of_a_rotation(hosts: TokenHosts, path: Path) -> set[str]:
    found = source(hosts, f"auth: oauth2, oauth: {{{CLIENT}, refresh_token: canary-rotated-0}}")
    for number in range(1, 4):
        waiting = obtain(found)
        hosts.newest().answer_token(f"canary-access-{number}", refresh_token=f"canary-rotated-{number}")
        result_of(waiting)
        hosts.clock.advance(3600)
    numbers = range(1, 4)
    return {"canary-rotated-0", *(f"canary-{what}-{n}" for n in numbers for what in ("rotated", "access"))}


def secrets_of_a_store(hosts: TokenHosts, path: Path) -> set[str]:
    store = CredentialStore(path / "credentials" / "store.json")
    accounts = hosts.sources.subscriptions.accounts(str(store.path))
    for number in range(2):
        entry = StoredCredential(
            profile="example",
            access_token=Secret(f"canary-access-{number}"),
            refresh_token=Secret(f"canary-refresh-{number}"),
            created_at=0.0,
        )
        store.update(lambda entries, new=entry: entries.update(a=new))  # type: ignore[misc]  # bound now
        accounts.load()
    return {f"canary-{what}-{number}" for what in ("access", "refresh") for number in range(2)}


def secrets_of_a_login(hosts: TokenHosts, path: Path) -> set[str]:
    urls = f"token: {{url: '{TOKEN_URL}'}}\ndevice: {{url: '{TOKEN_URL}'}}"
    text = f"client_id: id\nclient_secret: canary-profile\n{urls}"
    endpoints = ProfileEndpoints(hosts.client, "example", profile(text))
    asking = Deferred.fromCoroutine(endpoints.ask_for_device_code())
    device = {"device_code": "canary-device", "user_code": "A-B", "verification_uri": "https://v.example"}
    hosts.newest().answer(device)
    result_of(asking)
    code, verifier = Secret("canary-code"), Secret("canary-verifier")
    fields: dict[str, str | Secret] = {"grant_type": "x", "code": code, "code_verifier": verifier}
    logging_in = Deferred.fromCoroutine(endpoints.log_in(fields, 0.0))
    hosts.newest().answer_token("canary-access", refresh_token="canary-refresh")
    result_of(logging_in)
    named = ("profile", "device", "code", "verifier", "access", "refresh")
    return {f"canary-{what}" for what in named}


def secrets_of_a_token_file(hosts: TokenHosts, path: Path) -> set[str]:
    file = path / "token"
    for number in range(2):
        file.write_text(f"canary-token-{'x' * number}")
        if not number:
            found = source(hosts, f"auth: token_file, token_file: {file}")
        hosts.clock.advance(CHECK_SECONDS)
        result_of(obtain(found))
    return {"canary-token-", "canary-token-x"}


def secrets_of_a_profile(hosts: TokenHosts, path: Path) -> set[str]:
    (path / "profile.yaml").write_text(
        f"client_id: id\nclient_secret: canary-unused-profile\ntoken: {{url: '{TOKEN_URL}'}}\n"
    )
    text = PROVIDER.format("auth: none") + f"profiles: {{unused: {{file: {path}/profile.yaml}}}}\n"
    generation = build_generation(1, config(text), MemoryReactorClock(), 0, hosts.sources)
    hosts.sources.recent.note(list(generation.secrets))  # as a process does with those in use
    return {"canary-unused-profile"}


def secrets_of_aws_keys(hosts: TokenHosts, path: Path) -> set[str]:
    keys = AwsKeys("AKIDCONFIGURED", Secret("canary-secret"), Secret("canary-session"))
    credentials(hosts.sources, FoundKeys(FixedKeys(keys, "the environment")))
    return {"canary-secret", "canary-session"}


def secrets_of_a_container(hosts: TokenHosts, path: Path) -> set[str]:
    waiting = aws_obtain(credentials(hosts.sources, FoundKeys(assumed(container("canary-container")))))
    assert "canary-container" in known(hosts)
    hosts.newest(CONTAINER).answer(keys_json(1))
    assert {"canary-secret-1", "canary-token-1", "ASIAROLE1"} <= known(hosts), "before they are used up"
    hosts.newest(STS).answer(role_xml(2))
    result_of(waiting)
    return {f"canary-{what}-{number}" for what in ("secret", "token") for number in (1, 2)}


def secrets_of_an_instance(hosts: TokenHosts, path: Path) -> set[str]:
    waiting = aws_obtain(credentials(hosts.sources, FoundKeys(INSTANCE)))
    answer_instance(hosts)
    credential = result_of(waiting)
    assert {credential.key, *credential.added} <= set(hosts.sources.secrets())
    return {"canary-imds", "canary-secret-1", "canary-token-1"}


def secrets_of_a_web_identity(hosts: TokenHosts, path: Path) -> set[str]:
    (path / "token").write_text("canary-identity")
    waiting = aws_obtain(credentials(hosts.sources, FoundKeys(web_identity(str(path / "token")))))
    hosts.newest(STS).answer(error_xml("InvalidIdentityToken"), 400)
    with pytest.raises(TokenRequestError):
        result_of(waiting)
    return {"canary-identity"}


def secrets_of_a_caller(hosts: TokenHosts, path: Path) -> set[str]:
    issuer = "{name: corp, issuer: 'https://idp.example', audience: mgw, rules: [{}]}"
    oauth = f"auth: oauth2, oauth: {{{CLIENT}, grant: jwt_bearer, assertion: client}}"
    text = PROVIDER.format(oauth) + f"edge_auth: {{enabled: true, jwt: [{issuer}]}}\n"
    callers = credentials_of(config(text).providers["p"], hosts.sources)
    assert isinstance(callers, OnBehalfOf)
    waiting = obtain(callers.for_caller(CallerToken(Secret("canary-caller"), WALL + 60)))
    assert {"canary-caller", "canary-client-secret"} <= known(hosts), "while it is being exchanged, too"
    hosts.newest().answer_token("canary-exchanged")
    result_of(waiting)
    return {"canary-caller", "canary-exchanged"}


Case = Callable[[TokenHosts, Path], set[str]]
CASES: dict[str, Case] = {
    "ServiceAccountKey": secrets_of_a_service_account,
    "AuthorizedUser": secrets_of_a_user,
    "ExternalAccount": secrets_of_an_external_account,
    "OAuthGrant": secrets_of_a_grant,
    "CallerToken": secrets_of_a_caller,
    "TokenResponse": secrets_of_a_rotation,
    "StoredCredential": secrets_of_a_store,
    "DeviceCode": secrets_of_a_login,
    "Credential": secrets_of_a_token_file,
    "Profile": secrets_of_a_profile,
    "AwsKeys": secrets_of_aws_keys,
    "ContainerEndpoint": secrets_of_a_container,
    "KeyCredential": secrets_of_an_instance,
    "WebIdentity": secrets_of_a_web_identity,
}
ELSEWHERE = {
    "RedisAddress": "a setting, which the law of settings walks",
    "ProxyAddress": "likewise",
    "ClientKey": "a client's own key, which is nobody's else to know",
    "_Pause": "a refresh token of the store",
    "AwsEnvironment": "a part of the settings, which their own test asks about",
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_what_is_read_or_comes_is_known(case: Case, hosts: TokenHosts, tmp_path: Path) -> None:
    secrets = case(hosts, tmp_path)
    assert secrets <= known(hosts)


def structs_with_secrets() -> Iterator[str]:
    """Yield the names of all structs of settings and credentials that hold a secret."""
    for package in (mgw.config, mgw.credentials):
        for module in walk_packages(package.__path__, f"{package.__name__}."):
            for kind in vars(import_module(module.name)).values():
                if isinstance(kind, type) and issubclass(kind, Struct) and kind.__module__ == module.name:
                    hints = get_type_hints(kind)
                    if any(map(holds_a_secret, hints.values())):
                        yield kind.__name__


def holds_a_secret(annotation: Any) -> bool:
    return annotation is Secret or any(map(holds_a_secret, get_args(annotation)))


def test_no_struct_with_a_secret_is_forgotten_here() -> None:
    assert set(structs_with_secrets()) == (CASES.keys() | ELSEWHERE.keys()) - {"Profile", "WebIdentity"}


def test_a_source_that_a_reload_removes_stays_known(hosts: TokenHosts, tmp_path: Path) -> None:
    found = google(hosts, tmp_path, authorized_user())
    hosts.sources.release(found)
    assert not len(hosts.sources)
    assert {"canary-user-secret", "canary-user-refresh"} <= known(hosts)


def test_a_token_of_another_process_stays_known_after_the_next(hosts: TokenHosts) -> None:
    numbers = iter(range(2))

    async def ask(_: Secret | None, __: bool) -> TokenResponse:
        return TokenResponse(Secret(f"canary-token-{next(numbers)}"), 60.0)

    def share(identity: str, fetch: object, *, single_use: bool) -> SharedFetch:
        return ask

    hosts.sources.share = share
    found = source(hosts, f"auth: oauth2, oauth: {{{CLIENT}}}")
    for _ in range(2):
        result_of(obtain(found))
        hosts.clock.advance(60)
    assert {"canary-token-0", "canary-token-1"} <= known(hosts)


def test_only_so_many_are_known_and_the_newest_stay() -> None:
    recent = RecentSecrets(max_secrets=3)
    for name in ("a", "b", "c", "a", "d"):
        recent.note(Secret(f"canary-{name}"))
    assert [secret.reveal() for secret in recent] == ["canary-c", "canary-a", "canary-d"]
    assert "canary" not in repr(recent) + json.dumps(str(recent))
