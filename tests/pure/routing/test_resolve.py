"""From a model to a provider and its own model id."""

from __future__ import annotations

import pytest

from mgw.nouns.errors import GatewayError, Reason
from mgw.nouns.vocabulary import Family
from mgw.routing.resolve import MAX_PREFIXES, Resolver
from tests.support.configs import THREE_FAMILIES, config

RESOLVER = Resolver(config())


@pytest.mark.parametrize(
    ("asked", "family", "provider", "upstream"),
    [
        pytest.param("fast", Family.ANTHROPIC, "main", "gpt-b", id="alias before the default"),
        pytest.param("slashed/name", Family.OPENAI, "host", "meta-llama/llama-4", id="alias with a slash"),
        pytest.param("host/meta/llama", Family.OPENAI, "host", "meta/llama", id="prefix"),
        pytest.param("main/fast", Family.OPENAI, "main", "fast", id="an alias is not looked up twice"),
        pytest.param("gpt-9", Family.OPENAI, "main", "gpt-9", id="bare, openai"),
        pytest.param("gpt-9", Family.ANTHROPIC, "claude", "gpt-9", id="bare, anthropic"),
        pytest.param("gpt-9", Family.GEMINI, "gem", "gpt-9", id="bare, gemini"),
        pytest.param("meta-llama/llama-4", Family.OPENAI, "main", "meta-llama/llama-4", id="unknown prefix"),
        pytest.param("models/gem-x", Family.GEMINI, "gem", "models/gem-x", id="leading models/ is kept"),
        pytest.param("models/fast", Family.GEMINI, "main", "models/gpt-b", id="leading models/ is ignored"),
    ],
)
def test_alias_then_prefix_then_default(asked: str, family: Family, provider: str, upstream: str) -> None:
    target = RESOLVER.resolve(asked, family)
    assert (target.provider.name, target.upstream_model, target.asked_model) == (provider, upstream, asked)


def test_a_bare_model_without_a_default_is_unknown_and_says_what_to_write() -> None:
    resolver = Resolver(config("providers: {only: {kind: openai, api_key: k1}}"))
    with pytest.raises(GatewayError) as refusal:
        resolver.resolve("gpt-9", Family.OPENAI)
    assert refusal.value.reason is Reason.UNKNOWN_MODEL
    assert "defaults.openai_dialect" in refusal.value.message
    assert "only" in refusal.value.message


@pytest.mark.parametrize("asked", ["", "models/"])
def test_an_empty_model_is_malformed(asked: str) -> None:
    with pytest.raises(GatewayError) as refusal:
        RESOLVER.resolve(asked, Family.GEMINI)
    assert refusal.value.reason is Reason.MALFORMED


def test_a_prefix_with_nothing_behind_it_is_no_model() -> None:
    with pytest.raises(GatewayError) as refusal:
        RESOLVER.resolve("main/", Family.ANTHROPIC)
    assert refusal.value.reason is Reason.UNKNOWN_MODEL


def prefixes_of(*models: str, settings: str = THREE_FAMILIES) -> list[tuple[str, str, str]]:
    """What is reported of the prefixes of these models: each, the near provider and the default."""
    found: list[tuple[str, str, str]] = []
    resolver = Resolver(config(settings), lambda *report: found.append(report))
    for model in models:
        target = resolver.resolve(model, Family.OPENAI)
        assert (target.provider.name, target.upstream_model) == ("main", model)
    return found


@pytest.mark.parametrize(
    ("model", "provider"),
    [("mian/gpt-9", "main"), ("Main/gpt-9", "main"), ("cluade/x", "claude"), ("models/hos/x/y", "host")],
)
def test_a_prefix_one_edit_from_a_providers_name_is_reported_and_goes_to_the_default(
    model: str, provider: str
) -> None:
    prefix = model.removeprefix("models/").partition("/")[0]
    assert prefixes_of(model) == [(prefix, provider, "main")]


def test_a_prefix_is_reported_once_whatever_follows_it() -> None:
    assert prefixes_of("mian/a", "mian/b", "mian/a", "hots/a") == [
        ("mian", "main", "main"),
        ("hots", "host", "main"),
    ]


def test_a_model_of_a_host_or_without_a_prefix_is_not_reported() -> None:
    assert prefixes_of("meta-llama/llama-4", "gpt-9", "mian", "x" * 1000 + "/y", "/y") == []


def test_only_so_many_prefixes_are_looked_at() -> None:
    others = [f"host-of-models-{number}/m" for number in range(MAX_PREFIXES)]
    assert prefixes_of(*others[1:], "mian/a") == [("mian", "main", "main")]
    assert prefixes_of(*others, "mian/a") == []


def test_a_right_prefix_costs_no_look_at_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(Resolver, "_look_at_prefix")
    assert RESOLVER.resolve("host/meta/llama", Family.OPENAI).provider.name == "host"
    assert RESOLVER.resolve("fast", Family.OPENAI).provider.name == "main"
    assert RESOLVER.resolve("gpt-9", Family.OPENAI).provider.name == "main"


def test_where_there_is_no_default_the_refusal_says_which_provider_was_meant() -> None:
    resolver = Resolver(config("providers: {only: {kind: openai, api_key: k1}}"))
    with pytest.raises(
        GatewayError, match=r"'onyl/gpt-9' \(did you mean 'only/gpt-9'\?\), and defaults\.openai"
    ):
        resolver.resolve("onyl/gpt-9", Family.OPENAI)
    with pytest.raises(
        GatewayError, match=r"no provider is named 'onyl', did you mean only\? \(known: only\)"
    ):
        resolver.provider("onyl", Family.OPENAI)
