"""Sessions of clients with limits, over sockets: a row that is used up ends one, or refuses one response."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.support.gateway import GatewayProcess, start_gateway
from tests.support.raw_sessions import REALTIME, RawSession, asked, close_frame, frame
from tests.support.simulator import SimulatorProcess

ALICE, BOB = (f"edge-canary-{name}-0003" for name in ("alice", "bob"))
TALK: Final = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hello"}]}


@pytest.fixture(params=["", "workers: 2"], ids=["one process", "two workers"])
def gateway(
    simulator: SimulatorProcess, request: pytest.FixtureRequest, tmp_path: Path
) -> Iterator[GatewayProcess]:
    with start_gateway(f"""
providers:
  main: {{kind: openai, base_url: "{simulator.url}/v1", api_key: sk-canary}}
defaults: {{openai_dialect: main}}
edge_auth:
  enabled: true
  keys:
    - {{name: alice, key: {ALICE}, limits: [{{tokens: 5, per: day}}, {{in_flight: 1}}]}}
    - name: bob
      key: {BOB}
      limits: [{{requests: 2, per: day}}, {{tokens: 9000, per: day, count: before}}]
limit_store: {tmp_path}/limits.db
{request.param}
""") as gateway:
        yield gateway


async def messages(session: RawSession, *last: str) -> list[Any]:  # Any: JSON
    """What the provider says up to a message of one of these types."""
    found: list[Any] = []
    while not found or found[-1]["type"] not in last:
        first, payload = await session.frame()
        assert first & 0x0F == 1, payload
        found.append(json.loads(payload))
    return found


def send(session: RawSession, message: Any) -> None:  # Any: JSON
    session.send(frame(0x81, json.dumps(message).encode()))


def test_a_realtime_session_ends_behind_the_message_that_uses_its_row_up(gateway: GatewayProcess) -> None:
    async def talk() -> tuple[int, bytes]:
        async with asked(gateway.port, f"{REALTIME}gpt-realtime", ALICE) as session:
            assert await session.status() == 101
            send(session, {"type": "conversation.item.create", "item": TALK})
            send(session, {"type": "response.create"})
            await messages(session, "response.done")
            first, payload = await session.frame()
            session.send(close_frame(1008))
            return first, payload

    first, payload = asyncio.run(talk())
    assert first == 0x88
    assert (int.from_bytes(payload[:2], "big"), payload[2:]) == (1008, b"rate_limit_exceeded")
    (event,) = gateway.events(1)
    assert (event["status"], event["error"]) == ("rejected", "rate_limit_exceeded")
    assert event["tokens_in"] + event["tokens_out"] >= 5


def test_a_socket_of_responses_stays_when_one_is_refused(gateway: GatewayProcess) -> None:
    async def talk() -> list[Any]:
        found = []
        async with asked(gateway.port, "/v1/responses", BOB) as session:
            assert await session.status() == 101
            for _ in range(4):
                send(session, {"type": "response.create", "model": "gpt-5", "input": "hello"})
                found.append((await messages(session, "response.completed", "error"))[-1])
            session.send(close_frame(1000))
            assert await session.ending() == 1000
        return found

    one, two, *refused = asyncio.run(talk())
    assert (one["type"], two["type"]) == ("response.completed", "response.completed")
    for error in refused:
        assert (error["status"], error["error"]["code"]) == (429, "rate_limit_exceeded")
        assert "requests_per_day is 2" in error["error"]["message"]
    (event,) = gateway.events(1)
    assert event["status"] == "ok"
