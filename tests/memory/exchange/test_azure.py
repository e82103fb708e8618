"""Azure OpenAI: its key header, its version in the query and its two forms of address, on every way to it."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest
from twisted.internet.defer import Deferred

from mgw.app.check import final_addresses, warnings
from mgw.config.load import parse
from mgw.credentials.provider import ClientKey
from mgw.nouns.secret import Secret
from mgw.nouns.vocabulary import Family
from mgw.ops.live_models import LiveModels
from mgw.ops.provider_health import ProviderHealth
from mgw.wire.headers import RawHeaders, values_of
from tests.support.deferreds import result_of
from tests.support.pipelines import Pipeline, answered
from tests.support.probes import LISTS, Providers

HOST: Final = "http://my-resource.example"
V1: Final = f"base_url: '{HOST}/openai/v1'"
DEPLOYMENT: Final = f"base_url: '{HOST}/openai/deployments/gpt-5', api_version: 2024-10-21"
KEY: Final = "azure-canary-key"
DEFAULTS: Final = "\ndefaults: {openai_dialect: azure, anthropic_dialect: azure, gemini_dialect: azure}"
FORMS: Final = [
    pytest.param(V1, "/openai/v1", "", id="v1"),
    pytest.param(f"{V1}, api_version: preview", "/openai/v1", "api-version=preview", id="v1 with a version"),
    pytest.param(DEPLOYMENT, "/openai/deployments/gpt-5", "api-version=2024-10-21", id="a deployment"),
]
CHAT: Final = b'{"model":"my-gpt","messages":[{"role":"user","content":"Hi"}],"max_tokens":9}'
MESSAGES: Final = json.dumps(
    {
        "model": "my-gpt",
        "max_tokens": 9,
        "messages": [{"role": "user", "content": "Hi"}],
        "metadata": {"user_id": "u"},
    }
).encode()
CONTENTS: Final = b'{"contents":[{"role":"user","parts":[{"text":"Hi"}]}]}'
COMPLETION: Final = json.dumps(
    {
        "id": "c",
        "object": "chat.completion",
        "model": "gpt-5",
        "choices": [
            {"index": 0, "message": {"role": "assistant", "content": "Hello"}, "finish_reason": "stop"}
        ],
    }
).encode()
CLIENTS: Final = [
    pytest.param("/v1/chat/completions", CHAT, id="openai"),
    pytest.param("/v1/messages", MESSAGES, id="anthropic"),
    pytest.param("/v1beta/models/my-gpt:generateContent", CONTENTS, id="gemini"),
]


def text_of(settings: str, key: str = f"api_key: {KEY}") -> str:
    return f"providers:\n  azure: {{kind: azure_openai, {settings}, {key}}}{DEFAULTS}"


def asked(
    settings: str, path: str, body: bytes, *, query: bytes | None = None, key: ClientKey | None = None
) -> tuple[bytes, RawHeaders, bytes]:
    """Return what reached Azure, after its answer has reached the client."""
    pipeline = Pipeline(settings)
    client, _ = pipeline.ask(path, body, query=query, key=key)
    heard = pipeline.received()
    pipeline.connection.send(answered(COMPLETION))
    assert (client.status, b"Hello" in client.body) == (200, True)
    return heard


@pytest.mark.parametrize(("path", "body"), CLIENTS)
@pytest.mark.parametrize(("settings", "base", "query"), FORMS)
def test_a_request_goes_to_the_address_with_the_version_and_the_key(
    settings: str, base: str, query: str, path: str, body: bytes
) -> None:
    line, headers, sent = asked(text_of(settings), path, body)
    target = f"{base}/chat/completions" + (f"?{query}" if query else "")
    assert line == f"POST {target} HTTP/1.1".encode()
    assert values_of(headers, b"api-key") == [KEY.encode()]
    assert values_of(headers, b"authorization") == []
    assert json.loads(sent)["model"] == "my-gpt"


def test_a_relayed_body_goes_as_it_came() -> None:
    assert asked(text_of(V1), "/v1/chat/completions", CHAT)[2] == CHAT


@pytest.mark.parametrize(
    ("query", "sent"),
    [
        (b"api-version=2025-04-01-preview", b"?api-version=2025-04-01-preview"),
        (b"a=1", b"?a=1&api-version=2024-10-21"),
        (b"a=1&api%2Dversion=v1", b"?a=1&api%2Dversion=v1"),
    ],
)
def test_the_version_of_a_client_goes_before_the_operators(query: bytes, sent: bytes) -> None:
    line, _, _ = asked(text_of(DEPLOYMENT), "/v1/chat/completions", CHAT, query=query)
    assert line.split(b" ")[1] == b"/openai/deployments/gpt-5/chat/completions" + sent


def test_a_token_goes_as_a_bearer_token() -> None:
    bearer = text_of(V1, f"auth: bearer, api_key: {KEY}")
    _, headers, _ = asked(bearer, "/v1/chat/completions", CHAT)
    assert values_of(headers, b"authorization") == [b"Bearer " + KEY.encode()]
    assert values_of(headers, b"api-key") == []


@pytest.mark.parametrize(
    ("kind", "limit"), [("azure_openai", "max_completion_tokens"), ("openai_compat", "max_tokens")]
)
@pytest.mark.parametrize(("path", "body"), CLIENTS[:2])
def test_the_v1_api_takes_a_token_from_either_kind_which_differ_in_the_limit_of_translated_requests(
    kind: str, limit: str, path: str, body: bytes
) -> None:
    settings = text_of(V1, f"auth: bearer, api_key: {KEY}").replace("azure_openai", kind)
    line, headers, sent = asked(settings, path, body)
    assert line == b"POST /openai/v1/chat/completions HTTP/1.1"
    assert values_of(headers, b"authorization") == [b"Bearer " + KEY.encode()]
    assert values_of(headers, b"api-key") == []
    if path == "/v1/messages":
        assert json.loads(sent).keys() & {"max_tokens", "max_completion_tokens"} == {limit}


def test_a_clients_own_key_goes_as_it_came_or_in_the_header_of_the_kind() -> None:
    for scheme, name, value in ((b"Bearer", b"authorization", b"Bearer k-1"), (None, b"api-key", b"k-1")):
        key = ClientKey(Secret("k-1"), scheme, Family.OPENAI)
        _, headers, _ = asked(text_of(V1, "models: [m]"), "/v1/chat/completions", CHAT, key=key)
        assert values_of(headers, name) == [value]


def test_a_translated_request_has_only_fields_that_every_version_takes() -> None:
    body: Any = json.loads(asked(text_of(V1), "/v1/messages", MESSAGES)[2])
    assert body["max_completion_tokens"] == 9
    assert body["user"] == "u"
    assert not {"max_tokens", "safety_identifier"} & set(body)


def test_one_of_several_tools_cannot_be_asked_for() -> None:
    tools = [
        {"functionDeclarations": [{"name": name, "description": "d"} for name in ("one", "two", "three")]}
    ]
    calling = {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["one", "two"]}}
    wanted = json.loads(CONTENTS) | {"tools": tools, "toolConfig": calling}
    path = "/v1beta/models/my-gpt:generateContent"
    body: Any = json.loads(asked(text_of(V1), path, json.dumps(wanted).encode())[2])
    assert body["tool_choice"] == "required"


@pytest.mark.parametrize(("settings", "base", "query"), FORMS)
def test_a_probe_and_a_live_list_ask_at_the_same_address(settings: str, base: str, query: str) -> None:
    target = f"{base}/models" + (f"?{query}" if query else "")
    pipeline = Providers(text_of(settings) + "\nhealth_checks: {enabled: true}")
    probe = Deferred.fromCoroutine(ProviderHealth(pipeline.probe).report(pipeline.generation))
    assert (pipeline.target("azure"), pipeline.headers("azure")["api-key"]) == (target, KEY)
    pipeline.respond("azure", LISTS["main"])
    assert json.loads(result_of(probe))["status"] == "ok"
    lists = LiveModels(pipeline.probe, lambda name: None)
    listed = Deferred.fromCoroutine(lists.ask(pipeline.generation, None))
    assert (pipeline.target("azure"), pipeline.headers("azure")["api-key"]) == (target, KEY)
    pipeline.respond("azure", LISTS["main"])
    assert [model.id for model in result_of(listed)["azure"]] == ["gpt-c", "gpt-live"]


@pytest.mark.parametrize(("settings", "base", "query"), FORMS)
def test_the_check_shows_the_address_of_a_call(settings: str, base: str, query: str) -> None:
    config = parse(text_of(settings), "mgw.yaml", {})
    shown = f"{HOST}{base}/chat/completions" + (f"?{query}" if query else "")
    assert final_addresses(config) == [f"azure: POST {shown}"]
    assert warnings(config) == []
