"""A realtime session whose client disconnects without a close frame is over, whatever state it is in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pytest

from tests.support.gateway import GatewayProcess, start_gateway
from tests.support.raw_client import RawClient
from tests.support.simulator import SimulatorProcess
from tests.support.waiting import wait_until

HANDSHAKE: Final = (
    b"GET /v1/realtime?model=main/m-1 HTTP/1.1\r\nHost: gateway\r\n"
    b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)
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
