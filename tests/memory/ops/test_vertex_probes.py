"""Health and live lists of Vertex AI, which counts the tokens of a word and lists no models."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest
from twisted.internet.defer import Deferred

from mgw.nouns.vocabulary import Family
from mgw.ops.live_models import LiveModels
from mgw.ops.provider_health import ProviderHealth
from tests.support.deferreds import result_of
from tests.support.probes import Providers

PUBLISHERS: Final = "/v1/projects/p/locations/global/publishers"
MODELS: Final = {"vertex_anthropic": "claude-opus-5", "gemini": "gemini-2.5-flash"}
COUNTS: Final = {
    "vertex_anthropic": f"{PUBLISHERS}/anthropic/models/count-tokens:rawPredict",
    "gemini": f"{PUBLISHERS}/google/models/gemini-2.5-flash:countTokens",
}
each_kind = pytest.mark.parametrize("kind", MODELS)


def providers(kind: str, *models: str) -> Providers:
    publisher = "google" if kind == "gemini" else "anthropic"
    return Providers(f"""
providers:
  host:
    kind: {kind}
    base_url: https://aiplatform.googleapis.com{PUBLISHERS}/{publisher}
    auth: bearer
    api_key: v-canary
    models: {json.dumps(models)}
  main: {{kind: openai, base_url: "https://openai.example/v1", api_key: sk-canary}}
health_checks: {{enabled: true}}
""")


def health(found: Providers, status: int) -> Any:
    asking = Deferred.fromCoroutine(ProviderHealth(found.probe).report(found.generation))
    found.respond("main", {"data": []})
    head = b"HTTP/1.1 %d No\r\nContent-Length: 2\r\n\r\n{}" % status
    found.connection("host").send(head)
    report, _ = json.loads(result_of(asking))["providers"]
    return report["status"], report["error"]


@each_kind
@pytest.mark.parametrize(
    ("status", "error"),
    [
        (200, None),
        (401, "unauthorized"),
        (403, "unauthorized"),
        (404, "bad_status"),
        (400, "bad_status"),
        (503, "bad_status"),
    ],
)
def test_health_counts_the_tokens_of_a_word(kind: str, status: int, error: str | None) -> None:
    found = providers(kind, MODELS[kind], "another")
    assert health(found, status) == ("ok" if error is None else "error", error)
    assert found.requests("host")[0].startswith(b"POST ")
    assert found.target("host") == COUNTS[kind]
    assert found.headers("host")["authorization"] == "Bearer v-canary"
    assert found.headers("host")["content-type"] == "application/json"
    assert b"hi" in found.connection("host").received.partition(b"\r\n\r\n")[2]


@each_kind
@pytest.mark.parametrize(("status", "error"), [(404, None), (200, None), (403, "unauthorized")])
def test_without_a_model_health_asks_for_a_list_that_may_be_missing(
    kind: str, status: int, error: str | None
) -> None:
    found = providers(kind)
    assert health(found, status)[1] == error
    assert found.requests("host")[0].startswith(b"GET ")
    assert found.target("host").startswith(f"{PUBLISHERS}/")
    assert found.target("host").endswith("/models")


@each_kind
@pytest.mark.parametrize("family", [None, Family.ANTHROPIC, Family.GEMINI])
def test_nobody_is_asked_for_a_list(kind: str, family: Family | None) -> None:
    found = providers(kind, MODELS[kind])
    asking = Deferred.fromCoroutine(LiveModels(found.probe, pytest.fail).ask(found.generation, None, family))
    if family is None:
        found.respond("main", {"data": [{"id": "gpt"}]})
    assert "host" not in result_of(asking)
    assert found.endpoints["host"].connections == []
