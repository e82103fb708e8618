"""What is used of limits is asked for, and an answer that takes too long is not waited for."""

from __future__ import annotations

from typing import Any, Final

import pytest
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall
from twisted.internet.task import Clock

from mgw.app.limit_states import ANSWER_SECONDS, LimitStates
from mgw.clients.client import clients_of
from mgw.clients.limits import LIMITS_BY_NAME, RowState
from mgw.clients.local_counts import LocalCounts
from mgw.config.key_settings import NamedKeySettings
from tests.support.configs import THREE_FAMILIES, config
from tests.support.deferreds import result_of

SETTINGS: Final = config(
    THREE_FAMILIES + "edge_auth: {enabled: true, keys: [edge], limits: [{requests: 5, per: total}]}\n"
).edge_auth
SETTINGS_WITH_KEY: Final = config(
    THREE_FAMILIES
    + "edge_auth: {enabled: true, keys: [{name: alice, key: edge, limits: [{requests: 5, per: day}]}]}\n"
).edge_auth
USED: Final = RowState("gateway", LIMITS_BY_NAME["requests_total"], "total", 3, 0, 5, None)


class LateCounts(LocalCounts):
    """Counts whose state comes from a file."""

    def __init__(self) -> None:
        super().__init__(lambda: 0.0)
        self.answers: list[Deferred[list[RowState]]] = []

    def state(self) -> Any:  # Any: as the counts have it
        self.answers.append(Deferred())
        return self.answers[-1]


def test_what_was_told_last_has_to_do_while_nobody_answers() -> None:
    clock, counts = Clock(), LateCounts()
    states = LimitStates(clock, counts, lambda: SETTINGS, lambda: (), lambda: 0.0)
    first = Deferred.fromCoroutine(states.read())
    counts.answers[0].callback([USED])
    assert [row.used for row in result_of(first)] == [3]
    second = Deferred.fromCoroutine(states.read())
    clock.advance(ANSWER_SECONDS)
    assert [row.used for row in result_of(second)] == [3]
    counts.answers[1].callback([])
    assert [row.used for row in states.latest] == [3]
    third = Deferred.fromCoroutine(states.read())
    counts.answers[2].callback([])
    assert [row.used for row in result_of(third)] == [0]


def test_rows_of_keys_that_come_and_go_are_there() -> None:
    key = SETTINGS_WITH_KEY.named[0]
    keys: list[NamedKeySettings] = []
    states = LimitStates(Clock(), LocalCounts(lambda: 0.0), lambda: SETTINGS, lambda: list(keys), lambda: 0.0)

    def holders() -> list[str]:
        return [row.holder for row in result_of(Deferred.fromCoroutine(states.read()))]

    assert holders() == ["gateway"]
    keys.append(key)
    assert holders() == ["gateway", "alice"]
    assert holders() == ["gateway", "alice"]
    keys[0] = key.model_copy(update={"name": "bob"})
    assert holders() == ["gateway", "bob"]
    keys.clear()
    assert holders() == ["gateway"]


def test_whoever_waits_no_more_does_not_cancel_what_counts() -> None:
    counts = LateCounts()
    states = LimitStates(Clock(), counts, lambda: SETTINGS, lambda: (), lambda: 0.0)
    asked = Deferred.fromCoroutine(states.read())
    left: list[object] = []
    _ = asked.addErrback(left.append)
    asked.cancel()
    assert left
    assert not counts.answers[0].called
    counts.answers[0].callback([USED])


def test_thousands_of_rows_are_reported_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """In one go they took most of a second, in which nobody was served."""
    keys = [SETTINGS_WITH_KEY.named[0].model_copy(update={"name": f"k{number}"}) for number in range(30)]
    monkeypatch.setattr("mgw.app.limit_states.SLICE_SECONDS", -1.0)
    clock, turns = Clock(), list[float]()
    states = LimitStates(clock, LocalCounts(lambda: 0.0), lambda: SETTINGS, lambda: keys, lambda: 0.0)

    def call_later(seconds: float, *call: Any) -> IDelayedCall:  # Any: as Twisted has it
        turns.append(seconds)
        return Clock.callLater(clock, seconds, *call)

    monkeypatch.setattr(clock, "callLater", call_later)
    reading = Deferred.fromCoroutine(states.read())
    clock.advance(0)
    result_of(reading)
    assert len(turns) > 2 * len(keys), "the rows are made, and reported"
    assert [row.holder for row in states.latest] == ["gateway", *(key.name for key in keys)]


def test_clients_that_have_sent_nothing_are_not_looked_up_to_report_what_was_used() -> None:
    counts = LocalCounts(lambda: 0.0)
    clients = clients_of(SETTINGS_WITH_KEY, counts)
    for client in clients:
        counts.use(client.name, client.limits)
    assert counts.state() == []
    assert counts.reset("alice", None, 3), "but to set what is used"
    found = counts.state()
    assert isinstance(found, list)
    assert [row.used for row in found] == [3]
