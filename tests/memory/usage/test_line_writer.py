"""Lines arrive whole and in order, or are counted, and nobody waits for them."""

from __future__ import annotations

import errno
from collections.abc import Callable
from dataclasses import dataclass, field

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
    lines.write_block(b"a\n")
    lines.write_block(b"b\n")
    assert not output.written
    clock.advance(INTERVAL)
    assert output.written == b"a\nb\n"


def test_nothing_is_left_on_the_clock_when_there_is_nothing_to_write() -> None:
    clock = Clock()
    lines = writer(clock, MemoryOutput())
    lines.write_block(b"a\n")
    clock.advance(INTERVAL)
    assert not clock.getDelayedCalls()


def test_a_flush_does_not_wait_for_the_interval() -> None:
    clock, output = Clock(), MemoryOutput()
    lines = writer(clock, output)
    lines.write_block(b"a\n")
    lines.flush()
    clock.advance(0)
    assert output.written == b"a\n"


def test_lines_that_come_while_the_output_is_busy_follow_in_order() -> None:
    clock, output, thread = Clock(), MemoryOutput(), OnDemand()
    lines = writer(clock, output, runner=thread)
    lines.write_block(b"a\n")
    clock.advance(INTERVAL)
    lines.write_block(b"b\n")
    clock.advance(INTERVAL)
    assert len(thread.waiting) == 1
    thread.go_on()
    clock.advance(INTERVAL)
    thread.go_on()
    assert output.written == b"a\nb\n"


def test_a_stuck_output_costs_the_oldest_waiting_lines_and_they_are_counted() -> None:
    clock, output, thread = Clock(), MemoryOutput(), OnDemand()
    lines = writer(clock, output, runner=thread, max_bytes=20)
    lines.write_block(b"stuck\n")
    clock.advance(INTERVAL)
    for number in range(10):
        lines.write_block(b"%d234\n" % number)
    thread.go_on()
    clock.advance(INTERVAL)
    thread.go_on()
    assert output.written == b"stuck\n8234\n9234\n"
    assert lines.dropped == 8


def test_a_full_disk_is_tried_again_and_the_torn_line_completed() -> None:
    clock, output = Clock(), MemoryOutput(script=[3, 0])
    lines = writer(clock, output)
    lines.write_block(b"first\n")
    lines.write_block(b"second\n")
    clock.advance(INTERVAL)
    assert output.written == b"fir"
    assert lines.errors == 1
    clock.advance(RETRY)
    assert output.written == b"first\nsecond\n"
    assert lines.dropped == 0


def test_what_waits_after_an_error_is_what_was_not_written_whole() -> None:
    clock, output = Clock(), MemoryOutput(script=[6, 0])
    lines = writer(clock, output)
    lines.write_block(b"first\nsecond\nthird\n")
    clock.advance(INTERVAL)
    assert (bytes(output.written), lines.waiting) == (b"first\n", 2)


def test_a_torn_line_whose_rest_was_dropped_is_ended_by_a_newline() -> None:
    clock, output = Clock(), MemoryOutput(script=[3, 0])
    lines = writer(clock, output, max_bytes=8)
    lines.write_block(b"first\n")
    clock.advance(INTERVAL)
    lines.write_block(b"second\n")
    clock.advance(RETRY)
    assert output.written == b"fir\nsecond\n"
    assert lines.dropped == 1


def test_a_file_that_ends_in_a_torn_line_gets_a_newline_first() -> None:
    clock, output = Clock(), MemoryOutput(mid_line=True)
    lines = writer(clock, output)
    lines.write_block(b"a\n")
    clock.advance(INTERVAL)
    assert output.written == b"\na\n"


def test_an_error_is_reported_once_a_minute_without_any_line() -> None:
    clock, output = Clock(), MemoryOutput(script=[0] * 1000)
    lines = writer(clock, output)
    with capturedLogs() as logs:
        lines.write_block(b"canary\n")
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
    lines.write_block(b"a\n")
    clock.pump([INTERVAL, RETRY, RETRY])
    assert output.written == b"a\n"
    assert lines.errors == 2


def test_a_reopened_output_loses_no_line() -> None:
    clock, old, new = Clock(), MemoryOutput(), MemoryOutput()
    lines = writer(clock, old, new)
    lines.write_block(b"a\n")
    clock.advance(INTERVAL)
    lines.write_block(b"b\n")
    lines.reopen()
    clock.advance(0)
    lines.write_block(b"c\n")
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
    lines.write_block(b"first\n")
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
    lines.write_block(b"a\n")
    clock.pump([INTERVAL, RETRY])
    assert old.written == b"a\n"
    assert not old.closed
    assert lines.errors > 0


def test_a_reopening_asked_for_while_the_output_is_busy_is_done_after() -> None:
    clock, old, new, thread = Clock(), MemoryOutput(), MemoryOutput(), OnDemand()
    lines = writer(clock, old, new, runner=thread)
    lines.write_block(b"a\n")
    clock.advance(INTERVAL)
    lines.reopen()
    thread.go_on()
    clock.advance(0)
    thread.go_on()
    assert (bytes(old.written), old.closed) == (b"a\n", True)


def test_closing_writes_what_waits_and_closes() -> None:
    clock, output, thread = Clock(), MemoryOutput(), AtOnce()
    lines = writer(clock, output, runner=thread)
    lines.write_block(b"a\n")
    closed = lines.close()
    clock.pump([0, 0])
    assert closed.called
    assert (bytes(output.written), output.closed, thread.stopped) == (b"a\n", True, True)
    assert not clock.getDelayedCalls()


def test_closing_gives_up_on_a_stuck_output_and_counts_what_was_lost() -> None:
    clock, thread = Clock(), OnDemand()
    lines = writer(clock, MemoryOutput(), runner=thread)
    lines.write_block(b"a\n")
    clock.advance(INTERVAL)
    lines.write_block(b"b\n")
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
    lines.write_block(b"a\n")
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
    lines.write_block(b"late\n")
    assert lines.dropped == 1
    assert not clock.getDelayedCalls()


@dataclass
class Desk:
    """A writer on outputs that fail as a script says, and the thread that writes."""

    openings: list[bool]
    """Whether each opening of an output succeeds; when this is over, all do."""
    script: list[int]
    mid_line: bool
    clock: Clock = field(default_factory=Clock)
    thread: OnDemand = field(default_factory=OnDemand)
    outputs: list[MemoryOutput] = field(default_factory=list)
    lines: LineWriter = field(init=False)

    def __post_init__(self) -> None:
        self.lines = LineWriter(
            "test", self.clock, self.thread, self.open_output, max_bytes=90, batch_bytes=30
        )

    def open_output(self) -> Output:
        if self.openings and not self.openings.pop(0):
            raise PermissionError(errno.EACCES, "Permission denied")
        self.outputs.append(MemoryOutput(script=self.script, mid_line=self.mid_line))
        return self.outputs[-1]

    def do(self, what: str, seconds: float) -> None:
        if what == "flush":
            self.lines.flush()
        elif what == "reopen":
            self.lines.reopen()
        else:
            self.clock.advance(seconds)
        if what == "turn" and self.thread.waiting:
            self.thread.go_on()

    def state(self) -> tuple[list[bytes], int, int, int]:
        lines = self.lines
        return [bytes(one.written) for one in self.outputs], lines.dropped, lines.errors, lines.waiting


@examples(400)
@given(
    steps=st.lists(
        st.lists(st.integers(0, 12), max_size=8)
        | st.sampled_from(
            [
                ("turn", INTERVAL),
                ("turn", RETRY),
                ("wait", 0),
                ("wait", INTERVAL),
                ("flush", 0),
                ("reopen", 0),
            ]
        ),
        min_size=3,
        max_size=40,
    ),
    script=st.lists(st.sampled_from([0, 1, 2, 6, 9, 25]), max_size=20),
    openings=st.lists(st.booleans(), max_size=6),
    mid_line=st.booleans(),
)
def test_lines_in_blocks_are_written_and_counted_as_lines_one_by_one(
    steps: list[list[int] | tuple[str, float]], script: list[int], openings: list[bool], mid_line: bool
) -> None:
    in_blocks, one_by_one = (Desk(list(openings), list(script), mid_line) for _ in range(2))
    number = 0
    with capturedLogs():
        for step in [*steps, *[("turn", RETRY)] * 10]:
            if isinstance(step, list):
                lines = [b"%04d%s\n" % (number + index, b"x" * more) for index, more in enumerate(step)]
                number += len(lines)
                in_blocks.lines.write_block(b"".join(lines))
                for line in lines:
                    one_by_one.lines.write_block(line)
            else:
                in_blocks.do(*step)
                one_by_one.do(*step)
            assert in_blocks.state() == one_by_one.state()


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
            first = len(recorded)
            recorded += [
                b"%04d%s\n" % (first + more, b"x" * int(amount)) for more in range(int(amount) % 3 + 1)
            ]
            lines.write_block(b"".join(recorded[first:]))
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
