"""Counts of durations in logarithmic buckets, from which percentiles come.

A bucket reaches from one of :data:`BOUNDS` to the next, which is 5 % more, so a percentile is that near to
the exact one, from 1 ms to an hour.  The counts have two forms:

* In SQLite they are text: a character stands for a bucket and a power of two, and adds that many events.  So
  texts are added up by joining them, as ``group_concat(counts, '')`` does, and counting characters is quick.
* In Python they are one whole number with :data:`_BITS` bits for each bucket, and ``+`` adds all of them up.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_left
from collections import Counter
from itertools import accumulate
from typing import Final

_FIRST_BOUND: Final = 952
"""So that 1 ms lies within 5 % of both ends of its bucket."""
_LAST_BOUND: Final = 3_600_000_000
_MICROSECONDS: Final = 1000
"""In a millisecond."""


def _bounds() -> tuple[int, ...]:
    found = [_FIRST_BOUND]
    while found[-1] < _LAST_BOUND:
        found.append(found[-1] * 21 // 20)
    return tuple(found)


BOUNDS: Final = _bounds()
"""Upper bounds in whole microseconds, each within its bucket; there is one more bucket without a bound."""
BUCKETS: Final = len(BOUNDS) + 1
_BITS: Final = 64
_FIRST: Final = 0x100
"""The character of one event in the first bucket; the characters of each power of two follow one another."""
_POWERS: Final = 32
"""With more events than the last power has, its character stands there several times."""
_END: Final = _FIRST + _POWERS * BUCKETS
_BYTES: Final = _BITS // 8 * BUCKETS
NO_COUNTS: Final = 0


def bucket_of(microseconds: int) -> int:
    """Return the number of the bucket of a duration."""
    return bisect_left(BOUNDS, microseconds)


def bucket_sql(value: str) -> str:
    """Return in SQL the character of one event.

    :param value: whole microseconds in SQL, or ``NULL``, which has none.
    """
    return f"CASE WHEN {value} IS NOT NULL THEN {_search(value, 0, BUCKETS)} END"


def _search(value: str, first: int, end: int) -> str:
    """Return in SQL the character of one of these buckets, by halves: not every SQLite has logarithms."""
    if end - first == 1:
        return f"'{chr(_FIRST + first)}'"
    middle = (first + end) // 2
    lower, upper = _search(value, first, middle), _search(value, middle, end)
    return f"CASE WHEN {value} <= {BOUNDS[middle - 1]} THEN {lower} ELSE {upper} END"


def text_of(buckets: Counter[int]) -> str:
    """Return counts as text.

    :param buckets: how many events each bucket has, by its number.
    """
    found = []
    for bucket in sorted(buckets):
        count = buckets[bucket]
        while count > 0:
            power = min(count.bit_length(), _POWERS) - 1
            found.append(chr(_FIRST + power * BUCKETS + bucket) * (count >> power))
            count &= (1 << power) - 1
    return "".join(found)


def add_up(text: str) -> Counter[int]:
    """Return how many events each bucket has in joined texts, by its number."""
    buckets: Counter[int] = Counter()
    for character, times in Counter(text).items():
        code = ord(character)
        if _FIRST <= code < _END:  # others come from whoever else writes to the file
            power, bucket = divmod(code - _FIRST, BUCKETS)
            buckets[bucket] += times << power
    return buckets


def number_of(text: str) -> int:
    """Return the counts of joined texts as one number, which others can be added to."""
    counts = array("Q", bytes(_BYTES))
    for bucket, count in add_up(text).items():
        counts[bucket] = count
    return int.from_bytes(counts, sys.byteorder)


def events_in(number: int) -> int:
    """Return how many events are counted."""
    return sum(_counts(number))


def percentile(number: int, share: float) -> float:
    """Return below which milliseconds this share of the events lies, as even as they may lie in a bucket.

    :param number: counts of at least one event.
    """
    within = list(accumulate(_counts(number)))
    rank = share * within[-1]
    index = bisect_left(within, rank)
    if index >= len(BOUNDS):
        return BOUNDS[-1] / _MICROSECONDS
    lower, before = (BOUNDS[index - 1], within[index - 1]) if index else (0, 0)
    return (lower + (BOUNDS[index] - lower) * (rank - before) / (within[index] - before)) / _MICROSECONDS


def _counts(number: int) -> array[int]:
    return array("Q", number.to_bytes(_BYTES, sys.byteorder))
