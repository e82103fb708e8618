"""Files, descriptors and streams that lines are written to."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from mgw.usage.output import DescriptorOutput, FileOutput


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
