"""Which lines requests get, and how one line says what two would."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.task import Clock

from mgw.config.log import LogFormat, LogSettings, RequestLines
from mgw.ops.logs import AccessLog, UsageLog, usage_line
from mgw.ops.request_lines import RequestLog
from mgw.usage.event import SettledExchange
from mgw.usage.line_writer import INTERVAL, LineWriter
from mgw.usage.record import EndedRequest, exchanges_of
from tests.support.usage import AtOnce, MemoryOutput, exchange

TEXT, JSON = LogFormat.TEXT, LogFormat.JSON
BOTH, ONE, NONE = RequestLines.BOTH, RequestLines.ONE, RequestLines.NONE
USAGE_TEXT = usage_line(exchange())
HTTP_TEXT = (
    b"http time=2025-11-24T16:00:00.500Z status=200 method=POST path=/v1/x latency_ms=12.3 request_id=req_1\n"
)


def ended(
    request_id: str = "req_1", path: bytes = b"/v1/x", settled: SettledExchange | None = None
) -> EndedRequest:
    return EndedRequest(1_764_000_000.5, b"POST", path, 200, 0.0123, request_id, settled=settled)


def metered(request_id: str = "req_1", path: bytes = b"/v1/x", **changes: Any) -> EndedRequest:
    """Return a request with an exchange, some of the fields of whose event are changed."""
    return ended(request_id, path, exchange(request_id=request_id, **changes))


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
        self.log = RequestLog(UsageLog(lines), AccessLog(lines))
        self.use(self.format, self.requests)

    def use(self, form: LogFormat, requests: RequestLines) -> None:
        self.log.use(LogSettings(format=form, requests=requests))

    def end(self, *requests: EndedRequest) -> None:
        """Write what requests leave behind, as a process does."""
        self.log.usage.record_all(iter(exchanges_of(requests)))
        self.log.access.record_all(requests)

    def written(self) -> bytes:
        """All that was written by now."""
        self.clock.advance(INTERVAL)
        return bytes(self.output.written)

    def lines(self) -> list[bytes]:
        return self.written().splitlines(keepends=True)


def test_both_lines_are_text_as_ever() -> None:
    log = Log(TEXT, BOTH)
    log.end(metered())
    assert log.written() == USAGE_TEXT + HTTP_TEXT


def test_both_lines_are_json() -> None:
    log = Log(JSON, BOTH)
    log.end(metered())
    assert [json.loads(line)["kind"] for line in log.lines()] == ["usage", "http"]


@pytest.mark.parametrize("form", LogFormat)
def test_none_writes_neither(form: LogFormat) -> None:
    log = Log(form, NONE)
    log.end(metered(), ended("req_2"))
    assert not log.written()


def test_one_line_is_the_usage_line_with_method_and_path() -> None:
    log = Log()
    log.end(metered(path=b"/v1/x?key=canary"))
    assert log.written() == USAGE_TEXT[:-1] + b" method=POST path=/v1/x\n"


def test_one_line_in_json_is_the_usage_line_with_method_and_path() -> None:
    log = Log(JSON)
    log.end(metered())
    (line,) = log.lines()
    found = json.loads(line)
    assert (found["kind"], found["status"], found["method"], found["path"]) == (
        "usage",
        "ok",
        "POST",
        "/v1/x",
    )


@pytest.mark.parametrize("form", LogFormat)
def test_one_line_has_the_status_of_the_request_where_the_exchange_has_none(form: LogFormat) -> None:
    log, with_status = Log(form), Log(form)
    log.end(metered(http_status=None))
    with_status.end(metered(http_status=200))
    assert log.written() == with_status.written() != b""


@pytest.mark.parametrize("form", LogFormat)
def test_a_request_without_an_event_has_its_own_line(form: LogFormat) -> None:
    log, both = Log(form, ONE), Log(form, BOTH)
    log.end(ended())
    both.end(ended())
    assert log.written() == both.written() != b""


@pytest.mark.parametrize("path", [b"/healthz", b"/metrics"])
def test_what_is_asked_all_the_time_has_no_line(path: bytes) -> None:
    log = Log()
    log.end(ended(path=path))
    assert not log.written()


def test_a_reload_changes_both_settings() -> None:
    log = Log(TEXT, ONE)
    log.end(metered("a"))
    log.use(JSON, BOTH)
    log.end(metered("b"))
    log.use(TEXT, NONE)
    log.end(metered("c"))
    log.use(TEXT, BOTH)
    log.end(metered("d"))
    found = log.lines()
    assert found[0] == USAGE_TEXT[:-1].replace(b"req_1", b"a") + b" method=POST path=/v1/x\n"
    assert [json.loads(line)["request_id"] for line in found[1:3]] == ["b", "b"]
    assert found[3:] == [USAGE_TEXT.replace(b"req_1", b"d"), HTTP_TEXT.replace(b"req_1", b"d")]


@given(
    batches=st.lists(st.lists(st.booleans(), max_size=5), max_size=5),
    form=st.sampled_from(LogFormat),
)
def test_each_request_has_exactly_one_line(batches: list[list[bool]], form: LogFormat) -> None:
    """Any batches of requests, with and without an event."""
    log, expected, numbers = Log(form), Counter[tuple[str, bool]](), count()
    for batch in batches:
        names = [f"r{next(numbers)}" for _ in batch]
        log.end(
            *[(metered if is_metered else ended)(name) for name, is_metered in zip(names, batch, strict=True)]
        )
        expected.update(zip(names, batch, strict=True))
    found: Counter[tuple[str, bool]] = Counter()
    for line in log.lines():
        text = line.decode()
        request_id = re.search(r'request_id"?[=:]"?(r[0-9]+)', text)
        assert request_id is not None
        assert "/v1/x" in text
        found[request_id[1], "upstream_model" in text] += 1
    assert found == expected
