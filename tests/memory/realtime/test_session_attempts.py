"""A session whose provider fails before it has switched protocols is opened anew, or with the next target."""

from __future__ import annotations

import gc

import pytest

from tests.support.in_memory.measure import collector_off
from tests.support.memory_sessions import RESPONSES, SessionHarness
from tests.support.raw_sessions import TEXT, frame

CONFIG = """
providers:
  one: {kind: openai, base_url: "https://one.example/v1", api_key: sk-1}
  mute: {kind: openai, base_url: "https://mute.example/v1", api_key: sk-2, capabilities: {realtime: false}}
  claude: {kind: anthropic, base_url: "https://claude.example/v1", api_key: sk-3}
  two: {kind: openai, base_url: "https://two.example/v1", api_key: sk-4}
defaults: {openai_dialect: one}
aliases: {both: [one/voice-a, mute/x, claude/y, two/voice-b]}
retries: {attempts: 0}
edge_auth: {enabled: true, keys: [edge]}
"""
BUSY = b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n"
PATH = "/v1/realtime?model=both"


def hosts(harness: SessionHarness) -> list[bytes]:
    """Whom the gateway has asked for a session."""
    heads = [connection.received for connection in harness.pipeline.endpoint.connections]
    return [head.partition(b"Host: ")[2].partition(b".example")[0] for head in heads]


def test_a_refused_handshake_leads_to_the_next_target_that_has_sessions() -> None:
    harness = SessionHarness(PATH, CONFIG)
    harness.provider.send(BUSY)
    assert hosts(harness) == [b"one", b"two"]
    assert b"GET /v1/realtime?model=voice-b " in harness.provider.received
    assert b"Bearer sk-4" in harness.provider.received
    harness.switch()
    assert harness.take_head().startswith(b"HTTP/1.1 101 ")
    harness.leave()
    harness.turn()
    event = harness.event
    assert (event.provider, event.upstream_model, event.attempts) == ("two", "voice-b", 2)


def test_a_connection_that_breaks_leads_to_the_next_target() -> None:
    harness = SessionHarness(PATH, CONFIG)
    harness.provider.reset()
    assert hosts(harness) == [b"one", b"two"]


def test_a_refusal_of_the_request_is_the_clients() -> None:
    harness = SessionHarness(PATH, CONFIG)
    harness.provider.send(b"HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n")
    assert harness.take_head().startswith(b"HTTP/1.1 404 ")
    assert harness.is_free()


def test_the_last_refusal_is_the_clients() -> None:
    harness = SessionHarness(PATH, CONFIG)
    harness.provider.send(BUSY)
    harness.provider.send(BUSY.replace(b"503", b"529"))
    assert harness.take_head().startswith(b"HTTP/1.1 529 ")
    assert (harness.event.provider, harness.event.attempts) == ("two", 2)
    assert harness.is_free()


def test_a_handshake_is_tried_again_after_a_pause() -> None:
    harness = SessionHarness(PATH, CONFIG.replace("attempts: 0", "attempts: 1"))
    harness.generation.chance = lambda: 1.0
    harness.provider.send(BUSY)
    assert hosts(harness) == [b"one"]
    harness.clock.advance(0.5)
    assert hosts(harness) == [b"one", b"one"]
    harness.switch()
    assert harness.take_head().startswith(b"HTTP/1.1 101 ")


@pytest.mark.parametrize("seconds", [0.1, 1])
def test_a_client_that_leaves_meanwhile_ends_it(seconds: float) -> None:
    harness = SessionHarness(PATH, CONFIG.replace("attempts: 0", "attempts: 1"))
    harness.provider.send(BUSY)
    harness.clock.advance(seconds)
    harness.leave()
    harness.turn()
    assert harness.is_free()
    assert harness.event.http_status == 499


def test_a_first_message_goes_to_the_next_target_with_its_model() -> None:
    harness = SessionHarness(RESPONSES, CONFIG)
    assert harness.take_head().startswith(b"HTTP/1.1 101 ")
    harness.channel.dataReceived(frame(TEXT, b'{"type":"response.create","model":"both"}'))
    harness.provider.send(BUSY)
    harness.switch()
    (sent,) = harness.provider_frames()
    assert b'"model":"voice-b"' in sent.payload
    harness.channel.dataReceived(frame(TEXT, b'{"type":"response.create","model":"both"}'))
    (sent,) = harness.provider_frames()
    assert b'"model":"voice-b"' in sent.payload


@pytest.mark.parametrize("answer", [BUSY, b"HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n"])
def test_a_refused_session_leaves_nothing_of_its_handshake_to_the_collector(answer: bytes) -> None:
    with collector_off():
        for _ in range(3):
            harness = SessionHarness(PATH, CONFIG)
            harness.provider.send(answer)
            if answer is BUSY:
                harness.provider.send(answer)
            assert harness.take_head().startswith(answer[:12])
        left = {type(one).__name__ for one in gc.get_objects()}
    assert not {"_ServerProtocol", "_ClientProtocol"} & left
