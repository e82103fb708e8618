"""Body rules and lists in headers in a configuration."""

from __future__ import annotations

from typing import Any, Final

import pytest

from mgw.config.advice import advice
from mgw.config.load import parse
from mgw.config.problems import ConfigError
from mgw.config.provider import Provider

FIELD: Final = "body: [{remove: [context_management]}]"
BETAS: Final = 'headers: {remove_tokens: {Anthropic-Beta: ["context-management-*"]}}'


def provider_of(settings: str) -> Provider:
    return parse(f"providers: {{main: {{kind: anthropic, {settings}}}}}", "mgw.yaml", {}).providers["main"]


def advice_on(*settings: str, kind: str = "anthropic", aliases: str = "{}") -> list[str]:
    block = ", ".join((f"kind: {kind}", "api_key: a-long-key", *settings))
    return advice(parse(f"providers: {{main: {{{block}}}}}\naliases: {aliases}", "mgw.yaml", {}))


def test_a_rule_has_what_the_file_says() -> None:
    (rule,) = provider_of(
        'body: [{match: {model: "Claude-*", client: [Ann, ann], dialect: messages}, remove: [a, a],'
        ' set: {"x.y": {b: [1, 1.5, null, true, "ü"]}}, default: {z: null}, cap: {n: 2}}]'
    ).body
    assert (rule.match.model, rule.match.client, rule.match.dialect) == (
        ("claude-*",),
        ("ann",),
        ("messages",),
    )
    assert (rule.remove, rule.default, rule.cap) == (("a",), {"z": None}, {"n": 2})
    assert rule.set == {"x.y": {"b": [1, 1.5, None, True, "ü"]}}


def test_an_alias_may_have_rules_or_not() -> None:
    text = """
providers: {main: {kind: openai}}
aliases:
  a: main/x
  b: [main/x, main/y]
  c: {targets: [main/z, main/z], body: [{remove: [user]}]}
  d: {targets: [main/x]}
"""
    config = parse(text, "mgw.yaml", {})
    assert config.aliases == {
        "a": ("main/x",),
        "b": ("main/x", "main/y"),
        "c": ("main/z",),
        "d": ("main/x",),
    }
    assert [bool(alias.body) for alias in config.own_aliases.values()] == [False, False, True, False]


@pytest.mark.parametrize("value", [".nan", ".inf", "{a: [-.inf]}", '"\\uD800"'])
def test_a_value_that_json_does_not_have_is_refused(value: str) -> None:
    with pytest.raises(ConfigError):
        provider_of(f"body: [{{set: {{a: {value}}}}}]")


LIKE_PROTECTED: Final = ["model_name", "a.model", "streams", "inputs.x", r"model\\.x", "prompt_cache_key"]


@pytest.mark.parametrize("path", LIKE_PROTECTED)
def test_a_path_that_only_looks_like_a_protected_one_is_taken(path: str) -> None:
    assert provider_of(f'body: [{{set: {{"{path}": 1}}}}]').body


@pytest.mark.parametrize("path", ["messages[].content[].cache_control", "input[].id", "requests[].model.x"])
def test_what_is_within_a_conversation_can_be_removed(path: str) -> None:
    assert provider_of(f'body: [{{remove: ["{path}"]}}]').body


def test_values_and_names_are_not_shown() -> None:
    body: Any = provider_of("body: [{set: {a: canary-1}, default: {b: canary-2}}]").body
    assert "canary" not in repr(body)


def test_both_halves_of_context_management_belong_together() -> None:
    assert advice_on(FIELD, BETAS) == []
    both = "Claude Code sends both, and either alone is refused with 400"
    (said,) = advice_on(FIELD)
    assert said == (
        "providers.main.body: removes context_management but providers.main.headers.remove_tokens does not "
        f"remove context-management-* from anthropic-beta: {both}"
    )
    (said,) = advice_on(BETAS)
    assert said == (
        "providers.main.headers.remove_tokens: removes context-management-* but providers.main.body does not "
        f"remove context_management: {both}"
    )


@pytest.mark.parametrize(
    "settings",
    [
        'betas: ["other-*"]',
        "betas: []",
        "headers: {remove: [Anthropic-Beta]}",
        "headers: {set: {anthropic-beta: one}}",
        'headers: {remove_tokens: {anthropic-beta: ["*"]}}',
        "headers: {remove_tokens: {anthropic-beta: [context-management-2025-06-27]}}",
    ],
)
def test_the_beta_may_go_in_other_ways(settings: str) -> None:
    assert advice_on(FIELD, settings) == []


def test_rules_for_other_dialects_and_families_remove_no_half() -> None:
    assert advice_on(FIELD, kind="openai") == []
    assert advice_on("body: [{match: {dialect: chat}, remove: [context_management]}]") == []
    assert len(advice_on(BETAS, "body: [{match: {dialect: chat}, remove: [context_management]}]")) == 1


def test_the_rule_of_an_alias_is_a_half_too() -> None:
    alias = "{a: {targets: [main/x], body: [{remove: [context_management]}]}}"
    assert advice_on(BETAS, aliases=alias) == []
    (said,) = advice_on(aliases=alias)
    assert said.startswith(
        "aliases.a.body: removes context_management but providers.main.headers.remove_tokens"
    )
    (said,) = advice_on(BETAS, aliases=alias[:-1] + ", b: main/x}")
    assert said.startswith("providers.main.headers.remove_tokens: removes context-management-*")


def test_bedrock_has_its_betas_in_the_body() -> None:
    host = 'base_url: "https://bedrock-runtime.us-east-1.amazonaws.com"'
    (said,) = advice_on(FIELD, BETAS, host, kind="bedrock")
    assert said == (
        "providers.main.headers.remove_tokens: kind bedrock sends no anthropic-beta, so nothing is removed: "
        "use betas"
    )
    assert len(advice_on(FIELD, host, kind="bedrock")) == 1
    assert advice_on(FIELD, "betas: []", host, kind="bedrock") == []
