"""The events' lines in a file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from twisted.internet.task import Clock
from twisted.logger import capturedLogs

from mgw.usage.event import encode
from mgw.usage.line_writer import INTERVAL, LineWriter
from mgw.usage.output import DescriptorOutput
from mgw.usage.sinks.jsonl import JsonlSink, output_opener
from tests.support.usage import AtOnce, event, exchange


def sink_on(clock: Clock, path: Path | str) -> JsonlSink:
    """A sink that writes to a path."""
    return JsonlSink(LineWriter("jsonl", clock, AtOnce(), output_opener(str(path))))


def test_each_event_is_one_line_of_the_file(tmp_path: Path) -> None:
    clock, path = Clock(), tmp_path / "usage.jsonl"
    sink = sink_on(clock, path)
    sink.record_all(iter([exchange(request_id="1")]))
    sink.record_all(iter([exchange(request_id="2")]))
    clock.advance(INTERVAL)
    assert path.read_bytes() == encode(event(request_id="1")) + encode(event(request_id="2"))


def test_a_renamed_file_and_the_new_one_hold_every_event_once(tmp_path: Path) -> None:
    clock, path, renamed = Clock(), tmp_path / "usage.jsonl", tmp_path / "usage.jsonl.1"
    sink = sink_on(clock, path)
    for number in range(10):
        sink.record_all(iter([exchange(request_id=str(number))]))
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
        sink.record_all(iter([exchange()]))
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
    assert isinstance(output_opener(output)(), DescriptorOutput)
