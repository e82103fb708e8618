"""What is refused before a realtime session, and how (contract 10.2 to 10.7)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import pytest
from websockets.sync.client import ClientConnection, connect
from websockets.typing import Subprotocol

from tests.support.gateway import GatewayProcess, start_gateway
from tests.support.raw_client import RawClient, RawResponse, request
from tests.support.raw_upstream import JSON, RawUpstream, Turn, counted
from tests.support.realtime import (
    EDGE,
    OPENAI_KEY,
    Traces,
    closed_port,
    has_no_gateway_key,
    realtime_config,
)
from tests.support.simulator import SimulatorProcess

KEY: Final = f"Authorization: Bearer {EDGE}".encode()
GOOGLE_KEY: Final = f"x-goog-api-key: {EDGE}".encode()
VERSION: Final = b"Sec-WebSocket-Version: 13"
ASKED: Final = (b"Upgrade: websocket", b"Connection: Upgrade", b"Sec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==")
VOICE: Final = "/v1/realtime?model=voice"
LIVE: Final = "/v1beta/models/live:bidiGenerateContent"
SUBPROTOCOL_KEY: Final = "openai-insecure-api-key."
PAGE: Final = b"Origin: https://app.example.com"
OTHER_PAGE: Final = b"Origin: https://elsewhere.example.com"
TOKENS: Final = ("stale-canary-token", "fresh-canary-token")


@pytest.fixture(scope="module")
def token_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("token") / "token"
    path.write_text(TOKENS[0])
    return path


@pytest.fixture(scope="module")
def gateway_config(simulator: SimulatorProcess, upstream: RawUpstream, token_file: Path) -> str:
    providers = f"""
  raw: {{kind: openai, base_url: "{upstream.url}/v1", api_key: {OPENAI_KEY}}}
  gone: {{kind: openai, base_url: "http://127.0.0.1:{closed_port()}/v1", api_key: {OPENAI_KEY}}}
  slow: {{kind: openai, base_url: "{simulator.url}/v1", api_key: {OPENAI_KEY}, timeouts: {{first_byte: 0.2}}}}
  turning: {{kind: openai, base_url: "{upstream.url}/v1", auth: token_file, token_file: "{token_file}"}}
"""
    return realtime_config(simulator.url, providers=providers)


@pytest.fixture(scope="module")
def traces(gateway: GatewayProcess) -> Traces:
    return Traces(gateway)


@pytest.fixture(scope="module")
def open_gateway(simulator: SimulatorProcess) -> Iterator[GatewayProcess]:
    """A gateway without edge auth, whose default has no sessions."""
    config = realtime_config(
        simulator.url, edge_auth=False, more="realtime: {origins: [https://app.example.com]}"
    )
    with (
        start_gateway(config.replace("openai_dialect: main", "openai_dialect: silent")) as process,
    ):
        yield process


@pytest.fixture(autouse=True)
def nothing_seen(simulator: SimulatorProcess) -> None:
    simulator.clear()


def ask(gateway: GatewayProcess, path: str, *headers: bytes) -> RawResponse:
    """Ask for a WebSocket, and return the refusal."""
    with RawClient(gateway.port) as client:
        assert client.send(request(None, *ASKED, *headers, path=path, method="GET"))
        return client.read_response("GET")


def session(gateway: GatewayProcess, path: str, *subprotocols: str, **headers: str) -> ClientConnection:
    offers = [Subprotocol(one) for one in subprotocols] or None
    url = f"ws://127.0.0.1:{gateway.port}{path}"
    return connect(url, subprotocols=offers, additional_headers=headers, compression=None, proxy=None)


def hear_created(connection: ClientConnection) -> None:
    assert json.loads(connection.recv())["type"] == "session.created"


def openai_error(response: RawResponse) -> dict[str, Any]:  # as JSON is
    error: dict[str, Any] = response.json()["error"]
    return error


class TestKeys:
    """Edge auth: a refusal leaves no event, and nothing goes upstream."""

    @pytest.mark.parametrize(
        ("path", "headers"),
        [
            pytest.param(VOICE, [], id="none"),
            pytest.param(VOICE, [b"Authorization: Bearer wrong"], id="bearer"),
            pytest.param(
                VOICE, [b"Sec-WebSocket-Protocol: realtime, openai-insecure-api-key.no"], id="subprotocol"
            ),
            pytest.param(f"{VOICE}&key={EDGE}", [], id="query of OpenAI"),
            pytest.param("/v1/responses", [b"Authorization: Bearer wrong"], id="responses"),
        ],
    )
    def test_a_wrong_key_is_a_401(
        self, gateway: GatewayProcess, simulator: SimulatorProcess, path: str, headers: list[bytes]
    ) -> None:
        response = ask(gateway, path, VERSION, *headers)
        assert (response.status, openai_error(response)["code"]) == (401, "invalid_api_key")
        assert not simulator.requests()

    @pytest.mark.parametrize("query", ["", "?key=wrong"])
    def test_a_wrong_key_for_gemini(
        self, gateway: GatewayProcess, simulator: SimulatorProcess, query: str
    ) -> None:
        response = ask(gateway, LIVE + query, VERSION)
        assert (response.status, response.json()["error"]["status"]) == (401, "UNAUTHENTICATED")
        assert not simulator.requests()

    @pytest.mark.parametrize("others", [["realtime"], ["realtime", "openai-beta.realtime-v1"], []])
    def test_a_key_in_a_subprotocol_never_goes_upstream(
        self, gateway: GatewayProcess, simulator: SimulatorProcess, traces: Traces, others: list[str]
    ) -> None:
        offers = [*others[:1], SUBPROTOCOL_KEY + EDGE, *others[1:]]
        with session(gateway, VOICE, *offers, Origin="https://elsewhere.example.com") as connection:
            assert connection.subprotocol == (others[0] if others else None)
            hear_created(connection)
        [seen] = simulator.requests()
        assert has_no_gateway_key(seen)
        assert seen.value("sec-websocket-protocol") == (",".join(others) or None)
        assert seen.value("authorization") == f"Bearer {OPENAI_KEY}"
        assert seen.value("origin") is None
        assert traces.event()["status"] == "ok"

    def test_a_key_in_the_query_opens_gemini_and_never_goes_upstream(
        self, gateway: GatewayProcess, simulator: SimulatorProcess, traces: Traces
    ) -> None:
        with session(gateway, f"{LIVE}?key={EDGE}") as connection:
            connection.send('{"setup": {"model": "models/live"}}')
            assert "setupComplete" in json.loads(connection.recv())
        [seen] = simulator.requests()
        assert has_no_gateway_key(seen)
        assert seen.target == "/v1beta/models/gemini-live:bidiGenerateContent"
        assert json.loads(seen.messages[0].data)["setup"]["model"] == "models/gemini-live"
        assert traces.event()["upstream_model"] == "gemini-live"


class TestOrigins:
    """Without edge auth a page needs to be known."""

    def test_an_unknown_page_is_a_403(
        self, open_gateway: GatewayProcess, simulator: SimulatorProcess
    ) -> None:
        response = ask(
            open_gateway, "/v1/realtime?model=voice", VERSION, OTHER_PAGE, b"Authorization: Bearer own"
        )
        assert (response.status, openai_error(response)["code"]) == (403, "origin_not_allowed")
        response = ask(open_gateway, LIVE, VERSION, OTHER_PAGE)
        assert (response.status, response.json()["error"]["status"]) == (403, "PERMISSION_DENIED")
        assert not simulator.requests()

    @pytest.mark.parametrize("headers", [{}, {"Origin": "https://app.example.com"}])
    def test_a_known_page_and_no_page(self, open_gateway: GatewayProcess, headers: dict[str, str]) -> None:
        with session(open_gateway, VOICE, **headers) as connection:
            hear_created(connection)


class TestModels:
    """Who is to be asked, and whether it may be."""

    @pytest.mark.parametrize(
        ("path", "status", "code"),
        [
            pytest.param("/v1/realtime", 400, None, id="no model"),
            pytest.param("/v1/realtime?model=", 400, None, id="an empty model"),
            pytest.param("/v1/realtime?model=main/", 404, "model_not_found", id="no model behind a prefix"),
            pytest.param("/v1/realtime?model=quiet", 501, "not_implemented", id="realtime off"),
            pytest.param("/v1/realtime?model=live", 501, "unsupported_realtime_bridge", id="Gemini"),
            pytest.param(
                "/v1/realtime?model=gem/m", 501, "unsupported_realtime_bridge", id="Gemini by prefix"
            ),
            pytest.param(
                "/v1/realtime?model=claude/m", 501, "not_implemented", id="Anthropic, which has none"
            ),
            pytest.param("/v1/responses/ws", 400, None, id="responses, no model"),
            pytest.param("/v1/responses/ws?model=live", 501, "unsupported_realtime_bridge", id="responses"),
        ],
    )
    def test_openai(
        self,
        gateway: GatewayProcess,
        simulator: SimulatorProcess,
        traces: Traces,
        path: str,
        status: int,
        code: str | None,
    ) -> None:
        response = ask(gateway, path, VERSION, KEY)
        assert (response.status, openai_error(response)["code"]) == (status, code)
        assert openai_error(response)["param"] == "model"
        assert response.value(b"x-should-retry") == b"false"
        event = traces.event()
        assert (event["status"], event["http_status"], event["transport"]) == (
            "rejected",
            status,
            "websocket",
        )
        assert not simulator.requests()

    @pytest.mark.parametrize(
        ("model", "reason"),
        [("voice", "UNSUPPORTED_REALTIME_BRIDGE"), ("host/m", "UNSUPPORTED_REALTIME_BRIDGE")],
    )
    def test_gemini(
        self, gateway: GatewayProcess, simulator: SimulatorProcess, traces: Traces, model: str, reason: str
    ) -> None:
        response = ask(gateway, f"/v1beta/models/{model}:bidiGenerateContent", VERSION, GOOGLE_KEY)
        error = response.json()["error"]
        assert (response.status, error["status"]) == (501, "UNIMPLEMENTED")
        assert error["details"][0]["reason"] == reason
        assert traces.event()["status"] == "rejected"
        assert not simulator.requests()

    def test_responses_fall_back_to_http_where_the_default_has_no_sessions(
        self, open_gateway: GatewayProcess, simulator: SimulatorProcess
    ) -> None:
        response = ask(open_gateway, "/v1/responses", VERSION)
        assert (response.status, openai_error(response)["code"]) == (426, "websocket_not_supported")
        assert not simulator.requests()


class TestHandshakes:
    """Whether it is a WebSocket that is asked for (contract 4.26)."""

    @pytest.mark.parametrize("path", [VOICE, LIVE, "/v1/responses/ws?model=voice"])
    def test_a_get_without_an_upgrade_is_told_what_to_do(
        self, gateway: GatewayProcess, traces: Traces, path: str
    ) -> None:
        with RawClient(gateway.port) as client:
            assert client.send(request(None, KEY, GOOGLE_KEY, path=path, method="GET"))
            response = client.read_response("GET")
        assert response.status == 426
        assert response.value(b"sec-websocket-version") == b"13"
        assert response.value(b"upgrade") == b"websocket"
        assert b"upgrade" in (response.value(b"connection") or b"").lower()
        assert traces.event()["error"] == "websocket_required"

    def test_a_post_is_another_method(self, gateway: GatewayProcess) -> None:
        with RawClient(gateway.port) as client:
            assert client.send(request(b"{}", KEY, path="/v1/realtime?model=voice"))
            response = client.read_response()
        assert (response.status, response.value(b"allow")) == (405, b"GET, HEAD")

    @pytest.mark.parametrize(
        ("method", "path"),
        [("GET", "/v1/files"), ("POST", "/v1/chat/completions"), ("POST", "/v1/realtime/client_secrets")],
    )
    def test_an_upgrade_where_there_is_none(
        self, gateway: GatewayProcess, simulator: SimulatorProcess, traces: Traces, method: str, path: str
    ) -> None:
        with RawClient(gateway.port) as client:
            assert client.send(request(b"", *ASKED, VERSION, KEY, path=path, method=method))
            response = client.read_response(method)
        assert (response.status, openai_error(response)["code"]) == (426, "websocket_not_supported")
        assert traces.event()["error"] == "websocket_not_supported"
        assert not simulator.requests()

    @pytest.mark.parametrize(
        "headers", [[], [b"Sec-WebSocket-Version: 8"], [VERSION, b"Sec-WebSocket-Version: 8"]]
    )
    def test_another_version_of_the_protocol_is_a_426(
        self, gateway: GatewayProcess, traces: Traces, headers: list[bytes]
    ) -> None:
        response = ask(gateway, VOICE, KEY, *headers)
        assert (response.status, response.value(b"sec-websocket-version")) == (426, b"13")
        assert openai_error(response)["code"] == "websocket_required"
        assert traces.event()["http_status"] == 426

    def test_a_handshake_without_a_valid_key_is_a_400(self, gateway: GatewayProcess, traces: Traces) -> None:
        with RawClient(gateway.port) as client:
            bad = [*ASKED[:2], b"Sec-WebSocket-Key: short", VERSION, KEY]
            assert client.send(request(None, *bad, path=VOICE, method="GET"))
            assert client.read_response("GET").status == 400
        assert traces.event()["status"] == "rejected"


class TestProviders:
    """What the provider answers, or does not."""

    @pytest.mark.parametrize("status", [401, 403, 429, 503])
    def test_a_refusal_arrives_as_it_is(
        self, gateway: GatewayProcess, simulator: SimulatorProcess, traces: Traces, status: int
    ) -> None:
        model = f"sim-status-{status}+sim-retry-after-7"
        response = ask(gateway, f"/v1/realtime?model=main/{model}", VERSION, KEY)
        with RawClient(simulator.port) as client:
            assert client.send(
                request(
                    None,
                    *ASKED,
                    VERSION,
                    b"Authorization: Bearer a-key",
                    path=f"/v1/realtime?model={model}",
                    method="GET",
                )
            )
            direct = client.read_response("GET")
        assert (response.status, openai_error(response)) == (status, openai_error(direct))
        assert response.value(b"retry-after") == direct.value(b"retry-after")
        assert (direct.value(b"retry-after") == b"7") is (status in {429, 503})
        event = traces.event()
        assert (event["status"], event["http_status"], event["attempts"]) == ("upstream_error", status, 1)
        assert event["error"] == ("upstream_4xx" if status < 500 else "upstream_5xx")

    @pytest.mark.parametrize(
        ("model", "status", "error"),
        [
            ("gone/m", 502, "refused_connection"),
            ("slow/sim-stall-head", 504, "first_byte_timeout"),
            ("main/sim-bad-accept", 502, "unreadable"),
            ("main/sim-reset-before", 502, "reset"),
        ],
    )
    def test_a_provider_that_does_not_answer(
        self, gateway: GatewayProcess, traces: Traces, model: str, status: int, error: str
    ) -> None:
        response = ask(gateway, f"/v1/realtime?model={model}", VERSION, KEY)
        assert response.status == status
        assert model.partition("/")[0] in openai_error(response)["message"]
        event = traces.event()
        assert (event["status"], event["http_status"]) == ("upstream_error", status)
        assert event["error"] == error

    def test_a_renewed_token_is_tried_once(
        self, gateway: GatewayProcess, upstream: RawUpstream, traces: Traces, token_file: Path
    ) -> None:
        token_file.write_text(TOKENS[0])
        upstream.begin(accept_fresh_token(token_file))
        with session(gateway, "/v1/realtime?model=turning/m", Authorization=f"Bearer {EDGE}") as connection:
            assert connection.recv() == "accepted"
        sent = [turn.value(b"authorization") for turn in upstream.turns]
        assert sent == [f"Bearer {token}".encode() for token in TOKENS]
        event = traces.event()
        assert (event["status"], event["http_status"], event["attempts"]) == ("ok", 101, 2)

    def test_a_token_that_stays_the_same_is_not_tried_again(
        self, gateway: GatewayProcess, upstream: RawUpstream, traces: Traces
    ) -> None:
        body = b'{"error": {"message": "no such token"}}'
        upstream.begin(lambda turn: turn.send(counted(body, JSON, status=401)))
        response = ask(gateway, "/v1/realtime?model=turning/m", VERSION, KEY)
        assert (response.status, response.body) == (401, body)
        assert len(upstream.turns) == 1
        assert traces.event()["status"] == "upstream_error"

    def test_a_refusal_does_not_repeat_the_providers_key(
        self, gateway: GatewayProcess, upstream: RawUpstream, traces: Traces
    ) -> None:
        body = b'{"error": {"message": "your key %b is wrong"}}' % OPENAI_KEY.encode()
        upstream.begin(lambda turn: turn.send(counted(body, JSON, status=401)))
        response = ask(gateway, "/v1/realtime?model=raw/m", VERSION, KEY)
        assert response.status == 401
        assert b"canary" not in response.body
        assert len(response.body) == len(body)
        assert traces.event()["error"] == "upstream_4xx"


def accept_fresh_token(token_file: Path) -> Any:
    """Return a script that refuses the first token, and accepts the one that is then in the file."""

    def script(turn: Turn) -> None:
        if turn.value(b"authorization") == f"Bearer {TOKENS[0]}".encode():
            token_file.write_text(TOKENS[1])
            turn.send(counted(b"{}", JSON, status=401))
            return
        turn.switch_protocols(more=b"\x81\x08accepted\x88\x02\x03\xe8")
        with suppress(OSError):
            turn.close()

    return script


def test_a_call_is_forwarded_with_the_providers_name_of_its_model(
    gateway: GatewayProcess, simulator: SimulatorProcess, traces: Traces
) -> None:
    offer = b"v=0\r\no=- 1 1 IN IP4 127.0.0.1\r\ns=canary\r\n"
    with RawClient(gateway.port) as client:
        call = request(
            offer, KEY, b"Content-Type: application/sdp", path="/v1/realtime/calls?model=voice&x=1"
        )
        assert client.send(call)
        client.read_response()
    [seen] = simulator.requests()
    assert (seen.target, seen.body) == ("/v1/realtime/calls?model=gpt-realtime&x=1", offer)
    assert seen.value("content-type") == "application/sdp"
    event = traces.event()
    assert (event["model"], event["upstream_model"]) == ("voice", "gpt-realtime")
