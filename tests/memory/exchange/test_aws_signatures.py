"""Requests to AWS on each way that a request goes: what reaches the host is signed as botocore signs it."""

from __future__ import annotations

import gzip
import json
from hashlib import sha256
from typing import Final, NamedTuple

import pytest
from twisted.internet.defer import Deferred

from mgw.bodies.source import BodySource
from mgw.ops.live_models import LiveModels
from mgw.ops.provider_health import ProviderHealth
from mgw.wire.headers import RawHeaders
from tests.support.bodies import MemorySource, patterned
from tests.support.deferreds import result_of
from tests.support.pipelines import Pipeline, answered
from tests.support.probes import Providers
from tests.support.signed_requests import KEYS, SESSION_KEYS, SigningHost
from tests.support.signing_source import SigningSource

CONFIG: Final = """
providers:
  main:
    kind: openai
    base_url: "https://bedrock-runtime.eu-central-1.amazonaws.com/openai/v1"
    api_key: sk-canary
  claude:
    kind: anthropic
    base_url: "https://bedrock-runtime.eu-central-1.amazonaws.com:8443/anthropic/v1"
    api_key: sk-ant-canary
    headers:
      set: {X-Amzn-Bedrock-GuardrailVersion: "a   b", x-amz-date: "20000101T000000Z"}
      forward: [x-amzn-trace-id, x-amz-target, X-Amz-Security-Token, x-amzn-bedrock-trace]
defaults: {anthropic_dialect: claude, openai_dialect: main, gemini_dialect: claude}
aliases: {several: [main/gpt, claude/c], fast: main/gpt-5}
health_checks: {enabled: true}
"""
JSON: Final = (b"Content-Type", b"application/json")
CLIENT: Final[RawHeaders] = [
    JSON,
    (b"User-Agent", b"sdk/1.0"),
    (b"anthropic-version", b"2023-06-01"),
    (b"anthropic-beta", b"a-1"),
    (b"anthropic-beta", b" b-2  ,  c-3"),
    (b"traceparent", b"00-1"),
    (b"X-Amzn-Trace-Id", b"Root=1"),
    (b"X-Amz-Date", b"20000101T000000Z"),
    (b"x-amz-target", b"Steal.It"),
    (b"X-Amz-Security-Token", b"Steal.It"),
    (b"X-Amzn-Bedrock-Trace", b"ENABLED"),
    (b"x-api-key", b"edge-canary"),
    (b"Authorization", b"Bearer edge-canary"),
]
"""What a client sends, of which some must not go up."""
MESSAGE: Final = b'{"model":"claude/c","max_tokens":9,"messages":[{"role":"user","content":"Hi"}]}'
CHAT: Final = b'{"model":"main/gpt","max_tokens":9,"messages":[{"role":"user","content":"Hi"}]}'
CONTENTS: Final = b'{"contents":[{"role":"user","parts":[{"text":"Hi"}]}]}'
FORM: Final = (
    b'--b\r\nContent-Disposition: form-data; name="model"\r\n\r\nmain/whisper\r\n'
    b'--b\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n%b\r\n--b--\r\n'
) % patterned(300_000).replace(b"-", b"_")


def stored(data: bytes) -> MemorySource:
    return MemorySource(data, digest=sha256(data).digest())


class Way(NamedTuple):
    """One way that a request goes."""

    provider: str
    path: str
    body: bytes | BodySource = b""
    method: str = "POST"
    query: bytes | None = None
    headers: RawHeaders = CLIENT


OPENAI: Final = [pair for pair in CLIENT if not pair[0].startswith(b"anthropic-")]
FORM_TYPE: Final = [(b"Content-Type", b"multipart/form-data; boundary=b")]
WAYS: Final = {
    "relayed chat": Way("main", "/v1/chat/completions", CHAT.replace(b"main/", b"")),
    "relayed, renamed": Way("main", "/v1/chat/completions", CHAT),
    "relayed, an alias": Way("main", "/v1/chat/completions", CHAT.replace(b"main/gpt", b"fast")),
    "relayed, large": Way("main", "/v1/chat/completions", CHAT.replace(b"Hi", b"Hi" * 700_000)),
    "relayed, compressed": Way(
        "main", "/v1/chat/completions", gzip.compress(CHAT), headers=[*CLIENT, (b"Content-Encoding", b"gzip")]
    ),
    "relayed messages": Way("claude", "/v1/messages", MESSAGE),
    "relayed, with a query": Way("claude", "/v1/messages", MESSAGE, query=b"beta=true&a&b=%2F&a=:"),
    "a stream": Way("claude", "/v1/messages", MESSAGE.replace(b'"max', b'"stream":true,"max')),
    "relayed count": Way("claude", "/v1/messages/count_tokens", MESSAGE),
    "responses": Way("main", "/v1/responses", b'{"model":"main/gpt","input":"Hi"}'),
    "embeddings": Way("main", "/v1/embeddings", b'{"model":"main/e","input":"Hi"}'),
    "translated from chat": Way("claude", "/v1/chat/completions", CHAT.replace(b"main/gpt", b"claude/c")),
    "translated from Messages": Way("main", "/v1/messages", MESSAGE.replace(b"claude/c", b"main/gpt")),
    "translated from Gemini": Way("claude", "/v1beta/models/c:generateContent", CONTENTS),
    "translated, large": Way(
        "claude",
        "/v1/chat/completions",
        CHAT.replace(b"main/gpt", b"claude/c").replace(b"Hi", b"Hi" * 700_000),
    ),
    "translated count": Way("claude", "/v1beta/models/c:countTokens", CONTENTS),
    "a form": Way("main", "/v1/audio/transcriptions", FORM, headers=FORM_TYPE),
    "a stored form": Way("main", "/v1/audio/transcriptions", stored(FORM), headers=FORM_TYPE),
    "a stored file": Way(
        "main", "/v1/files", stored(patterned(700_000)), query=b"provider=main", headers=OPENAI
    ),
    "a file that was not hashed as it came": Way(
        "main", "/v1/files", MemorySource(patterned(700_000)), query=b"provider=main", headers=OPENAI
    ),
    "an empty body": Way("main", "/v1/batches/b_1/cancel", b"", query=b"provider=main", headers=OPENAI),
    "a list": Way(
        "main", "/v1/files", method="GET", query=b"provider=main&after=f%2F1&limit=3", headers=OPENAI
    ),
    "a download": Way(
        "main", "/v1/files/f%3A1:x/content", method="GET", query=b"provider=main", headers=OPENAI
    ),
    "a deletion": Way("main", "/v1/files/f_1", method="DELETE", query=b"provider=main", headers=OPENAI),
}


def pipeline_of(provider: str, **settings: object) -> Pipeline:
    source = SigningSource(SESSION_KEYS, provider=provider)
    return Pipeline(CONFIG, sources={provider: source}, wall=1_767_322_800.0, **settings)  # type: ignore[arg-type]  # one setting each


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_each_request_is_signed_on_whatever_way_it_goes(way: Way) -> None:
    pipeline, host = pipeline_of(way.provider), SigningHost(SESSION_KEYS)
    for number in range(3):  # the later ones find head and target remembered
        pipeline.wall += number
        pipeline.ask(way.path, way.body, way.headers, way.query, method=way.method)
        received = pipeline.connection.received
        ((_, body),) = host.check_all(received)
        head = received.partition(b"\r\n\r\n")[0]
        assert b"canary" not in head.replace(b"session-canary//token", b"")
        assert b"Steal.It" not in head
        assert head.lower().count(b"\r\nx-amz-date: ") == 1
        assert bool(body) == bool(way.body)
        pipeline.connection.close()
    assert host.stamps == ["20260102T030000Z", "20260102T030001Z", "20260102T030003Z"]


def test_requests_on_one_connection_are_each_signed() -> None:
    pipeline, host = pipeline_of("main"), SigningHost(SESSION_KEYS)
    for _ in range(3):
        client, _done = pipeline.ask(body=CHAT, headers=CLIENT)
        pipeline.connection.send(answered())
        assert client.status == 200
        pipeline.clock.advance(1.0)
    assert len(host.check_all(pipeline.connection.received)) == 3


def test_the_next_target_of_an_alias_is_signed_for_itself() -> None:
    others = SigningSource(KEYS, provider="claude")
    pipeline = Pipeline(CONFIG, sources={"main": SigningSource(SESSION_KEYS), "claude": others})
    pipeline.ask(body=CHAT.replace(b"main/gpt", b"several"), headers=CLIENT)
    SigningHost(SESSION_KEYS).check_all(pipeline.connection.received)
    first = pipeline.connection
    first.send(answered(b"{}", b"503 Busy"))
    assert pipeline.connection is not first
    ((target, _),) = SigningHost(KEYS).check_all(pipeline.connection.received)
    assert target == b"/anthropic/v1/messages"


def test_a_retry_is_signed_at_its_own_time() -> None:
    source = SigningSource(KEYS)
    pipeline = Pipeline(CONFIG + "retries: {attempts: 1}\n", sources={"main": source}, wall=1_767_322_800.0)
    pipeline.ask(body=CHAT, headers=CLIENT)
    pipeline.connection.send(answered(b"{}", b"503 Busy").replace(b"X-Up", b"Retry-After: 3\r\nX-Up"))
    pipeline.clock.advance(3.0)
    host = SigningHost(KEYS)
    host.check_all(b"".join(connection.received for connection in pipeline.endpoint.connections))
    assert host.stamps == ["20260102T030000Z", "20260102T030003Z"]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        pytest.param("/v1/chat/completions", CHAT, id="relayed"),
        pytest.param("/v1/messages", MESSAGE.replace(b"claude/c", b"main/gpt"), id="translated"),
    ],
)
def test_a_refusal_that_quotes_what_was_signed_shows_nobody_the_secrets(path: str, body: bytes) -> None:
    pipeline = pipeline_of("main")
    token = SESSION_KEYS.session_token
    assert token is not None
    client, _ = pipeline.ask(path, body, OPENAI)
    said = f"The canonical string should have been 'POST\n/\nx-amz-security-token:{token.reveal()}\n'"
    error = {"message": said, "error": {"message": said, "type": "x", "param": None, "code": None}}
    pipeline.connection.send(answered(json.dumps(error).encode(), b"403 Forbidden"))
    assert client.status == 403
    assert b"canonical string should" in client.body
    assert b"session-canary" not in client.body
    assert "session-canary" not in str(pipeline.event().error_message)
    assert "canonical string should" in str(pipeline.event().error_message)


def test_a_live_list_and_the_health_are_signed() -> None:
    providers, host = Providers(pipeline=pipeline_of("main")), SigningHost(SESSION_KEYS)
    providers.probe.wall = lambda: 1_767_322_800.0
    asking = Deferred.fromCoroutine(LiveModels(providers.probe, pytest.fail).ask(providers.generation, None))
    providers.respond("main", {"data": [{"id": "gpt"}]})
    providers.respond("claude", {"data": [], "has_more": False})
    assert [model.id for model in result_of(asking)["main"]] == ["gpt"]
    health = Deferred.fromCoroutine(ProviderHealth(providers.probe).report(providers.generation))
    providers.respond("main", {"data": []})
    providers.respond("claude", {"data": [], "has_more": False})
    assert {row["name"]: row["error"] for row in json.loads(result_of(health))["providers"]}["main"] is None
    found = [
        pair for sent in providers.endpoints["main"].connections for pair in host.check_all(sent.received)
    ]
    assert [body for _, body in found] == [b"", b""]
    assert host.stamps == ["20260102T030000Z"] * 2


def test_a_clients_own_headers_of_signatures_never_go_up() -> None:
    """Whatever ``headers.forward`` says; with a key without a session nothing takes the token's place."""
    pipeline = Pipeline(CONFIG, sources={"claude": SigningSource(KEYS)}, wall=1_767_322_800.0)
    pipeline.ask("/v1/messages", MESSAGE, CLIENT)
    SigningHost(KEYS).check_all(pipeline.connection.received)
    _, headers, _ = pipeline.received()
    names = [name.lower() for name, _ in headers]
    assert b"x-amzn-bedrock-trace" in names
    assert sorted(name for name in names if name.startswith(b"x-amz-")) == [
        b"x-amz-content-sha256",
        b"x-amz-date",
    ]
