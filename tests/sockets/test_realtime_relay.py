"""Frames through the gateway, with an independent client: they arrive as they were sent (contract 10.8)."""

from __future__ import annotations

import asyncio
import hashlib
import os
from queue import SimpleQueue
from typing import Any, Final

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from tests.support.gateway import GatewayProcess
from tests.support.raw_client import RawClient, request
from tests.support.raw_upstream import RawUpstream, Turn
from tests.support.realtime import EDGE, OPENAI_KEY, Traces, realtime_config, sent
from tests.support.simulator import SeenRequest, SimulatorProcess
from tests.support.waiting import WAIT_SECONDS, wait_until

MIB: Final = 1 << 20
KEY: Final = f"Authorization: Bearer {EDGE}".encode()
HANDSHAKE: Final = (
    b"Upgrade: websocket",
    b"Connection: Upgrade",
    b"Sec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==",
    b"Sec-WebSocket-Version: 13",
)


@pytest.fixture(scope="module")
def gateway_config(simulator: SimulatorProcess, upstream: RawUpstream) -> str:
    raw = f'  raw: {{kind: openai, base_url: "{upstream.url}/v1", api_key: {OPENAI_KEY}}}'
    return realtime_config(simulator.url, providers=raw)


@pytest.fixture(scope="module")
def traces(gateway: GatewayProcess) -> Traces:
    return Traces(gateway)


@pytest.fixture(autouse=True)
def nothing_seen(simulator: SimulatorProcess) -> None:
    simulator.clear()


def session(gateway: GatewayProcess, model: str, **options: Any) -> connect:
    """Open a session; what the simulator is to do is in the model's name."""
    url = f"ws://127.0.0.1:{gateway.port}/v1/realtime?model={model}"
    more = {"compression": None, "proxy": None, "max_size": None, **options}
    return connect(url, additional_headers={"Authorization": f"Bearer {EDGE}"}, **more)


async def read_all(connection: ClientConnection) -> None:
    while True:
        await connection.recv()


def only_request(simulator: SimulatorProcess) -> SeenRequest:
    simulator.wait_for("answered")
    [seen] = simulator.requests()
    return seen


class TestMessages:
    """The simulator sends back each frame as it was."""

    def test_messages_of_all_kinds_and_sizes(
        self, gateway: GatewayProcess, simulator: SimulatorProcess, traces: Traces
    ) -> None:
        messages: list[str | bytes] = [
            "",
            b"",
            "gr\u00fc\u00dfe canary",
            b"\x00\xff" * 62,
            "y" * 126,
            os.urandom(65_536),
        ]

        async def run() -> None:
            async with session(gateway, "main/sim-echo") as connection:
                await connection.recv()
                for message in messages:
                    await connection.send(message)
                    assert await connection.recv() == message

        asyncio.run(run())
        seen = only_request(simulator)
        assert [one.kind for one in seen.messages] == ["text", "binary"] * 3 + ["close"]
        event = traces.event()
        assert (event["frames_in"], event["bytes_in"]) == (
            6,
            sum(len(one.encode() if isinstance(one, str) else one) for one in messages),
        )
        assert event["frames_out"] == event["frames_in"] + 1

    def test_large_messages_in_fragments(
        self, gateway: GatewayProcess, simulator: SimulatorProcess, traces: Traces
    ) -> None:
        pieces = [os.urandom(MIB)] * 15 + [os.urandom(MIB - 3)]

        async def run() -> None:
            async with session(gateway, "main/sim-echo", ping_interval=None) as connection:
                await connection.recv()
                sending = asyncio.create_task(connection.send(pieces))
                received: list[Any] = [piece async for piece in connection.recv_streaming()]
                await sending
                assert [len(piece) for piece in received[:16]] == [len(piece) for piece in pieces]
                assert b"".join(received) == b"".join(pieces)  # bytes, all of them

        asyncio.run(run())
        seen, event = only_request(simulator), traces.event()
        message = seen.messages[0]
        assert (message.frames, message.size) == (17, 16 * MIB - 3)
        assert message.sha256 == hashlib.sha256(b"".join(pieces)).hexdigest()
        assert (event["frames_in"], event["bytes_in"]) == sent(seen)
        assert (event["frames_out"], event["bytes_out"]) == (18, seen.bytes_sent)

    def test_no_compression_is_granted_or_asked_for(
        self, gateway: GatewayProcess, simulator: SimulatorProcess, traces: Traces
    ) -> None:
        async def run() -> None:
            model = "main/sim-echo+sim-deflate"
            async with session(gateway, model, compression="deflate") as connection:
                assert connection.response is not None
                assert connection.request is not None
                assert "permessage-deflate" in connection.request.headers["Sec-WebSocket-Extensions"]
                assert "Sec-WebSocket-Extensions" not in connection.response.headers
                await connection.recv()
                await connection.send("z" * 5000)
                assert await connection.recv() == "z" * 5000

        asyncio.run(run())
        assert only_request(simulator).value("sec-websocket-extensions") is None
        assert traces.event()["bytes_in"] == 5000

    def test_many_sessions_at_once(
        self, gateway: GatewayProcess, simulator: SimulatorProcess, traces: Traces
    ) -> None:
        count = 60

        async def run() -> None:
            everybody = asyncio.Barrier(count)

            async def talk(number: int) -> None:
                async with session(gateway, "main/sim-echo", open_timeout=WAIT_SECONDS) as connection:
                    await connection.recv()
                    await everybody.wait()
                    for turn in range(5):
                        await connection.send(f"{number} {turn}")
                        assert await connection.recv() == f"{number} {turn}"

            await asyncio.gather(*map(talk, range(count)))

        asyncio.run(run())
        events = traces.events(count)
        assert {(event["status"], event["frames_in"], event["frames_out"]) for event in events} == {
            ("ok", 5, 6)
        }
        key = {"x-api-key": EDGE}
        wait_until(lambda: gateway.metric("mgw_sessions_in_flight ", key) == 0, "the slots to be free")


class TestControlFrames:
    """Pings and closes, with what they say."""

    def test_pings_of_both_sides(
        self, gateway: GatewayProcess, simulator: SimulatorProcess, traces: Traces
    ) -> None:
        async def run() -> None:
            async with session(gateway, "main/sim-ping-from-the-provider") as connection:
                await connection.recv()
                await (await connection.ping(b"from the client"))
                await (await connection.ping(b"\xff" * 125))

        asyncio.run(run())
        found = {(one.kind, one.data) for one in only_request(simulator).messages[:-1]}
        assert ("ping", b"from the client") in found
        assert ("ping", b"\xff" * 125) in found
        assert ("pong", b"from-the-provider") in found
        assert traces.event()["frames_in"] == 0

    @pytest.mark.parametrize(
        ("code", "reason"), [(1000, ""), (1001, "bye"), (4001, "gr\u00fcn " * 20), (3000, "x" * 123)]
    )
    def test_a_close_of_the_client(
        self, gateway: GatewayProcess, simulator: SimulatorProcess, traces: Traces, code: int, reason: str
    ) -> None:
        async def run() -> ClientConnection:
            async with session(gateway, "voice") as connection:
                await connection.recv()
                await connection.close(code, reason)
            return connection

        connection = asyncio.run(run())
        close = only_request(simulator).messages[-1]
        assert (close.kind, close.code, close.data.decode()) == ("close", code, reason)
        assert connection.protocol.close_rcvd is not None
        assert connection.protocol.close_rcvd.code == code  # as the provider says it
        event = traces.event()
        assert (event["status"], event["http_status"]) == ("ok", 101)

    @pytest.mark.parametrize(
        ("word", "code", "reason", "status"),
        [
            ("sim-close-1000-1", 1000, "", "ok"),
            ("sim-close-1001-1+sim-close-reason-later", 1001, "later", "ok"),
            ("sim-close-4001-1+sim-close-reason-expired", 4001, "expired", "upstream_error"),
            ("sim-close-1011-1", 1011, "", "upstream_error"),
            ("sim-close-1005-1", 1005, "", "ok"),  # a close frame without a code
        ],
    )
    def test_a_close_of_the_provider(
        self,
        gateway: GatewayProcess,
        simulator: SimulatorProcess,
        traces: Traces,
        word: str,
        code: int,
        reason: str,
        status: str,
    ) -> None:
        async def run() -> ConnectionClosed:
            async with session(gateway, f"main/{word}") as connection:
                await connection.recv()
                with pytest.raises(ConnectionClosed) as closed:
                    await connection.recv()
            return closed.value

        closed = asyncio.run(run())
        assert closed.rcvd is not None
        assert (closed.rcvd.code, closed.rcvd.reason) == (code, reason)
        assert closed.rcvd_then_sent
        answered = only_request(simulator).messages[-1]
        assert (answered.kind, answered.code) == ("close", code)
        event = traces.event()
        assert (event["status"], event["http_status"]) == (status, 101)

    @pytest.mark.parametrize(
        "kind", ["rsv", "opcode", "masked", "big-control", "interrupted", "close-length"]
    )
    def test_an_illegal_frame_of_the_provider_does_not_arrive(
        self, gateway: GatewayProcess, simulator: SimulatorProcess, traces: Traces, kind: str
    ) -> None:
        async def run() -> ConnectionClosed:
            async with session(gateway, f"main/sim-bad-frame-{kind}") as connection:
                with pytest.raises(ConnectionClosed) as closed:
                    await read_all(connection)
            return closed.value

        closed = asyncio.run(run())
        assert closed.rcvd is not None
        assert closed.rcvd.code == 1011
        close = only_request(simulator).messages[-1]
        assert (close.kind, close.code) == ("close", 1002)
        event = traces.event()
        assert (event["status"], event["error"]) == ("upstream_error", "unreadable")


class TestBytes:
    """On plain sockets on both sides."""

    def test_every_byte_of_a_frame_passes_unchanged(
        self, gateway: GatewayProcess, upstream: RawUpstream, traces: Traces
    ) -> None:
        to_provider = b"".join(
            (
                b"\x02\x83abcd\x00\x01\x02",  # binary, to be continued, and no JSON; its mask is its own
                b"\x89\x85\x00\x00\x00\x00hello",  # a ping between fragments, masked with nothing
                b"\x80\xfe\x00\x80efgh" + b"\x07" * 128,
                b"\x81\x80\xff\xff\xff\xff",
                b"\x8a\x80wxyz",  # a pong that nobody asked for
                b"\x88\x80zyxw",  # a close without a code
            )
        )
        to_client = b"\x02\x02\xc3\x28\x00\x00\x80\x7e\x00\x80" + b"\x05" * 128 + b"\x89\x01!\x88\x00"
        received: SimpleQueue[bytes] = SimpleQueue()

        def script(turn: Turn) -> None:
            turn.switch_protocols(b"x-request-id: req_7", more=to_client[:5])
            for at in range(5, len(to_client)):
                turn.send(to_client[at : at + 1])
            received.put(turn.read(len(to_provider)))
            turn.close()

        upstream.begin(script)
        with RawClient(gateway.port) as client:
            head = request(None, KEY, *HANDSHAKE, path="/v1/realtime?model=raw/m", method="GET")
            assert client.send(head)
            found = client.incoming.head()
            assert found is not None
            assert found[0].startswith(b"HTTP/1.1 101 ")
            assert (b"x-request-id", b"req_7") in found[1]
            for at in range(len(to_provider)):
                assert client.send(to_provider[at : at + 1])
            assert client.incoming.rest() == to_client
        assert received.get(timeout=WAIT_SECONDS) == to_provider
        event = traces.event()
        assert (event["frames_in"], event["bytes_in"]) == (3, 131)
        assert (event["frames_out"], event["bytes_out"]) == (2 + 1, 130)
        assert event["upstream_request_id"] == "req_7"
