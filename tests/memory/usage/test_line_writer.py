"""Lines arrive whole and in order, or are counted, and nobody waits for them."""

from __future__ import annotations

import errno
from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.task import Clock
from twisted.logger import capturedLogs

from mgw.reactor.daemon_threads import SerialRunner
from mgw.usage.line_writer import INTERVAL, RETRY, LineWriter
from mgw.usage.output import Output
from tests.support.laws import examples
from tests.support.usage import AtOnce, MemoryOutput, OnDemand


def writer(
    clock: Clock, *outputs: MemoryOutput, runner: SerialRunner | None = None, max_bytes: int = 1000
) -> LineWriter:
    """A writer that opens these outputs one after another, and then no more."""
    left = list(outputs)

    def open_output() -> Output:
        if not left:
            raise PermissionError(errno.EACCES, "Permission denied")
        return left.pop(0)

    return LineWriter("test", clock, runner or AtOnce(), open_output, max_bytes=max_bytes)


def test_lines_of_one_interval_are_written_together() -> None:
    clock, output = Clock(), MemoryOutput()
    lines = writer(clock, output)
    lines.write_all([b"a\n"])
    lines.write_all([b"b\n"])
    assert not output.written
    clock.advance(INTERVAL)
    assert output.written == b"a\nb\n"


def test_nothing_is_left_on_the_clock_when_there_is_nothing_to_write() -> None:
    clock = Clock()
    lines = writer(clock, MemoryOutput())
    lines.write_all([b"a\n"])
    clock.advance(INTERVAL)
    assert not clock.getDelayedCalls()


def test_a_flush_does_not_wait_for_the_interval() -> None:
    clock, output = Clock(), MemoryOutput()
    lines = writer(clock, output)
    lines.write_all([b"a\n"])
    lines.flush()
    clock.advance(0)
    assert output.written == b"a\n"


def test_lines_that_come_while_the_output_is_busy_follow_in_order() -> None:
    clock, output, thread = Clock(), MemoryOutput(), OnDemand()
    lines = writer(clock, output, runner=thread)
    lines.write_all([b"a\n"])
    clock.advance(INTERVAL)
    lines.write_all([b"b\n"])
    clock.advance(INTERVAL)
    assert len(thread.waiting) == 1
    thread.go_on()
    clock.advance(INTERVAL)
    thread.go_on()
    assert output.written == b"a\nb\n"


def test_a_stuck_output_costs_the_oldest_waiting_lines_and_they_are_counted() -> None:
    clock, output, thread = Clock(), MemoryOutput(), OnDemand()
    lines = writer(clock, output, runner=thread, max_bytes=20)
    lines.write_all([b"stuck\n"])
    clock.advance(INTERVAL)
    for number in range(10):
        lines.write_all([b"%d234\n" % number])
    thread.go_on()
    clock.advance(INTERVAL)
    thread.go_on()
    assert output.written == b"stuck\n8234\n9234\n"
    assert lines.dropped == 8


def test_a_full_disk_is_tried_again_and_the_torn_line_completed() -> None:
    clock, output = Clock(), MemoryOutput(script=[3, 0])
    lines = writer(clock, output)
    lines.write_all([b"first\n"])
    lines.write_all([b"second\n"])
    clock.advance(INTERVAL)
    assert output.written == b"fir"
    assert lines.errors == 1
    clock.advance(RETRY)
    assert output.written == b"first\nsecond\n"
    assert lines.dropped == 0


def test_a_torn_line_whose_rest_was_dropped_is_ended_by_a_newline() -> None:
    clock, output = Clock(), MemoryOutput(script=[3, 0])
    lines = writer(clock, output, max_bytes=8)
    lines.write_all([b"first\n"])
    clock.advance(INTERVAL)
    lines.write_all([b"second\n"])
    clock.advance(RETRY)
    assert output.written == b"fir\nsecond\n"
    assert lines.dropped == 1


def test_a_file_that_ends_in_a_torn_line_gets_a_newline_first() -> None:
    clock, output = Clock(), MemoryOutput(mid_line=True)
    lines = writer(clock, output)
    lines.write_all([b"a\n"])
    clock.advance(INTERVAL)
    assert output.written == b"\na\n"


def test_an_error_is_reported_once_a_minute_without_any_line() -> None:
    clock, output = Clock(), MemoryOutput(script=[0] * 1000)
    lines = writer(clock, output)
    with capturedLogs() as logs:
        lines.write_all([b"canary\n"])
        clock.pump([INTERVAL, *[RETRY] * 90])
    assert lines.errors == 91
    assert len(logs) == 2
    assert "No space left" in str(logs)
    assert "canary" not in str(logs)


def test_an_output_that_cannot_be_opened_is_tried_again() -> None:
    clock, output = Clock(), MemoryOutput()
    tries: list[Callable[[], Output]] = []

    def open_output() -> Output:
        tries.append(open_output)
        if len(tries) < 3:
            raise PermissionError(errno.EACCES, "Permission denied")
        return output

    lines = LineWriter("test", clock, AtOnce(), open_output)
    lines.write_all([b"a\n"])
    clock.pump([INTERVAL, RETRY, RETRY])
    assert output.written == b"a\n"
    assert lines.errors == 2


def test_a_reopened_output_loses_no_line() -> None:
    clock, old, new = Clock(), MemoryOutput(), MemoryOutput()
    lines = writer(clock, old, new)
    lines.write_all([b"a\n"])
    clock.advance(INTERVAL)
    lines.write_all([b"b\n"])
    lines.reopen()
    clock.advance(0)
    lines.write_all([b"c\n"])
    clock.advance(INTERVAL)
    assert old.written + new.written == b"a\nb\nc\n"
    assert old.closed


def test_a_reopened_output_needs_no_line_to_be_opened() -> None:
    clock, old, new = Clock(), MemoryOutput(), MemoryOutput()
    lines = writer(clock, old, new)
    lines.open()
    lines.reopen()
    clock.advance(0)
    assert old.closed


def test_a_line_torn_in_the_old_output_is_whole_in_the_new_one() -> None:
    clock, old, new = Clock(), MemoryOutput(script=[3, 0]), MemoryOutput()
    lines = writer(clock, old, new)
    lines.write_all([b"first\n"])
    clock.advance(INTERVAL)
    lines.reopen()
    clock.advance(0)
    assert new.written == b"first\n"


def test_the_old_output_stays_in_use_if_no_new_one_can_be_opened() -> None:
    clock, old = Clock(), MemoryOutput()
    lines = writer(clock, old)
    lines.open()
    lines.reopen()
    clock.advance(0)
    lines.write_all([b"a\n"])
    clock.pump([INTERVAL, RETRY])
    assert old.written == b"a\n"
    assert not old.closed
    assert lines.errors > 0


def test_a_reopening_asked_for_while_the_output_is_busy_is_done_after() -> None:
    clock, old, new, thread = Clock(), MemoryOutput(), MemoryOutput(), OnDemand()
    lines = writer(clock, old, new, runner=thread)
    lines.write_all([b"a\n"])
    clock.advance(INTERVAL)
    lines.reopen()
    thread.go_on()
    clock.advance(0)
    thread.go_on()
    assert (bytes(old.written), old.closed) == (b"a\n", True)


def test_closing_writes_what_waits_and_closes() -> None:
    clock, output, thread = Clock(), MemoryOutput(), AtOnce()
    lines = writer(clock, output, runner=thread)
    lines.write_all([b"a\n"])
    closed = lines.close()
    clock.pump([0, 0])
    assert closed.called
    assert (bytes(output.written), output.closed, thread.stopped) == (b"a\n", True, True)
    assert not clock.getDelayedCalls()


def test_closing_gives_up_on_a_stuck_output_and_counts_what_was_lost() -> None:
    clock, thread = Clock(), OnDemand()
    lines = writer(clock, MemoryOutput(), runner=thread)
    lines.write_all([b"a\n"])
    clock.advance(INTERVAL)
    lines.write_all([b"b\n"])
    closed = lines.close(within=5)
    clock.advance(4)
    assert not closed.called
    clock.advance(1)
    assert closed.called
    assert lines.dropped == 1
    assert not clock.getDelayedCalls()


def test_closing_does_not_wait_for_an_output_that_fails() -> None:
    clock = Clock()
    lines = writer(clock, MemoryOutput(script=[0]))
    lines.write_all([b"a\n"])
    closed = lines.close()
    clock.advance(0)
    assert closed.called
    assert lines.dropped == 1


def test_two_who_close_are_both_told_and_one_may_leave() -> None:
    clock = Clock()
    lines = writer(clock, MemoryOutput())
    first, second = lines.close().addErrback(lambda _: None), lines.close()
    first.cancel()
    clock.pump([0, 0])
    assert second.called
    third = lines.close()
    assert third.called


def test_a_line_after_the_end_is_counted() -> None:
    clock = Clock()
    lines = writer(clock, MemoryOutput())
    closed = lines.close()
    clock.pump([0, 0])
    assert closed.called
    lines.write_all([b"late\n"])
    assert lines.dropped == 1
    assert not clock.getDelayedCalls()


@examples(400)
@given(
    steps=st.lists(
        st.one_of(
            st.tuples(st.just("write"), st.integers(0, 5)),
            st.tuples(st.just("write"), st.integers(0, 5)),
            st.tuples(st.just("turn"), st.sampled_from([INTERVAL, RETRY])),
            st.tuples(st.just("wait"), st.sampled_from([0, INTERVAL])),
            st.tuples(st.just("flush"), st.just(0)),
        ),
        min_size=5,
        max_size=40,
    ),
    script=st.lists(st.sampled_from([0, 0, 2, 6, 9]), min_size=2, max_size=20),
)
def test_lines_are_whole_in_order_and_each_is_written_or_counted(
    steps: list[tuple[str, float]], script: list[int]
) -> None:
    clock, output, thread, tears = Clock(), MemoryOutput(script=script), OnDemand(), script.count(0)
    lines = writer(clock, output, runner=thread, max_bytes=16)
    recorded: list[bytes] = []
    for what, amount in steps:
        if what == "write":
            recorded.append(b"%04d%s\n" % (len(recorded), b"x" * int(amount)))
            lines.write_all([recorded[-1]])
        elif what == "flush":
            lines.flush()
        else:
            clock.advance(amount)
        if what == "turn" and thread.waiting:
            thread.go_on()
    for _ in range(60):  # in the end everything goes well
        clock.advance(RETRY)
        if thread.waiting:
            thread.go_on()
    found = bytes(output.written).splitlines(keepends=True)
    whole = [line for line in found if line in recorded]
    lost = [line for line in recorded if line not in whole]
    assert whole == [line for line in recorded if line in whole]
    assert all(any(line.startswith(part[:-1]) for line in lost) for part in found if part not in recorded)
    # A line that lacked nothing but its newline is counted, and the newline before the next completes it.
    assert len(lost) <= lines.dropped <= len(lost) + tears
    assert lines.dropped or output.written == b"".join(recorded)
