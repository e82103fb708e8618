"""Issuers of tokens in a configuration: what is kept as written, what is checked, and what is warned of."""

from __future__ import annotations

import json
import pickle
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mgw.config.advice import advice
from mgw.config.claims import checked_claim
from mgw.config.dashboard import tokens_open
from mgw.config.jwt import JwtSettings, TokenAlgorithm
from mgw.config.load import parse, parse_key_file
from mgw.config.problems import ConfigError
from mgw.config.secrets import secrets_of
from mgw.config.settings import Config
from mgw.workers.pickled_config import pickle_config

ONE = "providers: {main: {kind: openai}}\n"
ENTRY = "name: corp, issuer: 'https://login.example.com/realms/Main/', audience: mgw"
EXAMPLE = """
edge_auth:
  enabled: true
  groups: {research: {}}
  jwt:
    - name: corp
      issuer: https://login.example.com/realms/main
      audience: mgw
      client: email
      tags: {department: /department}
      rules:
        - {when: {/realm_access/roles: [llm-research, llm-admin], email_verified: true}, groups: [research]}
        - {when: {email: "*@example.com", level: 1.5, count: 3}}
"""


def config(settings: str, environ: dict[str, str] | None = None) -> Config:
    return parse(ONE + settings, "mgw.yaml", environ or {})


def issued(more: str = "rules: [{}]", beside: str = "") -> JwtSettings:
    (entry,) = config(f"edge_auth: {{enabled: true, jwt: [{{{ENTRY}, {more}}}]{beside}}}\n").edge_auth.jwt
    return entry


def said_of(settings: str) -> list[str]:
    with pytest.raises(ConfigError) as refusal:
        config(settings)
    return [str(problem).partition(": ")[2] for problem in refusal.value.problems]


def test_an_issuer_has_what_its_entry_says_and_the_defaults() -> None:
    (entry,) = config(EXAMPLE).edge_auth.jwt
    assert (entry.name, entry.issuer, entry.audience) == (
        "corp",
        "https://login.example.com/realms/main",
        ("mgw",),
    )
    assert (entry.client, entry.tags) == ("email", {"department": "/department"})
    assert [(rule.when, rule.groups) for rule in entry.rules] == [
        ({"/realm_access/roles": ("llm-research", "llm-admin"), "email_verified": (True,)}, ("research",)),
        ({"email": ("*@example.com",), "level": (1.5,), "count": (3,)}, ()),
    ]
    assert entry.algorithms == ("RS256", "ES256", "EdDSA")
    assert (entry.clock_skew, entry.max_stale, entry.typ) == (30, 86400, None)
    assert issued().client == "sub"


@pytest.mark.parametrize("value", ["59.9", "1", "0", "-1", ".inf"])
def test_keys_may_not_become_unusable_between_two_fetches(value: str) -> None:
    text = f"edge_auth: {{jwt: [{{{ENTRY}, rules: [{{}}], max_stale: {value}}}]}}\n"
    (said,) = said_of(text)
    assert "expected a number of seconds, at least 60" in said
    assert issued("rules: [{}], max_stale: 60").max_stale == 60


def test_values_of_claims_keep_their_types() -> None:
    rule = issued('rules: [{when: {a: ["true", true, 1, 1.0, "1"]}}]').rules[0]
    assert rule.when is not None
    assert [(type(value), value) for value in rule.when["a"]] == [
        *((str, "true"), (bool, True), (int, 1), (float, 1.0), (str, "1"))
    ]


@given(
    issuer=st.from_regex(
        r"https://[A-Za-z][A-Za-z0-9]{0,8}(:[1-9][0-9]{0,3})?(/[A-Za-z0-9._~%]{0}[A-Za-z0-9~-]{0,9}){0,3}/?",
        fullmatch=True,
    )
)
def test_an_issuer_is_kept_in_every_character(issuer: str) -> None:
    text = f"edge_auth: {{jwt: [{{name: a, issuer: {json.dumps(issuer)}, audience: b, rules: [{{}}]}}]}}\n"
    (entry,) = config(text).edge_auth.jwt
    assert entry.issuer == issuer
    assert entry.discovery_url == f"{issuer.removesuffix('/')}/.well-known/openid-configuration"


@pytest.mark.parametrize(
    ("issuer", "is_possible"),
    [
        ("http://127.0.0.1:8080/x", True),
        ("http://[::1]:80", True),
        ("http://LocalHost", True),
        ("http://idp.localhost:1", True),
        ("http://localhost.example.com", False),
        ("http://10.0.0.1", False),
        ("http://127.0.0.1.example.com", False),
        ("ws://localhost", False),
    ],
)
def test_plain_http_is_only_for_this_machine(issuer: str, is_possible: bool) -> None:
    for settings in (f"issuer: '{issuer}'", f"issuer: 'https://a.example', jwks_url: '{issuer}/jwks'"):
        text = f"edge_auth: {{jwt: [{{name: a, audience: b, rules: [{{}}], {settings}}}]}}\n"
        if is_possible:
            assert config(text).edge_auth.jwt
        else:
            (said,) = said_of(text)
            assert "expected an" in said


def test_an_address_with_a_password_is_refused_and_not_repeated() -> None:
    for setting in ("jwks_url", "issuer"):
        entry = ENTRY.replace("issuer:", "ignored:") if setting == "issuer" else ENTRY
        text = (
            f"edge_auth: {{jwt: [{{{entry}, rules: [{{}}], {setting}: 'https://me:canary@h.example/'}}]}}\n"
        )
        said = "\n".join(said_of(text))
        assert "without a user name or password" in said
        assert "canary" not in said


def test_the_key_of_an_address_needs_no_lookup_of_its_own() -> None:
    assert (
        issued("rules: [{}], jwks_url: 'https://k.example/keys?p=b2c'").jwks_url
        == "https://k.example/keys?p=b2c"
    )


def test_a_proxy_may_stand_in_the_environment_and_its_password_is_a_secret() -> None:
    text = f"edge_auth: {{jwt: [{{{ENTRY}, rules: [{{}}], proxy_env: PROXY}}]}}\n"
    found = config(text, {"PROXY": "http://me:a-long-password@proxy.example:3128"})
    proxy = found.edge_auth.jwt[0].proxy
    assert proxy is not None
    assert proxy.name == "proxy.example:3128"
    assert "a-long-password" in [secret.reveal() for secret in secrets_of(found)]
    assert "a-long-password" not in repr(found)


def test_a_configuration_with_issuers_reaches_the_workers() -> None:
    found = config(EXAMPLE)
    assert pickle.loads(pickle_config(found)).edge_auth.jwt == found.edge_auth.jwt


@pytest.mark.parametrize("name", ["group", "gateway", "sha256", "claude_code"])
def test_a_name_that_begins_other_names_is_refused(name: str) -> None:
    (said,) = said_of(f"edge_auth: {{jwt: [{{{ENTRY.replace('corp', name)}, rules: [{{}}]}}]}}\n")
    assert said.startswith(f"edge_auth.jwt.0.name: expected another name: the gateway itself uses {name}: at")


@pytest.mark.parametrize("algorithm", ["none", "None", "HS256", "HS384", "HS512", "hs256"])
def test_algorithms_that_prove_nothing_are_refused_with_the_reason(algorithm: str) -> None:
    (said,) = said_of(f"edge_auth: {{jwt: [{{{ENTRY}, rules: [{{}}], algorithms: [{algorithm}]}}]}}\n")
    assert "shared" in said or "anyone could make tokens" in said


def test_every_algorithm_is_possible() -> None:
    names = ", ".join(TokenAlgorithm)
    assert issued(f"rules: [{{}}], algorithms: [{names}]").algorithms == tuple(TokenAlgorithm)
    assert len(TokenAlgorithm) == 10


@pytest.mark.parametrize("rules", ["", ", rules: []", ", rules: "])
def test_without_rules_the_reason_is_said(rules: str) -> None:
    (said,) = said_of(f"edge_auth: {{jwt: [{{{ENTRY}{rules}}}]}}\n")
    assert "sign tokens for anybody" in said
    assert "[{}]" in said


CLAIM = st.lists(st.sampled_from(["a", "/", "~", "0", "1", ".", "é"]), min_size=1).map("".join)


@given(claim=CLAIM)
def test_a_pointer_has_only_the_two_escapes(claim: str) -> None:
    escapes = re.sub("~[01]", "", claim)
    try:
        assert checked_claim(claim) == claim
    except ValueError:
        assert claim.startswith("/")
        assert "~" in escapes
    else:
        assert not claim.startswith("/") or "~" not in escapes


@pytest.mark.parametrize("settings", ["client: /a~", "tags: {team: /a~}", "rules: [{when: {/a~: b}}]"])
def test_every_claim_is_checked(settings: str) -> None:
    rules = "" if "rules" in settings else "rules: [{}], "
    said = said_of(f"edge_auth: {{jwt: [{{{ENTRY}, {rules}{settings}}}]}}\n")
    assert len(said) == 1
    assert "JSON Pointer" in said[0]


def test_a_rule_may_only_name_groups_that_exist() -> None:
    rules = "rules: [{when: {a: b}, groups: [ops, reserch]}]"
    (said,) = said_of(f"edge_auth: {{groups: {{research: , ops: }}, jwt: [{{{ENTRY}, {rules}}}]}}\n")
    assert said == (
        "edge_auth.jwt.0.rules.0.groups.1: no group is named 'reserch', did you mean research? "
        "(known: research, ops)"
    )


def test_an_issuer_is_enough_for_edge_auth() -> None:
    assert issued().name == "corp"
    (said,) = said_of("edge_auth: {enabled: true}\n")
    assert said.startswith("edge_auth.enabled: edge auth requires a key or an issuer")


def test_names_of_keys_and_issuers_are_one_space() -> None:
    entry = f"{{{ENTRY}, rules: [{{}}]}}"
    (said,) = said_of(f"edge_auth: {{keys: [{{name: corp, key: a-long-key}}], jwt: [{entry}]}}\n")
    assert said == "edge_auth.jwt.0.name: a key in edge_auth.keys has the same name: names must be unique"
    found = config(f"edge_auth: {{jwt: [{entry}]}}\n")
    with pytest.raises(ConfigError, match=r"an issuer in edge_auth\.jwt has it"):
        parse_key_file(f"sha256: '{'0' * 64}'\n", "corp", "corp.yaml", found)
    assert found.edge_auth.client_names == ["corp"]


def test_the_dashboard_may_name_groups_that_only_tokens_reach() -> None:
    settings = EXAMPLE + "dashboard: {groups: [research]}\n"
    found = config(settings)
    assert tokens_open(found.dashboard, found.edge_auth)
    assert not tokens_open(config(EXAMPLE).dashboard, found.edge_auth)
    off = config(settings.replace("enabled: true", "enabled: false"))
    assert not tokens_open(off.dashboard, off.edge_auth)


@pytest.mark.parametrize(
    ("setting", "grant"), [("subject_token", "token_exchange"), ("assertion", "jwt_bearer")]
)
def test_tokens_for_clients_need_an_issuer_of_theirs(setting: str, grant: str) -> None:
    oauth = f"token_url: 'https://h.example/t', grant: {grant}, {setting}: client"
    text = f"providers: {{main: {{kind: openai, auth: oauth2, oauth: {{{oauth}}}}}}}\n"
    jwt = f"edge_auth: {{jwt: [{{{ENTRY}, rules: [{{}}]}}]}}\n"
    found = parse(text + jwt, "mgw.yaml", {}).providers["main"].oauth
    assert found is not None
    assert getattr(found, setting) == "client"
    with pytest.raises(ConfigError, match=f"oauth.{setting}: requires edge_auth.jwt"):
        parse(text, "mgw.yaml", {})
    with pytest.raises(ConfigError) as refusal:
        parse(text + "edge_auth: {jwt: 5}\n", "mgw.yaml", {})
    assert len(refusal.value.problems) == 1


def advice_on(rules: str, *, issuer: str = "https://a.example", enabled: str = "true") -> list[str]:
    entry = f"{{name: a, issuer: '{issuer}', audience: b, rules: {rules}}}"
    return advice(config(f"edge_auth: {{enabled: {enabled}, jwt: [{entry}]}}\n"))


def test_rules_that_can_never_apply_are_warned_of() -> None:
    assert advice_on("[{when: {a: b}}, {}]") == []
    (said,) = advice_on("[{when: {a: b}}, {}, {when: {a: c}}, {}]")
    assert said == (
        "edge_auth.jwt.0.rules.2: never applies, since edge_auth.jwt.0.rules.1 has no when and matches every "
        "token"
    )


def test_a_public_issuer_that_is_admitted_as_a_whole_is_warned_of() -> None:
    for issuer in (
        "https://token.actions.githubusercontent.com",
        "https://gitlab.com",
        "https://accounts.google.com",
    ):
        assert advice_on("[{when: {a: b}}]", issuer=issuer) == []
        (said,) = advice_on("[{}]", issuer=issuer)
        assert said.startswith("edge_auth.jwt.0.rules.0: admits everybody")


def test_issuers_without_edge_auth_are_warned_of() -> None:
    (said,) = advice_on("[{}]", enabled="false")
    assert said == "edge_auth.enabled: jwt is set, but edge auth is off, so no token is checked"


@pytest.mark.parametrize(
    ("earlier", "later"),
    [
        ("{a: b}", "{a: b}"),
        ("{a: b}", "{a: b, c: d}"),
        ("{a: [b, c]}", "{a: c}"),
        ("{a: 'b*'}", "{a: [bc, bd]}"),
        ("{a: 'b*'}", "{a: 'b*'}"),
        ("{a: true}", "{a: true}"),
    ],
)
def test_a_rule_whose_tokens_an_earlier_one_has_is_warned_of(earlier: str, later: str) -> None:
    (said,) = advice_on(f"[{{when: {{z: z}}}}, {{when: {earlier}}}, {{when: {later}}}]")
    assert said == (
        "edge_auth.jwt.0.rules.2.when: this rule never applies, since edge_auth.jwt.0.rules.1 matches all of "
        "its tokens"
    )


@pytest.mark.parametrize(
    ("earlier", "later"),
    [
        ("{a: b, c: d}", "{a: b}"),
        ("{a: b}", "{a: [b, c]}"),
        ("{a: b}", "{a: B}"),
        ("{a: bc}", "{a: 'b*'}"),
        ("{a: 'b?'}", "{a: 'b*'}"),
        ("{a: true}", "{a: 'true'}"),
        ("{a: true}", "{a: 1}"),
        ("{a: b}", "{c: b}"),
    ],
)
def test_a_rule_with_tokens_of_its_own_is_not_warned_of(earlier: str, later: str) -> None:
    assert advice_on(f"[{{when: {earlier}}}, {{when: {later}}}]") == []


def test_the_end_of_an_address_is_warned_of() -> None:
    assert advice_on("[{when: {email: '*@example.com'}}]") == []
    (said,) = advice_on("[{when: {email: [x, '@example.com'], b: true}}]")
    assert said == (
        "edge_auth.jwt.0.rules.0.when.email: '@example.com' matches this text alone: did you mean "
        "'*@example.com'?"
    )


@pytest.mark.parametrize(
    ("claim", "pointer", "parts"),
    [
        ("realm_access.roles", "/realm_access/roles", "roles in realm_access"),
        ("realm_access/roles", "/realm_access/roles", "roles in realm_access"),
        ("kubernetes.io/namespace", "/kubernetes.io/namespace", "namespace in kubernetes.io"),
    ],
)
def test_a_name_that_looks_like_a_way_is_warned_of(claim: str, pointer: str, parts: str) -> None:
    (said,) = advice_on(f"[{{when: {{{claim}: x}}}}]")
    assert said.endswith(f"{claim} is the name of one claim: did you mean {pointer}, which is {parts}?")
    assert said.startswith("edge_auth.jwt.0.rules.0.when.")


@pytest.mark.parametrize(
    "claim", ["/realm_access/roles", "https://example.com/roles", "cognito:groups", ".", "a."]
)
def test_names_and_pointers_are_not_warned_of(claim: str) -> None:
    assert advice_on(f"[{{when: {{'{claim}': x}}}}]") == []


def test_names_of_the_client_and_of_tags_are_looked_at_too() -> None:
    settings = (
        "issuer: 'https://a.example', audience: b, client: user.id, tags: {t: a/b}, rules: [{when: {a: b}}]"
    )
    found = advice(config(f"edge_auth: {{enabled: true, jwt: [{{name: a, {settings}}}]}}\n"))
    assert [one.partition(": ")[0] for one in found] == ["edge_auth.jwt.0.client", "edge_auth.jwt.0.tags.t"]
