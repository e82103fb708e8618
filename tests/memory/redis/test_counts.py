"""What a host makes of answers of Redis that come when it has left Redis already, or that cannot be."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, cast

import pytest
from twisted.internet.defer import Deferred

from mgw.clients.calendar_window import Change, NoStore
from mgw.clients.limits import ONE_REQUEST, LimitReached, Limits, Permit, Taken
from mgw.clients.local_counts import LocalCounts
from mgw.clients.period import period_of
from mgw.identity.shared_counts import SharedCounts, SharedPermit
from mgw.redis.counts import RedisTallies
from mgw.redis.host_totals import HostTotals
from mgw.redis.link import RedisLink
from mgw.redis.protocol import RedisError
from mgw.redis.replies import MAX_WAIT_MS, Begun, Sums
from tests.support.counting import HOLDER, decision_of, limits, reached
from tests.support.counting_law import BUDGET, row_of


@dataclass
class Link:
    is_up: bool = True
    hosts: int = 3
    host: str = "a"
    prefix: str = "mgw:"
    hosts_key: str = "mgw:hosts"
    asked: list[Deferred[Any]] = field(default_factory=list)
    said: list[tuple[object, ...]] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)

    def run(self, _: object, __: object, *arguments: object) -> Deferred[Any]:
        self.said.append(arguments)
        self.asked.append(Deferred())
        return self.asked[-1]

    def fault(self, reason: str) -> None:
        self.faults.append(reason)


class Host:
    def __init__(self) -> None:
        self.link, self.now = Link(), 0.0
        totals = HostTotals(cast(RedisLink, self.link), NoStore())
        self.local = LocalCounts(lambda: self.now, totals)
        self.tallies = RedisTallies(cast(RedisLink, self.link), self.local, totals)
        self.counts = SharedCounts(self.tallies, self.local)
        self.found: list[Permit | LimitReached] = []

    def begin(self, wanted: Limits) -> None:
        self.counts.use(HOLDER, wanted)
        waiting = self.counts.begin(wanted, ONE_REQUEST)
        assert isinstance(waiting, Deferred)
        _ = waiting.addCallback(self.found.append)


@pytest.mark.parametrize("name", ["max_in_flight", "max_sessions"])
def test_what_was_admitted_by_a_redis_that_was_left_meanwhile_is_decided_alone(name: str) -> None:
    host = Host()
    for _ in range(2):
        host.begin(limits(**{name: 3}))
    host.link.is_up = False  # as a reload with another prefix does, or without fleet.redis
    host.tallies.went_down()
    for asked in host.link.asked:
        asked.callback(Begun(1, 0, 0, ("",)))
    assert [type(each) is LimitReached for each in host.found] == [False, True]  # its share is one
    assert host.found[1] == reached(name, 3, 1.0)
    assert host.counts.refusals() == {(HOLDER, name): 1}
    assert host.local.in_flight(HOLDER) == 1


@pytest.mark.parametrize(
    ("answer", "is_possible"),
    [
        (Begun(0, 1, MAX_WAIT_MS), True),
        (Begun(0, 1, MAX_WAIT_MS + 1), False),
        (Begun(0, 0, 1000), False),
    ],
)
def test_a_refusal_counts_only_if_a_limit_of_the_client_can_have_caused_it(
    answer: Begun, is_possible: bool
) -> None:
    host = Host()
    host.begin(limits(requests_per_minute=9))
    host.link.asked[0].callback(answer)
    assert isinstance(host.found[0], LimitReached) == is_possible
    assert len(host.link.faults) == (not is_possible)


def test_what_redis_does_not_have_yet_takes_room_whatever_it_has_said_meanwhile() -> None:
    link = Link(is_up=False, hosts=2)
    totals = HostTotals(cast(RedisLink, link), NoStore())
    row = row_of(BUDGET.name, 10, "gateway")
    total = totals.find(row, period_of(BUDGET.window, 0.0))
    totals.parts.remember(total, 3, 0)
    for sends in (False, True):
        if sends:
            ((name, part),) = totals.parts.send()
            assert [(each, amounts.used) for each, amounts in part.items()] == [(total, 3)]
        totals.learn(total, Sums(2, 0, 0))
        assert totals.begin([Change(total, 0, 0, 10)], lambda full: full) is None, "its part of 8 is 4"
        totals.settle([Change(total, 1, 0)])
        assert totals.begin([Change(total, 0, 0, 10)], lambda full: full) is total
    totals.parts.forget(name)
    totals.learn(total, Sums(5, 0, 0))
    totals.settle([Change(total, 1, 0)])
    assert totals.begin([Change(total, 0, 0, 10)], lambda full: full) is None, "its part of 5 is 2"


def request_of(host: Host, client: str) -> tuple[SharedPermit[Any], Deferred[Any]]:
    """Begin and end a request of a client that only its token names; return what asks Redis for the end."""
    rows = (row_of(BUDGET.name, 9, f"gateway/{client}", is_reserved=True),)
    waiting = host.counts.begin(rows, Taken(1, 0, 2))
    host.link.asked[-1].callback(Begun(1, 0, 0, ("", ""), (Sums(0, 2, 0),)))
    permit = decision_of(waiting)
    assert isinstance(permit, SharedPermit)
    assert {total.here for total in host.tallies.totals.holding} == {2}
    _ = host.counts.end(permit, Taken(1, 0, 3))
    return permit, host.link.asked[-1]


def test_a_host_remembers_no_total_of_which_it_holds_nothing() -> None:
    host = Host()
    for number in range(3):
        _, ended = request_of(host, f"corp:{number}")
        ended.callback((Sums(3, 0, 0),))
    assert not host.tallies.totals.holding


def test_a_host_remembers_a_total_that_redis_may_hold_something_of() -> None:
    host = Host()
    permit, lost = request_of(host, "corp:ann")
    lost.errback(RedisError("lost"))
    assert permit.ticket is not None
    assert list(permit.ticket.totals) == list(host.tallies.totals.holding)
