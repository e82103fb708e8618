"""Requests around the end of a period: which one they count in, and what refusals say of the next one."""

from __future__ import annotations

from datetime import datetime
from typing import Final

import pytest

from tests.memory.web.test_used_up_limits import ask, error_of, header
from tests.support.configs import THREE_FAMILIES
from tests.support.translation import said
from tests.support.web_servers import WebServerHarness

COMPLETION: Final = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "created": 1,
    "model": "gpt-b",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "hi"}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10},
}
COST: Final = 0.01
"""What the answer costs, which is the whole row."""
CONFIG: Final = """
prices: {{rows: [{{model: "*", input: 1000, output: 1000}}]}}
edge_auth:
  enabled: true
  timezone: {zone}
  groups: {{money: {{limits: [{{usd: {cost}, per: {window}}}]}}}}
  keys: [{{name: alice, key: edge, groups: [money]}}]
"""
BERLIN: Final = "Europe/Berlin"
BEFORE_END: Final = 10


class Day:
    """A server at a moment, before its clock moves on."""

    def __init__(self, zone: str, window: str, moment: float) -> None:
        text = THREE_FAMILIES + CONFIG.format(zone=zone, cost=COST, window=window)
        self.harness = harness = WebServerHarness(text)
        harness.counts.clock = lambda: moment + harness.clock.seconds()

    def is_admitted(self) -> bool:
        """Serve a request, which costs as much as there is in a period."""
        self.harness.connect()
        self.harness.send(ask("edge"))
        connection = self.harness.connection
        connection.send(said(COMPLETION))
        return self.harness.received().startswith(b"HTTP/1.1 200 ")

    def refused(self) -> tuple[str | None, str]:
        """Return what a refusal says of when to come again: for programs, and for people."""
        self.harness.connect()
        self.harness.send(ask("edge"))
        response = self.harness.received()
        assert response.startswith(b"HTTP/1.1 429 ")
        return header(response, b"Retry-After"), error_of(response)["message"].partition("; it resets at ")[2]


@pytest.mark.parametrize(
    ("zone", "window", "ends", "next_ends"),
    [
        pytest.param(
            BERLIN, "month", "2026-12-01T00:00:00+01:00", "2027-01-01T00:00:00+01:00", id="a month's end"
        ),
        pytest.param(
            BERLIN,
            "month",
            "2026-03-01T00:00:00+01:00",
            "2026-04-01T00:00:00+02:00",
            id="a month with summer",
        ),
        pytest.param(
            BERLIN, "week", "2027-01-04T00:00:00+01:00", "2027-01-11T00:00:00+01:00", id="a week of two years"
        ),
        pytest.param(BERLIN, "day", "2026-03-29T00:00:00+01:00", "2026-03-30T00:00:00+02:00", id="23 hours"),
        pytest.param(BERLIN, "day", "2026-10-25T00:00:00+02:00", "2026-10-26T00:00:00+01:00", id="25 hours"),
        pytest.param(
            "America/Santiago",
            "day",
            "2026-09-06T01:00:00-03:00",
            "2026-09-07T00:00:00-03:00",
            id="a day without a midnight",
        ),
    ],
)
def test_a_request_counts_in_the_period_in_which_it_has_begun(
    zone: str, window: str, ends: str, next_ends: str
) -> None:
    end, next_end = (datetime.fromisoformat(text).timestamp() for text in (ends, next_ends))
    day = Day(zone, window, end - BEFORE_END)
    harness = day.harness
    harness.send(ask("edge"))
    first, connection = harness.transport, harness.connection
    assert not first.value()
    assert day.refused() == ("1", ""), "what it holds may soon be free"
    harness.clock.advance(BEFORE_END + 1)
    connection.send(said(COMPLETION))
    assert first.value().startswith(b"HTTP/1.1 200 ")
    assert day.is_admitted(), "what has ended counts in the period before"
    assert day.refused() == (str(int(next_end - end) - 1), next_ends)
    harness.clock.advance(next_end - end - 3)
    assert day.refused() == ("2", next_ends)
    harness.clock.advance(2)
    assert day.is_admitted()
