"""Token counts at hosts of clouds: refused betas, and models of other vendors, whoever asks."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import pytest

from mgw.credentials.signed_again import Again
from mgw.nouns.errors import Reason
from mgw.usage.event import Outcome
from mgw.wire.headers import value_of
from tests.memory.exchange import test_bedrock, test_vertex
from tests.memory.exchange.test_bedrock import RESPONSES, WHOLE, beta_headers, refused, requests
from tests.memory.exchange.test_wires import CONTENTS
from tests.support.deferreds import refusal_of
from tests.support.pipelines import Pipeline

PATH: Final = "/v1/messages/count_tokens"


def betas_of_bedrock(headers: Any, body: bytes) -> list[str] | None:
    inner = json.loads(b64decode(json.loads(body)["input"]["invokeModel"]["body"]))
    found: list[str] | None = inner.get("anthropic_beta")
    return found


def betas_of_vertex(headers: Any, body: bytes) -> list[str] | None:
    value = value_of(headers, b"anthropic-beta")
    return None if value is None else value.decode().split(",")


class Host(NamedTuple):
    """How one of the clouds is asked for a count, and answers."""

    config: str
    betas: Callable[[Any, bytes], list[str] | None]
    """Returns the betas that a request names."""
    refusal: bytes
    """Refuses one of them."""
    counted: bytes
    other_model: str
    """A model of another vendor."""
    words: str
    """What is said of it."""


HOSTS: Final = {
    "bedrock": Host(
        test_bedrock.CONFIG,
        betas_of_bedrock,
        refused("ValidationException", test_bedrock.BETA, b"400 Bad Request"),
        test_bedrock.answered(b'{"inputTokens":11}'),
        "us.meta.llama3-v1:0",
        "use a provider of kind openai_compat with auth: aws ",
    ),
    "vertex": Host(
        test_vertex.CONFIG,
        betas_of_vertex,
        test_vertex.answered(test_vertex.BETA, b"400 Bad Request"),
        test_vertex.answered(b'{"input_tokens":11}'),
        "gemini-2.5-pro",
        "use a provider of kind gemini",
    ),
}
each_host: Final = pytest.mark.parametrize("host", HOSTS.values(), ids=HOSTS)


def sent_betas(pipeline: Pipeline, host: Host) -> list[list[str] | None]:
    return [host.betas(headers, body) for _, headers, body in requests(pipeline)]


@each_host
def test_a_count_is_asked_for_once_more_without_the_betas_that_are_refused(host: Host) -> None:
    pipeline = Pipeline(host.config)
    client, _ = pipeline.ask(PATH, WHOLE, beta_headers(b"one-1,two-1", b"three-1"))
    pipeline.connection.send(host.refusal)
    assert not client.started
    assert sent_betas(pipeline, host) == [["one-1", "two-1", "three-1"], ["one-1", "three-1"]]
    pipeline.connection.send(host.counted)
    assert (client.status, client.body) == (200, b'{"input_tokens":11}')
    assert value_of(client.headers, b"x-gateway-estimated") is None
    event = pipeline.event()
    assert (event.attempts, event.status) == (2, Outcome.OK)
    assert event.dropped_fields == ("anthropic-beta[two-1]",)
    assert dict(pipeline.generation.signed_again.rows()) == {("host", Again.BETAS): 1}


@each_host
def test_what_a_count_is_refused_for_is_not_sent_to_that_model_for_ten_minutes(host: Host) -> None:
    pipeline = Pipeline(host.config)

    def count(path: str = PATH, model: bytes = b"m") -> list[str] | None:
        body = WHOLE.replace(b'"m"', b'"%b"' % model)
        client, _ = pipeline.ask(path, body, beta_headers(b"one,two-1"))
        [*_, found] = sent_betas(pipeline, host)
        if "two-1" in (found or ()):
            pipeline.connection.send(host.refusal)
        pipeline.connection.send(host.counted)
        assert client.status == 200
        pipeline.connection.close()
        return found

    assert [count(), count(), count(model=b"n")] == [["one", "two-1"], ["one"], ["one", "two-1"]]
    pipeline.clock.advance(599)
    assert count() == ["one"]
    pipeline.clock.advance(2)
    assert count() == ["one", "two-1"]


@each_host
def test_messages_do_not_send_what_a_count_was_refused_for(host: Host) -> None:
    pipeline = Pipeline(host.config)
    _ = pipeline.ask(PATH, WHOLE, beta_headers(b"one,two-1"))
    pipeline.connection.send(host.refusal)
    pipeline.connection.send(host.counted)
    _ = pipeline.ask("/v1/messages", WHOLE, beta_headers(b"one,two-1"))
    _, headers, body = requests(pipeline)[-1]
    in_body = json.loads(body).get("anthropic_beta")
    assert (in_body or host.betas(headers, body)) == ["one"]


@each_host
@pytest.mark.parametrize(
    ("path", "body"),
    [
        pytest.param(PATH, WHOLE, id="messages"),
        pytest.param("/v1/responses/input_tokens", RESPONSES, id="responses"),
        pytest.param("/v1beta/models/m:countTokens", CONTENTS, id="gemini"),
    ],
)
def test_tokens_for_models_of_other_vendors_are_not_counted(host: Host, path: str, body: bytes) -> None:
    pipeline = Pipeline(host.config)
    path = path.replace("/m:", f"/{host.other_model}:")
    client, ended = pipeline.ask(path, body.replace(b'"m"', f'"{host.other_model}"'.encode()))
    refusal = refusal_of(ended)
    assert (refusal.reason, refusal.status) == (Reason.UNSUPPORTED_BY_KIND, 400)
    assert host.words in refusal.message
    assert (client.started, pipeline.endpoint.connections) == (False, [])
    assert pipeline.event().attempts == 0
