"""From a model to a provider and its own model id."""

from __future__ import annotations

import pytest

from mgw.errors import GatewayError, Reason
from mgw.routing.resolve import Resolver
from mgw.vocabulary import Family
from tests.support.configs import config

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
