"""Keys in a subprotocol, as browsers send them: the gateway's opens it, the client's own goes on."""

from __future__ import annotations

import pytest

from tests.support.memory_sessions import REALTIME, SessionHarness

KEYLESS = """
providers:
  main: {kind: openai, base_url: "https://openai.example/v1"}
  gem: {kind: gemini, base_url: "https://gemini.example/v1beta", api_key: AIza-0004}
defaults: {openai_dialect: main, gemini_dialect: gem}
"""
CLOSED = f"{KEYLESS}edge_auth: {{enabled: true, keys: [edge]}}\n"
OWN = "openai-insecure-api-key.sk-own"
EDGE = "openai-insecure-api-key.edge"


def seen_by_the_provider(key: str, offer: str) -> list[bytes]:
    """Return the lines of the head that the provider got, for a client that offers these subprotocols."""
    harness = SessionHarness(REALTIME, CLOSED, key, f"Sec-WebSocket-Protocol: {offer}")
    return harness.provider.received.split(b"\r\n")


@pytest.mark.parametrize("offer", [f"realtime, {OWN}", f"{OWN},realtime"])
def test_the_clients_own_key_is_sent_to_a_provider_without_one(offer: str) -> None:
    lines = seen_by_the_provider("edge", offer)
    assert b"Authorization: Bearer sk-own" in lines
    assert b"Sec-WebSocket-Protocol: realtime" in lines
    assert b"insecure" not in b"".join(lines)


def test_the_gateways_key_opens_the_gate_and_is_sent_to_nobody() -> None:
    harness = SessionHarness(REALTIME, CLOSED, None, f"Sec-WebSocket-Protocol: realtime, {EDGE}")
    assert harness.status() == 401  # the provider has no key, and the client sent none for it
    assert not harness.pipeline.endpoint.connections
    lines = seen_by_the_provider("sk-own", f"realtime, {EDGE}")
    assert b"Authorization: Bearer sk-own" in lines
    assert b"edge" not in b"".join(lines)


def test_a_wrong_key_opens_nothing() -> None:
    harness = SessionHarness(REALTIME, CLOSED, None, f"Sec-WebSocket-Protocol: realtime, {OWN}")
    assert harness.status() == 401
    assert not harness.pipeline.endpoint.connections


def test_a_key_of_openais_does_not_go_to_another_family() -> None:
    text = KEYLESS.replace("api_key: AIza-0004", "auth: client_bearer")
    path = "/v1beta/models/gem/m:bidiGenerateContent"
    harness = SessionHarness(path, text, None, f"Sec-WebSocket-Protocol: {OWN}")
    assert b"sk-own" not in b"".join(one.received for one in harness.pipeline.endpoint.connections)


AZURE = 'kind: azure_openai, base_url: "https://a.openai.azure.com/openai/v1"'


@pytest.mark.parametrize("header", ["api-key", "Api-Key"])
def test_azures_header_carries_a_key_too(header: str) -> None:
    text = CLOSED.replace('kind: openai, base_url: "https://openai.example/v1"', AZURE)
    opened = SessionHarness(REALTIME, text.replace('/v1"', '/v1", api_key: sk-4'), None, f"{header}: edge")
    lines = opened.provider.received.split(b"\r\n")
    assert b"api-key: sk-4" in lines
    assert b"edge" not in opened.provider.received
    own = SessionHarness(REALTIME, text, "edge", f"{header}: sk-own")
    assert b"api-key: sk-own" in own.provider.received.split(b"\r\n")


def test_a_key_in_azures_header_does_not_go_to_openai() -> None:
    harness = SessionHarness(REALTIME, CLOSED, "edge", "api-key: sk-own")
    assert harness.status() == 401
    assert not harness.pipeline.endpoint.connections
