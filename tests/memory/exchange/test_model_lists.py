"""A list of models beside the one, which some hosts take: checked, renamed and priced like it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mgw.exchange import answering_model
from tests.memory.exchange.test_prices import COMPLETION, streamed
from tests.support.configs import THREE_FAMILIES
from tests.support.pipelines import Pipeline, answered
from tests.support.translation import failure_of, said

PRICES = """
prices:
  rows:
    - {model: one, provider: host, input: 1, output: 1}
    - {model: meta-llama/llama-4, provider: host, input: 5, output: 5}
"""
TEXT = THREE_FAMILIES + PRICES
USAGE = {"prompt_tokens": 1000, "completion_tokens": 1000, "total_tokens": 2000}
LIST = b'{"model":"host/one", "models": [ "slashed/name" ,"host/two", "other" ],"messages":[]}'
SENT = b'{"model":"one", "models": [ "meta-llama/llama-4" ,"two", "other" ],"messages":[]}'


def answer(model: str) -> dict[str, Any]:
    return {**COMPLETION, "model": model, "usage": USAGE}


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/completions", "/v1/responses"])
def test_each_entry_of_a_list_is_renamed(path: str) -> None:
    pipeline = Pipeline(
        TEXT.replace("api_key: sk-host-0002", "api_key: sk-host-0002, speaks: [chat, responses]")
    )
    for _ in range(3):
        client, _done = pipeline.ask(path, LIST)
        assert pipeline.connection.received.endswith(b"\r\n\r\n" + SENT)
        pipeline.connection.send(said(answer("one")))
        assert client.status == 200


def test_a_list_without_anything_to_rename_goes_on_as_it_came() -> None:
    pipeline = Pipeline(TEXT.replace("openai_dialect: main", "openai_dialect: host"))
    body = (
        b'{"model":"one","models":["two",1,null,"three"],"messages":[{"content":"\\"models\\""}],"models":[]}'
    )
    pipeline.ask(body=body)
    assert pipeline.received()[2] == body


def test_an_entry_of_another_provider_is_refused() -> None:
    pipeline = Pipeline(TEXT)
    _, done = pipeline.ask(body=b'{"model":"host/one","models":["host/two","smart"],"messages":[]}')
    refusal = failure_of(done)
    assert (refusal.status, refusal.param) == (400, "models[1]")
    assert "provider 'claude'" in refusal.message
    assert not pipeline.endpoint.connections


def test_another_kind_of_provider_gets_its_list_as_it_came() -> None:
    pipeline = Pipeline(TEXT)
    body = b'{"model":"gpt-b","models":["smart","host/x"],"messages":[]}'
    pipeline.ask(body=body)
    assert pipeline.received()[2] == body


@pytest.mark.parametrize("in_pieces", [False, True])
@pytest.mark.parametrize(
    ("said_model", "model", "cost"),
    [
        ("one", "one", 0.002),
        ("meta-llama/llama-4", "meta-llama/llama-4", 0.01),
        ("somebody/else", "one", 0.002),
        ("two", "two", None),
    ],
)
def test_the_model_that_answers_is_named_and_priced(
    said_model: str, model: str, cost: float | None, in_pieces: bool
) -> None:
    for stream in (False, True):
        pipeline = Pipeline(TEXT)
        pipeline.ask(body=LIST)
        whole = json.dumps(answer(said_model)).encode()
        if stream:
            text = json.dumps({**answer(said_model), "object": "chat.completion.chunk"}).encode()
            pieces = [b"data: " + text[:40], text[40:] + b"\n\n", b"data: [DONE]\n\n"]
            pipeline.connection.send(streamed(*pieces))
        elif in_pieces:
            pipeline.connection.send(said(answer(said_model))[:-30])
            pipeline.connection.send(whole[-30:])
        else:
            pipeline.connection.send(said(answer(said_model)))
        event = pipeline.event()
        assert (event.model, event.upstream_model, event.cost_usd) == ("host/one", model, cost)


@pytest.mark.parametrize("more", [0, 1])
def test_so_much_of_an_answer_is_looked_at(more: int) -> None:
    pipeline = Pipeline(TEXT)
    pipeline.ask(body=LIST)
    model = b'"model":"two"'
    padding = b"x" * (answering_model._MAX_BYTES - len(b'{"id":"",') - len(model) + more)
    rest = json.dumps(answer("two")).encode().replace(b'"model": "two"', b'"x": 1')
    pipeline.connection.send(answered(b'{"id":"%b",%b,%b' % (padding, model, rest[1:])))
    assert pipeline.event().upstream_model == ("one" if more else "two")


def test_text_that_speaks_of_a_model_names_none() -> None:
    pipeline = Pipeline(TEXT)
    pipeline.ask(body=LIST)
    text = {"index": 0, "message": {"role": "assistant", "content": '"model":"two"'}}
    pipeline.connection.send(said({"choices": [text], **answer("one"), "id": "x"}))
    assert pipeline.event().upstream_model == "one"
