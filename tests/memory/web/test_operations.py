"""When the catalog asks upstreams, and where the providers' health is told."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import cast
from urllib.parse import unquote

import pytest
from twisted.internet.defer import CancelledError, Deferred

from mgw.credentials.provider import ClientKey
from mgw.nouns.errors import GatewayError, Reason
from mgw.nouns.secret import Secret
from mgw.nouns.vocabulary import Family
from mgw.ops.live_models import LiveModels
from mgw.ops.provider_health import ProviderHealth
from mgw.web.gateway_request import GatewayRequest
from mgw.web.operations import Operations
from mgw.wire.headers import RawHeaders
from tests.support.configs import THREE_FAMILIES
from tests.support.deferreds import result_of
from tests.support.pipelines import RecordingChannel
from tests.support.probes import LISTS, Providers
from tests.support.web_servers import no_dashboard

VERSION: RawHeaders = [(b"Anthropic-Version", b"2023-06-01")]
GOOGLE: RawHeaders = [(b"x-goog-api-key", b"canary")]
KEYLESS = """
providers: {main: {kind: openai, base_url: "http://main.example/v1"}}
defaults: {openai_dialect: main}
"""
HEALTH = THREE_FAMILIES + "health_checks: {enabled: true}\n"
LISTED = [
    "fast",
    "smart",
    "slashed/name",
    "main/gpt-b",
    "claude/claude-x",
    "host/meta-llama/llama-4",
    "main/gpt-c",
]
LIVE = ["main/gpt-live", "host/meta/llama", "claude/claude-live", "gem/gemini-live"]


class OperationsHarness(Providers):
    """The gateway's own endpoints over providers in memory."""

    def __init__(self, text: str = THREE_FAMILIES) -> None:
        super().__init__(text)
        self.failures: list[str] = []
        self.operations = Operations(
            lambda: self.generation,
            no_dashboard,
            LiveModels(self.probe, self.failures.append),
            ProviderHealth(self.probe),
        )

    def ask(
        self,
        path: str,
        query: bytes | None = None,
        headers: RawHeaders | None = None,
        key: ClientKey | None = None,
    ) -> tuple[RecordingChannel, Deferred[None]]:
        headers = headers or []
        client = RecordingChannel()
        server_request = SimpleNamespace(
            response=client,
            request_id="req_1",
            server=SimpleNamespace(wall=lambda: 0.0),
            head=SimpleNamespace(headers=headers),
            matched=self.generation.table.match("GET", path, query, headers),
            caller=SimpleNamespace(key=key, raw_query=query, client=None, token=None),
        )
        # The endpoints read nothing else of a request.
        request = cast(GatewayRequest, SimpleNamespace(server_request=server_request, method=b"GET"))
        return client, Deferred.fromCoroutine(self.operations.tree.serve(request, unquote(path)))

    def asked(self) -> set[str]:
        """Which providers got a request."""
        return {name for name, endpoint in self.endpoints.items() if endpoint.connections}


def names(client: RecordingChannel) -> list[str]:
    page = json.loads(client.body)
    entries = page["models"] if "models" in page else page["data"]
    return [entry.get("id") or entry["name"].removeprefix("models/") for entry in entries]


@pytest.mark.parametrize("query", [b"live=1", b"live=true", b"a=b&live=True"])
@pytest.mark.parametrize(
    ("path", "headers"), [("/v1/models", []), ("/v1/models", VERSION), ("/v1beta/models", [])]
)
def test_a_client_that_asks_for_it_gets_what_all_providers_list(
    path: str, headers: RawHeaders, query: bytes
) -> None:
    harness = OperationsHarness()
    client, waiting = harness.ask(path, query, headers)
    assert not client.started
    harness.all_say()
    result_of(waiting)
    assert client.status == 200
    assert names(client) == [*LISTED, *LIVE]


@pytest.mark.parametrize("query", [None, b"live=0", b"live=false", b"live=", b"live=maybe", b"alive=1"])
@pytest.mark.parametrize(("path", "headers"), [("/v1/models", []), ("/v1/models", GOOGLE)])
def test_any_other_client_gets_the_catalog_at_once(
    path: str, headers: RawHeaders, query: bytes | None
) -> None:
    harness = OperationsHarness()
    client, waiting = harness.ask(path, query, headers)
    result_of(waiting)
    assert names(client) == LISTED
    assert harness.asked() == set()


@pytest.mark.parametrize("name", [b"anthropic-version", b"beta-version"])
def test_anthropics_version_header_asks_its_own_providers(name: bytes) -> None:
    harness = OperationsHarness()
    client, waiting = harness.ask("/v1/models", None, [(name, b"2023-06-01")])
    assert harness.asked() == {"claude"}
    harness.respond("claude", LISTS["claude"])
    result_of(waiting)
    assert names(client) == [*LISTED, "claude/claude-live"]


def test_a_client_of_anthropics_can_have_the_catalog_alone() -> None:
    harness = OperationsHarness()
    client, waiting = harness.ask("/v1/models", b"live=0", VERSION)
    result_of(waiting)
    assert names(client) == LISTED
    assert harness.asked() == set()


def test_what_a_provider_says_of_its_models_is_shown() -> None:
    harness = OperationsHarness()
    client, waiting = harness.ask("/v1/models", b"live=1&limit=1000", VERSION)
    harness.all_say()
    result_of(waiting)
    models = {model["id"]: model for model in json.loads(client.body)["data"]}
    assert models["claude/claude-live"]["display_name"] == "Claude"
    assert models["claude/claude-live"]["created_at"] == "2026-01-02T03:04:05Z"
    assert models["main/gpt-c"]["created_at"] == "1970-01-01T00:00:07Z"
    assert models["claude/claude-live"]["gateway_capabilities"]["image_gen"] is False


def test_all_providers_failing_leaves_the_catalog() -> None:
    harness = OperationsHarness()
    client, waiting = harness.ask("/v1/models", b"live=1")
    harness.clock.advance(3)
    result_of(waiting)
    assert (client.status, names(client)) == (200, LISTED)
    assert sorted(harness.failures) == sorted(LISTS)


def test_the_clients_own_key_asks_a_provider_without_one() -> None:
    harness = OperationsHarness(KEYLESS)
    key = ClientKey(Secret("sk-own-canary"), b"Bearer", Family.OPENAI)
    client, waiting = harness.ask("/v1/models", b"live=1", key=key)
    assert harness.headers("main")["authorization"] == "Bearer sk-own-canary"
    harness.respond("main", LISTS["main"])
    result_of(waiting)
    assert names(client) == ["main/gpt-c", "main/gpt-live"]
    assert b"canary" not in client.body


def test_a_client_that_leaves_while_upstreams_are_asked_hears_nothing() -> None:
    harness = OperationsHarness()
    client, waiting = harness.ask("/v1/models", b"live=1")
    waiting.cancel()
    with pytest.raises(CancelledError):
        result_of(waiting)
    harness.all_say()
    assert not client.started
    assert harness.settled() == (0, 0, 0)


@pytest.mark.parametrize("path", ["/v1/models", "/v1beta/models"])
def test_a_page_that_cannot_be_is_refused_with_live_lists_too(path: str) -> None:
    harness = OperationsHarness()
    _, waiting = harness.ask(path, b"live=1&limit=0&pageSize=-1", VERSION)
    harness.all_say()
    with pytest.raises(GatewayError) as refusal:
        result_of(waiting)
    assert refusal.value.reason is Reason.MALFORMED


def test_the_providers_health_is_told_where_it_is_switched_on() -> None:
    harness = OperationsHarness(HEALTH)
    client, waiting = harness.ask("/v1/health/providers")
    harness.all_say()
    result_of(waiting)
    assert client.status == 200
    assert dict(client.headers)[b"Content-Type"] == b"application/json"
    report = json.loads(client.body)
    assert report["status"] == "ok"
    assert [(each["name"], each["kind"]) for each in report["providers"]] == [
        ("main", "openai"),
        ("host", "openai_compat"),
        ("claude", "anthropic"),
        ("gem", "gemini"),
        ("mute", "openai_compat"),
    ]


def test_it_is_no_route_where_it_is_not() -> None:
    harness = OperationsHarness()
    _, waiting = harness.ask("/v1/health/providers")
    with pytest.raises(GatewayError) as refusal:
        result_of(waiting)
    assert refusal.value.reason is Reason.UNKNOWN_ROUTE
    assert harness.asked() == set()


def test_a_client_that_leaves_while_providers_are_probed_hears_nothing() -> None:
    harness = OperationsHarness(HEALTH)
    client, waiting = harness.ask("/v1/health/providers")
    waiting.cancel()
    with pytest.raises(CancelledError):
        result_of(waiting)
    harness.all_say()
    assert not client.started
    assert harness.settled() == (0, 0, 0)


def test_codex_gets_openais_list_with_an_empty_catalog_of_its_own() -> None:
    harness = OperationsHarness()
    client, waiting = harness.ask("/v1/models", b"client_version=0.171.0")
    result_of(waiting)
    page = json.loads(client.body)
    assert page["models"] == []
    assert [entry["id"] for entry in page["data"]] == LISTED
