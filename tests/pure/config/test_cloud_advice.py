"""Warnings about providers in clouds."""

from __future__ import annotations

from typing import Final

import pytest

from mgw.config.advice import advice
from mgw.config.load import parse

RUNTIME: Final = "https://bedrock-runtime.us-east-1.amazonaws.com"
VERTEX: Final = "https://{}/v1/projects/p/locations/{}/publishers/anthropic"


def advice_on(settings: str) -> list[str]:
    config = parse(f"providers: {{main: {{{settings}}}}}", "mgw.yaml", {})
    return [said.removeprefix("providers.main.") for said in advice(config)]


SIGNED: Final = "auth: aws, aws: {region: us-east-1, service: bedrock}"


@pytest.mark.parametrize("host", ["127.0.0.1:8080", "localhost", "[::1]", "sim.localhost:1"])
def test_signed_requests_may_travel_in_clear_text_within_the_machine(host: str) -> None:
    assert advice_on(f"kind: anthropic, base_url: 'http://{host}/v1', {SIGNED}") == []


def test_bodies_that_travel_in_clear_text_are_warned_about() -> None:
    assert advice_on(f"kind: anthropic, base_url: 'http://proxy.example/v1', {SIGNED}") == [
        "base_url: plain HTTP, so bodies are signed but travel in clear text"
    ]
    assert advice_on("kind: anthropic, base_url: 'http://proxy.example/v1', api_key: a-long-key") == []


def test_keys_that_travel_in_clear_text_are_warned_about() -> None:
    settings = SIGNED.replace("service", "sts_url: 'http://sts.example', service")
    assert advice_on(f"kind: bedrock, {settings}") == [
        "aws.sts_url: plain HTTP, so keys of AWS travel in clear text"
    ]
    assert advice_on(f"kind: bedrock, {settings.replace('sts.example', '127.0.0.1:1')}") == []


def test_a_path_in_the_address_of_bedrock_is_warned_about() -> None:
    assert advice_on(f"kind: bedrock, base_url: '{RUNTIME}', auth: aws") == []
    (said,) = advice_on(f"kind: bedrock, base_url: '{RUNTIME}/anthropic/v1', auth: aws")
    assert said.startswith(f"base_url: {RUNTIME}/anthropic/v1 has a path, and calls of kind bedrock go to")


def test_a_host_of_bedrock_without_invoke_model_is_warned_about() -> None:
    mantle = "https://bedrock-mantle.us-east-1.api.aws"
    (said,) = advice_on(f"kind: bedrock, base_url: '{mantle}', auth: aws")
    assert said == (
        f"base_url: {mantle} does not serve InvokeModel: use kind anthropic with {mantle}/anthropic/v1"
    )
    assert advice_on(f"kind: anthropic, base_url: '{mantle}/anthropic/v1', auth: aws") == []


def test_an_id_of_anthropics_own_is_warned_about_on_bedrock() -> None:
    models = "models: [claude-opus-5, us.anthropic.claude-opus-5, claude-x]"
    (said,) = advice_on(f"kind: bedrock, auth: aws, aws: {{region: us-east-1}}, {models}")
    assert said == (
        "models: claude-opus-5, claude-x: not an id of Bedrock: those of Claude have anthropic. in front "
        "(us.anthropic.claude-…)"
    )
    assert advice_on("kind: anthropic, api_key: a-long-key, models: [claude-opus-5]") == []


@pytest.mark.parametrize(
    ("host", "location"),
    [
        ("aiplatform.googleapis.com", "global"),
        ("aiplatform.us.rep.googleapis.com", "us"),
        ("aiplatform.eu.rep.googleapis.com", "eu"),
        ("us-east5-aiplatform.googleapis.com", "us-east5"),
        ("proxy.example", "us-east5"),
    ],
)
def test_a_host_of_vertex_serves_its_location(host: str, location: str) -> None:
    assert advice_on(f"kind: vertex_anthropic, auth: adc, base_url: '{VERTEX.format(host, location)}'") == []


@pytest.mark.parametrize(
    ("host", "location", "usual"),
    [
        ("aiplatform.googleapis.com", "us-east5", "us-east5-aiplatform.googleapis.com"),
        ("us-east5-aiplatform.googleapis.com", "europe-west1", "europe-west1-aiplatform.googleapis.com"),
        ("us-east5-aiplatform.googleapis.com", "global", "aiplatform.googleapis.com"),
        ("aiplatform.eu.rep.googleapis.com", "us", "aiplatform.us.rep.googleapis.com"),
    ],
)
def test_a_host_that_serves_another_location_is_warned_about(host: str, location: str, usual: str) -> None:
    url = VERTEX.format(host, location)
    assert advice_on(f"kind: vertex_anthropic, auth: adc, base_url: '{url}'") == [
        f"base_url: {url}: location {location} is served by {usual}"
    ]


def test_a_host_that_serves_another_location_is_warned_about_for_gemini() -> None:
    for host, count in (("us-east5-aiplatform.googleapis.com", 0), ("aiplatform.googleapis.com", 1)):
        url = VERTEX.format(host, "us-east5").replace("publishers/anthropic", "publishers/google")
        assert len(advice_on(f"kind: gemini, auth: adc, base_url: '{url}'")) == count
    express = "https://aiplatform.googleapis.com/v1/publishers/google"
    assert advice_on(f"kind: gemini, api_key: long-enough, base_url: '{express}'") == []


def test_an_address_of_vertex_without_the_publisher_is_warned_about() -> None:
    url = "https://aiplatform.googleapis.com/v1/projects/p/locations/global"
    assert advice_on(f"kind: vertex_anthropic, auth: adc, base_url: '{url}'") == [
        f"base_url: {url} has no publishers/anthropic, which the addresses of Claude on Vertex AI have"
    ]


@pytest.mark.parametrize(("kind", "path"), [("bedrock", ""), ("anthropic", "/anthropic/v1")])
def test_a_model_without_a_region_prefix_is_warned_about(kind: str, path: str) -> None:
    models = "models: [us.anthropic.claude-opus-5, anthropic.claude-opus-5]"
    (said,) = advice_on(f"kind: {kind}, base_url: '{RUNTIME}{path}', auth: aws, {models}")
    assert said == (
        "models: anthropic.claude-opus-5 without a region prefix (us., eu., global., …): newer models need "
        "an inference profile"
    )
    mantle = "https://bedrock-mantle.us-east-1.api.aws"  # whose ids have none
    assert "region prefix" not in str(
        advice_on(f"kind: {kind}, base_url: '{mantle}{path}', auth: aws, {models}")
    )


ARN: Final = "arn:aws:bedrock:{}:123456789012:application-inference-profile/abc123def456"


def test_an_arn_of_another_region_is_warned_about() -> None:
    bedrock = "kind: bedrock, auth: aws, aws: {region: us-east-1}"
    assert advice_on(f"{bedrock}, models: ['{ARN.format('us-east-1')}', plain]") == []
    assert advice_on(f"{bedrock}, models: ['{ARN.format('us-west-2')}', '{ARN.format('us-east-1')}']") == [
        "models: an ARN is of region us-west-2, and requests go to us-east-1"
    ]
    by_key = (
        f"kind: bedrock, api_key: a-long-key, base_url: '{RUNTIME}', models: ['{ARN.format('eu-west-1')}']"
    )
    assert advice_on(by_key) == ["models: an ARN is of region eu-west-1, and requests go to us-east-1"]
