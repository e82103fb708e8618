"""One event for each metered request, whatever its end; metrics and log lines say the same.

Two thousand requests of twenty kinds go through one gateway, eight at a time and in a mixed order.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Final

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.support.gateway import GatewayProcess, start_gateway
from tests.support.raw_client import RawClient, RawResponse, request
from tests.support.simulator import SimulatorProcess
from tests.support.waiting import WAIT_SECONDS

EDGE: Final = b"Authorization: Bearer edge-canary-1"
OF_EACH: Final = 100
THREADS: Final = 8
Labels = tuple[str, str, str, str]
"""Route, provider, status class, outcome."""
pytestmark = pytest.mark.slow  # all look at the same two thousand requests


def configuration(simulator: SimulatorProcess) -> str:
    return f"""
providers:
  main: {{kind: openai, base_url: "{simulator.url}/v1", api_key: sk-canary-openai}}
  claude: {{kind: anthropic, base_url: "{simulator.url}/v1", api_key: sk-ant-canary}}
  gem: {{kind: gemini, base_url: "{simulator.url}/v1beta", api_key: AIza-canary}}
  mute: {{kind: openai_compat, base_url: "{simulator.url}/v1", api_key: canary, capabilities: {{text: off}}}}
  keyless: {{kind: openai_compat, base_url: "{simulator.url}/v1"}}
defaults: {{openai_dialect: main, anthropic_dialect: claude}}
edge_auth: {{enabled: true, keys: [edge-canary-1]}}
max_body_bytes: 65536
"""


@dataclass(frozen=True)
class Case:
    """A kind of request, and what must become of it."""

    name: str
    data: bytes
    status: int
    labels: Labels | None
    """``None``: it leaves no event."""
    leaves: str = ""
    """When the client leaves: ``waiting`` or ``reading``."""
    whole: bool = True
    tokens: tuple[str, str] | None = None
    """Where the answer's usage has the counts."""


def post(path: str, body: dict[str, Any] | bytes, *headers: bytes) -> bytes:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return request(content, *(headers or (EDGE,)), b"Content-Type: application/json", path=path)


def chat(model: str, *headers: bytes, **fields: Any) -> bytes:
    body = {"model": model, "messages": [{"role": "user", "content": "one two"}], **fields}
    return post("/v1/chat/completions", body, *headers)


def messages(model: str, **fields: Any) -> bytes:
    body = {
        "model": model,
        "max_tokens": 99,
        "messages": [{"role": "user", "content": "one two three"}],
        **fields,
    }
    return post("/v1/messages", body, EDGE, b"anthropic-version: 2023-06-01")


def content(model: str, verb: str) -> bytes:
    return post(
        f"/v1beta/models/{model}:{verb}", {"contents": [{"role": "user", "parts": [{"text": "one"}]}]}
    )


def unfinished_upload() -> bytes:
    return chat("gpt-1")[:-5]


OPENAI: Final = ("prompt_tokens", "completion_tokens")
ANTHROPIC: Final = ("input_tokens", "output_tokens")
GEMINI: Final = ("promptTokenCount", "candidatesTokenCount")
STALLING: Final = "gpt-sim+sim-chunks-9+sim-stall-body-after-3"

CASES: Final = (
    Case("chat", chat("gpt-1"), 200, ("chat", "main", "2xx", "ok"), tokens=OPENAI),
    Case("chat stream", chat("gpt-1", stream=True), 200, ("chat", "main", "2xx", "ok")),
    Case("messages", messages("claude-1"), 200, ("messages", "claude", "2xx", "ok"), tokens=ANTHROPIC),
    Case("messages stream", messages("c", stream=True), 200, ("messages", "claude", "2xx", "ok")),
    Case(
        "content",
        content("gem/gemini-1", "generateContent"),
        200,
        ("generate_content", "gem", "2xx", "ok"),
        tokens=GEMINI,
    ),
    Case(
        "content stream",
        content("gem/gemini-1", "streamGenerateContent?alt=sse"),
        200,
        ("stream_generate_content", "gem", "2xx", "ok"),
    ),
    Case("upstream's 429", chat("sim-status-429"), 429, ("chat", "main", "4xx", "upstream_error")),
    Case("upstream's 500", messages("sim-status-500"), 500, ("messages", "claude", "5xx", "upstream_error")),
    Case("upstream resets", chat("sim-reset-before"), 502, ("chat", "main", "5xx", "upstream_error")),
    Case(
        "upstream breaks off",
        chat("sim-chunks-9+sim-truncate-after-3", stream=True),
        200,
        ("chat", "main", "2xx", "upstream_error"),
        whole=False,
    ),
    Case(
        "unknown model",
        content("gemini-1", "generateContent"),
        404,
        ("generate_content", "none", "4xx", "rejected"),
    ),
    Case(
        "missing model",
        post("/v1/chat/completions", {"messages": []}),
        400,
        ("chat", "none", "4xx", "rejected"),
    ),
    Case("no JSON", post("/v1/messages", b"{"), 400, ("messages", "none", "4xx", "rejected")),
    Case(
        "too large",
        post("/v1/messages", b" " * 65537),
        413,
        ("messages", "none", "4xx", "rejected"),
    ),
    Case("capability off", chat("mute/m"), 403, ("chat", "mute", "4xx", "rejected")),
    Case("translated", chat("claude/claude-1"), 200, ("chat", "claude", "2xx", "ok")),
    Case("no provider key", chat("keyless/m"), 401, ("chat", "keyless", "4xx", "rejected")),
    Case(
        "client leaves, waiting",
        chat("sim-stall-head"),
        499,
        ("chat", "main", "4xx", "client_abort"),
        leaves="waiting",
    ),
    Case(
        "client leaves, reading",
        chat(STALLING, stream=True),
        499,
        ("chat", "main", "4xx", "client_abort"),
        leaves="reading",
    ),
    Case(
        "client leaves, uploading",
        unfinished_upload(),
        499,
        ("chat", "none", "4xx", "client_abort"),
        leaves="waiting",
    ),
    Case("wrong edge key", chat("gpt-1", b"x-api-key: wrong-canary"), 401, None),
    Case("catalog", request(None, EDGE, path="/v1/models", method="GET"), 200, None),
    Case("unknown route", post("/v1/unknown", {}), 404, None),
    Case("wrong method", request(None, EDGE, method="PUT"), 405, None),
)
SILENT: Final = tuple(case for case in CASES if case.labels is None)
METERED: Final = tuple(case for case in CASES if case.labels is not None)


@dataclass
class Caller:
    """One client that goes through its share of the requests, on one connection while it lasts."""

    port: int
    met: list[tuple[Case, RawResponse]] = field(default_factory=list)
    _client: RawClient | None = None

    def run(self, cases: list[Case]) -> list[tuple[Case, RawResponse]]:
        for case in cases:
            client = self._client or RawClient(self.port)
            self._client = None
            client.send(case.data)
            if case.leaves:
                self._leave(client, case)
                continue
            response = client.read_response()
            self.met.append((case, response))
            if response.whole and response.value(b"connection") != b"close":
                self._client = client
            else:
                client.socket.close()
        if self._client is not None:
            self._client.socket.close()
        return self.met

    def _leave(self, client: RawClient, case: Case) -> None:
        if case.leaves == "reading":
            assert client.incoming.until(b"w1") is not None
        client.socket.close()


@dataclass
class Day:
    """What one gateway has done and said."""

    responses: list[tuple[Case, RawResponse]]
    events: list[dict[str, Any]]
    metrics: dict[tuple[str, frozenset[tuple[str, str]]], float]
    log: list[dict[str, str]]
    access: list[dict[str, str]]


def fields_of(line: str) -> dict[str, str]:
    return dict(part.split("=", 1) for part in line.split(" ")[1:])


def lines_of(gateway: GatewayProcess, word: str, count: int) -> list[dict[str, str]]:
    start = f"\n{word} ".encode()
    data: bytes = gateway.stderr.wait_for(
        lambda data: data.count(start) >= count and data.endswith(b"\n") and data,
        WAIT_SECONDS,
        f"{word} lines",
    )
    return [fields_of(line) for line in data.decode().splitlines() if line.startswith(f"{word} ")]


@pytest.fixture(scope="module")
def day(simulator: SimulatorProcess) -> Iterator[Day]:
    cases = [*METERED * OF_EACH, *SILENT * (OF_EACH // 4)]
    random.Random(7).shuffle(cases)
    with start_gateway(configuration(simulator)) as gateway:
        shares = [cases[index::THREADS] for index in range(THREADS)]
        with ThreadPoolExecutor(THREADS) as pool:
            met = list(pool.map(lambda share: Caller(gateway.port).run(share), shares))
        count = len(METERED) * OF_EACH
        gateway.events(count, WAIT_SECONDS)
        text = gateway.get("/metrics", {"x-api-key": "edge-canary-1"}).decode()
        metrics = {
            (sample.name, frozenset(sample.labels.items())): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        }
        log = lines_of(gateway, "usage", count)
        access = lines_of(gateway, "http", len(cases))
        assert gateway.stop() == 0
        events = [json.loads(line) for line in gateway.stdout.data.splitlines()]
        yield Day([pair for share in met for pair in share], events, metrics, log, access)


def test_each_kind_of_request_was_answered_as_it_should_be(day: Day) -> None:
    wrong = {
        (case.name, response.status, response.whole)
        for case, response in day.responses
        if (response.status, response.whole) != (case.status, case.whole)
    }
    assert not wrong


def test_there_are_as_many_events_as_metered_requests_of_each_kind(day: Day) -> None:
    expected: Counter[Labels] = Counter()
    for case in METERED:
        assert case.labels is not None
        expected[case.labels] += OF_EACH
    found = Counter(
        (event["route"], event.get("provider", "none"), f"{event['http_status'] // 100}xx", event["status"])
        for event in day.events
    )
    assert found == expected
    assert sum(expected.values()) == 2000


def test_every_request_has_an_id_of_its_own_which_its_answer_names(day: Day) -> None:
    ids = [event["request_id"] for event in day.events]
    assert len(set(ids)) == len(ids)
    answered = {
        (response.value(b"x-gateway-request-id") or b"").decode()
        for case, response in day.responses
        if case.labels is not None
    }
    left = {event["request_id"] for event in day.events if event["status"] == "client_abort"}
    assert answered | left == set(ids)
    assert not answered & left


def test_the_metrics_count_what_the_events_say(day: Day) -> None:
    names = ("route", "provider", "status_class", "outcome")
    counted = {
        tuple(dict(labels)[name] for name in names): value
        for (name, labels), value in day.metrics.items()
        if name == "mgw_requests_total"
    }
    assert counted == {case.labels: OF_EACH * METERED_AS[case.labels] for case in METERED}
    for sink in ("jsonl", "log", "metrics"):
        assert day.metrics["mgw_usage_events_total", frozenset({("sink", sink)})] == len(day.events)
    assert day.metrics["mgw_edge_rejections_total", frozenset({("reason", "key")})] == OF_EACH // 4
    assert day.metrics["mgw_requests_in_flight", frozenset()] == 1  # the scrape itself


METERED_AS: Final = Counter(case.labels for case in METERED)


def test_the_metrics_add_up_the_tokens_of_the_events(day: Day) -> None:
    for provider in ("main", "claude", "gem"):
        for direction in ("in", "out"):
            said = sum(
                event.get(f"tokens_{direction}", 0)
                for event in day.events
                if event.get("provider") == provider
            )
            key = frozenset({("provider", provider), ("direction", direction), ("client", "other")})
            assert day.metrics["mgw_tokens_total", key] == said > 0


def test_the_events_have_the_tokens_that_the_upstream_reported(day: Day) -> None:
    events = {event["request_id"]: event for event in day.events}
    compared = 0
    for case, response in day.responses:
        if case.tokens is None:
            continue
        body = response.json()
        usage = body.get("usage") or body["usageMetadata"]
        event = events[(response.value(b"x-gateway-request-id") or b"").decode()]
        assert (event["tokens_in"], event["tokens_out"]) == tuple(usage[name] for name in case.tokens)
        compared += 1
    assert compared == 3 * OF_EACH


def test_there_is_one_usage_line_for_each_event_and_it_says_the_same(day: Day) -> None:
    def of_event(event: dict[str, Any]) -> tuple[str, ...]:
        names = ("request_id", "http_status", "status", "provider", "tokens_in")
        return tuple(str(event.get(name, "-")) for name in names)

    def of_line(line: dict[str, str]) -> tuple[str, ...]:
        return tuple(line[name] for name in ("request_id", "status", "outcome", "provider", "tokens_in"))

    assert sorted(map(of_line, day.log)) == sorted(map(of_event, day.events))


def test_there_is_one_access_line_for_each_request(day: Day) -> None:
    expected: Counter[str] = Counter()
    for case in CASES:
        expected[str(case.status)] += OF_EACH if case.labels else OF_EACH // 4
    assert Counter(line["status"] for line in day.access) == expected
