"""Rules for bodies and for lists in headers, between a client and a provider in memory."""

from __future__ import annotations

import gzip
import json
from base64 import b64decode
from collections.abc import Callable
from hashlib import sha256
from typing import Any, Final

import pytest
from twisted.internet.defer import Deferred

from mgw.bodies.source import MemoryBody
from mgw.exchange.offload import SMALL_BYTES
from mgw.wire.headers import RawHeaders, value_of
from tests.support.pipelines import Pipeline, answered
from tests.support.timed_auth import SIGNATURE, TIME, signature
from tests.support.timed_source import TimedKeys
from tests.support.translation import failure_of

CONFIG: Final = """
providers:
  main:
    kind: openai
    base_url: "https://main.example/v1"
    api_key: sk-main
    body:
      - {match: {dialect: chat}, remove: [user], cap: {max_tokens: 100}}
      - {match: {dialect: [responses, completions]}, remove: [user], set: {store: false}}
      - {match: {dialect: embeddings}, default: {dimensions: 256}}
      - {match: {model: "SPECIAL-*"}, set: {seed: 7}}
  claude:
    kind: anthropic
    base_url: "https://claude.example/v1"
    api_key: sk-claude
    body: [{match: {dialect: messages}, remove: [context_management, "messages[].content[].cache_control"],
            default: {temperature: 0.5}, cap: {max_tokens: 50}}]
    headers:
      remove_tokens: {anthropic-beta: ["Context-Management-*"]}
      add_tokens: {anthropic-beta: [extra-1], X-List: [one, two]}
  gem:
    kind: gemini
    base_url: "https://gem.example/v1beta"
    api_key: AIza-gem
    body: [{match: {dialect: generate}, remove: [labels], set: {generationConfig.topK: 5}},
           {match: {dialect: embeddings}, set: {outputDimensionality: 8}}]
  plain: {kind: openai, base_url: "https://plain.example/v1", api_key: sk-plain}
  aws: {kind: bedrock, base_url: "https://bedrock-runtime.us-east-1.amazonaws.com", api_key: b-key,
        body: [{remove: [context_management, anthropic_beta], set: {top_k: 3}}]}
  vertex: {kind: vertex_anthropic, base_url: "https://v.example/v1/projects/p/locations/l/publishers/anthropic",
           api_key: v-key, auth: bearer, body: [{default: {anthropic_version: mine, top_k: 3}}]}
defaults: {openai_dialect: main, anthropic_dialect: claude, gemini_dialect: gem}
aliases:
  short: {targets: [main/gpt-s], body: [{set: {max_tokens: 500, user: gateway}}]}
  several: {targets: [main/gpt-a, claude/c, plain/gpt-b], body: [{set: {top_p: 0.25}}]}
retries: {attempts: 1}
"""
MESSAGES: Final = b'"messages":[{"role":"user","content":"Hi"}]'


def asked(
    path: str, body: bytes, headers: RawHeaders | None = None, pipeline: Pipeline | None = None
) -> tuple[Pipeline, bytes]:
    pipeline = pipeline or Pipeline(CONFIG)
    pipeline.ask(path, body, headers)
    return pipeline, pipeline.received()[2]


def rules_of(pipeline: Pipeline, answer: bytes = b"{}") -> int | None:
    pipeline.connection.send(answered(answer))
    return pipeline.events[-1].body_rules


CASES: Final = [
    pytest.param(
        "/v1/chat/completions",
        b'{ "model" : "gpt-5", "user": "u" , "max_tokens": 1000, %b }' % MESSAGES,
        b'{ "model" : "gpt-5", "max_tokens": 100, %b }' % MESSAGES,
        1,
        id="chat",
    ),
    pytest.param(
        "/v1/chat/completions",
        b'{"model":"special-1",%b}' % MESSAGES,
        b'{"model":"special-1",%b,"seed":7}' % MESSAGES,
        1,
        id="a model",
    ),
    pytest.param(
        "/v1/chat/completions",
        b'{"model":"short","max_tokens":5,"user":"u",%b}' % MESSAGES,
        b'{"model":"gpt-s","max_tokens":100,%b}' % MESSAGES,
        2,
        id="an alias before its provider",
    ),
    pytest.param(
        "/v1/responses",
        b'{"model":"gpt-5","input":"Hi","store":true}',
        b'{"model":"gpt-5","input":"Hi","store":false}',
        1,
        id="responses",
    ),
    pytest.param(
        "/v1/completions",
        b'{"model":"gpt-5","prompt":"Hi","user":1}',
        b'{"model":"gpt-5","prompt":"Hi","store":false}',
        1,
        id="completions",
    ),
    pytest.param(
        "/v1/embeddings",
        b'{"model":"e","input":"Hi"}',
        b'{"model":"e","input":"Hi","dimensions":256}',
        1,
        id="embeddings",
    ),
    pytest.param(
        "/v1/messages",
        b'{"model":"c","max_tokens":51,"context_management":{},'
        b'"messages":[{"role":"user","content":[{"type":"text","text":"Hi", "cache_control":{}}]}]}',
        b'{"model":"c","max_tokens":50,'
        b'"messages":[{"role":"user","content":[{"type":"text","text":"Hi"}]}],"temperature":0.5}',
        1,
        id="messages",
    ),
    pytest.param(
        "/v1beta/models/g:generateContent",
        b'{"contents":[], "labels":{}}',
        b'{"contents":[],"generationConfig":{"topK":5}}',
        1,
        id="gemini",
    ),
    pytest.param(
        "/v1beta/models/g:embedContent",
        b'{"content":{}}',
        b'{"content":{},"outputDimensionality":8}',
        1,
        id="embeddings of Gemini",
    ),
    pytest.param(
        "/v1beta/models/g:countTokens",
        b'{"contents":[], "labels":{}}',
        b'{"contents":[]}',
        1,
        id="a count",
    ),
    pytest.param(
        "/v1/messages/count_tokens",
        b'{"model":"c","max_tokens":99,%b}' % MESSAGES,
        b'{"model":"c","max_tokens":99,%b}' % MESSAGES,
        0,
        id="a count without anything to remove",
    ),
    pytest.param(
        "/v1/moderations",
        b'{"model":"m","input":"Hi","user":1}',
        b'{"model":"m","input":"Hi","user":1}',
        None,
        id="a dialect without a name",
    ),
    pytest.param(
        "/v1/chat/completions",
        b'{"model":"claude/c", "max_completion_tokens":99,%b}' % MESSAGES,
        b'{"model":"c","max_tokens":50,"messages":[{"role":"user","content":[{"type":"text","text":"Hi"}]}],'
        b'"temperature":0.5}',
        1,
        id="translated to messages",
    ),
    pytest.param(
        "/v1/messages",
        b'{"model":"main/m","max_tokens":999,%b}' % MESSAGES,
        None,
        0,
        id="translated to chat",
    ),
    pytest.param(
        "/v1/messages/count_tokens",
        b'{"model":"gem/g",%b}' % MESSAGES,
        None,
        0,
        id="a translated count",
    ),
]


@pytest.mark.parametrize(("path", "body", "sent", "rules"), CASES)
def test_a_body_is_changed_by_the_rules_that_match(
    path: str, body: bytes, sent: bytes | None, rules: int | None
) -> None:
    pipeline = Pipeline(CONFIG)
    for _ in range(3):  # the second and the third come with a head that is known
        pipeline.ask(path, body)
        received = pipeline.connection.received.rpartition(b"\r\n\r\n")[2]
        if sent is not None:
            assert received == sent
        json.loads(received)
        pipeline.connection.send(answered())
        assert pipeline.events[-1].body_rules == rules


def test_a_rule_is_for_the_clients_that_it_names() -> None:
    rules = 'body: [{match: {client: "ali*"}, set: {seed: 1}}, {match: {client: [Bob]}, set: {seed: 2}}]'
    text = (
        f"providers: {{main: {{kind: openai, api_key: sk-a, {rules}}}}}\ndefaults: {{openai_dialect: main}}\n"
    )
    for name, seed in (("alice", 1), ("bob", 2), ("carol", None)):
        keys = f"edge_auth: {{enabled: true, keys: [{{name: {name}, key: a-long-key}}]}}"
        pipeline = Pipeline(text + keys)
        pipeline.ask(body=b'{"model":"m"}')
        assert json.loads(pipeline.received()[2]).get("seed") == seed
    pipeline = Pipeline(text)
    pipeline.ask(body=b'{"model":"m"}')
    assert pipeline.received()[2] == b'{"model":"m"}'


def coded(pipeline: Pipeline, path: str, body: bytes) -> tuple[bytes | None, bytes]:
    pipeline.ask(path, gzip.compress(body), [(b"Content-Encoding", b"gzip")])
    head, _, sent = pipeline.connection.received.partition(b"\r\n\r\n")
    return (b"gzip" if b"\r\nContent-Encoding: gzip" in head else None), sent


@pytest.mark.parametrize(
    ("path", "body", "changed"),
    [
        ("/v1/chat/completions", b'{"model":"m"}', b'{"model":"m","user":1}'),
        (
            "/v1beta/models/g:generateContent",
            b'{"generationConfig":{"topK":5}}',
            b'{"generationConfig":{"topK":6}}',
        ),
    ],
)
def test_a_body_keeps_its_coding_unless_it_is_changed(path: str, body: bytes, changed: bytes) -> None:
    coding, sent = coded(Pipeline(CONFIG), path, body)
    assert (coding, gzip.decompress(sent)) == (b"gzip", body)
    coding, sent = coded(Pipeline(CONFIG), path, changed)
    assert (coding, sent) == (None, body)


@pytest.mark.parametrize("body", [b"", b"[]", b'"x"', b'{"a":'])
def test_what_is_no_object_is_refused(body: bytes) -> None:
    pipeline = Pipeline(CONFIG)
    _, done = pipeline.ask("/v1beta/models/g:generateContent", body)
    assert failure_of(done).status == 400
    assert not pipeline.endpoint.connections


def test_a_body_on_disk_is_read_for_its_rules() -> None:
    pipeline = Pipeline(CONFIG)
    pipeline.ask("/v1beta/models/g:generateAnswer", MemoryBody(b'{"labels":1}'))
    assert pipeline.received()[2] == b'{"generationConfig":{"topK":5}}'


def in_a_thread(done: list[Callable[[], object]]) -> Any:  # Any: the type of a protocol with a type variable
    def offload(work: Callable[[], Any]) -> Deferred[Any]:
        done.append(work)
        later: Deferred[Any] = Deferred()
        later.callback(work())
        return later

    return offload


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1beta/models/g:generateContent", "/v1/messages"])
def test_a_large_body_is_changed_in_a_thread(path: str) -> None:
    done: list[Callable[[], object]] = []
    pipeline = Pipeline(CONFIG, offload=in_a_thread(done))
    model = b'"model":"main/fast",' if path == "/v1/chat/completions" else b'"model":"aws/c","max_tokens":5,'
    padding = b'"pad":"%b"' % (b"x" * SMALL_BYTES)
    for _ in range(2):
        pipeline.ask(path, b'{%b%b,"user":1,"labels":1}' % (model, padding))
        sent = pipeline.connection.received.rpartition(b"\r\n\r\n")[2]
        assert padding in sent
        pipeline.connection.send(answered())
        assert pipeline.events[-1].body_rules == 1
    assert len(done) >= 2


def test_each_target_gets_the_body_that_the_client_sent() -> None:
    pipeline = Pipeline(CONFIG)
    body = b'{"model":"several", "user":"u","max_tokens":60,%b}' % MESSAGES
    pipeline.ask(body=body)
    first = b'{"model":"gpt-a", "max_tokens":60,%b,"top_p":0.25}' % MESSAGES
    assert pipeline.received()[2] == first
    pipeline.connection.send(answered(b"{}", b"503 Busy"))
    pipeline.clock.advance(5)
    assert pipeline.connection.received.endswith(first)  # the second attempt
    pipeline.connection.send(answered(b"{}", b"503 Busy"))
    sent = json.loads(pipeline.connection.received.rpartition(b"\r\n\r\n")[2])
    assert (sent["max_tokens"], sent["top_p"], sent["temperature"]) == (50, 0.25, 0.5)
    for _ in range(2):
        pipeline.connection.send(answered(b"{}", b"503 Busy"))
        pipeline.clock.advance(5)
    expected = b'{"model":"gpt-b", "user":"u","max_tokens":60,%b,"top_p":0.25}' % MESSAGES
    assert pipeline.connection.received.endswith(expected)
    pipeline.connection.send(answered())
    assert pipeline.event().body_rules == 1


def test_the_event_is_that_of_the_last_target() -> None:
    text = CONFIG.replace(
        "body: [{set: {top_p: 0.25}}]", "body: [{match: {dialect: messages}, set: {top_p: 0.25}}]"
    )
    pipeline = Pipeline(text.replace("retries: {attempts: 1}", "").replace("claude/c, ", ""))
    pipeline.ask(body=b'{"model":"several","user":"u"}')
    pipeline.connection.send(answered(b"{}", b"503 Busy"))
    pipeline.connection.send(answered())
    assert pipeline.event().body_rules is None


def test_a_target_that_cannot_be_asked_changes_nothing_in_the_event() -> None:
    text = CONFIG.replace("plain/gpt-b]", "gem/g]").replace("claude/c, ", "")
    pipeline = Pipeline(text.replace("retries: {attempts: 1}", ""))
    pipeline.ask("/v1/completions", b'{"model":"several","prompt":"Hi","user":1}')
    pipeline.connection.send(answered(b"{}", b"503 Busy"))
    assert pipeline.event().body_rules == 2


def test_a_changed_body_counts_in_memory() -> None:
    reserved: list[int] = []
    pipeline = Pipeline(CONFIG, reserve=reserved.append)
    pipeline.ask(body=b'{"model":"m","user":1}')
    assert reserved == [len(b'{"model":"m"}')]


BEDROCK: Final = b'{"model":"aws/c","max_tokens":9,"context_management":{},%b}' % MESSAGES


def test_what_bedrock_gets_is_changed() -> None:
    pipeline, sent = asked("/v1/messages", BEDROCK, [(b"anthropic-beta", b"one-1")])
    assert sent == (b'{"anthropic_version":"bedrock-2023-05-31","max_tokens":9,%b,"top_k":3}' % MESSAGES)
    assert rules_of(pipeline) == 1


def test_what_bedrock_counts_is_changed_before_it_is_wrapped() -> None:
    _, sent = asked("/v1/messages/count_tokens", BEDROCK)
    inner = json.loads(b64decode(json.loads(sent)["input"]["invokeModel"]["body"]))
    assert "context_management" not in inner
    assert "top_k" not in inner


def test_a_translated_request_for_bedrock_is_changed() -> None:
    _, sent = asked("/v1/chat/completions", b'{"model":"aws/c",%b}' % MESSAGES)
    assert json.loads(sent)["top_k"] == 3


def test_what_vertex_gets_is_changed() -> None:
    pipeline, sent = asked("/v1/messages", b'{"model":"vertex/c",%b}' % MESSAGES)
    assert sent == b'{"anthropic_version":"vertex-2023-10-16",%b,"top_k":3}' % MESSAGES
    assert rules_of(pipeline) == 1


def test_a_request_without_a_refused_beta_is_changed_again() -> None:
    text = CONFIG.replace("context_management, anthropic_beta]", "context_management]")
    pipeline, sent = asked("/v1/messages", BEDROCK, [(b"anthropic-beta", b"one-1")], Pipeline(text))
    assert json.loads(sent)["anthropic_beta"] == ["one-1"]
    refusal = json.dumps({"message": "invalid beta flag"}).encode()
    pipeline.connection.send(answered(refusal, b"400 Bad Request"))
    again = json.loads(pipeline.connection.received.rpartition(b"\r\n\r\n")[2])
    assert "anthropic_beta" not in again
    assert "context_management" not in again
    assert again["top_k"] == 3
    pipeline.connection.send(answered())
    assert pipeline.event().body_rules == 1


def test_the_event_counts_the_rules_of_what_was_sent_last() -> None:
    rules = "{remove: [context_management]}, {set: {anthropic_beta: [one-1]}}"
    text = CONFIG.replace("{remove: [context_management, anthropic_beta], set: {top_k: 3}}", rules)
    pipeline, _ = asked("/v1/messages", BEDROCK, [(b"anthropic-beta", b"one-1")], Pipeline(text))
    pipeline.connection.send(answered(b'{"message":"invalid beta flag"}', b"400 Bad Request"))
    assert rules_of(pipeline) == 2


def test_the_body_that_is_signed_is_the_changed_one() -> None:
    pipeline = Pipeline(CONFIG, sources={"main": TimedKeys("timed-canary")})
    for body in (b'{"model":"m","user":1}', b'{"model":"m","user":2}'):
        pipeline.ask(body=body)
        head, _, sent = pipeline.connection.received.rpartition(b"POST ")[2].partition(b"\r\n\r\n")
        assert sent == b'{"model":"m"}'
        lines = [line.partition(b": ") for line in head.split(b"\r\n")[1:]]
        headers = [(name, value) for name, _, value in lines]
        when, digest = value_of(headers, TIME.lower()) or b"", sha256(sent).digest()
        expected = signature(b"timed-canary", b"POST", b"/v1/chat/completions", headers, digest, when)
        assert value_of(headers, SIGNATURE.lower()) == expected
        pipeline.connection.send(answered())


BETAS: Final[RawHeaders] = [(b"Anthropic-Beta", b"one-1, CONTEXT-management-2025-06-27 , two-2")]


def test_lists_in_headers_lose_and_gain_elements() -> None:
    pipeline = Pipeline(CONFIG)
    for _ in range(2):
        pipeline.ask("/v1/messages", b'{"model":"c",%b}' % MESSAGES, BETAS)
        headers = pipeline.received()[1]
        assert value_of(headers, b"anthropic-beta") == b"one-1,two-2,extra-1"
        assert value_of(headers, b"x-list") == b"one,two"
    pipeline = Pipeline(CONFIG)
    pipeline.ask(body=b'{"model":"claude/c",%b}' % MESSAGES)
    assert value_of(pipeline.received()[1], b"anthropic-beta") == b"extra-1"


def test_lists_are_those_behind_the_other_settings() -> None:
    settings = "set: {Anthropic-Beta: 'a, context-management-x'}\n      add_tokens: {"
    pipeline = Pipeline(CONFIG.replace("add_tokens: {anthropic-beta: [extra-1],", settings))
    pipeline.ask("/v1/messages", b'{"model":"c",%b}' % MESSAGES, BETAS)
    assert value_of(pipeline.received()[1], b"anthropic-beta") == b"a"


def test_a_list_without_elements_is_not_sent() -> None:
    pipeline = Pipeline(CONFIG.replace("add_tokens: {anthropic-beta: [extra-1],", "add_tokens: {"))
    alone = [(b"anthropic-beta", b"context-management-1")]
    pipeline.ask("/v1/messages", b'{"model":"c",%b}' % MESSAGES, alone)
    assert value_of(pipeline.received()[1], b"anthropic-beta") is None
