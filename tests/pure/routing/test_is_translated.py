"""Which requests reach a target in another dialect than the client's."""

from __future__ import annotations

import pytest

from mgw.routing.resolve import Resolver, is_translated
from mgw.routing.routes import ROUTES
from tests.support.configs import config

TEXT = """
providers:
  openai: {kind: openai, api_key: k}
  claude: {kind: anthropic, api_key: k}
  chat: {kind: openai_compat, base_url: "http://h/v1", api_key: k, speaks: [chat]}
  responses: {kind: openai_compat, base_url: "http://h/v1", api_key: k, speaks: [responses]}
  both: {kind: openai_compat, base_url: "http://h/v1", api_key: k, speaks: [chat, responses]}
"""
RESOLVER = Resolver(config(TEXT))
CHAT, RESPONSES, EMBEDDINGS = "/v1/chat/completions", "/v1/responses", "/v1/embeddings"


@pytest.mark.parametrize(
    ("path", "provider", "expected"),
    [
        (CHAT, "openai", False),
        (RESPONSES, "openai", False),
        (CHAT, "claude", True),
        (RESPONSES, "claude", True),
        (CHAT, "chat", False),
        (RESPONSES, "chat", True),
        (CHAT, "responses", True),
        (RESPONSES, "responses", False),
        (CHAT, "both", False),
        (RESPONSES, "both", False),
        (EMBEDDINGS, "openai", False),
        (EMBEDDINGS, "both", False),
        (EMBEDDINGS, "chat", False),
        (EMBEDDINGS, "responses", False),
    ],
)
def test_a_request_is_translated_for_another_family_and_for_the_api_that_a_host_lacks(
    path: str, provider: str, expected: bool
) -> None:
    route = next(route for route in ROUTES if route.path == path and route.method == "POST")
    target = RESOLVER.resolve(f"{provider}/m", route.family)
    assert is_translated(route, target) is expected
