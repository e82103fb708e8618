"""A process without a file descriptor left says so once a minute."""

from __future__ import annotations

import pytest
from twisted.internet.task import Clock
from twisted.logger import LogEvent, formatEvent

from mgw.ops.accept_errors import AcceptErrors
from mgw.reactor.rate_limited_log import RateLimitedLog

TWISTED = (
    "EMFILE encountered; releasing reserved file descriptor.",
    "EMFILE recovery: Closed socket from {address}",
    "Re-reserving EMFILE recovery file descriptor.",
    "Could not accept new connection ({acceptError})",
)


def event(text: str, namespace: str = "twisted.internet.tcp.Port") -> LogEvent:
    return {"log_namespace": namespace, "log_format": text, "address": "peer", "acceptError": "ENFILE"}


def test_a_storm_is_one_line_a_minute() -> None:
    clock, lines = Clock(), list[str]()
    observer = AcceptErrors(lambda event: lines.append(formatEvent(event)), RateLimitedLog(clock))
    for _ in range(100):
        for text in TWISTED:
            observer(event(text))
    assert len(lines) == 1
    assert "no file descriptor" in lines[0]
    clock.advance(60)
    observer(event(TWISTED[3]))
    assert "399 more since the last warning" in lines[1]


@pytest.mark.parametrize(
    "other", [event("EMFILE encountered", "mgw.service"), event("{log_failure}"), event("Starting")]
)
def test_all_else_is_passed_on_as_it_is(other: LogEvent) -> None:
    passed: list[LogEvent] = []
    AcceptErrors(passed.append, RateLimitedLog(Clock()))(other)
    assert passed == [other]
    assert passed[0] is other
