"""How long a list of models is kept, and who shares the request for it."""

from __future__ import annotations

import json

import pytest
from twisted.internet.defer import CancelledError

from mgw.ops import live_models
from tests.support.configs import THREE_FAMILIES
from tests.support.deferreds import result_of
from tests.support.live_models import KEYLESS, ONE, Bench, ids, key
from tests.support.probes import LISTS

# What is kept


def test_a_list_serves_for_sixty_seconds_without_a_new_request() -> None:
    bench = Bench(ONE)
    first = bench.ask()
    bench.says("main", LISTS["main"])
    expected = ids(first)
    bench.clock.advance(59.9)
    assert ids(bench.ask()) == expected
    assert bench.dials("main") == 1


def test_after_sixty_seconds_the_provider_is_asked_anew() -> None:
    bench = Bench(ONE)
    first = bench.ask()
    bench.says("main", LISTS["main"])
    ids(first)
    bench.clock.advance(60)
    second = bench.ask()
    assert bench.dials("main") == 2
    bench.says("main", {"data": [{"id": "new"}]})
    assert ids(second) == {"main": ["new"]}


def test_a_list_of_before_a_failure_does_not_outlive_its_time() -> None:
    bench = Bench(ONE)
    first = bench.ask()
    bench.says("main", LISTS["main"])
    ids(first)
    bench.clock.advance(60)
    second = bench.ask()
    bench.says("main", b"", 503)
    assert ids(second) == {"main": []}


def test_a_provider_that_failed_is_not_asked_again_for_fifteen_seconds() -> None:
    bench = Bench(ONE)
    first = bench.ask()
    bench.says("main", b"", 503)
    ids(first)
    bench.clock.advance(14.9)
    assert ids(bench.ask()) == {"main": []}
    assert len(bench.requests("main")) == 1
    bench.clock.advance(0.1)
    third = bench.ask()
    bench.says("main", LISTS["main"])
    assert ids(third) == {"main": ["gpt-c", "gpt-live"]}


def test_the_failures_that_are_remembered_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_models, "MAX_FAILURES", 1)
    bench = Bench(THREE_FAMILIES)
    asked = bench.ask()
    bench.says("main", b"", 503)
    bench.says("host", b"", 503)
    bench.all_say("main", "host")
    ids(asked)
    count = len(bench.requests("main"))
    _ = bench.ask()
    assert len(bench.requests("main")) == count + 1


def test_another_configuration_is_asked_anew() -> None:
    bench = Bench(ONE)
    first = bench.ask()
    bench.says("main", LISTS["main"])
    ids(first)
    bench.generation.number = 2
    second = bench.ask()
    bench.says("main", {"data": []})
    assert ids(second) == {"main": []}


def test_what_is_kept_is_bounded_and_the_oldest_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_models, "MAX_CACHED_MODELS", 10)
    bench = Bench(KEYLESS)
    for number in range(6):
        asked = bench.ask(key(f"sk-canary-{number}"))
        bench.says("main", LISTS["main"])  # two models, and the list itself
        ids(asked)
    before = bench.dials("main")
    for number in (5, 4, 3):
        assert ids(bench.ask(key(f"sk-canary-{number}")))["main"] == ["gpt-c", "gpt-live"]
    assert bench.dials("main") == before
    again = bench.ask(key("sk-canary-2"))
    assert bench.dials("main") == before + 1
    _ = again.addErrback(lambda failure: failure.trap(CancelledError))
    again.cancel()


# Many at the same time


def test_many_who_ask_at_the_same_time_make_one_request() -> None:
    bench = Bench(ONE)
    asked = [bench.ask() for _ in range(20)]
    assert bench.dials("main") == 1
    bench.says("main", LISTS["main"])
    assert [ids(each) for each in asked] == [{"main": ["gpt-c", "gpt-live"]}] * 20


def test_a_failure_is_counted_once_however_many_wait() -> None:
    bench = Bench(ONE)
    asked = [bench.ask() for _ in range(5)]
    bench.says("main", b"", 503)
    assert [ids(each) for each in asked] == [{"main": []}] * 5
    assert bench.failures == ["main"]


def test_a_client_that_leaves_leaves_alone() -> None:
    bench = Bench()
    leaves, stays = bench.ask(), bench.ask()
    leaves.cancel()
    with pytest.raises(CancelledError):
        result_of(leaves)
    bench.all_say()
    assert ids(stays)["main"] == ["gpt-c", "gpt-live"]
    assert bench.settled() == (0, 0, 0)


def test_a_list_that_nobody_waits_for_any_more_is_kept() -> None:
    bench = Bench(ONE)
    leaves = bench.ask()
    leaves.cancel()
    with pytest.raises(CancelledError):
        result_of(leaves)
    assert bench.generation.in_use == 1
    bench.says("main", LISTS["main"])
    assert ids(bench.ask()) == {"main": ["gpt-c", "gpt-live"]}
    assert bench.dials("main") == 1
    assert bench.failures == []


def test_a_configuration_stays_open_until_the_lists_that_it_asked_for_have_come() -> None:
    bench = Bench(ONE)
    asked = bench.ask()
    bench.generation.retire()
    bench.says("main", LISTS["main"])
    assert ids(asked) == {"main": ["gpt-c", "gpt-live"]}
    assert bench.wire("main").closing


def test_nothing_of_a_key_is_in_what_is_shown_of_a_question() -> None:
    bench = Bench(ONE)
    credential = result_of(bench.generation.credentials["main"].obtain(None))
    request = bench.probe.request(bench.generation, "main", credential)
    assert "canary" not in repr((request, bench.probe, bench.lists, json.dumps(bench.failures)))
