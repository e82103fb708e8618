"""Every row of the route table before hosts that serve few of them: what they do not serve is never sent."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from http.client import HTTPResponse
from io import BytesIO
from typing import Any, Final

import pytest

from mgw.nouns.vocabulary import Family
from mgw.routing.model_source import ModelAt
from mgw.routing.route import ANY_METHOD, Route, Treatment
from mgw.routing.routes import ROUTES
from tests.support.channels import get
from tests.support.web_servers import WebServerHarness

VERTEX: Final = "https://aiplatform.googleapis.com/v1/projects/p/locations/global/publishers"
CONFIG: Final = f"""
providers:
  invoke: {{kind: bedrock, base_url: "https://bedrock-runtime.us-east-1.amazonaws.com", api_key: b-canary}}
  claude: {{kind: vertex_anthropic, base_url: {VERTEX}/anthropic, auth: bearer, api_key: v-canary}}
  gem: {{kind: gemini, base_url: {VERTEX}/google, auth: bearer, api_key: v-canary}}
translation: {{responses: {{enabled: true}}}}
edge_auth: {{enabled: true, keys: [edge]}}
"""
_OTHERS: Final = frozenset({Treatment.LOCAL, Treatment.REFUSE, Treatment.REALTIME})
ROWS: Final = [row for row in ROUTES if row.treatment not in _OTHERS]
_TEXTS: Final = frozenset(
    {
        *("chat", "responses", "responses_input_tokens", "messages", "messages_count_tokens"),
        *("generate_content", "stream_generate_content", "count_tokens"),
    }
)
_OF_MODELS: Final = frozenset(
    {
        *("embeddings", "embed_content", "batch_embed_contents", "gemini_models_generate_answer"),
        *("audio_speech", "anthropic_audio_speech", "generate_speech"),
        *("gemini_models_predict", "gemini_models_predict_long_running"),
        *("gemini_models_batch_generate_content", "gemini_models_async_batch_embed_content"),
    }
)
SERVED: Final = {"invoke": _TEXTS, "claude": _TEXTS, "gem": _TEXTS | _OF_MODELS}
SIGNS: Final = {
    Family.OPENAI: "openai-organization: org",
    Family.ANTHROPIC: "anthropic-version: 2023-06-01",
    Family.GEMINI: "x-goog-api-client: genai",
}
"""What shows of which family a client is."""
WORDS: Final[dict[Family, dict[str, Any]]] = {
    Family.OPENAI: {"type": "invalid_request_error", "code": "unsupported_provider_capability"},
    Family.ANTHROPIC: {"type": "invalid_request_error"},
    Family.GEMINI: {"code": 400, "status": "INVALID_ARGUMENT"},
}
"""What stands below ``error`` of a refusal, by the client's family."""
_CONTENT: Final[dict[str, Any]] = {
    "max_tokens": 9,
    "messages": [{"role": "user", "content": "Hi"}],
    "input": "Hi",
    "contents": [{"parts": [{"text": "Hi"}]}],
    "voice": "alloy",
}


@pytest.fixture(scope="module")
def harness() -> WebServerHarness:
    return WebServerHarness(CONFIG)


@dataclass
class _Taken:
    """What http.client reads an answer from."""

    data: bytes

    def makefile(self, mode: str) -> BytesIO:
        assert mode == "rb"
        return BytesIO(self.data)


def method_of(row: Route) -> str:
    return "POST" if row.method == ANY_METHOD else row.method


def body_of(row: Route, model: str) -> bytes:
    """Return a body that names a model where the row has it, and means something where it is served."""
    if method_of(row) not in ("POST", "PUT", "PATCH"):
        return b""
    named: Any = {}
    if row.models.at is not ModelAt.PATH:
        named = model
        for step in reversed(row.models.paths[0] if row.models.paths else ("model",)):
            named = [named] if step is None else {step: named}
    return json.dumps({**_CONTENT, **named}).encode()


def request(row: Route, provider: str) -> bytes:
    model = f"{provider}/m"
    path = re.sub(r"\{\w+\}", "x", row.path.replace("{model}", model).replace("{path}", "x"))
    query = "" if row.models.at is ModelAt.PATH else f"?provider={provider}"
    body = body_of(row, model)
    lines = (SIGNS[row.family], "Content-Type: application/json", f"Content-Length: {len(body)}")
    return get(path + query, *lines, "Authorization: Bearer edge", method=method_of(row)) + body


def ask(harness: WebServerHarness, row: Route, provider: str) -> tuple[int, HTTPResponse | None]:
    """Send a row's request; return how many connections to providers it made, and the answer, if any."""
    harness.connect()
    harness.observer.events.clear()
    before = len(harness.pipeline.endpoint.connections)
    harness.send(request(row, provider))
    connections = harness.pipeline.endpoint.connections[before:]
    answer: HTTPResponse | None = None
    if harness.received():
        answer = HTTPResponse(_Taken(harness.received()), method=method_of(row))  # type: ignore[arg-type]  # enough of it
        answer.begin()
    for connection in connections:
        connection.close()
    harness.leave()
    assert [event.route for event in harness.observer.events] == [row.name], row.name
    return len(connections), answer


@pytest.mark.parametrize("provider", SERVED)
def test_what_a_host_does_not_serve_is_refused_in_the_clients_dialect(
    harness: WebServerHarness, provider: str
) -> None:
    served = set()
    for row in ROWS:
        connections, answer = ask(harness, row, provider)
        if connections:
            served.add(row.name)
            continue
        assert answer is not None, row.name
        said = json.loads(answer.read())
        assert (answer.status, answer.getheader("content-type")) == (400, "application/json"), (
            row.name,
            said,
        )
        error = said["error"]
        assert {key: error.get(key) for key in WORDS[row.family]} == WORDS[row.family], (row.name, error)
        assert set(said) == ({"type", "error", "request_id"} if row.family is Family.ANTHROPIC else {"error"})
        event = harness.event
        assert (event.provider, event.attempts, event.key_hash) == (provider, 0, None), row.name
        assert event.http_status == 400
    assert served == SERVED[provider]
