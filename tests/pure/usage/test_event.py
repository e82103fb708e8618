"""What an event's line promises (contract 7.2)."""

from __future__ import annotations

import json
import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mgw.usage.event import (
    ELLIPSIS,
    MAX_DROPPED_NAMES,
    MAX_LINE_BYTES,
    Outcome,
    UsageEvent,
    limit_dropped_names,
    timestamp,
)
from mgw.usage.record import encode
from tests.support.usage import event

FIELDS = [
    "request_id",
    "time",
    "dialect",
    "route",
    "provider",
    "model",
    "upstream_model",
    "modality",
    "transport",
    "tokens_in",
    "tokens_out",
    "cache_read_tokens",
    "cache_write_tokens",
    "reasoning_tokens",
    "session_minutes",
    "cost_usd",
    "stream",
    "status",
    "http_status",
    "latency_ms",
    "ttft_ms",
    "attempts",
    "key_hash",
    "dropped_fields",
    "bytes_in",
    "bytes_out",
    "frames_in",
    "frames_out",
    "client",
    "error",
    "error_message",
    "upstream_request_id",
]


def read(line: bytes) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(line)
    return found


def test_the_fields_are_those_of_the_contract_in_their_order_and_new_ones_behind() -> None:
    assert list(UsageEvent.__struct_fields__)[: len(FIELDS)] == FIELDS


def test_a_line_holds_the_known_fields_in_order() -> None:
    assert encode(event()) == (
        b'{"request_id":"req_1","time":"2025-11-24T16:00:00.250Z","dialect":"openai","route":"chat",'
        b'"provider":"main","model":"fast","upstream_model":"gpt-5","modality":"text","transport":"http",'
        b'"tokens_in":12,"tokens_out":0,"stream":true,"status":"ok","http_status":200,"latency_ms":1234.568,'
        b'"ttft_ms":99.0,"attempts":1,"key_hash":"0123456789ab"}\n'
    )


@pytest.mark.parametrize(
    "name", [name for name in FIELDS if "token" in name or name.endswith(("_in", "_out"))]
)
def test_a_known_zero_is_written_and_an_unknown_count_is_not(name: str) -> None:
    assert read(encode(event(**{name: 0})))[name] == 0
    assert name not in read(encode(event(**{name: None})))


def test_an_answer_that_is_no_stream_says_so() -> None:
    assert read(encode(event(stream=False)))["stream"] is False


@pytest.mark.parametrize("outcome", list(Outcome))
def test_a_status_is_written_by_its_name(outcome: Outcome) -> None:
    assert read(encode(event(status=outcome)))["status"] == outcome.value


def test_times_have_at_most_three_decimals() -> None:
    found = read(encode(event(latency_ms=0.123456, ttft_ms=1 / 3, session_minutes=2 / 3)))
    assert (found["latency_ms"], found["ttft_ms"], found["session_minutes"]) == (0.123, 0.333, 0.667)


@given(nanodollars=st.integers(0, 10**15))
def test_a_cost_is_written_exactly_with_at_most_nine_decimals(nanodollars: int) -> None:
    line = encode(event(cost_usd=nanodollars / 10**9)).decode()
    text = line.partition('"cost_usd":')[2].partition(",")[0]
    assert re.fullmatch(r"(0|[1-9][0-9]*)(\.[0-9]{0,8}[1-9])?", text)
    assert Decimal(text).scaleb(9) == nanodollars


def test_an_unknown_cost_is_not_written_and_a_known_zero_is() -> None:
    assert b"cost_usd" not in encode(event())
    assert b'"cost_usd":0,' in encode(event(cost_usd=0.0))


WILD = st.one_of(st.text(st.sampled_from('a"\\\n\x00\x9b\u2028\ud800\udfff')), st.text())


@given(model=WILD, dropped=st.lists(WILD, max_size=3))
def test_every_event_is_one_line_of_json_whatever_a_client_sent(model: str, dropped: list[str]) -> None:
    line = encode(event(model=model, dropped_fields=limit_dropped_names(dropped)))
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert read(line)["request_id"] == "req_1"


def test_half_a_surrogate_pair_does_not_lose_the_event() -> None:
    assert read(encode(event(model="m\ud800")))["model"] == "m?"


def test_a_huge_model_name_does_not_make_a_huge_line() -> None:
    line = encode(event(model="m" * 10_000_000, dropped_fields=limit_dropped_names(["\x00" * 100_000])))
    assert len(line) < MAX_LINE_BYTES
    assert read(line)["model"].endswith(ELLIPSIS)


def test_dropped_names_are_sorted_and_unique() -> None:
    assert limit_dropped_names(["user", "logit_bias", "user"]) == ("logit_bias", "user")


def test_no_dropped_names_are_unknown() -> None:
    assert limit_dropped_names([]) is None


def test_too_many_dropped_names_end_in_an_ellipsis() -> None:
    names = limit_dropped_names(f"f{number:04}" for number in range(300))
    assert names is not None
    assert len(names) == MAX_DROPPED_NAMES + 1
    assert names[-2:] == ("f0255", ELLIPSIS)


@pytest.mark.parametrize(
    ("unix_seconds", "text"),
    [
        (0.0, "1970-01-01T00:00:00.000Z"),
        (1_764_000_000.9999, "2025-11-24T16:00:00.999Z"),
        (1_764_000_001.0, "2025-11-24T16:00:01.000Z"),
    ],
)
def test_a_time_is_rfc_3339_in_utc_with_milliseconds(unix_seconds: float, text: str) -> None:
    assert timestamp(unix_seconds) == text


@pytest.mark.parametrize("name", FIELDS)
def test_every_field_is_documented(name: str) -> None:
    document = Path(__file__).parents[3] / "docs" / "usage-events.rst"
    assert f"``{name}``" in document.read_text(encoding="utf-8")
