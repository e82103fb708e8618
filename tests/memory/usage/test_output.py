"""Files, descriptors and streams that lines are written to."""

from __future__ import annotations

import errno
import os
import stat
import threading
from pathlib import Path
from threading import RLock

import pytest

from mgw.usage.output import SHARED_BYTES, DescriptorOutput, FileOutput, SharedOutput


def test_a_file_is_made_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "usage.jsonl"
    FileOutput(str(path)).close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_file_is_appended_to(tmp_path: Path) -> None:
    path = tmp_path / "usage.jsonl"
    path.write_bytes(b"a\n")
    output = FileOutput(str(path))
    assert output.write(memoryview(b"b\n")) == 2
    output.close()
    assert path.read_bytes() == b"a\nb\n"


@pytest.mark.parametrize(("content", "torn"), [(b"", False), (b"a\n", False), (b"a\nb", True)])
def test_a_file_tells_whether_its_last_line_is_torn(tmp_path: Path, content: bytes, torn: bool) -> None:
    path = tmp_path / "usage.jsonl"
    path.write_bytes(content)
    output = FileOutput(str(path))
    output.close()
    assert output.mid_line is torn


def test_a_named_pipe_without_a_reader_is_an_error_and_no_wait(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    with pytest.raises(OSError, match="No such device"):
        FileOutput(str(path))


def test_a_full_disk_is_an_error() -> None:
    output = FileOutput("/dev/full")
    with pytest.raises(OSError, match="No space left"):
        output.write(memoryview(b"a\n"))
    output.close()


def test_a_broken_pipe_is_an_error() -> None:
    reader, sender = os.pipe()
    os.close(reader)
    with pytest.raises(BrokenPipeError):
        DescriptorOutput(sender).write(memoryview(b"a\n"))
    os.close(sender)


def test_a_descriptor_is_left_open() -> None:
    reader, sender = os.pipe()
    output = DescriptorOutput(sender)
    output.close()
    assert output.write(memoryview(b"a\n")) == 2
    os.close(sender)
    assert os.read(reader, 9) == b"a\n"
    os.close(reader)


class Piecewise:
    """An output that takes a few bytes at a time, between which somebody else may write."""

    mid_line = False

    def __init__(self, lock: RLock, fails_at: int = -1) -> None:
        self.lock, self.fails_at, self.taken, self.others = lock, fails_at, b"", 0

    def write(self, data: memoryview) -> int:
        if len(self.taken) == self.fails_at:
            raise OSError(errno.ENOSPC, "No space left on device")
        in_between = threading.Thread(target=self._write_other)
        in_between.start()
        in_between.join()
        self.taken += bytes(data[:100])
        return len(data[:100])

    def _write_other(self) -> None:
        if self.lock.acquire(blocking=False):
            self.others += 1
            self.lock.release()

    def close(self) -> None:
        """Nothing to do."""


def test_nobody_writes_in_the_middle_of_a_line() -> None:
    lock = RLock()
    inner = Piecewise(lock)
    output = SharedOutput(inner, lock)
    lines = b"".join(b"%06d\n" % number for number in range(20_000))
    written = output.write(memoryview(lines))
    assert SHARED_BYTES <= written < SHARED_BYTES + 7
    assert inner.taken == lines[:written]
    assert inner.taken.endswith(b"\n")
    assert not inner.others
    assert lock.acquire(blocking=False), "it is free behind the line"


@pytest.mark.parametrize("size", [1, SHARED_BYTES - 1, SHARED_BYTES, SHARED_BYTES + 1, 3 * SHARED_BYTES])
def test_a_long_line_is_written_whole(size: int) -> None:
    lock = RLock()
    inner = Piecewise(lock)
    line = b"x" * (size - 1) + b"\n"
    assert SharedOutput(inner, lock).write(memoryview(line + line)) in (size, 2 * size)
    assert inner.taken.endswith(b"x\n" if size > 1 else b"\n")


def test_what_was_written_before_an_error_counts() -> None:
    lock = RLock()
    output = SharedOutput(Piecewise(lock, fails_at=100), lock)
    data = memoryview(b"x" * 199 + b"\n")
    assert output.write(data) == 100
    with pytest.raises(OSError, match="No space left"):
        output.write(data[100:])
