"""The usage event of a request has the warnings that it has caused, and what it counts against money."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import pytest
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.logger import ILogObserver, LogEvent, formatEvent, globalLogPublisher
from zope.interface import implementer

from mgw.clients.limits import Taken, Warnings
from mgw.clients.local_counts import LocalCounts
from mgw.exchange.untold import Estimates
from mgw.usage.limit_warnings import MAX_WARNINGS, WARNING_SECONDS, WarningLog
from tests.memory.exchange.test_untold import STREAM, UNTOLD, Thread
from tests.support.configs import THREE_FAMILIES
from tests.support.pipelines import Pipeline, answered

KEY: Final = """
prices: {{rows: [{{model: "gpt-*", input: 2, output: 10}}]}}
edge_auth:
  enabled: true
  groups: {{research: {{limits: [{group}]}}}}
  keys: [{{name: alice, key: sk-alice-00000000000000000000, groups: [research], tags: {{team: nlp}}}}]
"""
TOLD: Final = b'{"choices":[],"usage":{"prompt_tokens":100,"completion_tokens":40}}'
COST: Final = 100 * 2 * 10**-6 + 40 * 10 * 10**-6
DAILY: Final = THREE_FAMILIES + KEY.format(group="{requests: 4, per: day, warn: [0.5]}")
MONEY: Final = THREE_FAMILIES + KEY.format(group="{usd: 5, per: month}")
HALF: Final = "group:research requests_per_day 0.5"


class LateCounts(LocalCounts):
    """Counts whose warnings come from elsewhere."""

    def __init__(self, clock: Callable[[], float]) -> None:
        super().__init__(clock)
        self.answers: list[Deferred[Warnings]] = []

    def end(self, permit: Any, taken: Taken) -> Any:  # Any: as the counts have it; a Deferred
        super().end(permit, taken)
        self.answers.append(Deferred())
        return self.answers[-1]


@pytest.fixture
def lines() -> Iterator[list[str]]:
    """What the log says."""
    found: list[str] = []

    @implementer(ILogObserver)
    def observe(event: LogEvent) -> None:
        found.append(formatEvent(event))

    globalLogPublisher.addObserver(observe)
    yield found
    globalLogPublisher.removeObserver(observe)


def served(pipeline: Pipeline, answer: bytes = TOLD, body: bytes | None = None) -> None:
    """Have a request answered."""
    _, done = pipeline.ask(body=body) if body is not None else pipeline.ask()
    _ = done.addErrback(lambda _: None)
    kind = b"application/json" if body is None else b"text/event-stream"
    pipeline.connection.send(answered(answer, b"200 OK", kind))


def test_the_request_that_reaches_a_share_has_the_warning_and_no_other(lines: list[str]) -> None:
    pipeline = Pipeline(DAILY, counts=LocalCounts(lambda: 0.0))
    for _ in range(4):
        served(pipeline)
    assert [event.limit_warnings for event in pipeline.events] == [
        None,
        (HALF,),
        None,
        ("group:research requests_per_day 1",),
    ]
    warned = [line for line in lines if "limit warning" in line]
    assert warned == [
        "limit warning: group:research has reached 50% of requests_per_day (request_id=req_1)",
        "limit warning: group:research has reached 100% of requests_per_day (request_id=req_1)",
    ]


def test_events_have_groups_tags_and_what_counts_against_money() -> None:
    pipeline = Pipeline(MONEY, counts=LocalCounts(lambda: 0.0))
    served(pipeline)
    event = pipeline.event()
    assert (event.client, event.client_groups, event.tags) == ("alice", ("research",), {"team": "nlp"})
    assert event.charged_usd == event.cost_usd == COST


def test_nothing_counts_against_money_where_no_limit_is_on_money() -> None:
    pipeline = Pipeline(DAILY, counts=LocalCounts(lambda: 0.0))
    served(pipeline)
    assert (pipeline.event().charged_usd, pipeline.event().cost_usd) == (None, COST)


def test_the_event_waits_for_warnings_that_come_from_elsewhere() -> None:
    counts = LateCounts(lambda: 0.0)
    pipeline = Pipeline(DAILY, counts=counts)
    served(pipeline)
    assert pipeline.events == []
    counts.answers[0].callback((HALF,))
    pipeline.clock.advance(2 * WARNING_SECONDS)
    assert pipeline.event().limit_warnings == (HALF,)


def test_the_event_does_not_wait_for_longer_than_two_seconds(lines: list[str]) -> None:
    counts = LateCounts(lambda: 0.0)
    pipeline = Pipeline(DAILY, counts=counts)
    served(pipeline)
    pipeline.clock.advance(WARNING_SECONDS - 0.001)
    assert pipeline.events == []
    pipeline.clock.advance(0.001)
    assert pipeline.event().limit_warnings is None
    counts.answers[0].callback((HALF,))
    assert len(pipeline.events) == 1
    assert [line for line in lines if "has reached 50%" in line], "the log says it all the same"


def test_a_client_without_limits_waits_for_nothing() -> None:
    text = DAILY.replace("{requests: 4, per: day, warn: [0.5]}", "")
    pipeline = Pipeline(text, counts=LateCounts(lambda: 0.0))
    served(pipeline)
    assert pipeline.event().limit_warnings is None


@pytest.mark.parametrize("is_late", [False, True])
def test_warnings_come_behind_an_estimate(is_late: bool) -> None:
    thread, late = Thread(is_waiting=True), LateCounts(lambda: 0.0)
    counts = late if is_late else LocalCounts(lambda: 0.0)
    text = THREE_FAMILIES + KEY.format(group="{tokens: 10, per: day}, {in_flight: 3}")
    pipeline = Pipeline(text, counts=counts, estimates=Estimates(thread))
    served(pipeline, UNTOLD, STREAM)
    assert pipeline.events == []
    thread.go_on()
    warnings: Warnings = ()
    if is_late:
        assert pipeline.events == []
        warnings = ("group:research tokens_per_day 1",)
        late.answers[0].callback(warnings)
    event = pipeline.event()
    assert event.tokens_in_estimated
    assert event.limit_warnings == (warnings or None)


def test_a_share_of_a_minute_is_logged_once_a_minute(lines: list[str]) -> None:
    clock, log = Clock(), WarningLog()
    minute, day = "alice requests_per_minute 0.8", "alice requests_per_day 0.8"
    for seconds in (0, 30, 30):
        clock.advance(seconds)
        log.report((minute, day), "req_1", clock)
    assert [line.split()[7] for line in lines] == [
        *("requests_per_minute", "requests_per_day", "requests_per_day"),
        *("requests_per_minute", "requests_per_day"),
    ]


def test_the_log_remembers_a_bounded_number_of_them() -> None:
    clock, log = Clock(), WarningLog()
    for number in range(MAX_WARNINGS + 5):
        log.report((f"gateway/c{number} max_in_flight 1",), "req_1", clock)
    assert len(log._logs) == 5
