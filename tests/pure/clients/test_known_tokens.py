"""How many tokens are remembered, and which make room."""

from __future__ import annotations

from math import inf

from hypothesis import given
from hypothesis import strategies as st

from mgw.clients.client import Client
from mgw.clients.expired_tokens import MAX_TOKENS, ExpiredTokens
from mgw.clients.known_tokens import MAX_KNOWN_BYTES, KnownToken, KnownTokens
from mgw.nouns.secret import Secret


def digest(number: int) -> bytes:
    return number.to_bytes(32)


def token(value: str = "token") -> KnownToken:
    return KnownToken(Client("corp:ann", b""), Secret(value), "corp", 1.0, 1.0, 1.0)


def test_exactly_so_many_expired_tokens_are_remembered() -> None:
    expired = ExpiredTokens()
    for number in range(MAX_TOKENS):
        expired.add(digest(number))
    assert expired.bound(digest(0), inf) == -inf  # once more: it is the last one now
    expired.add(digest(MAX_TOKENS))
    assert [expired.bound(digest(number), inf) for number in (0, 2, 1)] == [-inf, -inf, inf]


def test_a_token_ends_at_the_earliest_of_its_times() -> None:
    expired = ExpiredTokens()
    assert [expired.bound(digest(0), ends) for ends in (7, 5, 6)] == [7, 5, 5]
    assert expired.bound(digest(1), 8) == 8
    expired.add(digest(0))
    assert expired.bound(digest(0), 9) == -inf


def test_exactly_so_many_valid_tokens_are_known_and_the_least_used_makes_room() -> None:
    known = KnownTokens()
    for number in range(MAX_TOKENS):
        known.keep(digest(number), token())
    assert known.find(digest(0)) is not None
    known.keep(digest(MAX_TOKENS), token())
    assert len(known) == MAX_TOKENS
    assert known.find(digest(1)) is None
    assert known.find(digest(0)) is not None


@given(st.lists(st.tuples(st.integers(0, 40), st.sampled_from([1, 1000, 5000]), st.booleans()), max_size=80))
def test_tokens_are_not_longer_together_than_is_allowed(steps: list[tuple[int, int, bool]]) -> None:
    known, unit = KnownTokens(), MAX_KNOWN_BYTES // 10_000
    last: dict[int, int] = {}
    for number, units, is_kept in steps:
        last.pop(number, None)
        if is_kept:
            known.keep(digest(number), token("x" * (units * unit)))
            last[number] = units * unit
            while sum(last.values()) > MAX_KNOWN_BYTES:
                del last[next(iter(last))]
        else:
            known.forget(digest(number))
    assert len(known) == len(last)
    assert all(known.find(digest(number)) is not None for number in last)


def test_exactly_so_many_bytes_of_tokens_are_known() -> None:
    known = KnownTokens()
    half = MAX_KNOWN_BYTES // 2
    for number, size in enumerate((half, MAX_KNOWN_BYTES - half)):
        known.keep(digest(number), token("x" * size))
    assert len(known) == 2
    known.keep(digest(2), token("x"))
    assert len(known) == 2
    assert known.find(digest(0)) is None


def test_tokens_are_forgotten() -> None:
    known = KnownTokens()
    for number in range(3):
        known.keep(digest(number), token())
    known.forget(digest(1))
    known.forget(digest(1))
    assert len(known) == 2
    known.clear()
    assert known.find(digest(0)) is None
