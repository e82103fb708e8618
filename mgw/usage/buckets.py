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
from collections import Counter, deque
from collections.abc import Sequence
from itertools import accumulate
from typing import Final

_FIRST_BOUND: Final = 952
"""The bound of the first bucket, chosen so that 1 ms lies within 5 % of both ends of its bucket."""
_LAST_BOUND: Final = 3_600_000_000
_MICROSECONDS: Final = 1000
"""Microseconds in a millisecond."""


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
"""The powers that have a character; with more events than the last, its character stands several times."""
_END: Final = _FIRST + _POWERS * BUCKETS
_UTF_16: Final = "utf-16-le" if sys.byteorder == "little" else "utf-16-be"
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
    for code, times in _codes(text).items():
        power, bucket = divmod(code - _FIRST, BUCKETS)
        buckets[bucket] += times << power
    return buckets


def number_of(text: str) -> int:
    """Return the counts of joined texts as one number, which others can be added to."""
    codes = _codes(text)
    found = array("Q", bytes(_BITS // 8 * _END))
    # A loop of Python's takes ten times as long.
    deque(map(found.__setitem__, codes.keys(), codes.values()), maxlen=0)
    number = NO_COUNTS
    for power, start in enumerate(range(_FIRST, max(codes, default=0) + 1, BUCKETS)):
        number += int.from_bytes(found[start : start + BUCKETS], sys.byteorder) << power
    return number


def _codes(text: str) -> Counter[int]:
    """Return how often each character stands in a text, by its number."""
    # Numbers are counted quicker than letters, each of which would have to be made and hashed.
    found = Counter(array("H", text.encode(_UTF_16, "surrogatepass")))
    if found and not _FIRST <= min(found) <= max(found) < _END:  # somebody else writes to the file
        for code in [code for code in found if not _FIRST <= code < _END]:
            del found[code]
    return found


def percentiles(number: int, shares: Sequence[float]) -> tuple[int, list[float]]:
    """Return how many events are counted, and below which milliseconds each of these shares of them lies.

    Events lie as evenly as they may within a bucket.  There is at least one.
    """
    within = list(accumulate(array("Q", number.to_bytes(_BYTES, sys.byteorder))))
    return within[-1], [_percentile(within, share * within[-1]) / _MICROSECONDS for share in shares]


def _percentile(within: Sequence[int], rank: float) -> float:
    index = bisect_left(within, rank)
    if index >= len(BOUNDS):
        return BOUNDS[-1]
    lower, before = (BOUNDS[index - 1], within[index - 1]) if index else (0, 0)
    return lower + (BOUNDS[index] - lower) * (rank - before) / (within[index] - before)
