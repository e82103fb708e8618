"""Waiting for the keys of issuers: for the very first ones, and thousands at once."""

from __future__ import annotations

from functools import partial

import pytest
from twisted.python.failure import Failure

from tests.support.issuers import JWKS, IssuerBench, entry, jwk


@pytest.fixture
def bench() -> IssuerBench:
    return IssuerBench()


def test_the_first_fetch_is_waited_for(bench: IssuerBench) -> None:
    bench.keys.use([entry(jwks_url=JWKS)])
    assert bench.waits_for_first() is None
    bench.keys.begin()
    came = [bench.waits_for_first() for _ in range(3)]
    bench.clock.advance(2)
    bench.serve(jwk("a"))
    assert came == [[2]] * 3
    assert len(bench.asked()) == 1
    assert bench.waits_for_first() is None
    assert bench.waits_for_first("else") is None


def test_a_first_fetch_that_has_failed_is_waited_for_no_more(bench: IssuerBench) -> None:
    bench.begin(entry(jwks_url=JWKS))
    came = bench.waits_for_first()
    bench.newest().answer(b"", 500)
    assert came == [0]
    assert bench.waits_for_first() is None
    bench.clock.advance(1)  # the next one is under way
    assert len(bench.asked()) == 2
    assert bench.waits_for_first() is None


def test_keys_that_have_become_stale_are_waited_for_no_more(bench: IssuerBench) -> None:
    bench.begin(entry(jwks_url=JWKS, max_stale=60))
    bench.serve(jwk("a"))
    bench.clock.advance(61)
    assert bench.ids() is None
    assert bench.waits_for_first() is None


def test_a_first_fetch_that_is_slow_holds_nobody_longer_than_five_seconds(bench: IssuerBench) -> None:
    bench.begin(entry(jwks_url=JWKS))
    came = bench.waits_for_first()
    bench.clock.advance(5)
    assert came == [5]
    came = bench.waits_for_first()
    bench.clock.advance(5)  # the fetch has taken too long
    assert came == [10]
    assert bench.waits_for_first() is None


def test_an_issuer_of_a_reload_is_waited_for(bench: IssuerBench) -> None:
    bench.begin(entry(jwks_url=JWKS))
    bench.serve(jwk("a"))
    bench.keys.use([entry(jwks_url=JWKS), entry(name="new", jwks_url=f"{JWKS}2")])
    assert bench.waits_for_first() is None
    came = bench.waits_for_first("new")
    bench.newest().answer(b"", 500)
    assert came == [0]


def test_the_end_lets_all_go_on(bench: IssuerBench) -> None:
    bench.begin(entry(jwks_url=JWKS))
    came = bench.waits_for_first()
    bench.keys.stop()
    assert came == [0]
    assert bench.waits_for_first() is None


def test_thousands_go_on_a_few_at_a_time_in_their_order(bench: IssuerBench) -> None:
    bench.begin(entry(jwks_url=JWKS))
    order: list[int] = []
    left: list[Failure] = []

    def note(number: int, _: None) -> None:
        order.append(number)

    for number in range(1000):
        waiting = bench.keys.first("corp")
        assert waiting is not None
        _ = waiting.addCallbacks(partial(note, number), left.append)
        if number % 100 == 7:
            waiting.cancel()
    bench.serve(jwk("a"))
    assert 0 < len(order) < 100
    bench.clock.advance(0)
    assert len(order) == 990
    assert order == sorted(order)
    assert len(left) == 10
