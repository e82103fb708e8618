"""Every sink is told, and none can harm another or a request."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import cast

from msgspec.structs import replace
from twisted.internet.defer import Deferred, fail
from twisted.internet.task import Clock
from twisted.logger import capturedLogs

from mgw.usage.event import SettledExchange
from mgw.usage.journal import Journal, Sink, SinkCounts
from mgw.usage.line_writer import INTERVAL, LineWriter
from mgw.usage.record import encode
from mgw.usage.sinks.jsonl import JsonlSink
from tests.support.deferreds import result_of
from tests.support.usage import AtOnce, MemoryOutput, MemorySink, event, exchange


def journal(*sinks: Sink, clock: Clock | None = None) -> Journal:
    """A journal with these sinks."""
    made = Journal(clock or Clock())
    result_of(made.replace(sinks))
    return made


def test_every_sink_gets_every_event() -> None:
    first, second = MemorySink(), MemorySink()
    journal(first, second).record_all([exchange()])
    assert first.events == second.events == [event()]


def test_a_failing_sink_keeps_no_event_from_the_others() -> None:
    broken, sound = MemorySink("broken", trouble=RuntimeError("x")), MemorySink("sound")
    book = journal(broken, sound)
    with capturedLogs():
        book.record_all([exchange()])
    assert sound.events == [event()]
    assert book.counts_by_sink() == {"broken": SinkCounts(errors=1), "sound": SinkCounts(events=1)}


def test_a_failing_sink_is_reported_once_a_minute_with_how_many_were_kept_back() -> None:
    clock = Clock()
    book = journal(MemorySink(trouble=RuntimeError("x")), clock=clock)
    with capturedLogs() as logs:
        for _ in range(90):
            book.record_all([exchange()])
            clock.advance(1)
    assert [log["quiet"] for log in logs] == [0, 59]


def test_a_report_says_where_it_failed_and_nothing_of_the_event() -> None:
    with capturedLogs() as logs:
        journal(MemorySink(trouble=ValueError("canary"))).record_all([exchange(model="canary")])
    assert "canary" not in str(logs)
    assert logs[0]["kind"] == "ValueError"
    assert "tests/support/usage.py:" in logs[0]["place"]


def test_every_sink_is_flushed_though_one_fails() -> None:
    broken, sound = MemorySink(trouble=RuntimeError("x")), MemorySink()
    with capturedLogs():
        journal(broken, sound).flush()
    assert sound.calls == ["flush"]


def test_every_sink_is_reopened() -> None:
    first, second = MemorySink(), MemorySink()
    journal(first, second).reopen()
    assert first.calls == second.calls == ["reopen"]


def test_new_sinks_get_the_next_event_and_old_ones_are_closed() -> None:
    old, new = MemorySink(), MemorySink()
    book = journal(old)
    book.record_all([exchange(request_id="1")])
    result_of(book.replace([new]))
    book.record_all([exchange(request_id="2")])
    assert [entry.request_id for entry in old.events] == ["1"]
    assert [entry.request_id for entry in new.events] == ["2"]
    assert old.calls == ["close"]


def test_a_sink_that_stays_is_not_closed_and_keeps_its_counts() -> None:
    stays = MemorySink()
    book = journal(stays, MemorySink("goes"))
    book.record_all([exchange()])
    result_of(book.replace([stays]))
    assert not stays.calls
    assert book.counts_by_sink()["memory"] == SinkCounts(events=1)


def test_counts_of_one_name_never_shrink_when_sinks_are_replaced() -> None:
    old = MemorySink(closing=Deferred())
    book = journal(old)
    book.record_all([exchange()])
    closed = book.replace([MemorySink(errors=2)])
    book.record_all([exchange()])
    assert book.counts_by_sink() == {"memory": SinkCounts(events=2, errors=2)}
    old.dropped = 5  # while it closes
    assert not closed.called
    old.closing.callback(None)
    assert closed.called
    assert book.counts_by_sink() == {"memory": SinkCounts(events=2, errors=2, dropped=5)}


def test_a_sink_that_fails_to_close_does_not_keep_the_others_open() -> None:
    broken, sound = MemorySink("broken", closing=fail(RuntimeError("x"))), MemorySink("sound")
    book = journal(broken, sound)
    with capturedLogs():
        result_of(book.close())
    assert sound.calls == ["close"]
    assert book.counts_by_sink()["broken"] == SinkCounts(errors=1)


def test_an_event_after_the_end_goes_nowhere() -> None:
    sink = MemorySink()
    book = journal(sink)
    result_of(book.close())
    book.record_all([exchange()])
    assert not sink.events


@dataclass
class Rows(MemorySink):
    """A sink that takes rows, and fails at those with a bad id, or before it takes any."""

    rows: list[str] = field(default_factory=list)
    lazy: bool = False

    def record_all(self, rows: Iterator[SettledExchange]) -> None:
        if self.lazy:
            raise RuntimeError("took none")
        for settled in rows:
            if settled.request_id == "bad":
                raise RuntimeError("bad")
            self.rows.append(settled.request_id)


def test_a_row_that_fails_is_counted_and_no_other_is_lost_or_told_twice() -> None:
    sink, other = Rows("rows"), MemorySink("events")
    book = journal(sink, other)
    with capturedLogs() as logs:
        book.record_all([exchange(request_id=name) for name in ("1", "bad", "2", "bad", "3")])
    assert sink.rows == ["1", "2", "3"]
    assert [entry.request_id for entry in other.events] == ["1", "bad", "2", "bad", "3"]
    assert book.counts_by_sink()["rows"] == SinkCounts(events=3, errors=2)
    assert [log["sink"] for log in logs] == ["rows"]


def test_a_sink_that_fails_before_it_takes_a_row_fails_once_for_each() -> None:
    sink, other = Rows("rows", lazy=True), MemorySink("events")
    book = journal(sink, other)
    with capturedLogs():
        book.record_all([exchange(), exchange()])
    assert book.counts_by_sink() == {"rows": SinkCounts(errors=2), "events": SinkCounts(events=2)}


def test_the_lines_before_a_row_that_fails_are_written() -> None:
    clock, output = Clock(), MemoryOutput()
    lines = LineWriter("json", clock, AtOnce(), lambda: output)
    book = journal(JsonlSink(lines), clock=clock)
    broken = replace(exchange(request_id="bad"), latency_ms=cast(float, "no number"))
    with capturedLogs():
        book.record_all([exchange(request_id="1"), broken, exchange(request_id="2")])
        clock.advance(INTERVAL)
    assert output.written == encode(event(request_id="1")) + encode(event(request_id="2"))
    assert book.counts_by_sink() == {"jsonl": SinkCounts(events=2, errors=1)}
