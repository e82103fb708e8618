"""What a session costs: its minutes, and the tokens of the responses that ended in it (contract 7.12)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mgw.realtime.traffic import _MAX_METERED_BYTES
from mgw.usage.event import Outcome
from tests.support.configs import THREE_FAMILIES
from tests.support.memory_sessions import closing, opened, spoken
from tests.support.raw_sessions import close_frame

BY_TOKENS = "prices: {rows: [{model: '*', input: 4, cache_read: 0.4, output: 16}]}\n"
BY_MINUTES = "prices: {rows: [{model: '*', per_minute: 0.05}]}\n"
BY_BOTH = "prices: {rows: [{model: '*', input: 4, cache_read: 0.4, output: 16, per_minute: 0.05}]}\n"
DONE: dict[str, Any] = {  # Any: JSON
    "type": "response.done",
    "response": {
        "usage": {
            "total_tokens": 30,
            "input_tokens": 20,
            "output_tokens": 10,
            "input_token_details": {"cached_tokens": 5},
        }
    },
}
TOKENS = 2 * (15 * 4 + 5 * 0.4 + 10 * 16) * 1e-6


@pytest.mark.parametrize(
    ("prices", "cost"),
    [(BY_TOKENS, TOKENS), (BY_MINUTES, 0.125), (BY_BOTH, TOKENS + 0.125), ("", None)],
    ids=["tokens", "minutes", "both", "no prices"],
)
@pytest.mark.parametrize("leaves", [True, False], ids=["its client left", "its provider ended it"])
def test_a_session_costs_what_was_counted_in_it(prices: str, cost: float | None, *, leaves: bool) -> None:
    harness = opened(THREE_FAMILIES + prices)
    for _ in range(2):
        harness.provider.send(spoken(json.dumps(DONE).encode()))
    harness.clock.advance(150)
    if leaves:
        harness.leave()
    else:
        harness.provider.send(closing(1000, b""))
        harness.channel.dataReceived(close_frame(1000))
    event = harness.event
    assert event.status is (Outcome.CLIENT_ABORT if leaves else Outcome.OK)
    assert (event.tokens_in, event.tokens_out, event.session_minutes) == (40, 20, 2.5)
    assert event.cost_usd == (None if cost is None else pytest.approx(cost, abs=1e-12))


@pytest.mark.parametrize("more", [0, 1])
def test_the_counts_of_a_message_up_to_some_size_are_seen(more: int) -> None:
    harness = opened(THREE_FAMILIES)
    payload = json.dumps(DONE).encode().ljust(_MAX_METERED_BYTES + more)
    harness.provider.send(b"\x81\x7f" + len(payload).to_bytes(8, "big") + payload)
    harness.leave()
    assert harness.event.tokens_in == (None if more else 20)


def test_a_session_without_counts_has_no_price_by_the_token() -> None:
    harness = opened(THREE_FAMILIES + BY_TOKENS)
    harness.leave()
    assert harness.event.cost_usd is None


BY_TIERS = """
prices:
  rows:
    - model: "*"
      input: 4
      output: 16
      input_audio: 32
      tiers: [{above: 30, input: 8}]
"""


def done(tokens_in: int, audio: int) -> bytes:
    usage = {"input_tokens": tokens_in, "output_tokens": 1, "input_token_details": {"audio_tokens": audio}}
    return spoken(json.dumps({"type": "response.done", "response": {"usage": usage}}).encode())


def test_each_response_of_a_session_has_its_own_tier_and_kinds() -> None:
    harness = opened(THREE_FAMILIES + BY_TIERS)
    for tokens_in, audio in ((20, 5), (20, 0), (31, 0)):
        harness.provider.send(done(tokens_in, audio))
    harness.leave()
    cost = (15 * 4 + 5 * 32 + 20 * 4 + 31 * 8 + 3 * 16) * 1e-6
    assert harness.event.cost_usd == pytest.approx(cost, abs=1e-12)
    assert harness.event.price_tier == "above 30"
