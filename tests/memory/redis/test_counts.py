"""What a host makes of an answer of Redis that comes when it has left Redis already."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, cast

from twisted.internet.defer import Deferred

from mgw.clients.limits import LimitReached, Limits, Permit
from mgw.redis.counts import RedisCounts, RedisSlots
from mgw.redis.link import RedisLink
from mgw.redis.replies import Begun


@dataclass
class Link:
    is_up: bool = True
    hosts: int = 3
    host: str = "a"
    prefix: str = "mgw:"
    hosts_key: str = "mgw:hosts"
    asked: list[Deferred[Any]] = field(default_factory=list)

    def run(self, *_: object) -> Deferred[Any]:
        self.asked.append(Deferred())
        return self.asked[-1]


def test_what_was_admitted_by_a_redis_that_was_left_meanwhile_is_decided_alone() -> None:
    link = Link()
    limits = Limits(max_in_flight=3)
    counts = RedisCounts.of_client(cast(RedisLink, link), lambda: 0.0, "alice", limits)
    found: list[Permit | LimitReached] = []
    for _ in range(2):
        waiting = counts.acquire(0.0)
        assert isinstance(waiting, Deferred)
        _ = waiting.addCallback(found.append)
    link.is_up = False  # as a reload with another prefix does, or without fleet.redis
    counts.went_down()
    for asked in link.asked:
        asked.callback(Begun(1, "", 0))
    assert [type(each) is LimitReached for each in found] == [False, True]  # its share is one
    assert found[1] == LimitReached("max_in_flight", 3, 1.0)
    assert counts.refusals == {"max_in_flight": 1}
    assert counts.in_flight == 1


def test_slots_of_a_redis_that_was_left_meanwhile_are_those_of_the_share() -> None:
    link = Link()
    found: list[bool] = []
    slots = RedisSlots(cast(RedisLink, link), max_sessions=3)
    for _ in range(2):
        waiting = slots.take()
        assert isinstance(waiting, Deferred)
        _ = waiting.addCallback(found.append)
    link.is_up = False
    for asked in link.asked:
        asked.callback(Begun(1, "", 0))
    assert found == [True, False]
    assert slots.taken == 1
