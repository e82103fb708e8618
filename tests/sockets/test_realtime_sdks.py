"""Realtime sessions of the SDKs' own clients, over TLS and with edge auth, through the gateway."""

from __future__ import annotations

import asyncio
import base64
import json
import warnings
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any, Final

import httpx2
import openai
import pytest
from google import genai
from google.genai import types
from google.genai.live import AsyncSession

from tests.support.certificates import Authority, issue
from tests.support.gateway import GatewayProcess
from tests.support.realtime import (
    ANSWER,
    EDGE,
    GEMINI_KEY,
    HELLO,
    OPENAI_KEY,
    Traces,
    has_no_canary,
    has_no_gateway_key,
    realtime_config,
    sent,
)
from tests.support.simulator import SeenRequest, SimulatorProcess
from tests.support.tls_front import start_tls_front, trusting

WEATHER: Final[Any] = {
    "type": "function",
    "name": "weather",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}
ASK_FOR_TOOL: Final = 'use tool weather with {"city": "canary"}'
LIVE_PATH: Final = "/ws/google.ai.generativelanguage.v1.GenerativeService.BidiGenerateContent"


@pytest.fixture(scope="module")
def gateway_config(simulator: SimulatorProcess, ca: Authority) -> Iterator[str]:
    files = issue(ca, "127.0.0.1")
    with start_tls_front(simulator.port, ca) as port:
        url = f"https://localhost:{port}"
        safe = f'base_url: "{url}/%s", ca_file: "{ca.ca_file}"'
        providers = (
            f"  safe: {{kind: openai, {safe % 'v1'}, api_key: {OPENAI_KEY}}}\n"
            f"  safegem: {{kind: gemini, {safe % 'v1beta'}, api_key: {GEMINI_KEY}}}"
        )
        tls = f"tls: {{cert_file: {files.cert_file}, key_file: {files.key_file}}}"
        yield realtime_config(simulator.url, providers=providers, more=tls)


@pytest.fixture(scope="module")
def traces(gateway: GatewayProcess) -> Traces:
    return Traces(gateway)


@pytest.fixture
def by_openai(gateway: GatewayProcess, simulator: SimulatorProcess, ca: Authority) -> openai.AsyncOpenAI:
    simulator.clear()
    return openai.AsyncOpenAI(base_url=f"{gateway.url}/v1", api_key=EDGE, max_retries=0, timeout=60)


def user(text: str) -> Any:
    return {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}


def only_request(simulator: SimulatorProcess) -> SeenRequest:
    """Return what the provider saw, which is its own key and none of the gateway's."""
    simulator.wait_for("answered")
    [request] = simulator.requests()
    assert request.status == 101
    assert has_no_gateway_key(request)
    assert request.value("sec-websocket-extensions") is None
    return request


def check_event(
    event: dict[str, Any], request: SeenRequest, route: str, tokens: list[tuple[int, int]]
) -> None:
    """Check the event of a session against what the SDK got of the provider, and the provider of the SDK."""
    assert (event["status"], event["http_status"], event["route"]) == ("ok", 101, route)
    assert (event["modality"], event["transport"]) == ("realtime", "websocket")
    assert (event["tokens_in"], event["tokens_out"]) == tuple(map(sum, zip(*tokens, strict=True)))
    assert (event["frames_in"], event["bytes_in"]) == sent(request)
    assert (event["frames_out"], event["bytes_out"]) == (request.pieces_sent, request.bytes_sent)
    assert 0 <= event["session_minutes"] < 1
    assert event["attempts"] == 1


class TestOpenAIRealtime:
    """``client.realtime.connect``."""

    @asynccontextmanager
    async def session(self, by_openai: openai.AsyncOpenAI, ca: Authority, model: str) -> AsyncIterator[Any]:
        options: Any = {"ssl": trusting(ca)}
        async with by_openai.realtime.connect(
            model=model, websocket_connection_options=options
        ) as connection:
            created = await connection.recv()
            assert created.type == "session.created"
            yield connection

    async def answer(self, connection: Any) -> list[Any]:
        events = []
        async for event in connection:
            events.append(event)
            if event.type in {"response.done", "error"}:
                return events
        raise AssertionError("the connection ended")

    @pytest.mark.parametrize(
        ("asked", "provider", "model"),
        [
            ("voice", "main", "gpt-realtime"),
            ("main/gpt-realtime-2", "main", "gpt-realtime-2"),
            ("gpt-realtime-mini", "main", "gpt-realtime-mini"),
            ("safe/gpt-realtime", "safe", "gpt-realtime"),
        ],
    )
    def test_two_turns_of_text(
        self,
        by_openai: openai.AsyncOpenAI,
        simulator: SimulatorProcess,
        ca: Authority,
        traces: Traces,
        asked: str,
        provider: str,
        model: str,
    ) -> None:
        async def run() -> list[tuple[int, int]]:
            tokens = []
            async with self.session(by_openai, ca, asked) as connection:
                await connection.session.update(session={"type": "realtime", "output_modalities": ["text"]})
                for _ in range(2):
                    await connection.conversation.item.create(item=user(HELLO))
                    await connection.response.create()
                    events = await self.answer(connection)
                    deltas = [event.delta for event in events if event.type == "response.output_text.delta"]
                    assert "".join(deltas) == ANSWER
                    usage = events[-1].response.usage
                    tokens.append((usage.input_tokens, usage.output_tokens))
            return tokens

        tokens = asyncio.run(run())
        request = only_request(simulator)
        assert request.target == f"/v1/realtime?model={model}"
        assert request.values("authorization") == [f"Bearer {OPENAI_KEY}"]
        assert request.messages[-1].code == 1000
        event = traces.event()
        assert (event["provider"], event["model"], event["upstream_model"]) == (provider, asked, model)
        check_event(event, request, "realtime_ws", tokens)

    def test_a_function_call_and_audio(
        self, by_openai: openai.AsyncOpenAI, simulator: SimulatorProcess, ca: Authority, traces: Traces
    ) -> None:
        async def run() -> list[tuple[int, int]]:
            done = []
            async with self.session(by_openai, ca, "voice") as connection:
                await connection.session.update(
                    session={"type": "realtime", "output_modalities": ["text"], "tools": [WEATHER]}
                )
                await connection.conversation.item.create(item=user(ASK_FOR_TOOL))
                await connection.response.create()
                done.append((await self.answer(connection))[-1].response)
                [call] = done[-1].output
                assert (call.name, json.loads(call.arguments)) == ("weather", {"city": "canary"})
                await connection.conversation.item.create(
                    item={"type": "function_call_output", "call_id": call.call_id, "output": "sunny"}
                )
                await connection.response.create(response={"output_modalities": ["audio"]})
                events = await self.answer(connection)
                done.append(events[-1].response)
                sound = b"".join(
                    base64.b64decode(one.delta) for one in events if one.type == "response.output_audio.delta"
                )
                assert sound
                assert done[-1].output[0].content[0].transcript == "Tool weather returned: sunny"
            return [(one.usage.input_tokens, one.usage.output_tokens) for one in done]

        tokens = asyncio.run(run())
        check_event(traces.event(), only_request(simulator), "realtime_ws", tokens)

    def test_audio_goes_in_and_comes_out(
        self, by_openai: openai.AsyncOpenAI, simulator: SimulatorProcess, ca: Authority, traces: Traces
    ) -> None:
        async def run() -> list[tuple[int, int]]:
            async with self.session(by_openai, ca, "voice") as connection:
                await connection.session.update(
                    session={"type": "realtime", "audio": {"input": {"turn_detection": None}}}
                )
                for _ in range(8):
                    audio = base64.b64encode(b"\1\1" * 2400).decode()
                    await connection.input_audio_buffer.append(audio=audio)
                await connection.input_audio_buffer.commit()
                await connection.response.create()
                events = await self.answer(connection)
                assert events[-1].response.output[0].content[0].transcript == "You said: 800 ms of audio"
                usage = events[-1].response.usage
                return [(usage.input_tokens, usage.output_tokens)]

        tokens = asyncio.run(run())
        check_event(traces.event(), only_request(simulator), "realtime_ws", tokens)


class TestOpenAIResponses:
    """``client.responses.connect``."""

    async def answer(self, connection: Any) -> Any:
        async for event in connection:
            assert event.type != "error", event
            if event.type == "response.completed":
                return event.response
        raise AssertionError("the connection ended")

    @pytest.mark.parametrize(
        ("names", "provider", "model"),
        [
            (["main/gpt-5", "gpt-5", "main/gpt-5"], "main", "gpt-5"),
            (["safe/gpt-5", "safe/gpt-5", "gpt-5"], "safe", "gpt-5"),
        ],
    )
    def test_turns_over_one_connection(
        self,
        by_openai: openai.AsyncOpenAI,
        simulator: SimulatorProcess,
        ca: Authority,
        traces: Traces,
        names: list[str],
        provider: str,
        model: str,
    ) -> None:
        async def run() -> list[tuple[int, int]]:
            options: Any = {"ssl": trusting(ca)}
            tokens, previous = [], None
            async with by_openai.responses.connect(websocket_connection_options=options) as connection:
                for name in names:
                    more: Any = {} if previous is None else {"previous_response_id": previous}
                    await connection.response.create(model=name, input=HELLO, store=False, **more)
                    response = await self.answer(connection)
                    assert (response.output_text, response.model) == (ANSWER, model)
                    tokens.append((response.usage.input_tokens, response.usage.output_tokens))
                    previous = response.id
            return tokens

        tokens = asyncio.run(run())
        request = only_request(simulator)
        assert request.target == "/v1/responses"
        assert request.values("authorization") == [f"Bearer {OPENAI_KEY}"]
        creates = [json.loads(one.data) for one in request.messages if one.kind == "text"]
        assert [one["model"] for one in creates] == [model] * 3
        assert [one["input"] for one in creates] == [HELLO] * 3
        event = traces.event()
        assert (event["provider"], event["model"], event["upstream_model"]) == (provider, names[0], model)
        check_event(event | {"bytes_in": sent(request)[1]}, request, "responses_upgrade", tokens)


class TestGeminiLive:
    """``client.aio.live.connect``."""

    @asynccontextmanager
    async def session(
        self, gateway: GatewayProcess, ca: Authority, model: str, config: Any
    ) -> AsyncIterator[AsyncSession]:
        options = types.HttpOptions(
            base_url=gateway.url, async_client_args={"ssl": trusting(ca), "proxy": None}
        )
        client = genai.Client(api_key=EDGE, http_options=options)
        async with client.aio.live.connect(model=model, config=config) as session:
            yield session

    @pytest.mark.parametrize(
        ("asked", "provider"),
        [("live", "gem"), ("gem/gemini-live", "gem"), ("safegem/gemini-live", "safegem")],
    )
    def test_two_turns_of_text(
        self,
        gateway: GatewayProcess,
        simulator: SimulatorProcess,
        ca: Authority,
        traces: Traces,
        asked: str,
        provider: str,
    ) -> None:
        simulator.clear()

        async def run() -> list[tuple[int, int]]:
            tokens = []
            config = {"response_modalities": ["TEXT"]}
            async with self.session(gateway, ca, asked, config) as session:
                for _ in range(2):
                    await session.send_client_content(turns=types.Content(parts=[types.Part(text=HELLO)]))
                    messages = [message async for message in session.receive()]
                    assert "".join(message.text or "" for message in messages) == ANSWER
                    usage = messages[-1].usage_metadata
                    assert usage is not None
                    tokens.append((usage.prompt_token_count or 0, usage.response_token_count or 0))
            return tokens

        tokens = asyncio.run(run())
        request = only_request(simulator)
        assert request.target == LIVE_PATH
        assert request.values("x-goog-api-key") == [GEMINI_KEY]
        assert json.loads(request.messages[0].data)["setup"]["model"] == "models/gemini-live"
        event = traces.event()
        assert (event["provider"], event["upstream_model"]) == (provider, "gemini-live")
        check_event(event | {"bytes_in": sent(request)[1]}, request, "gemini_live_v1", tokens)

    def test_a_function_call_and_audio(
        self, gateway: GatewayProcess, simulator: SimulatorProcess, ca: Authority, traces: Traces
    ) -> None:
        simulator.clear()
        declaration = {"name": "weather", "parameters": WEATHER["parameters"]}
        config = {
            "response_modalities": ["AUDIO"],
            "output_audio_transcription": {},
            "tools": [{"function_declarations": [declaration]}],
        }

        async def run() -> tuple[str, int]:
            messages = []
            async with self.session(gateway, ca, "live", config) as session:
                await session.send_realtime_input(text=ASK_FOR_TOOL)
                called = False
                while not called:
                    async for message in session.receive():
                        messages.append(message)
                        if message.tool_call:
                            [call] = message.tool_call.function_calls or []
                            assert (call.name, call.args) == ("weather", {"city": "canary"})
                            response = types.FunctionResponse(
                                id=call.id, name="weather", response={"result": "sun"}
                            )
                            await session.send_tool_response(function_responses=response)
                            called = True
                        if message.data:
                            break
                messages.extend([message async for message in session.receive()])
            contents = [message.server_content for message in messages if message.server_content]
            said = [one.output_transcription.text or "" for one in contents if one.output_transcription]
            return "".join(said), sum(len(message.data or b"") for message in messages)

        said, sound_bytes = asyncio.run(run())
        assert said == "Tool weather returned: sun"
        assert sound_bytes > 0
        request, event = only_request(simulator), traces.event()
        assert (event["status"], event["http_status"]) == ("ok", 101)
        assert event["frames_in"] == sent(request)[0]
        assert (event["frames_out"], event["bytes_out"]) == (request.pieces_sent, request.bytes_sent)
        assert event["tokens_in"] > 0 < event["tokens_out"]


class TestGeminiInteractions:
    """``client.aio.interactions.connect``, which names an interaction and no model."""

    @asynccontextmanager
    async def session(self, gateway: GatewayProcess, ca: Authority, name: str) -> AsyncIterator[Any]:
        options = types.HttpOptions(
            base_url=gateway.url, async_client_args={"ssl": trusting(ca), "proxy": None}
        )
        client = genai.Client(api_key=EDGE, http_options=options)
        with warnings.catch_warnings(action="ignore"):  # the SDK says that it is experimental
            connection = client.aio.interactions.connect(name)
        async with connection as session:
            yield session

    def test_an_interaction_is_talked_to_and_completed(
        self, gateway: GatewayProcess, simulator: SimulatorProcess, ca: Authority, traces: Traces
    ) -> None:
        body = {"model": "gemini-live", "input": HELLO}
        headers = {"x-goog-api-key": GEMINI_KEY}
        made = httpx2.post(f"{simulator.url}/v1beta/interactions", json=body, headers=headers).json()
        simulator.clear()

        async def run() -> list[Any]:
            async with self.session(gateway, ca, made["id"]) as session:
                await session.send(HELLO)
                events = []
                async for event in session.receive():
                    events.append(event)
                    if event.event_type == "step.stop":
                        await session.complete()
                return events

        events = asyncio.run(run())
        assert [event.event_type for event in events] == [
            "interaction.connected",
            "step.start",
            "step.delta",
            "step.stop",
            "interaction.completed",
        ]
        assert events[2].delta.text == ANSWER
        usage = events[-1].usage
        request = only_request(simulator)
        assert request.target == "/v1beta/interactions/live"
        assert request.values("x-goog-api-key") == [GEMINI_KEY]
        assert json.loads(request.messages[0].data) == {
            "event_type": "interaction.connect",
            "id": made["id"],
        }
        event = traces.event()
        assert (event["provider"], "upstream_model" in event) == ("gem", False)
        tokens = [(usage.total_input_tokens, usage.total_output_tokens)]
        check_event(event, request, "gemini_interactions_live", tokens)


def test_the_metrics_tell_no_secrets(gateway: GatewayProcess, ca: Authority) -> None:
    """Of all sessions above: names, numbers, and nothing else."""
    with httpx2.Client(verify=trusting(ca)) as client:
        text = client.get(f"{gateway.url}/metrics", headers={"x-api-key": EDGE}).content
    assert b"mgw_session_frames_total" in text
    assert has_no_canary(text)
