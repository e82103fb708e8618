"""The table of realtime sessions, and that what is sent is legal and as large as it says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from bench.realtime import ROWS, SERVERS, STEPS, alone, flat
from bench.sessions import AUDIO, BINARY, SMALL, Sessions, frames
from bench.sides import DECODING, DIRECT, SESSIONS_GATEWAY, SESSIONS_NGINX
from bench.steps import Found, table_across
from mgw.wire.frames import FrameReader

RUN = Sessions(10_000.0, 20.0, 0.5, 100.0, 200.0, 10_000.0, 0.0, 14.0, 100.0)


def line(found: Found, title: str) -> Sequence[str]:
    """Return the numbers of a row: direct, nginx, decoding relay, gateway, ratio, target."""
    rows = table_across(ROWS, found, SERVERS, [DECODING], SESSIONS_GATEWAY).rows
    (one,) = [row for row in rows if row[0] == title]
    return one[1:]


def test_the_best_round_counts_and_the_ratio_is_to_the_decoding_relay() -> None:
    found = Found()
    found.runs[flat(AUDIO), DECODING] = [replace(RUN, cpu_us=100.0, frames_per_second=5.0)]
    found.runs[flat(AUDIO), SESSIONS_GATEWAY] = [RUN, replace(RUN, cpu_us=15.0, frames_per_second=20_000.0)]
    cpu = line(found, f"{AUDIO}: CPU, 100 sessions at full speed, µs/frame")
    assert list(cpu) == ["–", "–", "100.0", "15.0", "0.15", "20 µs, 0.3"]
    assert line(found, f"{AUDIO}: frames, 100 sessions at full speed, 1/s")[3] == "20,000"


def test_what_is_added_is_above_the_direct_way() -> None:
    found = Found()
    for server, p50 in ((DIRECT, 100.0), (SESSIONS_NGINX, 150.0), (SESSIONS_GATEWAY, 170.0)):
        found.runs[alone(SMALL), server] = [replace(RUN, p50_us=p50)]
    assert list(line(found, f"{SMALL}: added p50, 1 session, µs")[:4]) == ["–", "50", "–", "70"]


def test_every_step_has_its_rows() -> None:
    found = Found({(step.name, server): [RUN] for step in STEPS for server in SERVERS})
    table = table_across(ROWS, found, SERVERS, [DECODING], SESSIONS_GATEWAY)
    assert [row[0] for row in table.rows] == [row.title for row in ROWS]
    assert BINARY in table.rst()


def test_failures_are_said_with_their_place() -> None:
    found = Found({("idle", SESSIONS_NGINX): [RUN, replace(RUN, failed=2.0)]})
    assert found.failures() == {f"failed, idle, {SESSIONS_NGINX}": "2"}


def test_what_is_sent_is_legal_and_as_large_as_it_says() -> None:
    sizes = {}
    for kind, data in frames().items():
        reader = FrameReader(masked=True)
        reader.feed(data)
        assert (reader.fault, reader.at_boundary, reader.frames) == (None, True, 1)
        sizes[kind] = reader.payload_bytes
    assert (sizes[SMALL], sizes[BINARY]) == (200, 4096)
    assert 5000 <= sizes[AUDIO] <= 5120
