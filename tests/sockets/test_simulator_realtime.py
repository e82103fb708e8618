"""The simulator's WebSockets, judged by the SDKs' own clients over real sockets."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import openai
import pytest
from google import genai
from google.genai import types
from google.genai.live import AsyncSession
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosedError, InvalidStatus
from websockets.typing import Subprotocol

from tests.support.certificates import Authority
from tests.support.simulator import SimulatorProcess
from tests.support.tls_front import tls_front, trusting

WEATHER: Final[Any] = {
    "type": "function",
    "name": "weather",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}


def user(text: str) -> Any:
    return {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}


@pytest.fixture
def async_openai(simulator: SimulatorProcess) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(base_url=f"{simulator.url}/v1", api_key="a-key", max_retries=0, timeout=60)


class TestOpenAIRealtime:
    """``client.realtime.connect``."""

    async def answer(self, connection: Any) -> list[Any]:
        events = []
        async for event in connection:
            events.append(event)
            if event.type in {"response.done", "error"}:
                return events
        raise AssertionError("the connection ended")

    def test_a_text_turn(self, async_openai: openai.AsyncOpenAI) -> None:
        async def run() -> None:
            async with async_openai.realtime.connect(model="m-1") as connection:
                created = await connection.recv()
                assert created.type == "session.created"
                await connection.session.update(session={"type": "realtime", "output_modalities": ["text"]})
                await connection.conversation.item.create(item=user("hello there"))
                await connection.response.create()
                events = await self.answer(connection)
            deltas = [event.delta for event in events if event.type == "response.output_text.delta"]
            assert "".join(deltas) == "You said: hello there"
            usage = events[-1].response.usage
            assert (usage.input_tokens, usage.output_tokens, usage.total_tokens) == (2, 4, 6)
            assert events[-1].response.status == "completed"

        asyncio.run(run())

    def test_a_tool_call_and_its_result(self, async_openai: openai.AsyncOpenAI) -> None:
        async def run() -> None:
            async with async_openai.realtime.connect(model="m-1") as connection:
                await connection.session.update(
                    session={"type": "realtime", "output_modalities": ["text"], "tools": [WEATHER]}
                )
                await connection.conversation.item.create(item=user('use tool weather with {"city": "Bern"}'))
                await connection.response.create()
                [call] = (await self.answer(connection))[-1].response.output
                assert (call.name, json.loads(call.arguments)) == ("weather", {"city": "Bern"})
                await connection.conversation.item.create(
                    item={"type": "function_call_output", "call_id": call.call_id, "output": "sunny"}
                )
                await connection.response.create()
                [message] = (await self.answer(connection))[-1].response.output
                assert message.content[0].text == "Tool weather returned: sunny"

        asyncio.run(run())

    def test_a_wrong_key_is_refused_before_the_upgrade(
        self, simulator: SimulatorProcess, async_openai: openai.AsyncOpenAI
    ) -> None:
        async def run() -> None:
            client = async_openai.copy(api_key="wrong-key")
            with pytest.raises(InvalidStatus) as refused:
                async with client.realtime.connect(model="m"):
                    pass
            assert refused.value.response.status_code == 401

        asyncio.run(run())

    def test_a_browser_shows_its_key_as_a_subprotocol(self, simulator: SimulatorProcess) -> None:
        offers = [Subprotocol("realtime"), Subprotocol("openai-insecure-api-key.a-key")]

        async def run() -> None:
            url = f"ws://127.0.0.1:{simulator.port}/v1/realtime?model=m"
            async with connect(url, subprotocols=offers, proxy=None) as connection:
                assert connection.subprotocol == "realtime"
                assert json.loads(await connection.recv())["type"] == "session.created"

        asyncio.run(run())

    def test_what_came_is_recorded(
        self, simulator: SimulatorProcess, async_openai: openai.AsyncOpenAI
    ) -> None:
        simulator.clear()

        async def run() -> None:
            async with async_openai.realtime.connect(model="m", extra_headers={"x-more": "1"}) as connection:
                await connection.response.cancel()
                await self.answer(connection)

        asyncio.run(run())
        simulator.wait_for("answered")
        [request] = simulator.requests()
        assert (request.target, request.status) == ("/v1/realtime?model=m", 101)
        assert (request.value("authorization"), request.value("x-more")) == ("Bearer a-key", "1")
        assert [message.kind for message in request.messages] == ["text", "close"]
        assert json.loads(request.messages[0].data)["type"] == "response.cancel"
        assert request.messages[1].code == 1000


class TestFaults:
    """Over real sockets, with a client that none of the SDKs is between."""

    def run(self, simulator: SimulatorProcess, model: str, check: Any, **options: Any) -> None:
        async def run() -> None:
            url = f"ws://127.0.0.1:{simulator.port}/v1/realtime?model={model}"
            more = {"additional_headers": {"Authorization": "Bearer k"}, "proxy": None, **options}
            async with connect(url, **more) as connection:
                await check(connection)

        asyncio.run(run())

    async def read_all(self, connection: ClientConnection) -> None:
        async for _ in connection:
            pass

    def test_a_reset_is_no_close(self, simulator: SimulatorProcess) -> None:
        async def check(connection: ClientConnection) -> None:
            with pytest.raises(ConnectionClosedError) as closed:
                await self.read_all(connection)
            assert isinstance(closed.value.__cause__, ConnectionResetError)

        self.run(simulator, "sim-reset-after-1", check)

    @pytest.mark.parametrize("kind", ["rsv", "masked", "big-control", "interrupted", "utf8"])
    def test_a_client_sees_the_illegal_frame(self, simulator: SimulatorProcess, kind: str) -> None:
        async def check(connection: ClientConnection) -> None:
            with pytest.raises(ConnectionClosedError) as closed:
                await self.read_all(connection)
            assert closed.value.sent is not None
            assert closed.value.sent.code == (1007 if kind == "utf8" else 1002)

        self.run(simulator, f"sim-bad-frame-{kind}", check)

    @pytest.mark.parametrize("model", ["sim-echo+sim-deflate", "sim-echo"])
    def test_an_echo_of_a_large_message(self, simulator: SimulatorProcess, model: str) -> None:
        async def check(connection: ClientConnection) -> None:
            await connection.recv()
            await connection.send([b"\1" * 1_000_000, b"\2" * 2_000_000])
            assert await connection.recv() == b"\1" * 1_000_000 + b"\2" * 2_000_000
            response = connection.response
            assert response is not None
            assert ("Sec-WebSocket-Extensions" in response.headers) is ("deflate" in model)

        simulator.clear()
        self.run(simulator, model, check, max_size=None)
        [request] = simulator.requests()
        assert (request.messages[0].frames, request.messages[0].size) == (3, 3_000_000)  # the last is empty


class TestOpenAIRealtimeBeta:
    """``client.beta.realtime.connect``."""

    def test_a_text_turn(self, simulator: SimulatorProcess, async_openai: openai.AsyncOpenAI) -> None:
        async def run() -> None:
            client = async_openai.copy(websocket_base_url=f"ws://127.0.0.1:{simulator.port}/v1")
            async with client.beta.realtime.connect(model="m-1") as connection:
                await connection.session.update(session={"modalities": ["text"]})
                await connection.conversation.item.create(item=user("hello there"))
                await connection.response.create()
                words = []
                async for event in connection:
                    if event.type == "response.text.delta":
                        words.append(event.delta)
                    if event.type == "response.done":
                        break
            assert "".join(words) == "You said: hello there"

        asyncio.run(run())


class TestOpenAIResponses:
    """``client.responses.connect``."""

    async def answer(self, connection: Any) -> Any:
        async for event in connection:
            assert event.type != "error", event
            if event.type == "response.completed":
                return event.response
        raise AssertionError("the connection ended")

    def test_two_turns_over_one_connection(self, async_openai: openai.AsyncOpenAI) -> None:
        async def run() -> None:
            async with async_openai.responses.connect() as connection:
                await connection.response.create(
                    model="m", input='use tool weather with {"city": "Bern"}', tools=[WEATHER], store=False
                )
                first = await self.answer(connection)
                result = {"type": "function_call_output", "call_id": first.output[0].call_id}
                more: Any = [{**result, "output": "sunny"}]
                await connection.response.create(model="m", input=more, previous_response_id=first.id)
                second = await self.answer(connection)
            assert second.output[0].content[0].text == "Tool weather returned: sunny"

        asyncio.run(run())


class TestGeminiLive:
    """``client.aio.live.connect``, which insists on TLS."""

    @asynccontextmanager
    async def session(
        self, simulator: SimulatorProcess, ca: Authority, config: Any, key: str = "a-key"
    ) -> AsyncIterator[AsyncSession]:
        async with tls_front(simulator.port, ca) as port:
            options = types.HttpOptions(
                base_url=f"https://localhost:{port}", async_client_args={"ssl": trusting(ca), "proxy": None}
            )
            client = genai.Client(api_key=key, http_options=options)
            async with client.aio.live.connect(model="gemini-live", config=config) as session:
                yield session

    def test_a_text_turn(self, simulator: SimulatorProcess, ca: Authority) -> None:
        async def run() -> None:
            async with self.session(simulator, ca, {"response_modalities": ["TEXT"]}) as session:
                await session.send_client_content(turns=types.Content(parts=[types.Part(text="hello there")]))
                messages = [message async for message in session.receive()]
            assert "".join(message.text or "" for message in messages) == "You said: hello there"
            usage = messages[-1].usage_metadata
            assert usage is not None
            assert (usage.prompt_token_count, usage.response_token_count) == (2, 4)

        asyncio.run(run())

    def test_a_tool_call_and_its_response(self, simulator: SimulatorProcess, ca: Authority) -> None:
        declaration = {"name": "weather", "parameters": WEATHER["parameters"]}
        config = {"response_modalities": ["TEXT"], "tools": [{"function_declarations": [declaration]}]}

        async def run() -> None:
            async with self.session(simulator, ca, config) as session:
                await session.send_realtime_input(text='use tool weather with {"city": "Bern"}')
                async for message in session.receive():
                    if message.tool_call:
                        [call] = message.tool_call.function_calls or []
                        assert (call.name, call.args) == ("weather", {"city": "Bern"})
                        response = types.FunctionResponse(
                            id=call.id, name="weather", response={"result": "sun"}
                        )
                        await session.send_tool_response(function_responses=response)
                    last = message
                    if message.text:
                        break
                rest = [message async for message in session.receive()]
            assert (last.text or "") + "".join(one.text or "" for one in rest) == "Tool weather returned: sun"

        asyncio.run(run())

    def test_speech_both_ways(self, simulator: SimulatorProcess, ca: Authority) -> None:
        config = {"response_modalities": ["AUDIO"], "output_audio_transcription": {}}

        async def run() -> None:
            async with self.session(simulator, ca, config) as session:
                for samples in (b"\1\1" * 1600, bytes(3200)):  # a tenth of a second each: speech, silence
                    blob = types.Blob(data=samples, mime_type="audio/pcm;rate=16000")
                    await session.send_realtime_input(audio=blob)
                messages = [message async for message in session.receive()]
            contents = [message.server_content for message in messages if message.server_content]
            said = [one.output_transcription.text or "" for one in contents if one.output_transcription]
            assert "".join(said) == "You said: 200 ms of audio"
            assert sum(len(message.data or b"") for message in messages) == 6 * 960

        asyncio.run(run())
