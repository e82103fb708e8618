"""How ``mgw requests`` shows requests: a table that fits, and everything there is of one."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mgw.cli.request_lines import NARROWEST, render_details, render_table

ID = "req_0123456789abcdef01234567"
FULL: dict[str, Any] = {  # Any: JSON
    "request_id": ID,
    "time": "2026-01-31T12:00:00.250Z",
    "client": "an-agent-with-a-long-name",
    "provider": "openrouter-europe",
    "model": "vendor/a-large-model-2026-01-31",
    "tokens_in": 123_456,
    "tokens_out": 9876,
    "cost_usd": 0.0123,
    "status": "upstream_error",
    "http_status": 504,
    "latency_ms": 120_123.4,
    "ttft_ms": 12_345.6,
    "error": "first_byte_timeout",
}


def test_a_line_has_the_essentials() -> None:
    event = {**FULL, "client": "team", "provider": "main", "model": "fast", "latency_ms": 850.4}
    head, line = render_table([event]).splitlines()
    assert head.split() == [
        *("time", "status", "client", "provider", "model", "latency", "ttft", "tokens", "cost", "error"),
        "request_id",
    ]
    assert line.split() == [
        *("12:00:00", "504", "team", "main", "fast", "850ms", "12.3s", "123k>9.9k", "$0.0123"),
        *("first_byte_timeout", ID),
    ]


def test_what_is_not_known_is_a_dash_and_an_outcome_stands_for_an_error() -> None:
    left = {"request_id": ID, "time": "2026-01-30T12:00:00.250Z", "status": "client_abort"}
    lines = render_table([FULL, left], 200).splitlines()
    assert lines[2].split() == ["01-30", "12:00:00", *"-" * 8, "client_abort", ID]


texts = st.text(max_size=60)
events = st.fixed_dictionaries(
    {
        "request_id": st.just(ID),
        "time": st.sampled_from(["2026-01-31T12:00:00.250Z", "2026-01-30T12:00:00.250Z"]),
        "client": texts,
        "model": texts,
        "provider": texts,
        "error": texts,
        "http_status": st.integers(100, 599),
        "latency_ms": st.floats(0, 600_000),
        "ttft_ms": st.none() | st.floats(0, 600_000),
        "tokens_in": st.none() | st.integers(0, 9_000_000),
        "tokens_out": st.none() | st.integers(0, 9_000_000),
        "cost_usd": st.none() | st.floats(0, 999),
    }
)


@given(st.lists(events, min_size=1, max_size=5))
def test_a_table_fits_a_terminal_and_keeps_ids_whole(found: list[dict[str, Any]]) -> None:
    lines = render_table(found).removesuffix("\n").split("\n")
    assert max(map(len, lines)) <= NARROWEST
    assert all(line.endswith(ID) and line.isprintable() for line in lines[1:])


def test_a_wider_terminal_shows_names_whole() -> None:
    assert FULL["model"] in render_table([FULL], 200)
    assert FULL["model"] not in render_table([FULL])


@pytest.mark.parametrize(
    ("cost", "shown"), [(0, "$0"), (0.00001, "<$.0001"), (0.5, "$0.5000"), (12.345, "$12.35")]
)
def test_money_is_short(cost: float, shown: str) -> None:
    assert f" {shown} " in render_table([{**FULL, "cost_usd": cost}])


def test_details_have_every_field() -> None:
    event = {
        "request_id": ID,
        "stream": True,
        "cost_usd": 1e-09,
        "dropped_fields": ["a", "b"],
        "error": "\x1b[2J",
    }
    assert render_details(event) == (
        f"request_id      {ID}\nstream          yes\ncost_usd        0.000000001\n"
        "dropped_fields  a, b\nerror           ?[2J\n"
    )
