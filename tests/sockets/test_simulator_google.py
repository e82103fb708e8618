"""The simulator's Vertex AI: judged by the vendors' SDKs for it, over real sockets."""

from __future__ import annotations

from typing import Any, Final

import anthropic
import httpx2
import pytest
from google import genai
from google.genai import types as genai_types
from google.oauth2.credentials import Credentials

from tests.support.simulator import SimulatorProcess

MODEL: Final = "claude-sonnet-4-5@20250929"


def claude(simulator: SimulatorProcess, token: str = "token", **headers: str) -> anthropic.AnthropicVertex:
    return anthropic.AnthropicVertex(
        region="global",
        project_id="p",
        access_token=token,
        base_url=f"{simulator.url}/v1",
        max_retries=0,
        default_headers=headers,
    )


def asked(model: str = MODEL, text: str = "Hello") -> dict[str, Any]:
    return {"model": model, "max_tokens": 100, "messages": [{"role": "user", "content": text}]}


class TestClaude:
    """rawPredict, by Anthropic's SDK for Vertex."""

    def test_a_chat(self, simulator: SimulatorProcess) -> None:
        message = claude(simulator).messages.create(**asked())
        assert message.content[0].to_dict()["text"] == "You said: Hello"

    def test_a_stream(self, simulator: SimulatorProcess) -> None:
        with claude(simulator).messages.stream(**asked(text="repeat:9")) as stream:
            assert len("".join(stream.text_stream).split()) == 9

    def test_a_count(self, simulator: SimulatorProcess) -> None:
        counted = claude(simulator).messages.count_tokens(
            model=MODEL, messages=[{"role": "user", "content": "one two three"}]
        )
        assert counted.input_tokens == 3

    def test_what_anthropic_refuses_has_its_shape(self, simulator: SimulatorProcess) -> None:
        with pytest.raises(anthropic.BadRequestError, match=r"invalid_request_error.*refused-1"):
            claude(simulator, **{"anthropic-beta": "refused-1"}).messages.create(**asked())

    @pytest.mark.parametrize(
        ("token", "model", "status"),
        [
            ("wrong", MODEL, "UNAUTHENTICATED"),
            ("t", "missing", "NOT_FOUND"),
            ("t", "m+sim-status-429", "RESOURCE"),
        ],
    )
    def test_what_google_refuses_has_its_shape(
        self, simulator: SimulatorProcess, token: str, model: str, status: str
    ) -> None:
        with pytest.raises(anthropic.APIStatusError) as refused:
            claude(simulator, token).messages.create(**asked(model))
        assert refused.value.response.json()["error"]["status"].startswith(status)

    @pytest.mark.parametrize(
        "change",
        [{"model": "x"}, {"anthropic_version": None}, {"anthropic_version": "vertex-1"}, {"stream": True}],
    )
    def test_what_the_body_must_be(self, simulator: SimulatorProcess, change: dict[str, Any]) -> None:
        body: dict[str, Any] = {**asked(), "anthropic_version": "vertex-2023-10-16", **change}
        if "model" not in change:
            del body["model"]
        url = f"{simulator.url}/v1/projects/p/locations/l/publishers/anthropic/models/{MODEL}:rawPredict"
        body = {name: value for name, value in body.items() if value is not None}
        answer = httpx2.post(url, json=body, headers={"Authorization": "Bearer t"})
        assert (answer.status_code, answer.json()["type"]) == (400, "error")


class TestGemini:
    """Embeddings, by Google's SDK."""

    @pytest.fixture
    def vertex(self, simulator: SimulatorProcess) -> genai.Client:
        return genai.Client(
            vertexai=True,
            project="p",
            location="global",
            credentials=Credentials("t"),  # type: ignore[no-untyped-call]  # Google's own has no types
            http_options=genai_types.HttpOptions(
                base_url=simulator.url, api_version="v1", headers={"Authorization": "Bearer t"}
            ),
        )

    @pytest.mark.parametrize("model", ["gemini-embedding-2", "text-embedding-005"])
    def test_embeddings(self, vertex: genai.Client, model: str) -> None:
        config = genai_types.EmbedContentConfig(output_dimensionality=7, task_type="RETRIEVAL_QUERY")
        found = vertex.models.embed_content(model=model, contents="Hello", config=config)
        assert found.embeddings is not None
        assert [len(one.values or ()) for one in found.embeddings] == [7]

    def test_a_model_in_the_body_is_refused(self, simulator: SimulatorProcess) -> None:
        base = f"{simulator.url}/v1/projects/p/locations/global/publishers/google/models"
        body = {"model": "models/gemini-embedding-2", "content": {"parts": [{"text": "Hi"}]}}
        headers = {"Authorization": "Bearer t"}
        answer = httpx2.post(f"{base}/gemini-embedding-2:embedContent", json=body, headers=headers)
        assert answer.status_code == 400
        answer = httpx2.post(f"{base}/gemini-embedding-2:predict", json={"instances": []}, headers=headers)
        assert answer.status_code == 400
