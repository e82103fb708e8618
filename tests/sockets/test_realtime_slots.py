"""Realtime sessions by the thousand over real sockets: each has a slot, one end and one event."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from tests.support.gateway import GatewayProcess, start_gateway
from tests.support.raw_sessions import REALTIME, asked, close_frame
from tests.support.simulator import SimulatorProcess
from tests.support.waiting import WAIT_SECONDS, wait_until


def configuration(simulator: SimulatorProcess, max_sessions: int) -> str:
    return f"""
providers:
  main: {{kind: openai, base_url: "{simulator.url}/v1", api_key: sk-canary}}
defaults: {{openai_dialect: main}}
realtime: {{max_sessions: {max_sessions}}}
"""


@pytest.mark.parametrize(("clients", "slots"), [(300, 128), pytest.param(2000, 1024, marks=pytest.mark.slow)])
def test_a_stampede_gets_as_many_sessions_as_there_are(
    simulator: SimulatorProcess, clients: int, slots: int
) -> None:
    with start_gateway(configuration(simulator, slots)) as gateway:
        found = asyncio.run(stampede(gateway.port, clients, slots))
        assert found == {101: slots, 429: clients - slots}
        wait_until(lambda: in_flight(gateway) == 0, "all slots to be free")
        assert asyncio.run(stampede(gateway.port, 1, 1)) == {101: 1}
        events = gateway.events(clients + 1)
        assert len(events) == clients + 1
        assert Counter(event["http_status"] for event in events) == {101: slots + 1, 429: clients - slots}


def in_flight(gateway: GatewayProcess) -> float:
    return gateway.metric("mgw_sessions_in_flight")


async def stampede(port: int, clients: int, slots: int) -> Counter[int]:
    """Ask for sessions at once, each of which stays until all have been answered; return the statuses."""
    found: Counter[int] = Counter()
    answered = asyncio.Event()

    async def ask() -> None:
        async with asked(port, f"{REALTIME}m-1") as session:
            head = await session.head()
            status = int(head.split(b" ")[1])
            assert status == 101 or b"\r\nRetry-After: 1\r\n" in head
            found[status] += 1
            if found.total() == clients:
                answered.set()
            await asyncio.wait_for(answered.wait(), WAIT_SECONDS)
            if status == 101:
                session.send(close_frame(1000))
                assert await session.ending() == 1000
                await session.is_over()

    await asyncio.gather(*(ask() for _ in range(clients)))
    return found
