"""Sessions of Gemini's Live API that lead to Vertex AI, which has them at other addresses."""

from __future__ import annotations

import json
from typing import Final

import pytest

from mgw.routing.realtime_routes import REALTIME_ROUTES
from tests.support.memory_sessions import LIVE, SessionHarness
from tests.support.raw_sessions import frame

CONFIG: Final = """
providers:
  vertex: {kind: gemini, base_url: "https://vertex.example/v1/publishers/google", api_key: g-canary}
  gem: {kind: gemini, base_url: "https://gem.example/v1beta", api_key: g-canary}
defaults: {gemini_dialect: vertex}
edge_auth: {enabled: true, keys: [edge]}
"""
SAID: Final = "realtime is not supported on Vertex AI: use the Gemini API, not provider 'vertex'"
SERVICES: Final = [route.path for route in REALTIME_ROUTES if route.call.from_origin]


def setup(model: str) -> bytes:
    return frame(0x82, json.dumps({"setup": {"model": model}}).encode())


@pytest.mark.parametrize(
    "path",
    [
        "/v1beta/models/m:bidiGenerateContent",
        "/v1beta/models/vertex/m:bidiGenerateContent",
        "/v1/models/vertex%2Fm:bidiGenerateContent",
    ],
)
def test_a_session_whose_path_has_the_model_is_refused_in_googles_shape(path: str) -> None:
    harness = SessionHarness(f"{path}?key=edge", CONFIG)
    assert harness.status() == 400
    body = harness.received().partition(b"\r\n\r\n")[2]
    error = json.loads(body)["error"]
    assert (error["code"], error["status"], error["message"]) == (400, "INVALID_ARGUMENT", SAID)
    assert not harness.pipeline.endpoint.connections
    assert (harness.event.status, harness.event.error) == ("rejected", "unsupported_provider_capability")


@pytest.mark.parametrize("model", ["m", "models/m", "models/vertex/m"])
@pytest.mark.parametrize("path", SERVICES)
def test_a_session_whose_first_message_has_the_model_is_closed(path: str, model: str) -> None:
    harness = SessionHarness(f"{path}?key=edge", CONFIG)
    assert harness.take_head().startswith(b"HTTP/1.1 101 ")
    harness.channel.dataReceived(setup(model))
    (close,) = harness.client_frames()
    assert (close.code, close.payload[2:].decode()) == (1008, SAID)
    assert not harness.pipeline.endpoint.connections


def test_a_first_message_may_name_another_provider() -> None:
    harness = SessionHarness(f"{LIVE}?key=edge", CONFIG)
    harness.channel.dataReceived(setup("models/gem/m"))
    assert harness.provider.received.startswith(f"GET {LIVE} HTTP/1.1\r\n".encode())


def test_a_session_of_another_family_is_refused_as_everywhere_else() -> None:
    harness = SessionHarness("/v1/realtime?model=vertex/m", CONFIG)
    assert harness.status() == 501
    assert b'"unsupported_realtime_bridge"' in harness.received()
