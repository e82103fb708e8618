"""Sessions whose messages name the model: Gemini's, and those of responses (contract 10.3, 10.9)."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from tests.support.gateway import GatewayProcess
from tests.support.raw_sessions import frame
from tests.support.raw_upstream import JSON, RawUpstream, counted
from tests.support.realtime import (
    ANSWER,
    EDGE,
    GEMINI_KEY,
    HELLO,
    OPENAI_KEY,
    Traces,
    closed_port,
    realtime_config,
)
from tests.support.simulator import SimulatorProcess
from tests.support.waiting import WAIT_SECONDS

LIVE: Final = "/ws/google.ai.generativelanguage.v1beta.GenerativeService.BidiGenerateContent"
RESPONSES: Final = "/v1/responses"


@pytest.fixture(scope="module")
def gateway_config(simulator: SimulatorProcess, upstream: RawUpstream) -> str:
    gone = f"http://127.0.0.1:{closed_port()}"
    slow = "timeouts: {first_byte: 0.2}"
    providers = f"""
  rawgem: {{kind: gemini, base_url: "{upstream.url}/v1beta", api_key: {GEMINI_KEY}, {slow}}}
  gonegem: {{kind: gemini, base_url: "{gone}/v1beta", api_key: {GEMINI_KEY}}}
  gone: {{kind: openai, base_url: "{gone}/v1", api_key: {OPENAI_KEY}}}
"""
    more = "timeouts: {client_idle: 2, client_body_idle: 1}"
    return realtime_config(simulator.url, providers=providers, more=more)


@pytest.fixture(scope="module")
def traces(gateway: GatewayProcess) -> Traces:
    return Traces(gateway)


@pytest.fixture(autouse=True)
def nothing_seen(simulator: SimulatorProcess) -> None:
    simulator.clear()


def session(gateway: GatewayProcess, path: str) -> ClientConnection:
    return connect(
        f"ws://127.0.0.1:{gateway.port}{path}",
        additional_headers={"Authorization": f"Bearer {EDGE}"},
        compression=None,
        proxy=None,
        max_size=None,
    )


def setup(model: str) -> str:
    config = {"responseModalities": ["TEXT"]}
    instruction = {"parts": [{"text": HELLO}]}
    return json.dumps(
        {"setup": {"model": model, "generationConfig": config, "systemInstruction": instruction}}
    )


def create(model: str, **fields: Any) -> str:
    return json.dumps({"type": "response.create", "model": model, "input": HELLO, "store": False, **fields})


def read_close(connection: ClientConnection) -> tuple[int, str]:
    """Return the gateway's close frame, before which nothing comes."""
    with pytest.raises(ConnectionClosed) as closed:
        connection.recv(WAIT_SECONDS)
    assert closed.value.rcvd is not None
    return closed.value.rcvd.code, closed.value.rcvd.reason


def read_response(connection: ClientConnection) -> Any:
    while True:
        event = json.loads(connection.recv(WAIT_SECONDS))
        assert event["type"] != "error", event
        if event["type"] == "response.completed":
            return event["response"]


class TestRefusedByTheGateway:
    """1008, and nothing goes upstream."""

    @pytest.mark.parametrize(
        ("path", "message", "said", "error"),
        [
            pytest.param(LIVE, HELLO, "JSON that names the model", "malformed", id="no JSON"),
            pytest.param(LIVE, b"\x00canary", "JSON that names the model", "malformed", id="binary"),
            pytest.param(LIVE, "", "JSON that names the model", "malformed", id="empty"),
            pytest.param(LIVE, '{"setup": {}}', "JSON that names the model", "malformed", id="no model"),
            pytest.param(LIVE, setup("models/"), "empty", "malformed", id="an empty model"),
            pytest.param(LIVE, setup("models/gem/"), "no model", "model_not_found", id="only a prefix"),
            pytest.param(LIVE, setup("models/voice"), "main", "unsupported_realtime_bridge", id="OpenAI's"),
            pytest.param(LIVE, setup("x" * (1 << 20)), "1048576 bytes", "request_too_large", id="too large"),
            pytest.param(RESPONSES, HELLO, "JSON that names the model", "malformed", id="responses, no JSON"),
            pytest.param(RESPONSES, create("live"), "gem", "unsupported_realtime_bridge", id="Gemini's"),
            pytest.param(RESPONSES, create("quiet"), "silent", "not_implemented", id="realtime off"),
        ],
    )
    def test_the_first_message(
        self,
        gateway: GatewayProcess,
        simulator: SimulatorProcess,
        traces: Traces,
        path: str,
        message: str | bytes,
        said: str,
        error: str,
    ) -> None:
        with session(gateway, path) as connection:
            connection.send(message)
            code, reason = read_close(connection)
        assert code == 1008
        assert said in reason
        assert "canary" not in reason
        event = traces.event()
        assert (event["status"], event["http_status"], event["error"]) == ("rejected", 101, error)
        assert not simulator.requests()

    def test_no_first_message_in_time(self, gateway: GatewayProcess, traces: Traces) -> None:
        with session(gateway, RESPONSES) as connection:
            code, reason = read_close(connection)
        assert (code, "no message arrived within 2 s" in reason) == (1008, True)
        event = traces.event()
        assert (event["status"], event["http_status"], event["error"]) == ("rejected", 101, "client_timeout")

    def test_a_later_message_that_stops_arriving(self, gateway: GatewayProcess, traces: Traces) -> None:
        with session(gateway, RESPONSES) as connection:
            connection.send(create("main/gpt-5"))
            read_response(connection)
            connection.socket.sendall(frame(0x01, b'{"type":"response.create",'))
            code, reason = read_close(connection)
        assert (code, "nothing more was received for 1 s" in reason) == (1008, True)
        event = traces.event()
        assert (event["status"], event["http_status"], event["error"]) == ("rejected", 101, "client_timeout")


class TestRefusedByTheProvider:
    """1011, with a reason that says who and what."""

    def test_a_status(self, gateway: GatewayProcess, upstream: RawUpstream, traces: Traces) -> None:
        body = json.dumps({"error": {"message": "not in your region"}}).encode()
        upstream.begin(lambda turn: turn.send(counted(body, JSON, status=403)))
        with session(gateway, LIVE) as connection:
            connection.send(setup("models/rawgem/m"))
            code, reason = read_close(connection)
        assert code == 1011
        assert "rawgem" in reason
        assert "403" in reason
        [turn] = upstream.turns
        assert (turn.target, turn.value(b"x-goog-api-key")) == (LIVE, GEMINI_KEY.encode())
        event = traces.event()
        assert (event["status"], event["http_status"], event["error"]) == (
            "upstream_error",
            101,
            "upstream_4xx",
        )
        assert "region" not in reason
        assert event["error_message"] == "not in your region"

    @pytest.mark.parametrize(
        ("path", "message", "error"),
        [
            (LIVE, setup("models/gonegem/m"), "refused_connection"),
            (LIVE, setup("models/rawgem/m"), "first_byte_timeout"),
            (RESPONSES, create("gone/m"), "refused_connection"),
        ],
    )
    def test_no_answer(
        self,
        gateway: GatewayProcess,
        upstream: RawUpstream,
        traces: Traces,
        path: str,
        message: str,
        error: str,
    ) -> None:
        upstream.begin(lambda turn: turn.wait_until_left())
        with session(gateway, path) as connection:
            connection.send(message)
            code, reason = read_close(connection)
        assert code == 1011
        assert "gone" in reason or "rawgem" in reason
        event = traces.event()
        assert (event["status"], event["http_status"], event["error"]) == ("upstream_error", 101, error)

    def test_a_close_of_the_providers_own_arrives_as_it_is(
        self, gateway: GatewayProcess, traces: Traces
    ) -> None:
        with session(gateway, LIVE) as connection:
            connection.send(setup("models/gem/sim-close-4007-1+sim-close-reason-enough"))
            assert "setupComplete" in json.loads(connection.recv(WAIT_SECONDS))
            assert read_close(connection) == (4007, "enough")
        event = traces.event()
        assert (event["status"], event["error"]) == ("upstream_error", "upstream_error_event")


class TestBeforeTheFirstMessage:
    """A session of responses may be opened long before it is used."""

    def test_a_client_that_closes_in_order_has_not_left_early(
        self, gateway: GatewayProcess, traces: Traces
    ) -> None:
        with session(gateway, RESPONSES) as connection:
            connection.close(1000, "enough")
            assert connection.close_code == 1000
        event = traces.event()
        assert (event["status"], event["http_status"]) == ("ok", 101)

    def test_a_client_that_leaves(self, gateway: GatewayProcess, traces: Traces) -> None:
        connection = session(gateway, RESPONSES)
        connection.close_socket()
        event = traces.event()
        assert (event["status"], event["http_status"]) == ("client_abort", 499)

    def test_a_ping_is_answered(
        self, gateway: GatewayProcess, simulator: SimulatorProcess, traces: Traces
    ) -> None:
        with session(gateway, RESPONSES) as connection:
            assert connection.ping(b"are you there").wait(WAIT_SECONDS)
            assert not simulator.requests()
            connection.send(create("main/gpt-5"))
            assert read_response(connection)["output"][0]["content"][0]["text"] == ANSWER
        assert traces.event()["status"] == "ok"


class TestModelsOfLaterMessages:
    """Contract 10.9."""

    @pytest.mark.parametrize("path", [RESPONSES, "/v1/responses/ws?model=main/gpt-5"])
    def test_a_model_of_another_provider_gets_an_error_and_the_session_goes_on(
        self, gateway: GatewayProcess, simulator: SimulatorProcess, traces: Traces, path: str
    ) -> None:
        tokens = [0, 0]
        with session(gateway, path) as connection:
            for model in ("main/gpt-5", "host/m", "main/gpt-5-mini", "voice"):
                connection.send(create(model))
                if model == "host/m":
                    error = json.loads(connection.recv(WAIT_SECONDS))
                    assert (error["type"], error["status"]) == ("error", 400)
                    assert "provider 'host'" in error["error"]["message"]
                    assert error["error"]["param"] == "model"
                    continue
                response = read_response(connection)
                assert response["output"][0]["content"][0]["text"] == ANSWER
                tokens[0] += response["usage"]["input_tokens"]
                tokens[1] += response["usage"]["output_tokens"]
        event = traces.event()
        assert (event["status"], event["upstream_model"]) == ("ok", "gpt-5")
        assert [event["tokens_in"], event["tokens_out"]] == tokens
        [seen] = simulator.requests()
        models = [json.loads(one.data)["model"] for one in seen.messages if one.kind == "text"]
        assert models == ["gpt-5", "gpt-5-mini", "gpt-realtime"]

    def test_what_comes_behind_the_setup_at_once_is_not_lost(
        self, gateway: GatewayProcess, simulator: SimulatorProcess, traces: Traces
    ) -> None:
        turn = {
            "clientContent": {"turns": [{"role": "user", "parts": [{"text": HELLO}]}], "turnComplete": True}
        }
        said = ""
        with session(gateway, LIVE) as connection:
            connection.send(setup("models/live"))
            connection.send(json.dumps(turn).encode())
            while not said.endswith(HELLO):
                content = json.loads(connection.recv(WAIT_SECONDS)).get("serverContent", {})
                said += "".join(part["text"] for part in content.get("modelTurn", {}).get("parts", []))
        assert said == ANSWER
        [seen] = simulator.requests()
        assert [json.loads(one.data) for one in seen.messages[:2]] == [
            json.loads(setup("models/gemini-live")),
            turn,
        ]
        assert [one.kind for one in seen.messages] == ["text", "binary", "close"]
        assert traces.event()["status"] == "ok"
