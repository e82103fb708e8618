"""What a request leaves behind that is sent again, or to another target: no object in a cycle."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, cast

import pytest

from tests.support.in_memory.cases import Case, StreamCase, cases
from tests.support.in_memory.gateway import MemoryGateway
from tests.support.in_memory.measure import count_cycles
from tests.support.talks import chat
from tests.support.wires import ANTHROPIC, CHAT, answer

SETTINGS: Final = """
retries: {attempts: 1}
aliases: {up/bench-model: [up/bench-model, claude/claude-x], up/gpt-4.1: [up/gpt-4.1, claude/claude-x]}
server_timing: true
"""
CASES: Final = cases()
CHAT_REQUEST: Final = cast(Case, CASES["relayed 1 kB"]).request(0)
GOOD: Final = cast(Case, CASES["relayed 1 kB"]).answer
STREAM: Final = cast(StreamCase, CASES["chunk, relayed"])
BUSY: Final = b"HTTP/1.1 503 Busy\r\nContent-Length: 2\r\n\r\n{}"
_EVENTS: Final = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: %d\r\n\r\n%b"
_ERROR: Final = b'data: {"error":{"message":"busy","type":"server_error","code":503}}\n\n'
OVERLOAD: Final = _EVENTS % (len(_ERROR), _ERROR)
CUT: Final = _EVENTS % (99, b"data: ")
HANG_UP: Final = b""
_MESSAGE: Final = answer(ANTHROPIC, chat())
MESSAGE: Final = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (
    len(_MESSAGE),
    _MESSAGE,
)
WHOLE_STREAM: Final = STREAM.opening + STREAM.ending
Steps = Sequence[tuple[str, bytes]]
"""What each provider answers in turn; nothing: it hangs up."""


@dataclass(slots=True)
class Attempts:
    """Requests, each of which is sent several times."""

    gateway: MemoryGateway
    request: bytes
    steps: Steps
    status: bytes
    _count: int = 0
    _said: list[bytes] = field(default_factory=list)

    def prepare(self, count: int) -> None:
        """Note how many are asked for."""
        self._count, self._said = count, []

    def run(self) -> None:
        """Send each, and have every provider answer."""
        gateway, turn = self.gateway, self.gateway.reactor.turn
        for _ in range(self._count):
            client = gateway.connect()
            client.receive(self.request)
            for wire, response in self.steps:
                provider = gateway.provider(wire)
                assert provider.take(), "it has been asked"
                if response:
                    provider.receive(response)
                if not response or response is CUT:
                    provider.close()
                turn(1.0)
            self._said.append(client.take())
            client.close()
            for provider in gateway.reactor.connections.values():
                if provider.transport.protocol is not None:
                    provider.close()  # the next request begins with a new one, which is never stale
            turn(0.1)

    def check(self) -> None:
        """Look at each answer."""
        for said in self._said:
            assert said.startswith(b"HTTP/1.1 " + self.status), said[:500]
        self._said = []


@pytest.fixture(scope="module")
def gateway() -> Iterator[MemoryGateway]:
    gateway = MemoryGateway(settings=SETTINGS)
    yield gateway
    gateway.close()


@pytest.mark.parametrize(
    ("request_bytes", "steps", "status"),
    [
        pytest.param(CHAT_REQUEST, [(CHAT, GOOD)], b"200", id="a first attempt"),
        pytest.param(CHAT_REQUEST, [(CHAT, BUSY), (CHAT, GOOD)], b"200", id="a retry"),
        pytest.param(CHAT_REQUEST, [(CHAT, HANG_UP), (CHAT, GOOD)], b"200", id="a retry behind a reset"),
        pytest.param(CHAT_REQUEST, [(CHAT, BUSY)] * 2 + [(ANTHROPIC, MESSAGE)], b"200", id="a fallback"),
        pytest.param(CHAT_REQUEST, [(CHAT, BUSY)] * 2 + [(ANTHROPIC, BUSY)] * 2, b"503", id="no answer"),
        pytest.param(
            CHAT_REQUEST, [(CHAT, HANG_UP)] * 2 + [(ANTHROPIC, HANG_UP)] * 2, b"502", id="no connection"
        ),
        pytest.param(STREAM.request, [(CHAT, WHOLE_STREAM)], b"200", id="a stream"),
        pytest.param(STREAM.request, [(CHAT, OVERLOAD), (CHAT, WHOLE_STREAM)], b"200", id="an overload"),
        pytest.param(STREAM.request, [(CHAT, CUT), (CHAT, WHOLE_STREAM)], b"200", id="a stream that breaks"),
        pytest.param(
            STREAM.request, [(CHAT, OVERLOAD)] * 2 + [(ANTHROPIC, CUT)] * 2, b"502", id="streams that break"
        ),
    ],
)
def test_attempts_leave_nothing_to_the_collector(
    gateway: MemoryGateway, request_bytes: bytes, steps: Steps, status: bytes
) -> None:
    assert count_cycles(Attempts(gateway, request_bytes, steps, status), 20) == {}
