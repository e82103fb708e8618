"""Body rules from a client's first byte on: heads that are known, and bodies that need a thread."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

import pytest
from twisted.internet.defer import Deferred

from mgw.exchange.offload import SMALL_BYTES
from tests.support.channels import post
from tests.support.exchanges import JSON
from tests.support.pipelines import Pipeline, answered
from tests.support.web_servers import WebServerHarness, at_once

T = TypeVar("T")

pytestmark = pytest.mark.usefixtures("heads")

CONFIG: Final = """
providers:
  main: {kind: openai, base_url: "https://o.example/v1", api_key: sk-a, body: [{remove: [user], cap: {n: 2}}]}
  gem: {kind: gemini, base_url: "https://gem.example/v1beta", api_key: AIza-b, body: [{set: {labels: null}}]}
defaults: {openai_dialect: main, gemini_dialect: gem}
"""
PATH: Final = "/v1/chat/completions"


@pytest.mark.parametrize("model", [b"gpt-x", b"main/gpt-x"])
@pytest.mark.parametrize("size", [1, 20_000, SMALL_BYTES, 300_000])
def test_each_request_of_a_known_head_is_changed(model: bytes, size: int) -> None:
    harness = WebServerHarness(pipeline=Pipeline(CONFIG))
    for number in range(4):
        pad = b"%d" % number * size
        harness.send(
            post(
                b'{"model":"%b","n":3,"pad":"%b","user":"u"}' % (model, pad),
                "x-api-key: edge",
                JSON,
                path=PATH,
            )
        )
        sent = harness.connection.received.rpartition(b"\r\n\r\n")[2]
        assert sent == b'{"model":"gpt-x","n":2,"pad":"%b"}' % pad
        harness.connection.send(answered())
        assert harness.observer.events[-1].body_rules == 1


def test_only_a_large_body_takes_a_thread() -> None:
    harness = WebServerHarness(pipeline=Pipeline(CONFIG))
    done: list[int] = []

    def offload(work: Callable[[], T], /) -> Deferred[T]:
        done.append(1)
        return at_once(work)

    harness.server.offload = offload
    for model in (b"gpt-x", b"main/gpt-x"):
        for size in (100, SMALL_BYTES - 100, SMALL_BYTES + 1):
            for _ in range(3):
                body = b'{"model":"%b","n":3,"pad":"%b"}' % (model, b"x" * size)
                done.clear()
                harness.send(post(body, "x-api-key: edge", JSON, path=PATH))
                harness.connection.send(answered())
                assert bool(done) is (size > SMALL_BYTES)


def test_a_known_head_with_nothing_to_change_keeps_its_bytes() -> None:
    harness = WebServerHarness(pipeline=Pipeline(CONFIG))
    for body in (b'{ "model":"gpt-x" }', b'{"n":1, "model":"gpt-x"}', b'{"model":"gpt-x","x":{"user":1}}'):
        harness.send(post(body, "x-api-key: edge", JSON, path=PATH))
        assert harness.connection.received.endswith(b"\r\n\r\n" + body)
        harness.connection.send(answered())
        assert harness.observer.events[-1].body_rules == 0


def test_a_model_in_the_path_has_its_rules() -> None:
    harness = WebServerHarness(pipeline=Pipeline(CONFIG))
    for _ in range(3):
        harness.send(post(b"{ }", "x-api-key: edge", JSON, path="/v1beta/models/g:generateContent"))
        assert harness.connection.received.endswith(b'\r\n\r\n{"labels":null }')
        harness.connection.send(answered())
