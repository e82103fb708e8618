"""A realtime session whose client disconnects without a close frame is over, whatever state it is in."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

import pytest

from tests.support.frames import split_frames
from tests.support.gateway import GatewayProcess, start_gateway
from tests.support.raw_client import RawClient
from tests.support.raw_sessions import frame, handshake
from tests.support.raw_upstream import Turn, start_upstream
from tests.support.simulator import SimulatorProcess
from tests.support.waiting import WAIT_SECONDS, wait_until

HANDSHAKE: Final = (
    b"GET /v1/realtime?model=main/m-1 HTTP/1.1\r\nHost: gateway\r\n"
    b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)
AUDIO: Final = frame(0x81, b'{"type":"input_audio_buffer.append","audio":"' + b"A" * 300 + b'"}')
UPDATE: Final = frame(0x81, b'{"type":"session.update","session":{"model":"voice"}}')
HALF_A_FRAME: Final = b"\x81\xfe\x02\x00key."


@pytest.mark.parametrize("leave", [RawClient.reset, RawClient.half_close], ids=["reset", "end"])
@pytest.mark.parametrize("sent", [b"", HALF_A_FRAME], ids=["between frames", "within a frame"])
def test_a_client_that_disconnects_gives_its_slot_back(
    simulator: SimulatorProcess, leave: Callable[[RawClient], None], sent: bytes
) -> None:
    config = f"""
providers: {{main: {{kind: openai, base_url: "{simulator.url}/v1", api_key: sk-canary}}}}
realtime: {{max_sessions: 1}}
"""
    with start_gateway(config) as gateway:
        for number in (1, 2):
            _open_and_leave(gateway, sent, leave)
            events = gateway.events(number)
            assert [(event["status"], event["http_status"]) for event in events] == [
                ("client_abort", 499)
            ] * number
            wait_until(lambda: gateway.metric("mgw_sessions_in_flight") == 0, "the session's slot")
        assert b"Traceback" not in gateway.stderr.data


def _open_and_leave(gateway: GatewayProcess, sent: bytes, leave: Callable[[RawClient], None]) -> None:
    with RawClient(gateway.port) as client:
        client.send(HANDSHAKE)
        head = client.incoming.head()
        assert head is not None
        assert head[0].startswith(b"HTTP/1.1 101")
        client.send(sent)
        leave(client)
        if leave is RawClient.half_close:
            client.incoming.rest()


@pytest.mark.parametrize("begun", [1, 2, 6, len(UPDATE) - 1])
def test_a_renamed_session_that_ends_within_a_message_passes_what_came_whole(begun: int) -> None:
    half = len(AUDIO) // 2
    received: list[bytes] = []

    def record(turn: Turn) -> None:
        turn.switch_protocols()
        received.append(turn.read(half))
        has_half.set()
        received.append(turn.read(1 << 20))
        turn.closed = True
        is_over.set()

    has_half, is_over = threading.Event(), threading.Event()
    with start_upstream() as upstream:
        upstream.begin(record)
        config = f"""
providers: {{main: {{kind: openai, base_url: "{upstream.url}/v1", api_key: sk-canary}}}}
aliases: {{voice: main/gpt-realtime}}
"""
        with start_gateway(config) as gateway, RawClient(gateway.port) as client:
            client.send(handshake("/v1/realtime?model=voice"))
            assert client.incoming.head() is not None
            client.send(AUDIO[:half])
            assert has_half.wait(WAIT_SECONDS)
            client.send(AUDIO[half:] + AUDIO + UPDATE[:begun])
            client.half_close()
            assert is_over.wait(WAIT_SECONDS)
    frames, rest = split_frames(b"".join(received))
    assert rest == b""
    assert [one.first for one in frames] == [0x81, 0x81, 0x88]
    assert frames[-1].payload == (1001).to_bytes(2, "big") + b"the client disconnected"
