"""The promises of mgw.bodies.file."""

from __future__ import annotations

import errno
import gc
import os
import stat
from pathlib import Path

import pytest
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.task import Clock
from twisted.logger import capturedLogs

from mgw.bodies import file as files
from mgw.bodies.budget import BodyBudget, Reservation
from mgw.bodies.file import DISK_SECONDS, SpoolFile, make_private, open_nameless, open_unlinked
from mgw.bodies.source import BodyGoneError
from tests.support.bodies import SteppedDisk, spooled
from tests.support.deferreds import result_of


class SpoolFileHarness:
    """One file, its disk, and what was reported."""

    def __init__(self, directory: Path) -> None:
        self.disk = SteppedDisk()
        self.room = BodyBudget(1000)
        self.reported: list[OSError] = []
        self.clock = Clock()
        self.file = SpoolFile(
            str(directory), self.disk, self.clock, Reservation(self.room), self.reported.append
        )

    def append(self, data: bytes) -> None:
        """Add to the file at once."""
        adding = Deferred.fromCoroutine(self.file.append(data))
        self.disk.run()
        result_of(adding)


@pytest.fixture(params=["nameless", "unlinked"])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> int:
    """A new file, in either way that one is made."""
    return (open_nameless if request.param == "nameless" else open_unlinked)(str(tmp_path))


def test_a_file_has_no_name_and_is_for_its_owner_alone(opened: int, tmp_path: Path) -> None:
    try:
        state = os.fstat(opened)
        assert list(tmp_path.iterdir()) == []
        assert (state.st_nlink, stat.S_IMODE(state.st_mode)) == (0, 0o600)
        assert not os.get_inheritable(opened)
        os.pwrite(opened, b"body", 0)
        assert os.pread(opened, 4, 0) == b"body"
    finally:
        os.close(opened)


def test_a_filesystem_without_nameless_files_gets_one_whose_name_is_taken_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "_O_TMPFILE", 0)
    descriptor = open_nameless(str(tmp_path))
    assert (os.fstat(descriptor).st_nlink, list(tmp_path.iterdir())) == (0, [])
    os.close(descriptor)


def test_a_missing_directory_is_made_for_its_owner_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        os.close(open_nameless(str(tmp_path / "a" / "b")))
    finally:
        os.umask(before)
    assert [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("a", "a/b")] == [0o700, 0o700]


def test_a_directory_that_exists_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir(mode=0o750)
    (tmp_path / "a").chmod(0o750)
    make_private(str(tmp_path / "a"))
    os.close(open_nameless(str(tmp_path / "a")))
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o750


def test_a_file_where_the_directory_should_be_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    with pytest.raises(FileExistsError):
        make_private(str(tmp_path / "a"))
    with pytest.raises(NotADirectoryError):
        open_nameless(str(tmp_path / "a"))


def test_nothing_is_opened_before_there_is_something_to_keep(tmp_path: Path) -> None:
    b = SpoolFileHarness(tmp_path / "never")
    b.file.close()
    assert not b.disk.waiting
    assert not (tmp_path / "never").exists()


def test_a_disk_that_takes_little_at_a_time_gets_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda to, data, position: write(to, data[:3], position))
    b = SpoolFileHarness(tmp_path)
    b.append(b"0123456")
    b.append(b"789")
    reading = b.file.read(0, 10)
    b.disk.run()
    assert result_of(reading) == b"0123456789"
    b.file.close()
    b.disk.run()


def test_reads_give_what_was_appended_from_any_position_several_at_a_time(tmp_path: Path) -> None:
    b = SpoolFileHarness(tmp_path)
    b.append(b"0123")
    b.append(b"4567")
    reads = [b.file.read(position, 3) for position in (5, 0, 6, 9)]
    b.disk.run()
    assert [result_of(read) for read in reads] == [b"567", b"012", b"67", b""]
    b.file.close()
    b.disk.run()


def test_a_file_is_closed_when_no_thread_is_at_it_and_its_room_given_back_then(tmp_path: Path) -> None:
    b = SpoolFileHarness(tmp_path)
    b.append(b"0123")
    reading = b.file.read(0, 4)
    b.file.close()
    b.file.close()
    assert (len(spooled(tmp_path)), b.room.held) == (1, 4)
    b.disk.step()
    assert result_of(reading) == b"0123"
    assert (len(spooled(tmp_path)), b.room.held) == (1, 4)
    b.disk.step()
    assert (len(spooled(tmp_path)), b.room.held) == (0, 0)
    assert not b.disk.waiting


def test_a_cancelled_read_keeps_the_file_open_until_its_thread_is_done(tmp_path: Path) -> None:
    b = SpoolFileHarness(tmp_path)
    b.append(b"0123")
    reading = b.file.read(0, 4)
    reading.cancel()
    with pytest.raises(CancelledError):
        result_of(reading)
    b.file.close()
    assert len(b.disk.waiting) == 1  # the read; the descriptor is not yet closed
    assert len(spooled(tmp_path)) == 1
    with capturedLogs() as logged:
        b.disk.run()
        gc.collect()  # which is when Twisted logs an error that nobody has seen
    assert (len(spooled(tmp_path)), b.room.held, b.reported, logged) == (0, 0, [], [])


def test_a_file_closed_while_it_is_being_opened_is_closed_behind_that(tmp_path: Path) -> None:
    b = SpoolFileHarness(tmp_path)
    adding = Deferred.fromCoroutine(b.file.append(b"0123"))
    b.file.close()
    b.disk.run()
    result_of(adding)
    assert (len(spooled(tmp_path)), b.room.held) == (0, 0)


def test_a_closed_file_says_that_its_body_is_gone(tmp_path: Path) -> None:
    b = SpoolFileHarness(tmp_path)
    b.append(b"0123")
    b.file.close()
    with pytest.raises(BodyGoneError):
        result_of(b.file.read(0, 4))
    b.disk.run()


def test_what_the_disk_says_is_reported_and_told(tmp_path: Path) -> None:
    b = SpoolFileHarness(tmp_path)
    b.append(b"0123")
    reading = b.file.read(0, 4)
    error = OSError(errno.EIO, "Input/output error")
    b.disk.fail(error)
    with pytest.raises(OSError, match="Input/output"):
        result_of(reading)
    assert b.reported == [error]
    b.file.close()
    b.disk.run()


def test_a_file_that_lost_its_end_is_an_error_and_not_a_shorter_body(tmp_path: Path) -> None:
    b = SpoolFileHarness(tmp_path)
    b.append(b"0123")
    (descriptor,) = spooled(tmp_path)
    os.ftruncate(descriptor, 2)
    reading = b.file.read(0, 4)
    b.disk.run()
    with pytest.raises(OSError, match="shorter"):
        result_of(reading)
    b.file.close()
    b.disk.run()


def test_a_read_that_does_not_come_back_fails_in_time_and_its_thread_keeps_the_file(tmp_path: Path) -> None:
    b = SpoolFileHarness(tmp_path)
    b.append(b"0123")
    reading = b.file.read(0, 4)
    b.clock.advance(DISK_SECONDS - 1)
    assert not reading.called
    b.clock.advance(1)
    with pytest.raises(OSError, match="is not responding"):
        result_of(reading)
    assert [error.errno for error in b.reported] == [errno.ETIMEDOUT]
    b.file.close()
    assert len(spooled(tmp_path)) == 1
    b.disk.run()
    assert (len(spooled(tmp_path)), b.room.held) == (0, 0)


@pytest.mark.parametrize("how", ["read", "left"])
def test_a_disk_that_answers_or_whose_answer_nobody_wants_leaves_no_timer(tmp_path: Path, how: str) -> None:
    b = SpoolFileHarness(tmp_path)
    b.append(b"0123")
    reading = b.file.read(0, 4)
    assert b.clock.getDelayedCalls()
    if how == "read":
        b.disk.run()
        assert result_of(reading) == b"0123"
    else:
        reading.cancel()
        with pytest.raises(CancelledError):
            result_of(reading)
    assert not b.clock.getDelayedCalls()
    b.file.close()
    assert not b.clock.getDelayedCalls()  # nobody waits for the end of a file
    b.disk.run()


def test_a_thread_that_comes_to_a_closed_file_neither_opens_nor_writes_it(tmp_path: Path) -> None:
    b = SpoolFileHarness(tmp_path / "never")
    adding = Deferred.fromCoroutine(b.file.append(b"0123"))
    b.file.close()
    b.disk.run()
    result_of(adding)
    assert not (tmp_path / "never").exists()
    assert b.room.held == 0


def test_a_thread_whose_file_is_closed_while_it_opens_it_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    b = SpoolFileHarness(tmp_path)
    written: list[object] = []

    def slowly(directory: str) -> int:
        descriptor = open_nameless(directory)
        b.file.close()
        return descriptor

    monkeypatch.setattr(files, "open_nameless", slowly)
    monkeypatch.setattr(os, "pwrite", lambda *what: written.append(what))
    b.append(b"0123")
    assert (written, len(spooled(tmp_path)), b.room.held) == ([], 0, 0)
