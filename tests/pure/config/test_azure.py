"""What a provider of kind ``azure_openai`` needs, and what it gets without asking."""

from __future__ import annotations

import pytest

from mgw.config.load import parse
from mgw.config.problems import ConfigError
from mgw.config.provider import Provider
from mgw.nouns.vocabulary import Capability, MaxTokensField

V1 = "base_url: 'https://r.openai.azure.com/openai/v1'"
DEPLOYMENT = "base_url: 'https://r.openai.azure.com/openai/deployments/d'"


def provider_of(settings: str) -> Provider:
    text = f"providers: {{a: {{kind: azure_openai, api_key: long-enough, {settings}}}}}"
    return parse(text, "mgw.yaml", {}).providers["a"]


def problems_of(settings: str) -> list[str]:
    with pytest.raises(ConfigError) as refusal:
        provider_of(settings)
    return [str(problem).removeprefix("mgw.yaml:1: providers.a.") for problem in refusal.value.problems]


def test_it_does_what_openais_own_service_does() -> None:
    found = provider_of(V1)
    assert found.capabilities == frozenset(Capability)
    assert found.max_tokens_field is MaxTokensField.MAX_COMPLETION_TOKENS
    assert found.api_version is None


def test_it_has_no_address_by_default() -> None:
    assert problems_of("models: [m]") == [
        "base_url: missing, expected the address of the host: there is no default for kind azure_openai"
    ]


@pytest.mark.parametrize("version", ["2024-10-21", "'2024-10-21'", "2025-04-01-preview"])
def test_a_version_needs_no_quotes(version: str) -> None:
    assert provider_of(f"{DEPLOYMENT}, api_version: {version}").api_version == version.strip("'")


def test_an_address_of_a_deployment_needs_a_version() -> None:
    (found,) = problems_of(DEPLOYMENT)
    assert found == (
        "api_version: missing, but calls to this base_url need a version: write api_version: 2024-10-21, "
        "or another that the provider has"
    )


@pytest.mark.parametrize("settings", [V1, f"{V1}, api_version: preview"])
def test_an_address_of_the_v1_api_does_not(settings: str) -> None:
    provider_of(settings)


@pytest.mark.parametrize("name", ["api-key", "Api-Key"])
def test_its_key_is_no_header_of_the_operators(name: str) -> None:
    assert problems_of(f"{V1}, headers: {{set: {{{name}: x}}}}") == [
        f"headers.set.{name}: {name} carries the provider's key: set its api_key instead"
    ]


def test_its_hosts_take_no_fields_beyond_openais() -> None:
    assert problems_of(f"{V1}, extra_fields: [top_k]") == [
        "extra_fields: only for the kind openai_compat, found with kind azure_openai"
    ]
