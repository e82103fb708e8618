"""Anthropic's message batches through its SDK: nested models, addresses of results, and whose batch it is."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

import anthropic
import pytest
from anthropic.types.messages import MessageBatch, batch_create_params

from tests.support.deployment import EDGE, KEYS, OTHER, Deployment, key_of, providers
from tests.support.gateway import start_gateway
from tests.support.grid import ANTHROPIC, OPENAI
from tests.support.operations import ask

PATH: Final = "/v1/messages/batches"
ALIASES: Final = """
aliases: {smart: anthropic/m-1, second: other_anthropic/m-2, gpt: openai/m-3}
"""
SECOND: Final = OTHER + ANTHROPIC
SECOND_KEY: Final = f"other-{KEYS[ANTHROPIC]}"
HEADERS: Final = (b"x-api-key: " + EDGE.encode(), b"anthropic-version: 2023-06-01")


@pytest.fixture(scope="module")
def deployment_config() -> str:
    return ALIASES


@pytest.fixture(autouse=True)
def _cleared(deployment: Deployment) -> None:
    deployment.simulator.clear()


def asking(*models: str) -> list[batch_create_params.Request]:
    """A request for each model."""
    return [
        {
            "custom_id": f"r{index}",
            "params": {
                "model": model,
                "max_tokens": 16,
                "messages": [{"role": "user", "content": f"Hi {index}"}],
            },
        }
        for index, model in enumerate(models)
    ]


def told(client: anthropic.Anthropic, batch: str, **options: Any) -> list[tuple[str, str, str]]:
    """Whose result it is, its model and its text, line by line."""
    found = []
    for line in client.messages.batches.results(batch, **options):
        assert line.result.type == "succeeded"
        (block,) = line.result.message.content
        assert block.type == "text"
        found.append((line.custom_id, line.result.message.model, block.text))
    return found


def keys(deployment: Deployment) -> set[str | None]:
    """The keys that the provider was shown, none of which is the client's."""
    seen = deployment.simulator.requests()
    assert EDGE not in repr(seen)
    assert {request.value("x-provider") for request in seen} == {None}
    assert [request.target for request in seen if "provider=" in request.target] == []
    return {key_of(request, ANTHROPIC) for request in seen}


def test_a_batch_lives_its_life(deployment: Deployment) -> None:
    batches = deployment.by_anthropic.messages.batches
    batch = batches.create(requests=asking("smart", "anthropic/m-2", "m-3"))
    (request,) = deployment.simulator.requests()
    assert [one["params"]["model"] for one in request.json()["requests"]] == ["m-1", "m-2", "m-3"]
    assert batches.retrieve(batch.id).processing_status == "ended"
    assert batch.id in [one.id for one in batches.list(limit=50)]
    assert told(deployment.by_anthropic, batch.id) == [
        ("r0", "m-1", "You said: Hi 0"),
        ("r1", "m-2", "You said: Hi 1"),
        ("r2", "m-3", "You said: Hi 2"),
    ]
    assert batches.cancel(batch.id).cancel_initiated_at
    assert batches.delete(batch.id).id == batch.id
    assert keys(deployment) == {KEYS[ANTHROPIC]}
    events = deployment.events(7)
    assert {(event["provider"], event["modality"], event["status"]) for event in events} == {
        (ANTHROPIC, "platform", "ok")
    }
    assert (events[0]["model"], events[0]["upstream_model"]) == ("smart", "m-1")
    assert all("tokens_in" not in event for event in events)


def test_every_address_of_results_leads_to_the_gateway(deployment: Deployment) -> None:
    batches = deployment.by_anthropic.messages.batches
    made = batches.create(requests=asking("smart"))
    wanted = f"{deployment.gateway.url}{PATH}/{made.id}/results"
    listed = next(one for one in batches.list() if one.id == made.id)
    found: Sequence[MessageBatch] = (made, batches.retrieve(made.id), listed, batches.cancel(made.id))
    assert [batch.results_url for batch in found] == [wanted] * 4
    deployment.events(4)


def test_the_sdks_other_entrance_is_the_same(deployment: Deployment) -> None:
    batches = deployment.by_anthropic.beta.messages.batches
    made = batches.create(requests=[{**one} for one in asking("smart")], betas=["x-2026-01-01"])  # type: ignore[typeddict-item]  # the same shape
    assert [line.custom_id for line in batches.results(made.id)] == ["r0"]
    (request, *_) = deployment.simulator.requests()
    assert "x-2026-01-01" in (request.value("anthropic-beta") or "")
    assert keys(deployment) == {KEYS[ANTHROPIC]}
    deployment.events(3)


def test_nothing_but_the_models_changes_on_the_way_up(deployment: Deployment) -> None:
    body = (
        b'{ "model": "smart", "requests" : [\n {"custom_id":"a", "params": { "model" : "sm\\u0061rt", '
        b'"max_tokens":1.6e1 ,\t"messages":[{"role":"user","content":"\\u0048i","model":"smart"}] } },\r\n'
        b' {"params":{"max_tokens":16,"messages":[{"role":"user","content":"smart"}],'
        b'"model":"anthropic/m-\\u0032"},"custom_id":"b"} ], "own":[1.0e0, {"params":{"model":"smart"}}] }  '
    )
    ask(deployment.gateway.port, PATH, *HEADERS, body=body)
    sent = body.replace(b'"model" : "sm\\u0061rt"', b'"model" : "m-1"')
    assert deployment.request().body == sent.replace(b'"anthropic/m-\\u0032"', b'"m-2"')
    deployment.event()


def test_a_body_without_a_name_to_change_is_the_clients_bytes(deployment: Deployment) -> None:
    body = json.dumps({"requests": asking("m-1", "m-2")}, indent=3).encode()
    response = ask(deployment.gateway.port, PATH, *HEADERS, body=body)
    assert response.status == 200
    assert deployment.request().body == body
    deployment.event()


@pytest.mark.parametrize("below", ["", "/{}", "?limit=2"])
def test_nothing_but_the_address_changes_on_the_way_down(deployment: Deployment, below: str) -> None:
    made = deployment.by_anthropic.messages.batches.create(requests=asking("smart"))
    path = PATH + below.format(made.id)
    direct = ask(deployment.simulator.port, path, b"x-api-key: k-canary", HEADERS[1])
    response = ask(deployment.gateway.port, path, *HEADERS)
    theirs = deployment.simulator.url.encode() + PATH.encode()
    assert theirs in direct.body
    assert response.body == direct.body.replace(theirs, b"http://gateway" + PATH.encode())
    assert response.value(b"content-length") == b"%d" % len(response.body)
    deployment.events(2)


def test_the_second_provider_is_chosen_by_a_header(deployment: Deployment) -> None:
    batches = deployment.by_anthropic.messages.batches
    made = batches.create(requests=asking("second", "m-9"), extra_headers={"X-Provider": SECOND})
    assert made.results_url == f"{deployment.gateway.url}{PATH}/{made.id}/results?provider={SECOND}"
    client = deployment.by_anthropic.with_options(default_headers={"X-Provider": SECOND})
    assert [line[1] for line in told(client, made.id)] == ["m-2", "m-9"]
    assert keys(deployment) == {SECOND_KEY}
    assert {event["provider"] for event in deployment.events(3)} == {SECOND}


def test_the_second_provider_is_chosen_by_the_query(deployment: Deployment) -> None:
    batches = deployment.by_anthropic.messages.batches
    made = batches.create(requests=asking("second"), extra_query={"provider": SECOND, "own": "a b"})
    (request,) = deployment.simulator.requests()
    assert request.target in (f"{PATH}?own=a+b", f"{PATH}?own=a%20b")
    assert batches.retrieve(made.id, extra_query={"provider": SECOND}).results_url == made.results_url
    client = deployment.by_anthropic.with_options(default_query={"provider": SECOND})
    assert [line[1] for line in told(client, made.id)] == ["m-2"]
    assert keys(deployment) == {SECOND_KEY}
    assert {event["provider"] for event in deployment.events(4)} == {SECOND}


def test_the_address_of_results_says_whose_they_are(deployment: Deployment) -> None:
    batches = deployment.by_anthropic.messages.batches
    made = batches.create(requests=asking("second"), extra_headers={"X-Provider": SECOND})
    assert made.results_url
    deployment.simulator.clear()
    response = ask(deployment.gateway.port, made.results_url.removeprefix(deployment.gateway.url), *HEADERS)
    assert [json.loads(line)["custom_id"] for line in response.body.splitlines()] == ["r0"]
    assert response.value(b"content-type") == b"application/x-jsonl"
    assert keys(deployment) == {SECOND_KEY}
    deployment.events(2)


@pytest.mark.parametrize(
    ("models", "provider", "index"),
    [
        (("smart", "second"), None, 1),
        (("second",), None, 0),
        (("m-1", "m-1", "gpt"), None, 2),
        (("other_anthropic/m-1", "smart", "second"), SECOND, 1),
    ],
    ids=["two providers", "not the default", "another family", "not the chosen one"],
)
def test_a_model_of_another_provider_is_refused_by_its_index(
    deployment: Deployment, models: tuple[str, ...], provider: str | None, index: int
) -> None:
    headers = {} if provider is None else {"X-Provider": provider}
    with pytest.raises(anthropic.BadRequestError) as refused:
        deployment.by_anthropic.messages.batches.create(requests=asking(*models), extra_headers=headers)
    assert f"requests[{index}].params.model" in refused.value.message
    assert refused.value.type == "invalid_request_error"
    assert deployment.simulator.requests() == []
    event = deployment.event()
    assert (event["status"], event["http_status"]) == ("rejected", 400)


@pytest.mark.parametrize(
    ("provider", "error"), [(OPENAI, anthropic.BadRequestError), ("nobody", anthropic.NotFoundError)]
)
def test_only_a_provider_of_the_family_takes_batches(
    deployment: Deployment, provider: str, error: type[anthropic.APIStatusError]
) -> None:
    with pytest.raises(error) as refused:
        deployment.by_anthropic.messages.batches.create(
            requests=asking("m-1"), extra_headers={"X-Provider": provider}
        )
    assert provider in refused.value.message
    assert deployment.simulator.requests() == []
    deployment.event()


def test_addresses_that_stay_are_the_providers_bytes(deployment: Deployment) -> None:
    with start_gateway(providers(deployment.simulator.url) + "rewrite_urls: false\n") as gateway:
        plain = Deployment(deployment.simulator, gateway, "nobody-canary")
        made = plain.by_anthropic.messages.batches.create(requests=asking("m-1"))
        assert made.results_url == f"{deployment.simulator.url}{PATH}/{made.id}/results"
        response = ask(gateway.port, f"{PATH}/{made.id}", *HEADERS, b"Accept-Encoding: gzip")
        assert deployment.simulator.requests()[-1].value("accept-encoding") == "gzip"
        assert response.status == 200
