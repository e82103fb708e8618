"""Counts in logarithmic buckets: what they say, and that they add up in whatever form."""

from __future__ import annotations

import math
import sqlite3
from collections import Counter
from contextlib import closing
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mgw.usage.buckets import (
    BOUNDS,
    BUCKETS,
    NO_COUNTS,
    add_up,
    bucket_of,
    bucket_sql,
    number_of,
    percentiles,
    text_of,
)

MILLISECOND = 1000
HOUR = 3600 * 1_000_000
durations = (
    st.integers(MILLISECOND, HOUR)
    | st.sampled_from(BOUNDS[1:])
    | st.sampled_from(BOUNDS).map(lambda one: one + 1)
)
counted = st.dictionaries(st.integers(0, BUCKETS - 1), st.integers(1, 2**40), max_size=20).map(Counter)


def counts_of(values: list[int]) -> Counter[int]:
    return Counter(map(bucket_of, values))


@given(st.lists(durations, min_size=1, max_size=200), st.sampled_from([0.5, 0.95, 0.99, 1.0]))
def test_a_percentile_is_within_5_percent_of_the_exact_one(values: list[int], share: float) -> None:
    exact = sorted(values)[math.ceil(share * len(values)) - 1] / MILLISECOND
    _, (found,) = percentiles(number_of(text_of(counts_of(values))), [share])
    assert exact / 1.05 <= found <= exact * 1.05


def test_buckets_reach_from_a_millisecond_to_an_hour_in_steps_of_5_percent() -> None:
    assert BOUNDS[0] <= MILLISECOND
    assert BOUNDS[-1] >= HOUR
    assert all(1 < upper / lower <= 1.05 for lower, upper in pairwise(BOUNDS))


@given(counted)
def test_text_holds_every_count(buckets: Counter[int]) -> None:
    assert add_up(text_of(buckets)) == buckets
    if buckets:
        assert percentiles(number_of(text_of(buckets)), [])[0] == buckets.total()


@given(st.lists(counted, max_size=5))
def test_joined_texts_and_added_numbers_are_sums(found: list[Counter[int]]) -> None:
    total = sum(found, Counter())
    joined = "".join(map(text_of, found))
    assert add_up(joined) == total
    assert (
        sum(map(number_of, map(text_of, found)), NO_COUNTS) == number_of(text_of(total)) == number_of(joined)
    )


def test_text_grows_with_the_digits_of_a_count_alone() -> None:
    assert len(text_of(Counter({7: 1}))) == 1
    assert len(text_of(Counter({7: 2**20 - 1}))) == 20
    assert len(text_of(Counter({7: 2**31 * 5}))) == 5  # beyond the last power


@given(st.lists(durations | st.integers(0, 2 * HOUR), max_size=30))
def test_sqlite_finds_the_same_buckets(values: list[int]) -> None:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("CREATE TABLE found (value INTEGER)")
        connection.executemany("INSERT INTO found VALUES (?)", [(value,) for value in [*values, None]])
        ((text,),) = connection.execute(f"SELECT group_concat({bucket_sql('value')}, '') FROM found")
    assert add_up(text or "") == counts_of(values)


@pytest.mark.parametrize("text", ["a", "\uffff\U0010ffff", "\x00"])
def test_what_is_no_count_counts_nothing(text: str) -> None:
    assert add_up(text) == Counter()
    assert number_of(text) == NO_COUNTS


def test_durations_beyond_the_last_bound_are_that_bound() -> None:
    assert percentiles(number_of(text_of(Counter({BUCKETS - 1: 3}))), [0.95]) == (
        3,
        [BOUNDS[-1] / MILLISECOND],
    )
