"""A process without a file descriptor left says so once a minute."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest
from twisted.internet.task import Clock
from twisted.logger import LogEvent, formatEvent

from mgw.ops.process import (
    FILES_PER_CLIENT,
    LEAST_RESERVE,
    AcceptErrorObserver,
    collect_rarely,
    file_limit,
    max_clients_for,
)
from mgw.reactor.rate_limited_log import RateLimitedLog
from tests.support.configs import THREE_FAMILIES, config

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
    observer = AcceptErrorObserver(lambda event: lines.append(formatEvent(event)), RateLimitedLog(clock))
    for _ in range(100):
        for text in TWISTED:
            observer(event(text))
    assert len(lines) == 1
    assert "out of file descriptors" in lines[0]
    clock.advance(60)
    observer(event(TWISTED[3]))
    assert "399 more since the last warning" in lines[1]


@pytest.mark.parametrize(
    "other", [event("EMFILE encountered", "mgw.app.service"), event("{log_failure}"), event("Starting")]
)
def test_all_else_is_passed_on_as_it_is(other: LogEvent) -> None:
    passed: list[LogEvent] = []
    AcceptErrorObserver(passed.append, RateLimitedLog(Clock()))(other)
    assert passed == [other]
    assert passed[0] is other


@pytest.mark.parametrize(
    ("files", "clients"), [(0, 16), (64, 16), (256, 64), (1024, 448), (4096, 1792), (20_000, 8750)]
)
def test_each_client_has_room_for_a_provider_and_the_rest_a_reserve(files: int, clients: int) -> None:
    assert max_clients_for(files) == clients
    if clients > 16:
        assert files - clients * FILES_PER_CLIENT >= LEAST_RESERVE


def test_the_limit_of_this_process_is_known() -> None:
    assert file_limit() > 0


def test_the_setting_is_a_whole_number_and_absent_by_default() -> None:
    assert config().max_clients is None
    assert config(THREE_FAMILIES + "max_clients: 300\n").max_clients == 300


@pytest.fixture
def collector() -> Iterator[None]:
    """Leaves the garbage collector as it was."""
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)


@pytest.mark.usefixtures("collector")
def test_thousands_of_streams_are_opened_without_a_full_collection() -> None:
    collect_rarely()
    full = gc.get_stats()[2]["collections"]
    opened: list[list[None]] = [[] for _ in range(200_000)]
    assert gc.get_stats()[2]["collections"] == full
    assert gc.isenabled()
    del opened
