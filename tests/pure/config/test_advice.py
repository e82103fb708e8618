"""Warnings of what is allowed and can hardly be meant."""

from __future__ import annotations

import pytest

from mgw.config.advice import MOST_SCANS, advice
from mgw.config.load import parse

OPENAI = "providers: {openai: {kind: openai}, claude: {kind: anthropic}}\n"
HOST = "providers: {openai: {kind: openai}, host: {kind: openai_compat, base_url: 'http://h/v1'}}\n"
GEMINI = "providers: {gemini: {kind: gemini}}\ndefaults: {gemini_dialect: gemini}\n"
TO_OPENAI = "defaults: {openai_dialect: openai}\n"
TO_HOST = "defaults: {openai_dialect: host}\n"
ALIASES = "aliases: {fast: openai/gpt-5-mini, team/smart: claude/claude-opus-5}\n"


def said_of(text: str, pattern: str) -> list[str]:
    named = f"{{name: a, key: a-long-key-2, models: ['{pattern}']}}"
    keys = f"edge_auth: {{enabled: true, keys: [a-long-key-1, {named}]}}\n"
    return advice(parse(text + keys, "mgw.yaml", {}))


@pytest.mark.parametrize(
    ("text", "pattern"),
    [
        (OPENAI, "openai/*"),
        (OPENAI, "OpenAI/gpt-5"),
        (OPENAI, "*"),
        (OPENAI, "*gpt*"),
        (OPENAI, "o*"),
        (OPENAI, "openai*"),
        (OPENAI, "[oc]*/gpt-5"),
        (OPENAI, "openai/gpt-?"),
        (OPENAI + ALIASES, "fast"),
        (OPENAI + ALIASES, "FAST"),
        (OPENAI + ALIASES, "fas?"),
        (OPENAI + ALIASES, "team/*"),
        (OPENAI + ALIASES, "team/smart"),
        (OPENAI + TO_OPENAI, "gpt-5*"),
        (OPENAI + TO_OPENAI, "anything"),
        (HOST + TO_HOST, "meta-llama/*"),
        (HOST + TO_HOST, "opnai/*"),
        (GEMINI, "tunedmodels/*"),
        (GEMINI, "models/gemini-2.5-pro"),
    ],
)
def test_a_pattern_that_may_fit_something_is_not_warned_of(text: str, pattern: str) -> None:
    assert said_of(text, pattern) == []


WITHOUT_DEFAULTS = "without defaults, clients ask for an alias or for <provider>/<model>"


@pytest.mark.parametrize(
    ("text", "pattern", "reason"),
    [
        (OPENAI, "opnai/*", "no provider is named 'opnai', did you mean openai?"),
        (OPENAI, "gemini/*", "no provider is named 'gemini' (known: openai, claude)"),
        (OPENAI + TO_OPENAI, "opnai/gpt-5*", "no provider is named 'opnai', did you mean openai?"),
        (OPENAI, "gpt-5*", WITHOUT_DEFAULTS),
        (OPENAI, "gpt-5", WITHOUT_DEFAULTS),
        (OPENAI, "openai", WITHOUT_DEFAULTS),
        (OPENAI + ALIASES, "fsat", WITHOUT_DEFAULTS),
        (OPENAI + ALIASES, "team/fast", "no provider is named 'team' (known: openai, claude)"),
    ],
)
def test_a_pattern_that_can_fit_nothing_is_warned_of_with_the_reason(
    text: str, pattern: str, reason: str
) -> None:
    assert said_of(text, pattern) == [f"edge_auth.keys.1.models: '{pattern}' matches no model: {reason}"]


def test_a_pattern_that_may_be_a_key_is_not_repeated() -> None:
    (said,) = said_of(OPENAI, "sk-canary-7f3a91")
    assert "canary" not in said


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ("", []),
        (
            "edge_auth: {enabled: true, keys: [MGW_EDGE_KEYS]}",
            ["edge_auth.keys: a key looks like the name of an"],
        ),
        (
            "edge_auth: {enabled: true, keys: [{name: a, key: ALICE_KEY}]}",
            ["edge_auth.keys: a key looks like the name of an environment variable: to read the key"],
        ),
        (
            "dashboard: {keys: [DASHBOARD_TOKEN]}",
            ["dashboard.keys: a key looks like the name of an environment"],
        ),
    ],
)
def test_the_name_of_a_variable_in_place_of_a_key_is_warned_of(settings: str, said: list[str]) -> None:
    found = advice(parse(f"{OPENAI}{settings}\n", "mgw.yaml", {}))
    assert len(found) == len(said)
    assert all(one.startswith(begin) for one, begin in zip(found, said, strict=True))


@pytest.mark.parametrize(
    ("key", "count"), [("OPENAI_API_KEY", 1), ("sk-live-0123", 0), ("AKIA0123456789", 0)]
)
def test_a_providers_key_that_is_the_name_of_a_variable_is_warned_of(key: str, count: int) -> None:
    found = advice(parse(f"providers: {{main: {{kind: openai, api_key: {key}}}}}", "mgw.yaml", {}))
    assert len(found) == count
    assert all(one.startswith("providers.main.api_key: the key looks like the name of an") for one in found)
    assert key not in "".join(found)


def test_only_so_many_patterns_are_compared_with_every_alias() -> None:
    patterns = ", ".join(f"x{number}*, y{number}/*" for number in range(500))
    keys = f"edge_auth: {{enabled: true, keys: [{{name: a, key: a-long-key-1, models: [{patterns}]}}]}}"
    config = parse(f"{OPENAI}{ALIASES}{keys}\n", "mgw.yaml", {})
    assert len(advice(config)) == MOST_SCANS


def advice_on(provider: str) -> list[str]:
    return advice(parse(f"providers: {{main: {provider}}}", "mgw.yaml", {}))


@pytest.mark.parametrize(
    ("kind", "address", "kind_meant"),
    [
        ("anthropic", "https://api.openai.com/v1", "openai"),
        ("gemini", "https://api.openai.com/v1", "openai"),
        ("openai", "https://api.anthropic.com/v1", "anthropic"),
        ("openai", "https://generativelanguage.googleapis.com/v1beta", "gemini"),
        ("openai", "https://blue.openai.azure.com/openai/deployments/gpt", "azure_openai"),
        ("openai_compat", "https://blue.openai.azure.com/openai", "azure_openai"),
    ],
)
def test_the_address_of_another_vendor_is_warned_of(kind: str, address: str, kind_meant: str) -> None:
    (said,) = advice_on(f"{{kind: {kind}, auth: none, base_url: '{address}'}}")
    host = address.split("/")[2]
    assert said.startswith(f"providers.main.base_url: {host} is an address of ")
    assert said.endswith(f": did you mean kind: {kind_meant}?")


@pytest.mark.parametrize(
    ("kind", "address"),
    [
        ("openai_compat", "https://api.openai.com/v1"),
        ("openai_compat", "https://api.anthropic.com/v1"),
        ("openai", "https://generativelanguage.googleapis.com/v1beta/openai"),
        ("openai", "https://blue.openai.azure.com/openai/v1"),
        ("anthropic", "https://gateway.example.com/v1"),
    ],
)
def test_an_address_that_serves_the_api_of_the_kind_is_not_warned_of(kind: str, address: str) -> None:
    assert advice_on(f"{{kind: {kind}, auth: none, base_url: '{address}'}}") == []


def test_a_gateway_key_that_is_a_providers_key_too_is_warned_of() -> None:
    text = "providers: {a: {kind: openai, api_key: one-long-key}, b: {kind: openai, api_key: another-key}}\n"
    keys = "edge_auth: {enabled: true, keys: [a-third-key-1, {name: n, key: another-key}]}"
    assert advice(parse(text + keys, "mgw.yaml", {})) == [
        "edge_auth.keys: a key is also the key of providers.b: give clients a key of their own"
    ]
