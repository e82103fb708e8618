"""The events' lines in a file."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from twisted.internet.task import Clock
from twisted.logger import capturedLogs

from mgw.config.hooks import JsonlSettings
from mgw.usage.line_writer import INTERVAL, LineWriter
from mgw.usage.output import DescriptorOutput
from mgw.usage.record import encode
from mgw.usage.sinks.jsonl import JsonlSink, output_opener
from tests.support.usage import AtOnce, event


def sink_on(clock: Clock, path: Path | str, **settings: int) -> JsonlSink:
    """A sink that writes to a path."""
    opener = output_opener(
        JsonlSettings.model_validate({"output": str(path), **settings}),
        lambda: 1_769_860_800 + clock.seconds(),
        lambda error: writer.note_error(error),  # noqa: PLW0108  (it does not exist yet)
    )
    writer = LineWriter("jsonl", clock, AtOnce(), opener)
    return JsonlSink(writer)


def test_each_event_is_one_line_of_the_file(tmp_path: Path) -> None:
    clock, path = Clock(), tmp_path / "usage.jsonl"
    sink = sink_on(clock, path)
    sink.record_block(encode(event(request_id="1")))
    sink.record_block(encode(event(request_id="2")))
    clock.advance(INTERVAL)
    assert path.read_bytes() == encode(event(request_id="1")) + encode(event(request_id="2"))


def test_a_renamed_file_and_the_new_one_hold_every_event_once(tmp_path: Path) -> None:
    clock, path, renamed = Clock(), tmp_path / "usage.jsonl", tmp_path / "usage.jsonl.1"
    sink = sink_on(clock, path)
    for number in range(10):
        sink.record_block(encode(event(request_id=str(number))))
        if number % 3 == 0:
            clock.advance(INTERVAL)
        if number == 5:
            path.rename(renamed)
        if number == 7:
            sink.reopen()
    closed = sink.close()
    clock.pump([0, 0])
    assert closed.called
    lines = (renamed.read_bytes() + path.read_bytes()).splitlines()
    assert [json.loads(line)["request_id"] for line in lines] == [str(number) for number in range(10)]


def test_a_full_disk_is_counted_and_raises_nothing() -> None:
    clock = Clock()
    sink = sink_on(clock, "/dev/full")
    with capturedLogs():
        sink.record_block(encode(event()))
        clock.advance(INTERVAL)
        closed = sink.close()
        clock.pump([0, 0])
    assert closed.called
    assert (sink.errors, sink.dropped) == (2, 1)


def test_a_path_that_cannot_be_written_is_known_when_it_is_opened(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        sink_on(Clock(), tmp_path / "no" / "usage.jsonl").writer.open()


@pytest.mark.parametrize("output", ["stdout", "stderr"])
def test_the_standard_streams_are_written_by_descriptor(output: str) -> None:
    opener = output_opener(JsonlSettings(output=output), lambda: 0.0, lambda _: None)
    assert isinstance(opener(), DescriptorOutput)


LINE = encode(event(request_id="0000"))


def fill(sink: JsonlSink, clock: Clock, count: int, first: int = 0) -> list[bytes]:
    """Write events one after the other, and return their lines."""
    lines = [encode(event(request_id=f"{number:04d}")) for number in range(first, first + count)]
    for line in lines:
        sink.record_block(line)
        clock.advance(INTERVAL)
    return lines


def test_a_file_that_would_become_too_large_is_renamed_and_no_line_is_lost(tmp_path: Path) -> None:
    clock, path = Clock(), tmp_path / "usage.jsonl"
    sink = sink_on(clock, path, rotate_bytes=3 * len(LINE))
    lines = fill(sink, clock, 10)
    old = sorted(tmp_path.glob("usage.jsonl.*"))
    assert old[0].name == "usage.jsonl.20260131T120000.200Z"
    assert [len(file.read_bytes().splitlines()) for file in (*old, path)] == [3, 3, 3, 1]
    assert b"".join(file.read_bytes() for file in (*old, path)) == b"".join(lines)
    assert (sink.errors, sink.dropped) == (0, 0)
    assert {file.stat().st_mode & 0o777 for file in (*old, path)} == {0o600}


def test_without_keep_all_old_files_stay_and_with_it_the_newest_do(tmp_path: Path) -> None:
    clock = Clock()
    for keep, left in (({}, 9), ({"keep": 2}, 2)):
        folder = tmp_path / str(left)
        folder.mkdir()
        (folder / "usage.jsonl.1").write_text("not ours")
        sink = sink_on(clock, folder / "usage.jsonl", rotate_bytes=len(LINE), **keep)
        lines = fill(sink, clock, 10)
        old = sorted(folder.glob("usage.jsonl.2*"))
        assert [file.read_bytes() for file in old] == lines[9 - left : 9]
        assert (folder / "usage.jsonl.1").exists()


def test_a_file_that_is_large_already_is_renamed_before_the_first_line(tmp_path: Path) -> None:
    clock, path = Clock(), tmp_path / "usage.jsonl"
    path.write_bytes(LINE * 5)
    fill(sink_on(clock, path, rotate_bytes=3 * len(LINE)), clock, 1)
    (old,) = tmp_path.glob("usage.jsonl.*")
    assert (old.read_bytes(), path.read_bytes()) == (LINE * 5, LINE)


def test_a_torn_line_is_ended_in_its_own_file(tmp_path: Path) -> None:
    clock, path = Clock(), tmp_path / "usage.jsonl"
    path.write_bytes(LINE[:-9])
    fill(sink_on(clock, path, rotate_bytes=len(LINE)), clock, 1)
    (old,) = tmp_path.glob("usage.jsonl.*")
    assert (old.read_bytes(), path.read_bytes()) == (LINE[:-9] + b"\n", LINE)


def test_a_file_that_cannot_be_renamed_is_written_on_and_that_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    clock, path = Clock(), tmp_path / "usage.jsonl"
    sink = sink_on(clock, path, rotate_bytes=3 * len(LINE))
    monkeypatch.setattr(os, "rename", refuse)
    with capturedLogs() as logs:
        lines = fill(sink, clock, 6)
    assert path.read_bytes() == b"".join(lines)
    assert sink.errors == 1
    assert "Permission denied" in str(logs)


def test_a_file_that_was_renamed_by_others_is_left_where_it_is(tmp_path: Path) -> None:
    clock, path = Clock(), tmp_path / "usage.jsonl"
    sink = sink_on(clock, path, rotate_bytes=3 * len(LINE))
    lines = fill(sink, clock, 2)
    path.rename(tmp_path / "moved")
    sink.reopen()
    clock.advance(0)
    lines += fill(sink, clock, 3, first=2)
    assert (tmp_path / "moved").read_bytes() + path.read_bytes() == b"".join(lines)
