"""Sessions that end in every way there is, a drawn mix over real sockets: one event of each, and no more."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random
from signal import SIGHUP
from typing import Any, Final

import pytest

from bench.machines import resident_bytes
from tests.support.gateway import GatewayProcess, start_gateway
from tests.support.raw_sessions import REALTIME, TEXT, RawSession, asked, close_frame, frame
from tests.support.simulator import SimulatorProcess
from tests.support.waiting import wait_until

AT_ONCE: Final = 200
_ILLEGAL: Final = {
    "reserved bit": frame(0xC1, b"hi"),
    "reserved opcode": frame(0x83, b"hi"),
    "no mask": b"\x81\x02hi",
    "large ping": frame(0x89, bytes(126)),
    "continuation": frame(0x80, b"hi"),
    "half a code": frame(0x88, b"\x03"),
    "no code": close_frame(1005),
}
_BAD_FRAMES: Final = ("rsv", "opcode", "masked", "big-control", "cut-control", "continuation", "length")
Told = tuple[str, str | None, int]
"""Of the event: how it ended, with which error, and the client's status."""
OK: Final[Told] = ("ok", None, 101)
LEFT: Final[Told] = ("client_abort", "client_abort", 499)


def configuration(simulator: SimulatorProcess, minutes: float = 60) -> str:
    return f"""
providers:
  main: {{kind: openai, base_url: "{simulator.url}/v1", api_key: sk-canary}}
  nobody: {{kind: openai, base_url: "http://127.0.0.1:9/v1", api_key: sk-canary}}
defaults: {{openai_dialect: main}}
realtime: {{max_session_minutes: {minutes}}}
"""


async def greeted(session: RawSession) -> None:
    """Wait until the session is open, and its first message has come."""
    assert await session.status() == 101
    assert (await session.frame())[0] == TEXT


async def client_closes(session: RawSession) -> None:
    await greeted(session)
    session.send(close_frame(4000, "enough"))
    assert await session.ending() == 4000
    await session.is_over()


async def client_closes_without_code(session: RawSession) -> None:
    await greeted(session)
    session.send(close_frame())
    assert await session.ending() == 1005
    await session.is_over()


async def client_resets(session: RawSession) -> None:
    await greeted(session)
    session.reset()


async def client_closes_its_half(session: RawSession) -> None:
    await greeted(session)
    session.half_close()
    await session.is_over()


async def client_leaves_in_a_frame(session: RawSession) -> None:
    await greeted(session)
    session.send(frame(TEXT, b"a message")[:-4])
    session.half_close()
    await session.is_over()


async def upstream_closes(session: RawSession, code: int) -> None:
    assert await session.status() == 101
    assert await session.ending() == code
    session.send(close_frame(None if code == 1005 else code))
    await session.is_over()


async def upstream_closes_and_client_just_leaves(session: RawSession) -> None:
    assert await session.status() == 101
    assert await session.ending() == 1000


async def upstream_breaks(session: RawSession) -> None:
    assert await session.status() == 101
    assert await session.ending() == 1011
    await session.is_over()


async def upstream_resets(session: RawSession) -> None:
    await greeted(session)  # before: a reset takes away what was not read yet
    session.send(frame(TEXT, b"no JSON: this is answered"))
    assert await session.ending() == 1011
    await session.is_over()


async def upstream_does_not_answer(session: RawSession) -> None:
    await greeted(session)
    session.send(close_frame(1000))
    await session.is_over()


async def client_breaks_the_rules(session: RawSession, illegal: bytes) -> None:
    await greeted(session)
    session.send(illegal)
    assert await session.ending() == 1002
    await session.is_over()


async def refused(session: RawSession, status: int) -> None:
    assert await session.status() == status


async def leaves_while_it_is_dialled(session: RawSession) -> None:
    await asyncio.sleep(0)


async def leaves_before_its_first_message(session: RawSession) -> None:
    assert await session.status() == 101


async def closes_before_its_first_message(session: RawSession) -> None:
    assert await session.status() == 101
    session.send(close_frame(1000))
    await session.is_over()


async def names_no_model(session: RawSession) -> None:
    assert await session.status() == 101
    session.send(frame(TEXT, b'{"type": "response.create"}'))
    assert await session.ending() == 1008
    await session.is_over()


async def gets_its_limit(session: RawSession) -> None:
    await greeted(session)
    assert await session.ending() == 1001
    session.send(close_frame(1001))
    await session.is_over()


@dataclass(frozen=True)
class Way:
    """One way for a session to end."""

    model: str
    play: Callable[[RawSession], Awaitable[None]]
    told: Told
    path: str = REALTIME

    async def run(self, port: int) -> None:
        target = f"{self.path}{self.model}" if self.path == REALTIME else self.path
        async with asked(port, target) as session:
            await self.play(session)


def upstream_way(model: str, code: int, told: Told) -> Way:
    return Way(f"u{code}.{model}", partial(upstream_closes, code=code), told)


_BROKEN: Final = ("upstream_error", "truncated", 101)
_ERROR: Final = ("upstream_error", "upstream_error_event", 101)
_UNREADABLE: Final = ("upstream_error", "unreadable", 101)
_MALFORMED: Final = ("rejected", "malformed", 101)
WAYS: Final = (
    Way("close", client_closes, OK),
    Way("close-bare", client_closes_without_code, OK),
    Way("reset", client_resets, LEFT),
    Way("half", client_closes_its_half, LEFT),
    Way("in-frame", client_leaves_in_a_frame, LEFT),
    upstream_way("sim-close-1000-1", 1000, OK),
    upstream_way("sim-close-1005-1", 1005, OK),
    upstream_way("sim-close-1011-1", 1011, _ERROR),
    upstream_way("sim-close-4000-1", 4000, _ERROR),
    Way("leaves.sim-close-1000-1", upstream_closes_and_client_just_leaves, OK),
    Way("sim-reset-after-2", upstream_resets, _BROKEN),
    Way("sim-truncate-after-1", upstream_breaks, _BROKEN),
    Way("sim-no-close", upstream_does_not_answer, OK),
    Way("reset.sim-no-close", client_resets, LEFT),
    *(
        Way(f"bad-{number}", partial(client_breaks_the_rules, illegal=illegal), _MALFORMED)
        for number, illegal in enumerate(_ILLEGAL.values())
    ),
    *(Way(f"sim-bad-frame-{kind}", upstream_breaks, _UNREADABLE) for kind in _BAD_FRAMES),
    Way("sim-status-429", partial(refused, status=429), ("upstream_error", "upstream_4xx", 429)),
    Way("sim-status-503", partial(refused, status=503), ("upstream_error", "upstream_5xx", 503)),
    Way("sim-bad-accept", partial(refused, status=502), ("upstream_error", "unreadable", 502)),
    Way("sim-reset-before", partial(refused, status=502), ("upstream_error", "reset", 502)),
    Way("nobody/m", partial(refused, status=502), ("upstream_error", "refused_connection", 502)),
    Way("leave.sim-stall-head", leaves_while_it_is_dialled, LEFT),
    Way("first", leaves_before_its_first_message, LEFT, "/v1/responses"),
    Way("second", closes_before_its_first_message, OK, "/v1/responses"),
    Way("third", names_no_model, _MALFORMED, "/v1/responses"),
)
LIMITED: Final = Way("limited", gets_its_limit, OK)


@pytest.mark.slow
@pytest.mark.parametrize("count", [2000])
def test_however_sessions_end_nothing_is_left_of_them(simulator: SimulatorProcess, count: int) -> None:
    draw = Random(20_261_123)
    with start_gateway(configuration(simulator)) as gateway:
        asyncio.run(play(gateway.port, WAYS[:1]))  # alone: what sessions need is imported
        asyncio.run(play(gateway.port, WAYS))
        wait_until(lambda: gateway.metric("mgw_sessions_in_flight") == 0, "the first ones to end")
        gateway.signal(SIGHUP)
        gateway.log(b"reloaded")  # and what a reload needs
        before = resident_bytes(gateway.process.pid)
        drawn = [draw.choice(WAYS) for _ in range(count)]
        asyncio.run(play(gateway.port, drawn))
        gateway.rewrite(gateway.config_file.read_text().replace("minutes: 60", "minutes: 0.01"))
        gateway.signal(SIGHUP)
        wait_until(lambda: gateway.stderr.data.count(b"reloaded") > 1, "the reload")
        asyncio.run(play(gateway.port, limited := [LIMITED] * 20))
        events = gateway.events(count + len(WAYS) + 21)
        assert told(events) == expected([WAYS[0], *WAYS, *drawn, *limited])
        wait_until(lambda: gateway.metric("mgw_sessions_in_flight") == 0, "all slots to be free")
        wait_until(lambda: sockets(gateway) <= 3, "all connections to be closed")
        assert resident_bytes(gateway.process.pid) - before < 8 * 1024 * 1024


async def play(port: int, ways: Sequence[Way]) -> None:
    waiting = iter(ways)

    async def some() -> None:
        for way in waiting:
            try:
                await way.run(port)
            except (AssertionError, OSError) as error:
                raise AssertionError(f"{way}: {error!r}") from error

    await asyncio.gather(*(some() for _ in range(AT_ONCE)))


def told(events: list[dict[str, Any]]) -> Counter[tuple[str | None, Told]]:
    return Counter(
        (event.get("model"), (event["status"], event.get("error"), event["http_status"])) for event in events
    )


def expected(ways: Sequence[Way]) -> Counter[tuple[str | None, Told]]:
    return Counter((way.model if way.path == REALTIME else None, way.told) for way in ways)


def sockets(gateway: GatewayProcess) -> int:
    folder = f"/proc/{gateway.process.pid}/fd"
    return sum(_leads_to_a_socket(f"{folder}/{name}") for name in os.listdir(folder))


def _leads_to_a_socket(link: str) -> bool:
    try:
        return os.readlink(link).startswith("socket:")
    except FileNotFoundError:
        return False
