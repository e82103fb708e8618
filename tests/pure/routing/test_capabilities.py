"""Whether a provider may be asked: its capability flag first, then what its kind can do."""

from __future__ import annotations

import pytest

from mgw.config.translation import TranslationSettings
from mgw.nouns.errors import GatewayError, Reason
from mgw.routing.resolve import Resolver, check_capability
from mgw.routing.text_routes import TEXT_ROUTES
from tests.support.configs import config

RESOLVER = Resolver(config())
ROUTE = {route.name: route for route in TEXT_ROUTES}

# Columns: openai, openai_compat, anthropic, gemini.  P passes through, T is translated, U is unsupported.
GRID = {
    "chat": "PPTT",
    "responses": "PPUU",
    "responses_input_tokens": "PPUU",
    "responses_compact": "PPUU",
    "completions": "PPUU",
    "beta_completions": "PPUU",
    "embeddings": "PPUT",
    "moderations": "PPUU",
    "messages": "TTPT",
    "messages_count_tokens": "TTPT",
    "generate_content": "TTTP",
    "stream_generate_content": "TTTP",
    "count_tokens": "TTTP",
    "embed_content": "UUUP",
    "batch_embed_contents": "UUUP",
}
PROVIDERS = ("main", "host", "claude", "gem")


@pytest.mark.parametrize(
    ("name", "provider", "cell"),
    [
        (name, provider, cell)
        for name, cells in GRID.items()
        for provider, cell in zip(PROVIDERS, cells, strict=True)
    ],
)
def test_the_support_grid(name: str, provider: str, cell: str) -> None:
    target = RESOLVER.resolve(f"{provider}/m", ROUTE[name].family)
    if cell in "PT":
        check_capability(ROUTE[name], target, TranslationSettings())
        assert (target.family is ROUTE[name].family) is (cell == "P")
        return
    with pytest.raises(GatewayError) as refusal:
        check_capability(ROUTE[name], target, TranslationSettings())
    assert refusal.value.reason is Reason.UNSUPPORTED_BY_KIND


def test_every_text_route_has_its_line_in_the_grid() -> None:
    assert set(GRID) == set(ROUTE), "write a line in GRID, and the route in rules 4.2 and 4.7 of the contract"


@pytest.mark.parametrize("name", sorted(ROUTE))
def test_a_capability_that_is_off_is_refused_before_anything_else(name: str) -> None:
    with pytest.raises(GatewayError) as refusal:
        check_capability(ROUTE[name], RESOLVER.resolve("mute/m", ROUTE[name].family), TranslationSettings())
    assert refusal.value.reason is Reason.CAPABILITY_OFF


def test_a_refusal_says_whose_provider_could_serve_the_route() -> None:
    route = ROUTE["embed_content"]
    with pytest.raises(GatewayError) as refusal:
        check_capability(route, RESOLVER.resolve("main/m", route.family), TranslationSettings())
    assert refusal.value.message == (
        f"{route.path} is not supported by provider 'main' of kind openai: "
        "it requires a provider of the gemini family"
    )
