"""What clients are told whose limits are used up: who shares the row, and when it resets."""

from __future__ import annotations

import json
from math import inf

import pytest

from mgw.clients.client_refusals import limit_refusal, model_not_priced, route_not_priced
from mgw.clients.limits import LIMITS_BY_NAME, LimitReached
from mgw.dialects import dialect_of
from mgw.dialects.refusal import word_of
from mgw.nouns.errors import Reason
from mgw.nouns.vocabulary import DialectName

BERLIN = "Europe/Berlin"
MIDNIGHT = 1795820400.0
ANEW = "it resets at 2026-11-28T00:00:00+01:00"


def reached(holder: str, name: str, most: int, seconds: float, resets: float | None = None) -> LimitReached:
    return LimitReached(holder, LIMITS_BY_NAME[name], most, seconds, resets)


@pytest.mark.parametrize(
    ("found", "message", "retry_after"),
    [
        (
            reached("alice", "requests_per_minute", 600, 12.2),
            "this key has reached its limit: requests_per_minute is 600",
            13.0,
        ),
        (
            reached("alice", "max_in_flight", 3, 1.0),
            "this key has reached its limit: max_in_flight is 3",
            1.0,
        ),
        (
            reached("group:research", "tokens_per_minute", 5, 0.1),
            "group:research has reached its limit: tokens_per_minute is 5",
            1.0,
        ),
        (
            reached("gateway", "max_in_flight", 9, 1.0),
            "gateway has reached its limit: max_in_flight is 9",
            1.0,
        ),
    ],
)
def test_a_row_of_a_minute_or_in_flight_is_refused_as_ever(
    found: LimitReached, message: str, retry_after: float
) -> None:
    error = limit_refusal(found, BERLIN)
    assert (error.reason, error.message) == (Reason.CLIENT_LIMIT, message)
    assert (error.retry_after, error.is_final) == (retry_after, False)


@pytest.mark.parametrize(
    ("found", "reason", "message", "retry_after"),
    [
        (
            reached("alice", "tokens_per_day", 2_000_000, 86398.2, MIDNIGHT),
            Reason.CLIENT_LIMIT,
            f"alice has reached its limit: tokens_per_day is 2000000; {ANEW}",
            86399.0,
        ),
        (
            reached("group:research", "usd_per_month", 500_250_000_000, 5.0, MIDNIGHT),
            Reason.CLIENT_BUDGET,
            f"group:research has reached its limit: usd_per_month is 500.25; {ANEW}",
            5.0,
        ),
        (
            reached("gateway/alice", "usd_total", 20 * 10**9, inf, inf),
            Reason.CLIENT_BUDGET,
            "gateway/alice has reached its limit: usd_total is 20; it never resets",
            None,
        ),
        (
            reached("alice", "requests_total", 5, inf),
            Reason.CLIENT_LIMIT,
            "alice has reached its limit: requests_total is 5; it never resets",
            None,
        ),
    ],
)
def test_a_longer_row_says_when_it_begins_anew_and_that_no_retry_helps(
    found: LimitReached, reason: Reason, message: str, retry_after: float | None
) -> None:
    error = limit_refusal(found, BERLIN)
    assert (error.reason, error.message) == (reason, message)
    assert (error.retry_after, error.is_final) == (retry_after, True)


def details_of(found: LimitReached) -> list[dict[str, str]]:
    document = json.loads(dialect_of(DialectName.GEMINI).render_refusal(limit_refusal(found), "r"))
    details: list[dict[str, str]] = document["error"]["details"]
    return details


def test_google_clients_are_told_the_delay_of_a_longer_row_alone() -> None:
    info = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "86399s"}
    assert details_of(reached("a", "usd_per_day", 1, 86398.2, MIDNIGHT))[1:] == [info]
    assert details_of(reached("a", "tokens_per_day", 1, 86398.2, MIDNIGHT))[1:] == [info]
    assert details_of(reached("a", "usd_total", 1, inf))[1:] == []
    assert details_of(reached("a", "tokens_per_minute", 1, 12.0))[1:] == []


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("usd_per_day", "insufficient_quota"),
        ("tokens_per_day", "rate_limit_exceeded"),
        ("max_in_flight", "rate_limit_exceeded"),
    ],
)
def test_events_say_money_in_a_word_of_its_own(name: str, word: str) -> None:
    resets = None if name == "max_in_flight" else MIDNIGHT
    assert word_of(limit_refusal(reached("a", name, 1, 1.0, resets))) == word


@pytest.mark.parametrize("name", ["usd_per_day", "usd_total", "tokens_per_month", "requests_per_week"])
def test_a_row_that_requests_in_progress_fill_is_worth_a_retry(name: str) -> None:
    refusal = limit_refusal(reached("group:a", name, 10**9, 1.0))
    assert (word_of(refusal), refusal.retry_after) == ("rate_limit_exceeded", 1.0)
    assert refusal.message.startswith(f"group:a has reached its limit: {name} is 1")
    assert refusal.message.endswith("; requests in progress hold the rest of it: try again soon")
    assert not refusal.is_final


def test_what_has_no_price_is_named() -> None:
    model, route = model_not_priced("gpt-x" * 100), route_not_priced("/v1/batches")
    assert (word_of(model), word_of(route)) == ("model_not_priced", "route_not_priced")
    assert all("limits on usd apply to this client" in str(one) for one in (model, route))
    assert "gpt-x" in model.message
    assert len(model.message) < 400
    assert "/v1/batches" in route.message
