"""Every row of the route table that is a WebSocket: what its provider is asked for."""

from __future__ import annotations

import pytest

from mgw.routing.match import RouteTable
from mgw.routing.model_source import ModelAt
from mgw.routing.route import Treatment
from mgw.routing.routes import ROUTES
from mgw.wire.target import split_target
from tests.support.memory_sessions import FIRST_MESSAGE, LIVE, SETUP, SessionHarness
from tests.support.raw_sessions import frame

TABLE = RouteTable(ROUTES)
SERVICE = "/ws/google.ai.generativelanguage.{}.GenerativeService.BidiGenerateContent"
CREATION = frame(0x81, b'{"event_type":"interaction.create","model":"gem/m"}')
ASKED = {
    "/v1/realtime?model=fast&x=1": "/v1/realtime?model=gpt-b&x=1",
    "/v1/realtime?call_id=c-1&provider=main": "/v1/realtime?call_id=c-1",
    "/v1/realtime/translations?model=fast": "/v1/realtime/translations?model=gpt-b",
    "/v1/live/sessions": "/v1/live/sessions",
    "/v1/live/sessions/s-1/attach": "/v1/live/sessions/s-1/attach",
    "/v1/live/sessions/s-1/fork?provider=main": "/v1/live/sessions/s-1/fork",
    "/v1/responses/ws?model=fast": "/v1/responses?model=gpt-b",
    "/v1/responses": "/v1/responses",
    "/v1beta/models/gem/m:bidiGenerateContent": "/v1beta/models/m:bidiGenerateContent",
    "/v1/models/gem%2Fm:bidiGenerateContent": "/v1beta/models/m:bidiGenerateContent",
    "/v1beta/interactions/live": "/v1beta/interactions/live",
    "/v1/interactions/live": "/v1beta/interactions/live",
    "/v1alpha/interactions/live": "/v1beta/interactions/live",
    **{
        SERVICE.format(version) + constrained: SERVICE.format(version) + constrained
        for version in ("v1beta", "v1", "v1alpha")
        for constrained in ("", "Constrained")
    },
}


def row_of(asked: str) -> str:
    """Return the name of the row that serves a path."""
    path, query = split_target(asked.encode())
    return TABLE.match("GET", path.decode(), query, []).route.name


@pytest.mark.parametrize(("asked", "upstream"), ASKED.items(), ids=list(ASKED))
def test_the_provider_is_asked_for_its_own_path_and_model(asked: str, upstream: str) -> None:
    route = next(route for route in ROUTES if route.name == row_of(asked))
    harness = SessionHarness(asked)
    if route.models.at is ModelAt.MESSAGE:
        first = (
            CREATION if "/interactions/" in asked else SETUP if asked.startswith("/ws/") else FIRST_MESSAGE
        )
        harness.channel.dataReceived(first)
    assert harness.provider.received.startswith(f"GET {upstream} HTTP/1.1\r\n".encode())


def test_these_are_all_of_them() -> None:
    rows = {route.name for route in ROUTES if route.treatment is Treatment.REALTIME}
    assert {row_of(asked) for asked in ASKED} == rows


@pytest.mark.parametrize(
    ("path", "status", "said"),
    [
        ("/v1/realtime", 400, b"requires a model"),
        ("/v1/realtime?model=", 400, b"the model is empty"),
        ("/v1/realtime?model", 400, b"the model is empty"),
        ("/v1/realtime/translations?model=", 400, b"the model is empty"),
        ("/v1/responses/ws?model=", 400, b"the model is empty"),
        ("/v1/realtime?model=main/", 404, b"names a provider but no model"),
        ("/v1beta/models/:bidiGenerateContent", 400, b"the model is empty"),
        ("/v1beta/models/models%2F:bidiGenerateContent", 400, b"the model is empty"),
        ("/v1beta/models/gem%2F:bidiGenerateContent", 404, b"names a provider but no model"),
    ],
)
def test_an_upgrade_to_a_model_with_an_empty_name_is_refused_as_that(
    path: str, status: int, said: bytes
) -> None:
    harness = SessionHarness(path)
    assert harness.status() == status
    assert said in harness.received()
    assert not harness.pipeline.endpoint.connections


@pytest.mark.parametrize("message", [b'{"setup":{"model":""}}', b'{"setup":{"model":"models/"}}'])
def test_a_first_message_with_an_empty_model_is_refused_as_that(message: bytes) -> None:
    harness = SessionHarness(f"{LIVE}?key=edge")
    harness.take_head()
    harness.channel.dataReceived(frame(0x82, message))
    (said,) = harness.client_frames()
    assert (said.code, said.payload[2:]) == (1008, b"the model is empty")


@pytest.mark.parametrize(
    "path", [f"{LIVE}?key=edge", "/v1beta/models/models%2Fgem%2Fm:bidiGenerateContent?key=edge"]
)
def test_the_event_of_a_live_session_has_the_models_id_alone(path: str) -> None:
    harness = SessionHarness(path)
    if path.startswith(LIVE):
        harness.channel.dataReceived(SETUP)
    harness.switch()
    harness.leave()
    harness.turn()
    assert harness.event.upstream_model == "m"
