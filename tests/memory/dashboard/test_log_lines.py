"""The last lines of the process log: as many as are kept, without secrets, whoever logs them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Thread
from typing import Any

import pytest
from twisted.logger import LogEvent, Logger, LogLevel, LogPublisher
from twisted.python.failure import Failure

from mgw.dashboard.log_lines import MAX_CHARS, MAX_LINES, TOLD_CHARS, LogLine, LogLines
from mgw.nouns.secret import REDACTED, Secret
from mgw.ops.logs import RedactingObserver


class Turns:
    """A reactor that runs what threads ask for when the test says so."""

    def __init__(self) -> None:
        self.waiting: list[Callable[[], None]] = []

    def call_later(self, work: Callable[[], None]) -> None:
        self.waiting.append(work)

    def turn(self) -> None:
        """Run what was asked for."""
        waiting, self.waiting = self.waiting, []
        for work in waiting:
            work()


class Log:
    """A log whose lines are kept, and told."""

    def __init__(self, namespace: str = "mgw.app.service") -> None:
        self.turns = Turns()
        self.told: list[str] = []
        self.lines = LogLines(self.turns.call_later, self._publish)
        self.log = Logger(
            namespace, observer=RedactingObserver(self.lines, lambda: [Secret("hunter2-hunter2")])
        )

    def _publish(self, lines: Sequence[LogLine]) -> None:
        self.told += [line.text for line in lines]

    def texts(self, count: int = MAX_LINES) -> list[str]:
        return [line.text for line in self.lines.last(count)]


def test_a_line_has_its_time_its_level_and_its_text() -> None:
    log = Log()
    event = {"log_time": 1_764_000_000.25, "log_level": LogLevel.warn, "log_text": "acc rests"}
    log.lines(event)
    assert log.lines.last() == [LogLine("2025-11-24T16:00:00.250Z", "warn", "acc rests")]


@pytest.mark.parametrize("level", list(LogLevel.iterconstants()), ids=lambda level: level.name)
def test_every_level_is_named(level: Any) -> None:  # Any: Twisted's constants
    log = Log()
    log.log.emit(level, "x")
    assert [line.level for line in log.lines.last()] == [level.name]


def test_the_newest_come_last_and_the_oldest_go() -> None:
    log = Log()
    for number in range(MAX_LINES + 5):
        log.log.info("{number}", number=number)
    assert log.texts(2) == [str(MAX_LINES + 3), str(MAX_LINES + 4)]
    assert (log.texts()[0], len(log.texts()), len(log.texts(10**9))) == ("5", MAX_LINES, MAX_LINES)
    assert log.texts(0) == log.texts(-1) == []


def test_long_lines_leave_room_for_fewer() -> None:
    log = Log()
    for number in range(100):
        log.log.info("{text}", text=f"{number}" + "x" * 60_000)
    kept = log.texts()
    assert MAX_CHARS - 60_010 < sum(map(len, kept)) <= MAX_CHARS
    assert kept[-1].startswith("99")


def test_secrets_are_redacted_as_in_the_log() -> None:
    log = Log()
    log.log.error("no hunter2-hunter2 and no ?key=abcdefgh")
    try:
        raise ValueError("x-api-key: abcdefgh")
    except ValueError:
        log.log.failure("oh", Failure())
    log.turns.turn()
    for texts in (log.texts(), log.told):
        assert texts[0] == f"no {REDACTED} and no ?key={REDACTED}"
        assert "ValueError" in texts[1]
        assert not any(secret in text for text in texts for secret in ("abcdefgh", "hunter2"))


def test_a_line_that_is_no_unicode_is_kept() -> None:
    log = Log()
    log.log.info("{text}", text="half \ud800 of a pair")
    assert log.texts() == ["half ? of a pair"]


def test_lines_of_other_threads_are_told_in_the_reactor_s() -> None:
    log = Log()

    def work() -> None:
        for _ in range(50):
            log.log.info("x")

    threads = [Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert log.told == []
    log.turns.turn()
    assert (len(log.told), len(log.texts())) == (200, 200)


def test_however_many_lines_wait_they_are_bounded() -> None:
    log = Log()
    for number in range(3 * MAX_LINES):
        log.log.info("{number}", number=number)
    while log.turns.waiting:
        assert len(log.turns.waiting) == 1
        log.turns.turn()
    assert log.told == [str(number) for number in range(2 * MAX_LINES, 3 * MAX_LINES)]


def test_long_lines_that_wait_are_bounded_and_told_in_several_turns() -> None:
    log = Log()
    for number in range(100):
        log.lines({"log_text": f"{number} " + "x" * 60_000})
    turns = 0
    while log.turns.waiting:
        before = sum(map(len, log.told))
        log.turns.turn()
        assert 0 < sum(map(len, log.told)) - before < TOLD_CHARS + 65_000
        turns += 1
    assert MAX_CHARS - 60_010 < sum(map(len, log.told)) <= MAX_CHARS
    assert turns >= MAX_CHARS // (TOLD_CHARS + 65_000)
    assert log.told[-1].startswith("99 ")
    log.log.info("another")
    log.turns.turn()
    assert log.told[-1] == "another"


def test_what_is_logged_while_lines_are_told_is_told_later() -> None:
    log = Log()
    log.lines.publish = lambda lines: log.log.info("told {count}", count=len(lines))
    log.log.info("first")
    for _ in range(3):
        assert len(log.turns.waiting) == 1
        log.turns.turn()
    assert log.texts() == ["first", "told 1", "told 1", "told 1"]


def test_what_the_dashboard_logs_is_kept_and_not_told() -> None:
    log = Log("mgw.dashboard.feed")
    log.log.error("a bug")
    log.turns.turn()
    assert (log.texts(), log.told, log.turns.waiting) == (["a bug"], [], [])


def observer(work: Callable[[LogEvent], object]) -> Any:  # Any: mypy takes no function for an observer
    return work


def test_the_log_and_the_dashboard_get_the_same_text() -> None:
    log, written = Log(), list[str]()
    both = LogPublisher(log.lines)
    both.addObserver(observer(lambda event: written.append(str(event["log_text"]))))
    Logger("x", observer=RedactingObserver(both, list)).info("token=abcdefgh")
    assert written == log.texts() == [f"token={REDACTED}"]


def test_what_has_passed_by_the_redaction_is_not_shown() -> None:
    log = Log()

    def broken(event: LogEvent) -> None:
        raise OSError("disk full, token=abcdefgh")

    both = LogPublisher(log.lines)
    both.addObserver(observer(broken))
    Logger("x", observer=RedactingObserver(both, list)).info("a line")
    assert log.texts() == ["a line"]
