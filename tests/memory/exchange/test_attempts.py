"""What happens before the first byte to the client: other credentials, and connections that went stale."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mgw.usage.event import Outcome
from mgw.wire.headers import value_of
from tests.support.pipelines import Pipeline, answered

REFUSED = answered(b'{"error":{}}', b"401 Unauthorized")


@pytest.fixture
def token(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    path.write_text("token-1")
    return path


@pytest.fixture
def pipeline(token: Path) -> Pipeline:
    provider = f"{{kind: openai, base_url: 'https://h.example/v1', token_file: '{token}'}}"
    return Pipeline(f"providers: {{main: {provider}}}\ndefaults: {{openai_dialect: main}}")


def renew(token: Path, number: int) -> None:
    token.write_text(f"token-{number}")
    os.utime(token, ns=(number, number))


def test_a_refused_token_is_replaced_by_the_newer_one_of_its_file(pipeline: Pipeline, token: Path) -> None:
    client, _ = pipeline.ask()
    renew(token, 2)
    pipeline.connection.send(REFUSED)
    assert not client.started
    assert value_of(pipeline.received()[1], b"authorization") == b"Bearer token-1"
    first, second = pipeline.connection.received.split(b"POST ")[
        1:
    ]  # the refused answer was read whole: one connection
    assert second == first.replace(b"token-1", b"token-2")
    pipeline.connection.send(answered())
    assert (client.status, client.finished) == (200, True)
    assert (pipeline.event().attempts, pipeline.event().status) == (2, Outcome.OK)


def test_a_refused_answer_that_has_not_ended_costs_its_connection(pipeline: Pipeline, token: Path) -> None:
    client, _ = pipeline.ask()
    renew(token, 2)
    pipeline.connection.send(REFUSED[:-3])
    first, second = pipeline.endpoint.connections
    assert first.aborted
    second.send(answered())
    assert client.finished


def test_a_token_without_a_newer_one_gives_the_client_the_upstreams_401(pipeline: Pipeline) -> None:
    client, _ = pipeline.ask()
    pipeline.connection.send(REFUSED)
    assert (client.status, client.body) == (401, b'{"error":{}}')
    assert (pipeline.event().attempts, pipeline.event().status) == (1, Outcome.UPSTREAM_ERROR)


def test_a_token_is_replaced_once_however_often_its_file_changes(pipeline: Pipeline, token: Path) -> None:
    client, _ = pipeline.ask()
    renew(token, 2)
    pipeline.connection.send(REFUSED)
    renew(token, 3)
    pipeline.connection.send(REFUSED)
    assert (client.status, client.finished) == (401, True)
    assert pipeline.event().attempts == 2


def test_a_client_that_leaves_after_a_refused_token_stops_the_second_attempt(
    pipeline: Pipeline, token: Path
) -> None:
    _, work = pipeline.ask()
    renew(token, 2)
    pipeline.connection.send(REFUSED)
    work.cancel()
    assert pipeline.connection.aborted
    event = pipeline.event()
    assert (event.status, event.http_status, event.attempts) == (Outcome.CLIENT_ABORT, 499, 2)
    _ = work.addErrback(lambda _: None)


@pytest.mark.parametrize("headers", [[], [(b"Idempotency-Key", b"once")]])
def test_the_second_attempt_on_a_stale_connection_is_the_last(headers: list[tuple[bytes, bytes]]) -> None:
    pipeline = Pipeline()
    pipeline.ask(headers=headers)
    pipeline.connection.send(answered())
    _, work = pipeline.ask(headers=headers)
    pipeline.connection.close()
    pipeline.connection.close()
    assert len(pipeline.endpoint.connections) == 2
    assert work.called
    assert (pipeline.events[-1].attempts, pipeline.events[-1].http_status) == (2, 502)
    _ = work.addErrback(lambda _: None)
