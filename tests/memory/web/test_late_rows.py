"""Requests whose usage events come late are recorded once, and a process that ends waits for them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from twisted.internet.defer import Deferred

from mgw.usage.record import EndedRequest
from mgw.web.late_rows import LateRows
from tests.support.usage import ended_of, exchange


def test_the_end_of_a_process_waits_until_all_are_recorded() -> None:
    rows, recorded = LateRows(), list[EndedRequest]()
    first: Any = SimpleNamespace(on_row=None)  # Any: an exchange, as far as it is needed
    second: Any = SimpleNamespace(on_row=None)  # Any: as above
    incomplete = ended_of(exchange())
    for one in (first, second):
        rows.add(one, incomplete, recorded.append)
    ends: list[int] = []
    for _ in range(2):
        _ = Deferred.fromCoroutine(rows.recorded()).addCallback(lambda _: ends.append(len(recorded)))
    complete = exchange(limit_warnings=("alice usd_total 1",))
    first.on_row(complete)
    assert ends == []
    second.on_row(complete)
    assert ends == [2, 2]
    assert [ended.settled for ended in recorded] == [complete, complete]
    assert recorded[0].request_id == incomplete.request_id
    _ = Deferred.fromCoroutine(rows.recorded()).addCallback(lambda _: ends.append(0))
    assert ends == [2, 2, 0], "nothing is left to wait for"
