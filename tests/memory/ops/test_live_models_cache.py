"""How long a list of models is kept, and who shares the request for it."""

from __future__ import annotations

import json

import pytest
from twisted.internet.defer import CancelledError

from mgw.ops import live_models
from tests.support.configs import THREE_FAMILIES
from tests.support.deferreds import result_of
from tests.support.live_models import KEYLESS, ONE, LiveModelsHarness, ids, key
from tests.support.probes import LISTS

# What is kept


def test_a_list_serves_for_sixty_seconds_without_a_new_request() -> None:
    harness = LiveModelsHarness(ONE)
    first = harness.ask()
    harness.respond("main", LISTS["main"])
    expected = ids(first)
    harness.clock.advance(59.9)
    assert ids(harness.ask()) == expected
    assert harness.dials("main") == 1


def test_after_sixty_seconds_the_provider_is_asked_anew() -> None:
    harness = LiveModelsHarness(ONE)
    first = harness.ask()
    harness.respond("main", LISTS["main"])
    ids(first)
    harness.clock.advance(60)
    second = harness.ask()
    assert harness.dials("main") == 2
    harness.respond("main", {"data": [{"id": "new"}]})
    assert ids(second) == {"main": ["new"]}


def test_a_list_of_before_a_failure_does_not_outlive_its_time() -> None:
    harness = LiveModelsHarness(ONE)
    first = harness.ask()
    harness.respond("main", LISTS["main"])
    ids(first)
    harness.clock.advance(60)
    second = harness.ask()
    harness.respond("main", b"", 503)
    assert ids(second) == {"main": []}


def test_a_provider_that_failed_is_not_asked_again_for_fifteen_seconds() -> None:
    harness = LiveModelsHarness(ONE)
    first = harness.ask()
    harness.respond("main", b"", 503)
    ids(first)
    harness.clock.advance(14.9)
    assert ids(harness.ask()) == {"main": []}
    assert len(harness.requests("main")) == 1
    harness.clock.advance(0.1)
    third = harness.ask()
    harness.respond("main", LISTS["main"])
    assert ids(third) == {"main": ["gpt-c", "gpt-live"]}


def test_the_failures_that_are_remembered_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_models, "MAX_FAILURES", 1)
    harness = LiveModelsHarness(THREE_FAMILIES)
    asked = harness.ask()
    harness.respond("main", b"", 503)
    harness.respond("host", b"", 503)
    harness.all_say("main", "host")
    ids(asked)
    count = len(harness.requests("main"))
    _ = harness.ask()
    assert len(harness.requests("main")) == count + 1


def test_another_configuration_is_asked_anew() -> None:
    harness = LiveModelsHarness(ONE)
    first = harness.ask()
    harness.respond("main", LISTS["main"])
    ids(first)
    harness.generation.number = 2
    second = harness.ask()
    harness.respond("main", {"data": []})
    assert ids(second) == {"main": []}


def test_what_is_kept_is_bounded_and_the_oldest_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_models, "MAX_CACHED_MODELS", 10)
    harness = LiveModelsHarness(KEYLESS)
    for number in range(6):
        asked = harness.ask(key(f"sk-canary-{number}"))
        harness.respond("main", LISTS["main"])  # two models, and the list itself
        ids(asked)
    before = harness.dials("main")
    for number in (5, 4, 3):
        assert ids(harness.ask(key(f"sk-canary-{number}")))["main"] == ["gpt-c", "gpt-live"]
    assert harness.dials("main") == before
    again = harness.ask(key("sk-canary-2"))
    assert harness.dials("main") == before + 1
    _ = again.addErrback(lambda failure: failure.trap(CancelledError))
    again.cancel()


# Many at the same time


def test_many_who_ask_at_the_same_time_make_one_request() -> None:
    harness = LiveModelsHarness(ONE)
    asked = [harness.ask() for _ in range(20)]
    assert harness.dials("main") == 1
    harness.respond("main", LISTS["main"])
    assert [ids(each) for each in asked] == [{"main": ["gpt-c", "gpt-live"]}] * 20


def test_a_failure_is_counted_once_however_many_wait() -> None:
    harness = LiveModelsHarness(ONE)
    asked = [harness.ask() for _ in range(5)]
    harness.respond("main", b"", 503)
    assert [ids(each) for each in asked] == [{"main": []}] * 5
    assert harness.failures == ["main"]


def test_a_client_that_leaves_leaves_alone() -> None:
    harness = LiveModelsHarness()
    leaves, stays = harness.ask(), harness.ask()
    leaves.cancel()
    with pytest.raises(CancelledError):
        result_of(leaves)
    harness.all_say()
    assert ids(stays)["main"] == ["gpt-c", "gpt-live"]
    assert harness.settled() == (0, 0, 0)


def test_a_list_that_nobody_waits_for_any_more_is_kept() -> None:
    harness = LiveModelsHarness(ONE)
    leaves = harness.ask()
    leaves.cancel()
    with pytest.raises(CancelledError):
        result_of(leaves)
    assert harness.generation.in_use == 1
    harness.respond("main", LISTS["main"])
    assert ids(harness.ask()) == {"main": ["gpt-c", "gpt-live"]}
    assert harness.dials("main") == 1
    assert harness.failures == []


def test_a_configuration_stays_open_until_the_lists_that_it_asked_for_have_come() -> None:
    harness = LiveModelsHarness(ONE)
    asked = harness.ask()
    harness.generation.retire()
    harness.respond("main", LISTS["main"])
    assert ids(asked) == {"main": ["gpt-c", "gpt-live"]}
    assert harness.connection("main").closing


def test_nothing_of_a_key_is_in_what_is_shown_of_a_question() -> None:
    harness = LiveModelsHarness(ONE)
    credential = result_of(harness.generation.credentials["main"].obtain(None))
    request = harness.probe.request(harness.generation, "main", credential)
    assert "canary" not in repr((request, harness.probe, harness.lists, json.dumps(harness.failures)))
