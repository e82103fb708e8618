"""The table of ratios: what it reads from the runs, and that its parts know one another."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bench.load import Streams, Unary
from bench.ratios import sides, steps
from bench.ratios.table import Found, Line, as_rst, as_text, failures, table

FAST = Unary(10_000.0, 20.0, 0.5, 100.0, 200.0, 1000.0, 0.0)
CHUNKS = Streams(5000.0, 10.0, 0.5, 50.0, 90.0, 10_000.0, 0.0, 500.0, 14.0)


def line(found: Found, title: str) -> Line:
    (one,) = [line for line in table(found) if line.title == title]
    return one


def test_the_quietest_round_counts() -> None:
    runs: Found = {
        (steps.UNARY, sides.NGINX): [FAST, replace(FAST, cpu_us=25.0)],
        (steps.UNARY, sides.GATEWAY): [replace(FAST, cpu_us=90.0), replace(FAST, cpu_us=60.0)],
    }
    one = line(runs, "CPU, 1 kB, 32 connections")
    assert (one.base, one.value, one.ratio, one.aim) == (20.0, 60.0, 3.0, "3.5 x")


def test_what_is_added_is_above_the_direct_way() -> None:
    runs: Found = {
        (steps.PACED, sides.DIRECT): [CHUNKS],
        (steps.PACED, sides.NGINX): [replace(CHUNKS, p50_us=90.0)],
        (steps.PACED, sides.GATEWAY): [replace(CHUNKS, p50_us=130.0)],
    }
    one = line(runs, "added p50 of such a chunk")
    assert (one.base, one.value, one.ratio) == (40.0, 80.0, 2.0)


def test_a_row_without_its_runs_stays_empty() -> None:
    assert all((one.base, one.value, one.ratio) == (None, None, None) for one in table({}))
    assert "TLS" in as_text(table({}), {"cores": "2"})
    assert "TLS" not in as_rst(table({}))


def test_every_step_that_is_run_has_a_row() -> None:
    found: Found = {}
    for step in steps.STEPS:
        streamed = step.name == steps.SLOW or step.name.startswith(steps.PACED)
        found |= {(step.name, server): [CHUNKS if streamed else FAST] for server in step.servers}
    assert [one.title for one in table(found) if one.value is None or one.base is None] == []


@pytest.mark.parametrize("failed", [0.0, 3.0])
def test_failures_are_said_with_their_place(failed: float) -> None:
    found: Found = {(steps.UNARY, sides.NGINX): [FAST, replace(FAST, failed=failed)]}
    assert failures(found) == ({"unary, nginx": 3.0} if failed else {})
