"""The table of realtime sessions, and that what is sent is legal and as large as it says."""

from __future__ import annotations

from dataclasses import replace

from bench.realtime import sides, steps
from bench.realtime.load import AUDIO, BINARY, SMALL, Sessions, frames
from bench.realtime.table import Found, Line, as_rst, as_text, failures, table
from mgw.wire.frames import FrameReader

RUN = Sessions(10_000.0, 20.0, 0.5, 100.0, 200.0, 10_000.0, 0.0, 14.0)


def line(found: Found, kind: str, title: str) -> Line:
    (one,) = [line for line in table(found)[kind] if line.title == title]
    return one


def test_the_best_round_counts_and_the_ratio_is_to_the_decoding_relay() -> None:
    step = steps.flat(AUDIO)
    found: Found = {
        (step, sides.DECODING): [replace(RUN, cpu_us=100.0, frames_per_second=5.0)],
        (step, sides.GATEWAY): [RUN, replace(RUN, cpu_us=15.0, frames_per_second=20_000.0)],
    }
    one = line(found, AUDIO, "CPU, 100 sessions at full speed")
    assert (one.values[sides.GATEWAY], one.ratio, one.aim) == (15.0, 0.15, "20 us, 0.3")
    assert line(found, AUDIO, "frames, 100 sessions at full speed").values[sides.GATEWAY] == 20_000.0


def test_what_is_added_is_above_the_direct_way() -> None:
    step = steps.alone(SMALL)
    found: Found = {(step, sides.DIRECT): [RUN], (step, sides.NGINX): [replace(RUN, p50_us=150.0)]}
    values = line(found, SMALL, "added p50, 1 session").values
    assert (values[sides.NGINX], values[sides.DIRECT], values[sides.GATEWAY]) == (50.0, None, None)


def test_every_step_has_its_rows() -> None:
    found: Found = {(step.name, server): [RUN] for step in steps.STEPS for server in sides.NAMES}
    tables = table(found)
    assert all(one.values[sides.GATEWAY] is not None for lines in tables.values() for one in lines)
    assert BINARY in as_rst(tables)
    assert "cores: 2" in as_text(tables, {"cores": "2"})
    assert BINARY not in as_rst(table({}))


def test_failures_are_said_with_their_place() -> None:
    assert failures({("idle", sides.NGINX): [RUN, replace(RUN, failed=2.0)]}) == {"idle, nginx": 2.0}


def test_what_is_sent_is_legal_and_as_large_as_it_says() -> None:
    sizes = {}
    for kind, data in frames().items():
        reader = FrameReader(masked=True)
        reader.feed(data)
        assert (reader.fault, reader.at_boundary, reader.frames) == (None, True, 1)
        sizes[kind] = reader.payload_bytes
    assert (sizes[SMALL], sizes[BINARY]) == (200, 4096)
    assert 5000 <= sizes[AUDIO] <= 5120
