"""What a gateway tells of its reloads, in a file that has no place."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from zlib import crc32

import pytest

from mgw.ops.reload_status import (
    LINK,
    MAX_NOTES,
    MAX_PROBLEMS,
    ReloadPhase,
    ReloadReporter,
    ReloadStatus,
    read_status,
)


@pytest.fixture
def reporter() -> Iterator[ReloadReporter]:
    reporter = ReloadReporter()
    yield reporter
    reporter.close()


def published(reporter: ReloadReporter) -> ReloadStatus:
    assert reporter.descriptor is not None
    status = read_status(reporter.descriptor)
    assert status is not None
    return status


def ready(reporter: ReloadReporter, generation: int = 1) -> ReloadStatus:
    reporter.ready(generation, ["127.0.0.1:8787"])
    return published(reporter)


def test_nothing_is_told_of_a_service_that_nobody_can_reload(reporter: ReloadReporter) -> None:
    reporter.ready(1, [])
    reporter.ask()
    assert reporter.descriptor is None


def test_it_tells_which_process_uses_which_file(reporter: ReloadReporter) -> None:
    reporter.publish("/etc/mgw.yaml")
    status = ready(reporter)
    assert (status.pid, status.file, status.addresses) == (os.getpid(), "/etc/mgw.yaml", ("127.0.0.1:8787",))
    assert (status.state, status.generation) == (ReloadPhase.SERVING, 1)
    link = Path(f"/proc/self/fd/{reporter.descriptor}")
    assert os.readlink(link) == LINK


def test_a_reload_answers_what_was_asked_before_it_began(reporter: ReloadReporter) -> None:
    reporter.publish("/etc/mgw.yaml")
    ready(reporter)
    reporter.ask()
    reporter.begin()
    assert (published(reporter).state, published(reporter).answered) == (ReloadPhase.RELOADING, 0)
    reporter.ask()  # meanwhile
    status = ready(reporter, 2)
    assert (status.state, status.asked, status.answered, status.generation) == (ReloadPhase.SERVING, 2, 1, 2)
    reporter.begin()
    assert ready(reporter, 3).answered == 2


def test_what_is_asked_for_during_the_start_is_not_answered_by_it(reporter: ReloadReporter) -> None:
    reporter.publish("/etc/mgw.yaml")
    reporter.ask()
    assert ready(reporter).answered == 0


def test_problems_and_notes_are_those_of_the_last_reload(reporter: ReloadReporter) -> None:
    reporter.publish("/etc/mgw.yaml")
    ready(reporter)
    reporter.begin()
    reporter.note("listen needs a restart")
    reporter.fail("mgw.yaml:1: " + "x" * 100_000)
    status = ready(reporter)
    assert status.problems.startswith("mgw.yaml:1: xxx")
    assert status.notes == ("listen needs a restart",)
    reporter.begin()
    status = ready(reporter, 2)
    assert (status.problems, status.notes) == ("", ())


@pytest.mark.parametrize("character", ["x", "\x01", "\U0001f40c"])
def test_the_longest_problems_and_notes_can_be_read(character: str, reporter: ReloadReporter) -> None:
    reporter.publish("/etc/mgw.yaml")
    ready(reporter)
    reporter.begin()
    note = character * (MAX_NOTES // 2)
    for _ in range(3):
        reporter.note(note)
    reporter.fail(character * (MAX_PROBLEMS + 1))
    status = ready(reporter)
    assert status.notes == (note, note)
    assert status.problems == character * MAX_PROBLEMS


def test_a_text_that_is_being_written_is_not_believed(reporter: ReloadReporter) -> None:
    reporter.publish("/etc/mgw.yaml")
    ready(reporter)
    assert reporter.descriptor is not None
    os.pwrite(reporter.descriptor, b"2", os.fstat(reporter.descriptor).st_size - 10)
    assert read_status(reporter.descriptor) is None


@pytest.mark.parametrize("content", [b"", b"00000000\n", b"no checksum at all", b"%08x\n[1]" % crc32(b"[1]")])
def test_what_is_no_status_is_none(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(content)
    descriptor = os.open(file, os.O_RDONLY)
    try:
        assert read_status(descriptor) is None
    finally:
        os.close(descriptor)


def test_where_there_are_no_such_files_the_gateway_does_without() -> None:
    reporter = ReloadReporter(create=lambda: None)
    reporter.publish("/etc/mgw.yaml")
    reporter.ready(1, [])
    reporter.ask()
    reporter.stopping()
    assert reporter.descriptor is None


def test_a_file_that_can_no_longer_be_written_is_given_up(reporter: ReloadReporter) -> None:
    reporter.publish("/etc/mgw.yaml")
    ready(reporter)
    assert reporter.descriptor is not None
    readable = os.open(f"/proc/self/fd/{reporter.descriptor}", os.O_RDONLY)
    os.dup2(readable, reporter.descriptor)
    os.close(readable)
    reporter.ask()
    assert reporter.descriptor is None
