"""Requests of clients whose limits are used up, in each dialect: what they are told, and that SDKs stop."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, Final

import anthropic
import httpx2
import openai
import pytest
from google import genai
from google.genai import errors as genai_errors
from google.genai import types as genai_types

from mgw.clients.client import clients_of
from mgw.clients.limits import Taken
from mgw.usage.event import Outcome
from tests.memory.web.test_admission import serve, upstream_heads
from tests.support.channels import get, post
from tests.support.configs import THREE_FAMILIES
from tests.support.exchanges import JSON
from tests.support.memory_sessions import LIVE, REALTIME, SessionHarness
from tests.support.raw_sessions import handshake
from tests.support.web_servers import WebServerHarness

GROUPS: Final = """
prices: {rows: [{model: "*", input: 1, output: 1}]}
edge_auth:
  enabled: true
  timezone: Europe/Berlin
  limits: [{usd: 5, per: total}]
  groups:
    money: {limits: [{usd: 2.5, per: day}]}
    tokens: {limits: [{tokens: 10, per: day, each: true}]}
    minute: {limits: [{tokens: 10, per: minute}]}
    claude: {models: ["claude/*"]}
    named: {models: [fast]}
  keys:
    - {name: alice, key: edge, groups: [money]}
    - {name: bob, key: key-of-bob, groups: [tokens]}
    - {name: carol, key: key-of-carol, groups: [minute]}
    - {name: dave, key: key-of-dave}
    - {name: erin, key: key-of-erin, groups: [claude, named]}
    - {name: frank, key: key-of-frank, groups: [claude], models: ["*x"]}
"""
TEXT: Final = THREE_FAMILIES + GROUPS
ANEW: Final = "it resets at 1970-01-02T00:00:00+01:00"
"""The clock of the server begins at the epoch, when it was 01:00 in Berlin."""
DAY: Final = 23 * 3600
BODY: Final = (
    b'{"model":"gpt-b","messages":[{"role":"user","content":"hi"}],"max_tokens":9,"contents":[],"input":"x"}'
)
CHAT, ANSWERS, MESSAGES = "/v1/chat/completions", "/v1/responses", "/v1/messages"
GEMINI: Final = "/v1beta/models/good:generateContent"


def spend(harness: WebServerHarness, name: str, taken: Taken) -> None:
    """Count a request of a client that has come to this."""
    (client,) = [one for one in clients_of(harness.generation.config.edge_auth) if one.name == name]
    harness.counts.add(client.limits, taken)


def ask(key: str, path: str = CHAT) -> bytes:
    return post(BODY, f"x-api-key: {key}", JSON, path=path)


def header(response: bytes, name: bytes) -> str | None:
    head = response.partition(b"\r\n\r\n")[0] + b"\r\n"
    found = re.search(rb"\r\n%b: ([^\r]*)\r\n" % name, head, re.IGNORECASE)
    return None if found is None else found[1].decode()


def error_of(response: bytes) -> Any:  # Any: JSON
    return json.loads(response.partition(b"\r\n\r\n")[2])["error"]


@pytest.mark.parametrize(
    ("path", "said"),
    [
        (CHAT, ("insufficient_quota", "insufficient_quota")),
        (ANSWERS, ("insufficient_quota", "insufficient_quota")),
        (MESSAGES, ("billing_error", None)),
        (GEMINI, (None, 429)),
    ],
)
def test_a_used_up_budget_is_said_in_the_words_of_each_dialect(
    path: str, said: tuple[str | None, str | int | None]
) -> None:
    harness = WebServerHarness(TEXT)
    spend(harness, "alice", Taken(1, 0, 2_500_000_000))
    response = serve(harness, ask("edge", path))
    assert response.startswith(b"HTTP/1.1 429 ")
    assert header(response, b"Connection") is None, "the body has come, so the next request may"
    assert (header(response, b"Retry-After"), header(response, b"x-should-retry")) == (str(DAY), "false")
    error = error_of(response)
    assert (error.get("type"), error.get("code")) == said
    assert error["message"] == f"group:money has reached its limit: usd_per_day is 2.5; {ANEW}"
    event = harness.event
    assert (event.status, event.http_status, event.error) == (Outcome.REJECTED, 429, "insufficient_quota")
    assert not upstream_heads(harness)


def test_google_clients_get_the_status_and_the_delay() -> None:
    harness = WebServerHarness(TEXT)
    spend(harness, "alice", Taken(1, 0, 2_500_000_000))
    error = error_of(serve(harness, ask("edge", GEMINI)))
    assert error["status"] == "RESOURCE_EXHAUSTED"
    assert [detail.get("reason", detail.get("retryDelay")) for detail in error["details"]] == [
        "INSUFFICIENT_QUOTA",
        f"{DAY}s",
    ]


def test_a_row_without_an_end_names_no_moment() -> None:
    harness = WebServerHarness(TEXT)
    spend(harness, "dave", Taken(1, 0, 5_000_000_000))
    response = serve(harness, ask("key-of-dave"))
    assert (header(response, b"Retry-After"), header(response, b"x-should-retry")) == (None, "false")
    assert error_of(response)["message"] == ("gateway has reached its limit: usd_total is 5; it never resets")


def test_tokens_of_a_day_are_a_rate_limit_that_no_retry_helps() -> None:
    harness = WebServerHarness(TEXT)
    spend(harness, "bob", Taken(1, 10))
    harness.clock.advance(0.25)
    response = serve(harness, ask("key-of-bob"))
    assert (header(response, b"Retry-After"), header(response, b"x-should-retry")) == (str(DAY), "false")
    error = error_of(response)
    assert (error["type"], error["code"]) == ("rate_limit_error", "rate_limit_exceeded")
    assert error["message"] == f"group:tokens/bob has reached its limit: tokens_per_day is 10; {ANEW}"
    assert harness.event.error == "rate_limit_exceeded"
    harness.clock.advance(DAY)
    assert serve(harness, ask("key-of-bob")).startswith(b"HTTP/1.1 200 ")


def test_a_row_of_a_minute_may_be_tried_again() -> None:
    harness = WebServerHarness(TEXT)
    spend(harness, "carol", Taken(1, 10))
    response = serve(harness, ask("key-of-carol"))
    assert (header(response, b"Retry-After"), header(response, b"x-should-retry")) == ("60", None)
    assert error_of(response)["message"] == "group:minute has reached its limit: tokens_per_minute is 10"


@pytest.mark.parametrize("path", [REALTIME, LIVE])
def test_a_session_is_refused_in_plain_http_before_it_opens(path: str) -> None:
    harness = SessionHarness(path, TEXT)
    spend(harness, "alice", Taken(1, 0, 2_500_000_000))
    harness.connect()
    harness.channel.dataReceived(handshake(path, "edge"))
    response = harness.received()
    assert response.startswith(b"HTTP/1.1 429 ")
    assert (header(response, b"Retry-After"), header(response, b"x-should-retry")) == (str(DAY), "false")
    error = error_of(response)
    word = error["code"] if path == REALTIME else error["details"][0]["reason"].lower()
    assert word == "insufficient_quota"


@pytest.mark.parametrize("path", ["/v1/models", "/v1beta/models"])
@pytest.mark.parametrize(
    ("key", "models"),
    [
        ("key-of-dave", ["fast", "smart", "slashed/name", "main/gpt-b", "claude/claude-x"]),
        ("key-of-erin", ["fast", "smart", "claude/claude-x"]),
        ("key-of-frank", ["smart", "claude/claude-x"]),
    ],
)
def test_a_list_of_models_has_those_that_a_group_and_the_key_allow(
    path: str, key: str, models: list[str]
) -> None:
    harness = WebServerHarness(TEXT)
    text = serve(harness, get(path, f"x-api-key: {key}", method="GET")).decode()
    assert set(re.findall(r'"(?:id|name)":"(?:models/)?([^"]+)"', text)) >= set(models)
    assert ("main/gpt-b" in text) is ("main/gpt-b" in models)


Call = Callable[[bytes, list[str]], None]
"""Calls a vendor's SDK, which gets this response as often as it asks; each time is noted."""


def of_openai(response: bytes, asked: list[str]) -> None:
    client = openai.OpenAI(api_key="k", http_client=httpx2.Client(transport=transport(response, asked)))
    with client, pytest.raises(openai.RateLimitError) as raised:
        client.chat.completions.create(model="gpt-b", messages=[{"role": "user", "content": "hi"}])
    assert raised.value.code == "insufficient_quota"


def of_openais_responses(response: bytes, asked: list[str]) -> None:
    client = openai.OpenAI(api_key="k", http_client=httpx2.Client(transport=transport(response, asked)))
    with client, pytest.raises(openai.RateLimitError) as raised:
        client.responses.create(model="gpt-b", input="hi")
    assert raised.value.type == "insufficient_quota"


def of_anthropic(response: bytes, asked: list[str]) -> None:
    client = anthropic.Anthropic(api_key="k", http_client=httpx2.Client(transport=transport(response, asked)))
    with client, pytest.raises(anthropic.RateLimitError) as raised:
        client.messages.create(model="m", max_tokens=9, messages=[{"role": "user", "content": "hi"}])
    assert raised.value.type == "billing_error"


def of_google(response: bytes, asked: list[str]) -> None:
    options = genai_types.HttpOptions(httpx_client=httpx2.Client(transport=transport(response, asked)))
    client = genai.Client(api_key="k", http_options=options)
    with pytest.raises(genai_errors.ClientError) as raised:
        client.models.generate_content(model="good", contents="hi")
    assert (raised.value.code, raised.value.status) == (429, "RESOURCE_EXHAUSTED")


def headers_of(response: bytes) -> list[tuple[str, str]]:
    lines = response.partition(b"\r\n\r\n")[0].decode().split("\r\n")[1:]
    return [(name, value) for name, _, value in (line.partition(": ") for line in lines)]


def transport(response: bytes, asked: list[str]) -> httpx2.MockTransport:
    def answer(request: httpx2.Request) -> httpx2.Response:
        asked.append(str(request.url))
        return httpx2.Response(429, headers=headers_of(response), content=response.partition(b"\r\n\r\n")[2])

    return httpx2.MockTransport(answer)


@pytest.mark.parametrize(
    ("path", "call"),
    [(CHAT, of_openai), (ANSWERS, of_openais_responses), (MESSAGES, of_anthropic), (GEMINI, of_google)],
)
def test_the_vendors_sdks_ask_once_where_a_budget_is_used_up(path: str, call: Call) -> None:
    harness = WebServerHarness(TEXT)
    spend(harness, "alice", Taken(1, 0, 2_500_000_000))
    asked: list[str] = []
    call(serve(harness, ask("edge", path)), asked)
    assert len(asked) == 1
