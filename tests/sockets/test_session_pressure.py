"""A realtime session of which one side takes nothing holds little memory, and its slot while it is used."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.support.gateway import GatewayProcess, start_gateway
from tests.support.raw_client import RawClient, push
from tests.support.raw_sessions import handshake
from tests.support.raw_upstream import RawUpstream, Turn
from tests.support.waiting import WAIT_SECONDS, wait_until

FRAME_FROM_CLIENT: Final = b"\x82\xff" + (1 << 20).to_bytes(8, "big") + b"mask" + bytes(1 << 20)
LONG_FRAME_HEAD: Final = b"\x82\xff" + (1 << 40).to_bytes(8, "big") + b"mask"
FRAME_FROM_PROVIDER: Final = b"\x82\x7f" + (1 << 20).to_bytes(8, "big") + bytes(1 << 20)
SILENT_SECONDS: Final = 1.0
MOST_BUFFERED: Final = 48 << 20
"""What the kernel may hold of a flood: four socket buffers of at most 6 MiB, which grow in steps."""
MOST_MEMORY: Final = 8 << 20
"""What the gateway may take for a session."""


@pytest.fixture
def upstream() -> Iterator[RawUpstream]:
    provider = RawUpstream()
    yield provider
    provider.close()


@pytest.fixture
def gateway(upstream: RawUpstream) -> Iterator[GatewayProcess]:
    config = f"""
providers: {{main: {{kind: openai, base_url: "{upstream.url}/v1", api_key: sk-canary}}}}
realtime: {{max_sessions: 1}}
timeouts: {{write_stall: 16}}
"""
    with start_gateway(config) as process:
        yield process
        assert b"Traceback" not in process.stderr.data


def open_session(gateway: GatewayProcess) -> RawClient:
    client = RawClient(gateway.port)
    client.send(handshake("/v1/realtime?model=main/m-1"))
    head = client.incoming.head()
    assert head is not None
    assert head[0].startswith(b"HTTP/1.1 101")
    return client


def peak_bytes(gateway: GatewayProcess) -> int:
    lines = Path(f"/proc/{gateway.process.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))


def unread_bytes(gateway: GatewayProcess, client: RawClient) -> int:
    """Return how much of what a client has sent is in the kernel, since the gateway does not read it."""
    ends = f":{gateway.port:04X}", f":{client.socket.getsockname()[1]:04X}"
    for line in Path("/proc/net/tcp").read_text().splitlines():
        fields = line.split()
        if fields[1].endswith(ends[0]) and fields[2].endswith(ends[1]):
            return int(fields[4].partition(":")[2], 16)
    raise AssertionError("there is no such connection")


def send_until_unread(gateway: GatewayProcess, client: RawClient) -> None:
    """Send until the gateway does not read any more; the kernel has then taken everything."""
    piece, pause = bytes(64 * 1024), threading.Event()
    client.send(LONG_FRAME_HEAD)
    for _ in range(MOST_BUFFERED // len(piece)):
        client.send(piece)
        for _ in range(50):
            if not unread_bytes(gateway, client):
                break
            pause.wait(0.01)
        else:
            return
    raise AssertionError("the gateway reads on")


def hold_session(turn: Turn, over: threading.Event) -> None:
    """Open the session, and take nothing from it."""
    turn.switch_protocols()
    over.wait(WAIT_SECONDS)
    turn.close()


def check_client_abort(gateway: GatewayProcess) -> None:
    (event,) = gateway.events(1)
    assert (event["status"], event["http_status"], event["error"]) == ("client_abort", 499, "client_abort")
    wait_until(lambda: gateway.metric("mgw_sessions_in_flight") == 0, "the session's slot")


def test_a_client_that_breaks_off_is_noticed_though_the_provider_takes_nothing(
    gateway: GatewayProcess, upstream: RawUpstream
) -> None:
    over = threading.Event()
    upstream.begin(lambda turn: hold_session(turn, over))
    with open_session(gateway) as client:
        before = peak_bytes(gateway)
        assert push(client.socket, FRAME_FROM_CLIENT, SILENT_SECONDS) < MOST_BUFFERED
        assert peak_bytes(gateway) - before < MOST_MEMORY
        client.reset()
        check_client_abort(gateway)
        over.set()


def test_a_client_that_closes_is_noticed_though_the_provider_takes_nothing(
    gateway: GatewayProcess, upstream: RawUpstream
) -> None:
    over = threading.Event()
    upstream.begin(lambda turn: hold_session(turn, over))
    with open_session(gateway) as client:
        send_until_unread(gateway, client)
        client.half_close()
        check_client_abort(gateway)
        over.set()


def test_a_provider_is_held_back_where_the_client_takes_nothing(
    gateway: GatewayProcess, upstream: RawUpstream
) -> None:
    pushed: list[int] = []

    def script(turn: Turn) -> None:
        turn.switch_protocols()
        pushed.append(turn.push(FRAME_FROM_PROVIDER, SILENT_SECONDS))
        upstream.note_left()
        turn.wait_until_left()

    upstream.begin(script)
    with open_session(gateway) as client:
        before = peak_bytes(gateway)
        upstream.wait_until_left()
        assert pushed[0] < MOST_BUFFERED
        assert peak_bytes(gateway) - before < MOST_MEMORY
        assert client.incoming.up_to(pushed[0]) == (FRAME_FROM_PROVIDER * 48)[: pushed[0]]
