"""Where a session goes is remembered for the next one that is like it, and changes nothing for that one."""

from __future__ import annotations

import re
from typing import Final

import pytest

from tests.support.configs import THREE_FAMILIES
from tests.support.memory_sessions import REALTIME, SessionHarness
from tests.support.raw_sessions import handshake
from tests.support.web_servers import WebServerHarness

KEYS: Final = """
edge_auth:
  enabled: true
  keys: [{name: alice, key: edge}, {name: bob, key: other, models: ["gem/*"]}]
"""
LIST: Final = """
providers:
  one: {kind: openai, base_url: "https://one.example/v1", api_key: sk-1}
  two: {kind: openai, base_url: "https://two.example/v1", api_key: sk-2}
aliases: {both: [one/a, two/b]}
retries: {attempts: 0}
edge_auth: {enabled: true, keys: [edge]}
"""
PATHS: Final = {
    "a model": REALTIME,
    "an alias": "/v1/realtime?model=fast",
    "a provider": "/v1/realtime?model=main%2Fgpt-c&x=1",
    "a model in the path": "/v1beta/models/gem/good:bidiGenerateContent",
    "a key in the query": "/v1beta/models/gem/good:bidiGenerateContent?key=edge",
}


def ask(harness: WebServerHarness, path: str, key: str | None = "edge") -> None:
    """Have another client ask for a session."""
    harness.connect()
    harness.channel.dataReceived(handshake(path, key))


def asked(harness: SessionHarness) -> bytes:
    """Return what the provider was asked, but for the random key."""
    found, count = re.subn(rb"(?<=Sec-WebSocket-Key: )\S+", b"KEY", harness.provider.received)
    assert count == 1
    return found


@pytest.mark.parametrize("path", PATHS.values(), ids=PATHS)
def test_a_session_like_an_earlier_one_asks_the_provider_for_the_same(path: str) -> None:
    harness = SessionHarness(path, THREE_FAMILIES, "edge")
    first = asked(harness)
    ask(harness, path)
    assert len(harness.pipeline.endpoint.connections) == 2
    assert asked(harness) == first
    harness.switch()
    harness.leave()
    harness.turn()
    remembered = harness.observer.events[-1]
    harness.generation.memo.is_on = False
    harness.generation.memo.targets.clear()
    ask(harness, path)
    assert asked(harness) == first
    harness.switch()
    harness.leave()
    harness.turn()
    forgotten = harness.observer.events[-1]
    for field in ("route", "provider", "model", "upstream_model", "family"):
        assert getattr(remembered, field, None) == getattr(forgotten, field, None)


def test_a_client_may_not_go_where_only_another_one_may() -> None:
    harness = SessionHarness("/v1/realtime?model=main/gpt-b", THREE_FAMILIES + KEYS)
    assert harness.provider.received
    ask(harness, "/v1/realtime?model=main/gpt-b", "other")
    assert harness.status() == 404
    assert len(harness.pipeline.endpoint.connections) == 1


def test_the_next_target_of_a_list_is_asked_for_its_own_model_each_time() -> None:
    harness = SessionHarness("/v1/realtime?model=both", LIST)
    for _ in range(2):
        assert b"GET /v1/realtime?model=a " in harness.provider.received
        harness.provider.send(b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n")
        assert b"GET /v1/realtime?model=b " in harness.provider.received
        ask(harness, "/v1/realtime?model=both")
