"""Files of profiles."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mgw.config.load import parse_profile
from mgw.config.problems import ConfigError
from mgw.config.profile import CloakMode, Profile, ResetFormat, TokenRequestStyle
from mgw.nouns.secret import Secret
from tests.support.configs import config
from tools.settings_reference import entries

LEAST = "client_id: c\ntoken: {url: 'https://idp.example/token'}\n"


def read(text: str, **environ: str) -> Profile:
    return parse_profile(text, "p.yaml", environ)


def problems(text: str, **environ: str) -> list[str]:
    with pytest.raises(ConfigError) as refused:
        read(text, **environ)
    return str(refused.value).splitlines()


def test_a_profile_needs_a_client_and_a_token_endpoint() -> None:
    found = read(LEAST)
    assert (found.client_id, found.token.url, found.token.style) == (
        "c",
        "https://idp.example/token",
        TokenRequestStyle.FORM,
    )
    assert found.cloak.mode is CloakMode.AUTO
    assert not found.rewrites_bodies
    assert problems("token:\n") == [
        "p.yaml:1: client_id: missing, expected a string",
        "p.yaml:1: token.url: missing, expected an address",
    ]


def test_everything_can_be_stated() -> None:
    found = read(
        """
client_id: c
client_secret_env: THE_SECRET
scopes: [a, b]
authorization: {url: "https://idp.example/authorize/", parameters: {prompt: login}}
redirect: {host: localhost, port: 1455, path: /auth/callback, pasted_url: "https://idp.example/code"}
device: {url: "https://idp.example/device"}
token: {url: "https://idp.example/token", style: json, parameters: {a: b}, sends_state: true}
revocation: {url: "https://idp.example/revoke"}
account: {label: [email], details: {account_id: [id_token, id]}}
headers: {set: {X-Account: "{account_id}"}, merge: {x-list: [a, b]}, remove: [X-Title]}
tools: {exact: {shell: Bash}, prefix: x_}
cloak: {mode: never, client: ["Cli/*"], headers: {X-App: cli}, system: ["You are a client."]}
limits:
  reset_headers: [{name: X-Reset, format: rfc3339}]
  rest_seconds: 5
  no_entitlement: {header: X-Plan, words: [Not Entitled]}
  no_entitlement_rest_seconds: 6
""",
        THE_SECRET="s3cret-of-the-client",
    )
    assert found.client_secret == Secret("s3cret-of-the-client")
    assert found.authorization.url == "https://idp.example/authorize/", "byte for byte as it stands"
    assert found.limits.reset_headers[0].format is ResetFormat.RFC3339
    assert found.limits.no_entitlement.words == {"not entitled"}
    assert found.cloak.client == ("cli/*",)
    assert found.rewrites_bodies
    assert "s3cret" not in repr(found)


def test_all_that_is_wrong_is_said_at_once() -> None:
    said = problems(
        """
client_id: c
client_secret: a-secret-of-the-client
client_secret_env: UNSET
token: {ulr: x, style: fast}
redirect: {port: 70000, path: callback}
account: {details: {Id: [x]}}
headers: {set: {Authorization: x, "a b": y}, merge: {x-list: ["{nobody}"]}}
tools: {exact: {a: x, b: x}}
cloak: {mode: sometimes}
limits: {reset_headers: [{format: unix}], rest_seconds: 0}
retries: {attempts: 1}
"""
    )
    places = [line.split(": ")[1] for line in said]
    assert places == [
        "client_secret_env",
        "token.ulr",
        "token.style",
        "redirect.port",
        "redirect.path",
        "account.details.Id",
        "headers.set.Authorization",
        "headers.set.'a b'",
        "headers.merge.x-list",
        "tools.exact.b",
        "cloak.mode",
        "limits.reset_headers.0.name",
        "limits.rest_seconds",
        "retries",
    ]
    assert "a-secret-of-the-client" not in "\n".join(said)
    assert "did you mean url" in "\n".join(said)


@pytest.mark.parametrize("text", ["", "- a", "x", "a: [", "a: &a [*a]"])
def test_what_is_no_mapping_is_refused(text: str) -> None:
    assert problems(text)


@pytest.mark.parametrize(
    ("mode", "agent", "applies"),
    [
        ("auto", None, True),
        ("auto", "sdk/1", True),
        ("auto", "CLI/2 (linux)", False),
        ("always", "cli/2", True),
        ("never", "sdk/1", False),
    ],
)
def test_when_a_request_is_made_to_look_like_the_vendors_own(
    mode: str, agent: str | None, applies: bool
) -> None:
    found = read(LEAST + "cloak: {client: ['Cli/*']}\n")
    assert found.cloak.applies(CloakMode(mode), agent) is applies


EXAMPLE = Path(__file__).resolve().parents[3] / "etc" / "mgw-profile-simulator.yaml"


def uncommented() -> str:
    return re.sub(r"(?m)^( *)#(?! \S)", r"\1", EXAMPLE.read_text(encoding="utf-8"))


def test_the_shipped_profile_is_for_the_simulator() -> None:
    found = read(EXAMPLE.read_text(encoding="utf-8"))
    urls = (found.authorization.url, found.token.url, found.device.url, found.revocation.url)
    assert all(url is not None and url.startswith("http://127.0.0.1:8788/") for url in urls)


def test_the_shipped_profile_shows_every_setting_and_all_of_them_work() -> None:
    text = uncommented()
    found = read(text, EXAMPLE_CLIENT_SECRET="a-secret-of-nobody")
    assert found.tools.prefix == "sim_"
    for entry in entries(Profile):
        if entry.key != "client_secret":
            assert re.search(rf"(?m)(^\s*(- )?|[{{ ]){entry.key}:", text), entry.path


ACCOUNT = "profiles: {s: {file: /etc/s.yaml}}\nproviders: {p: {kind: anthropic, %s}}\n"


@pytest.mark.parametrize(
    ("settings", "entries"),
    [
        ("auth: oauth2, oauth: {credentials: a, profile: s}, cloak: never", ("a",)),
        ("pool: {credentials: [a, b, a], profile: s}", ("a", "b")),
        ("auth: oauth2, pool: {credentials: [a], profile: s}, cloak: always", ("a",)),
    ],
)
def test_a_provider_names_its_accounts(settings: str, entries: tuple[str, ...]) -> None:
    provider = config(ACCOUNT % settings).providers["p"]
    assert (provider.subscriptions, provider.profile) == (entries, "s")


@pytest.mark.parametrize(
    ("settings", "place", "said"),
    [
        ("auth: oauth2, oauth: {credentials: a}", "oauth.profile", "require each other"),
        ("auth: oauth2, oauth: {credentials: a, profile: t}", "oauth.profile", "no profile is named 't'"),
        (
            "auth: oauth2, oauth: {credentials: a, profile: s, grant: jwt_bearer}",
            "oauth.grant",
            "remove this setting",
        ),
        ("auth: oauth2, oauth: {credentials: ../a, profile: s}", "oauth.credentials", "at most 64"),
        ("oauth: {credentials: a, profile: s}", "oauth", "add auth: oauth2"),
        ("cloak: auto", "cloak", "only for subscription credentials"),
        ("pool: {credentials: [], profile: s}", "pool.credentials", "missing"),
        ("pool: {credentials: [a]}", "pool.profile", "missing"),
        ("pool: {credentials: [a], profile: s}, api_key: k-of-nobody", "pool", "remove api_key"),
        ("pool: {credentials: [a], profile: s}, auth: none, base_url: 'http://h/v1'", "pool", "remove auth"),
    ],
)
def test_what_keeps_accounts_from_being_used_is_said(settings: str, place: str, said: str) -> None:
    with pytest.raises(ConfigError) as refused:
        config(ACCOUNT % settings)
    assert f"providers.p.{place}: " in str(refused.value)
    assert said in str(refused.value)


def test_the_store_is_in_the_state_directory_unless_it_is_named() -> None:
    text = ACCOUNT % "pool: {credentials: [a], profile: s}"
    assert config(text, {"STATE_DIRECTORY": "/s"}).credential_store == "/s/credentials/store.json"
    assert config(text + "credential_store: /c/x\n").credential_store == "/c/x"
