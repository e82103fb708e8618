"""Which requests reach a target in another dialect than the client's."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from mgw.nouns.kinds import KINDS
from mgw.nouns.vocabulary import DialectName, Kind
from mgw.routing.resolve import Resolver, is_translated
from mgw.routing.routes import ROUTES
from tests.support.configs import config
from tests.support.pipelines import with_rows

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


@pytest.mark.parametrize(("served", "lacking"), [(CHAT, RESPONSES), (RESPONSES, CHAT)])
def test_a_kind_that_has_only_one_of_the_two_apis_lacks_the_other(served: str, lacking: str) -> None:
    dialect = DialectName.OPENAI_CHAT if served == CHAT else DialectName.OPENAI_RESPONSES
    row = replace(KINDS[Kind.OPENAI_COMPAT], dialects=(dialect,))
    host = 'providers: {host: {kind: openai_compat, base_url: "http://h/v1", api_key: only}}'
    resolver = Resolver(with_rows(config(host), {"host": row}))
    for path, expected in ((served, False), (lacking, True)):
        route = next(route for route in ROUTES if route.path == path and route.method == "POST")
        assert is_translated(route, resolver.resolve("host/m", route.family)) is expected
