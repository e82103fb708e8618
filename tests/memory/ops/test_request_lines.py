"""Which lines requests get, and how two records become one line."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.task import Clock

from mgw.config.log import LogFormat, LogSettings, RequestLines
from mgw.ops.logs import AccessLog, UsageLog, usage_line
from mgw.ops.request_lines import HELD_SECONDS, MAX_HELD, RequestLog
from mgw.usage.event import SettledExchange
from mgw.usage.line_writer import INTERVAL, LineWriter
from mgw.usage.record import EndedRequest
from tests.support.usage import AtOnce, MemoryOutput, exchange

TEXT, JSON = LogFormat.TEXT, LogFormat.JSON
BOTH, ONE, NONE = RequestLines.BOTH, RequestLines.ONE, RequestLines.NONE
USAGE_TEXT = usage_line(exchange())
HTTP_TEXT = (
    b"http time=2025-11-24T16:00:00.500Z status=200 method=POST path=/v1/x latency_ms=12.3 request_id=req_1\n"
)


def ended(request_id: str = "req_1", path: bytes = b"/v1/x", *, has_event: bool = True) -> EndedRequest:
    return EndedRequest(1_764_000_000.5, b"POST", path, 200, 0.0123, request_id, has_event=has_event)


@dataclass
class Log:
    """The log of requests, in memory."""

    format: LogFormat = TEXT
    requests: RequestLines = ONE
    clock: Clock = field(default_factory=Clock)
    output: MemoryOutput = field(default_factory=MemoryOutput)
    log: RequestLog = field(init=False)

    def __post_init__(self) -> None:
        lines = LineWriter("log", self.clock, AtOnce(), lambda: self.output)
        self.log = RequestLog(self.clock, UsageLog(lines), AccessLog(lines))
        self.use(self.format, self.requests)

    def use(self, form: LogFormat, requests: RequestLines) -> None:
        self.log.use(LogSettings(format=form, requests=requests))

    def settle(self, *rows: SettledExchange) -> None:
        self.log.usage.record_all(iter(rows))

    def end(self, *requests: EndedRequest) -> None:
        self.log.access.record_all(requests)

    def written(self) -> bytes:
        """All that was written by now."""
        self.clock.advance(INTERVAL)
        return bytes(self.output.written)

    def lines(self) -> list[bytes]:
        return self.written().splitlines(keepends=True)


def test_both_lines_are_text_as_ever() -> None:
    log = Log(TEXT, BOTH)
    log.settle(exchange())
    log.end(ended())
    assert log.written() == USAGE_TEXT + HTTP_TEXT


def test_both_lines_are_json() -> None:
    log = Log(JSON, BOTH)
    log.settle(exchange())
    log.end(ended())
    assert [json.loads(line)["kind"] for line in log.lines()] == ["usage", "http"]


@pytest.mark.parametrize("form", LogFormat)
def test_none_writes_neither(form: LogFormat) -> None:
    log = Log(form, NONE)
    log.settle(exchange())
    log.end(ended(), ended("req_2", has_event=False))
    log.clock.pump([HELD_SECONDS] * 3)
    assert not log.written()
    assert not log.clock.getDelayedCalls()


def test_one_line_is_the_usage_line_with_method_and_path() -> None:
    log = Log()
    log.settle(exchange())
    log.end(ended(path=b"/v1/x?key=canary"))
    assert log.written() == USAGE_TEXT[:-1] + b" method=POST path=/v1/x\n"


def test_one_line_in_json_is_the_usage_line_with_method_and_path() -> None:
    log = Log(JSON)
    log.settle(exchange())
    log.end(ended())
    (line,) = log.lines()
    found = json.loads(line)
    assert (found["kind"], found["status"], found["method"], found["path"]) == (
        "usage",
        "ok",
        "POST",
        "/v1/x",
    )


@pytest.mark.parametrize("form", LogFormat)
def test_the_order_of_the_records_does_not_matter(form: LogFormat) -> None:
    first, last = Log(form), Log(form)
    first.settle(exchange())
    first.end(ended())
    last.end(ended())
    assert not last.written()
    last.settle(exchange())
    assert first.written() == last.written() != b""


def test_records_meet_in_different_batches() -> None:
    log = Log()
    log.settle(exchange(request_id="a"), exchange(request_id="b"))
    log.clock.advance(HELD_SECONDS * 0.9)
    log.settle(exchange(request_id="c"))
    log.end(ended("c"), ended("a"))
    log.clock.advance(HELD_SECONDS * 0.9)
    log.end(ended("b"))
    assert [line.count(b" path=/v1/x") for line in log.lines()] == [1, 1, 1]
    assert len(log.lines()) == 3


def test_a_request_without_an_event_has_its_line_at_once() -> None:
    log = Log()
    log.end(ended(has_event=False))
    assert log.written() == HTTP_TEXT


@pytest.mark.parametrize("path", [b"/healthz", b"/metrics"])
def test_what_is_asked_all_the_time_has_no_line(path: bytes) -> None:
    log = Log()
    log.end(ended(path=path, has_event=False))
    assert not log.written()


def test_a_record_that_stays_alone_is_written_within_a_second() -> None:
    log = Log()
    log.settle(exchange())
    log.end(ended("req_2"))
    log.clock.advance(HELD_SECONDS * 0.99)
    assert not log.written()
    log.clock.advance(HELD_SECONDS)
    assert log.lines() == [USAGE_TEXT, HTTP_TEXT.replace(b"req_1", b"req_2")]
    log.clock.advance(HELD_SECONDS)
    assert not log.clock.getDelayedCalls()


def test_what_waits_is_bounded_and_the_oldest_is_written() -> None:
    log = Log()
    log.settle(*(exchange(request_id=str(number)) for number in range(MAX_HELD)))
    assert not log.written()
    log.settle(exchange(request_id="more"))
    assert log.written() == USAGE_TEXT.replace(b"req_1", b"0")


def test_two_exchanges_of_one_id_are_both_written() -> None:
    log = Log()
    log.settle(exchange(model="a"), exchange(model="b"))
    log.end(ended(), ended())
    log.clock.pump([HELD_SECONDS] * 2)
    assert log.written().count(b"\nusage ") + 1 == 2
    assert log.written().count(b"\nhttp ") == 1


def test_a_flush_writes_what_waits_and_leaves_no_timer() -> None:
    log = Log()
    log.settle(exchange())
    log.log.flush()
    assert log.written() == USAGE_TEXT
    assert not log.clock.getDelayedCalls()


def test_a_reload_changes_both_settings() -> None:
    log = Log(TEXT, ONE)
    log.settle(exchange(request_id="a"))
    log.use(JSON, BOTH)
    log.settle(exchange(request_id="b"))
    log.end(ended("b"))
    log.use(TEXT, NONE)
    log.settle(exchange(request_id="c"))
    log.use(TEXT, BOTH)
    log.settle(exchange(request_id="d"))
    log.end(ended("d"))
    found = log.lines()
    assert found[0] == USAGE_TEXT.replace(b"req_1", b"a"), "what waited is written as it was asked for"
    assert [json.loads(line)["request_id"] for line in found[1:3]] == ["b", "b"]
    assert found[3:] == [USAGE_TEXT.replace(b"req_1", b"d"), HTTP_TEXT.replace(b"req_1", b"d")]


@given(
    order=st.permutations(list(range(12))),
    pauses=st.lists(st.floats(0, HELD_SECONDS * 0.4), min_size=12, max_size=12),
    form=st.sampled_from(LogFormat),
)
def test_each_request_has_exactly_one_line_however_its_records_come(
    order: list[int], pauses: list[float], form: LogFormat
) -> None:
    """Six requests with two records each; a pair that comes too far apart has two lines, and none is lost."""
    log = Log(form)
    came: dict[int, list[float]] = {}
    for number, pause in zip(order, pauses, strict=True):
        log.clock.advance(pause)
        came.setdefault(number // 2, []).append(log.clock.seconds())
        if number % 2:
            log.end(ended(f"r{number // 2}"))
        else:
            log.settle(exchange(request_id=f"r{number // 2}"))
    log.clock.pump([HELD_SECONDS] * 3)
    for number, (first, last) in came.items():
        found = [line for line in log.lines() if f"r{number}".encode() in line]
        apart = last - first
        if apart < HELD_SECONDS:
            assert len(found) == 1
        elif apart > 3 * HELD_SECONDS:
            assert len(found) == 2
        joined = [line for line in found if b"/v1/x" in line and b"upstream_model" in line]
        assert len(found) + len(joined) == 2
    assert len(log.lines()) == len(set(chain(log.lines())))
