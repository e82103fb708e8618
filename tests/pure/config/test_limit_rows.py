"""Rows of limits in a configuration: what they mean, exactly, and which do not go together."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mgw.config.limit_rows import LimitRowSettings, Per
from mgw.config.load import parse
from mgw.config.problems import ConfigError

ONE = "providers: {main: {kind: openai}}\n"
PRICES = "prices: {rows: []}\n"
KEY = "name: a, key: a-long-key"


def rows_of(rows: str) -> tuple[LimitRowSettings, ...]:
    return parse(f"{ONE}{PRICES}edge_auth: {{limits: [{rows}]}}\n", "mgw.yaml", {}).edge_auth.limits


def said_of(settings: str) -> list[str]:
    with pytest.raises(ConfigError) as refusal:
        parse(ONE + settings, "mgw.yaml", {})
    return [str(problem).removeprefix("mgw.yaml:2: ") for problem in refusal.value.problems]


@pytest.mark.parametrize(
    ("row", "name", "most"),
    [
        ("requests: 5, per: minute", "requests_per_minute", 5),
        ("requests: 5, per: total", "requests_total", 5),
        ("tokens: 2_000_000, per: day", "tokens_per_day", 2_000_000),
        ("usd: 5000000, per: week", "usd_per_week", 5_000_000_000_000_000),
        ("usd: .5, per: month", "usd_per_month", 500_000_000),
        ("usd: 1_000.25, per: total", "usd_total", 1_000_250_000_000),
        ("usd: 1.5e+3, per: day", "usd_per_day", 1_500_000_000_000),
        ("usd: 0.000000001, per: day", "usd_per_day", 1),
        ("in_flight: 3", "max_in_flight", 3),
    ],
)
def test_a_row_has_a_name_and_a_whole_number_of_what_it_counts(row: str, name: str, most: int) -> None:
    (found,) = rows_of(f"{{{row}}}")
    assert (found.name, found.most) == (name, most)


@given(dollars=st.integers(0, 4_999_999), decimals=st.text("0123456789", min_size=1, max_size=9))
def test_money_is_what_the_text_says_to_the_last_decimal(dollars: int, decimals: str) -> None:
    nanodollars = dollars * 10**9 + int(decimals.ljust(9, "0"))
    if nanodollars:
        (found,) = rows_of(f"{{usd: {dollars}.{decimals}, per: day}}")
        assert found.most == nanodollars


@pytest.mark.parametrize(
    "usd",
    [
        *("0.0", "-1", "5000000.000000001", "0.0000000001", "4999999.0000000001", ".inf", ".nan", "true"),
        *("1:30.5", "'5'", "1e3"),
    ],
)
def test_other_numbers_are_no_amount_of_money(usd: str) -> None:
    (said,) = said_of(f"edge_auth: {{limits: [{{usd: {usd}, per: day}}]}}\n{PRICES}")
    assert said.startswith(
        "edge_auth.limits.0.usd: expected a number of US dollars above 0 and at most 5000000, with at most 9 "
        "decimals, found "
    )


def test_shares_to_warn_at_are_sorted_and_leave_out_the_whole() -> None:
    (found,) = rows_of("{tokens: 5, per: day, warn: [1, 0.8, 0.123456789, 1.0]}")
    assert found.warn_at == (123_456_789, 800_000_000)


@pytest.mark.parametrize(
    ("row", "is_reserved"),
    [
        ("tokens: 5, per: day", False),
        ("tokens: 5, per: day, count: before", True),
        ("usd: 5, per: day", True),
    ],
)
def test_money_and_tokens_that_count_before_are_reserved(row: str, *, is_reserved: bool) -> None:
    (found,) = rows_of(f"{{{row}}}")
    assert found.is_reserved is is_reserved


def test_rows_of_one_name_may_differ_in_each_and_in_action() -> None:
    rows = "{tokens: 5, per: day}, {tokens: 5, per: day, each: true}, {tokens: 5, per: day, action: warn}"
    assert [row.refuses for row in rows_of(rows)] == [True, True, False]


ONLY = "keep only one"


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (
            "limits: [{tokens: 5, per: day}, {requests: 1, per: day}, {tokens: 6, per: day}]",
            f"edge_auth.limits.2: edge_auth.limits.0 already limits tokens_per_day: {ONLY}",
        ),
        (
            "groups: {a: {limits: [{in_flight: 5, each: true}, {in_flight: 6, each: true}]}}",
            f"edge_auth.groups.a.limits.1: edge_auth.groups.a.limits.0 already limits max_in_flight: {ONLY}",
        ),
        (
            f"keys: [{{{KEY}, requests_per_minute: 5, limits: [{{requests: 5, per: minute}}]}}]",
            f"edge_auth.keys.0.limits.0: the setting requests_per_minute already limits the same: {ONLY}",
        ),
        (
            f"keys: [{{{KEY}, max_in_flight: 5, limits: [{{in_flight: 4, action: warn}}]}}]",
            f"edge_auth.keys.0.limits.0: the setting max_in_flight already limits the same: {ONLY}",
        ),
    ],
)
def test_rows_that_repeat_are_a_mistake(settings: str, said: str) -> None:
    assert said_of(f"edge_auth: {{{settings}}}\n") == [said]


@pytest.mark.parametrize(
    ("settings", "place"),
    [
        ("limits: [{requests: 1, per: day}, {usd: 5, per: day}]", "limits.1"),
        ("groups: {research: {limits: [{usd: 5, per: day}]}}", "groups.research.limits.0"),
        (f"keys: [a-plain-key, {{{KEY}, limits: [{{usd: 5, per: day}}]}}]", "keys.1.limits.0"),
    ],
)
def test_money_cannot_be_limited_without_prices(settings: str, place: str) -> None:
    said = f"edge_auth.{place}.usd: requires prices: set prices.file or prices.rows"
    assert said_of(f"edge_auth: {{{settings}}}\n") == [said]


def test_a_block_of_prices_with_a_mistake_is_no_second_mistake() -> None:
    said = said_of("edge_auth: {limits: [{usd: 5, per: day}]}\nprices: 5\n")
    assert len(said) == 1
    assert "prices: expected" in said[0]


def test_a_key_may_not_be_called_as_the_gateway_where_that_has_limits() -> None:
    settings = "edge_auth: {limits: [{requests: 5, per: day}], keys: [{name: gateway, key: a-long-key}]}\n"
    what = "limits of the gateway are shown under the name gateway"
    assert said_of(settings) == [f"edge_auth.keys.0.name: expected another name: {what}"]
    without_limits = f"{ONE}edge_auth: {{keys: [{{name: gateway, key: a-long-key}}]}}\n"
    assert parse(without_limits, "mgw.yaml", {}).edge_auth.names == ["gateway"]


def test_every_time_has_its_row() -> None:
    assert [rows_of(f"{{tokens: 1, per: {per}}}")[0].per for per in Per] == list(Per)
