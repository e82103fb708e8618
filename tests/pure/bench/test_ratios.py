"""The table of ratios: what it reads from the runs, and that its parts know one another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from statistics import median

import pytest

from bench import ratios, sides
from bench.load import Streams, Unary
from bench.ratios import table
from bench.sides import on_debian
from bench.steps import Found

FAST = Unary(10_000.0, 20.0, 0.5, 100.0, 200.0, 1000.0, 0.0)
CHUNKS = Streams(5000.0, 10.0, 0.5, 50.0, 90.0, 10_000.0, 0.0, 500.0, 14.0)


def line(found: Found, title: str) -> Sequence[str]:
    (one,) = [row for row in table(found).rows if row[0] == title]
    return one


def test_the_quietest_round_counts() -> None:
    found = Found()
    found.runs[ratios.UNARY, sides.NGINX] = [FAST, replace(FAST, cpu_us=25.0)]
    found.runs[ratios.UNARY, sides.GATEWAY] = [replace(FAST, cpu_us=90.0), replace(FAST, cpu_us=60.0)]
    one = line(found, "CPU, 1 kB, 32 connections, µs/request")
    assert list(one[1:]) == ["nginx", "20.0", "60.0", "3.00", "–", "–", "3.5"]


def test_a_second_table_has_the_median_of_all_rounds() -> None:
    found = Found()
    found.runs[ratios.UNARY, sides.NGINX] = [replace(FAST, cpu_us=cpu) for cpu in (20.0, 30.0, 25.0)]
    found.runs[ratios.UNARY, sides.GATEWAY] = [replace(FAST, cpu_us=cpu) for cpu in (60.0, 100.0, 75.0)]
    [row] = table(found, median).rows
    assert list(row[2:5]) == ["25.0", "75.0", "3.00"]


def test_debians_python_has_columns_of_its_own() -> None:
    found = Found()
    found.runs[ratios.UNARY, sides.NGINX] = [FAST]
    found.runs[ratios.UNARY, sides.GATEWAY] = [replace(FAST, cpu_us=80.0)]
    found.runs[ratios.UNARY, on_debian(sides.GATEWAY)] = [replace(FAST, cpu_us=70.0)]
    [row] = table(found, min, "gateway, 3.11.7 without PGO", "Debian's Python, 3.11.2 with PGO and LTO").rows
    assert list(row[2:7]) == ["20.0", "80.0", "4.00", "70.0", "3.50"]


def test_a_gateway_that_is_compared_with_itself_is_compared_on_the_same_python() -> None:
    found = Found()
    direction = sides.TRANSLATED[0]
    found.runs[ratios.UNARY_4K, sides.GATEWAY] = [replace(FAST, cpu_us=100.0)]
    found.runs[ratios.UNARY_4K, direction] = [replace(FAST, cpu_us=200.0)]
    found.runs[ratios.UNARY_4K, on_debian(sides.GATEWAY)] = [replace(FAST, cpu_us=80.0)]
    found.runs[ratios.UNARY_4K, on_debian(direction)] = [replace(FAST, cpu_us=120.0)]
    one = line(found, f"CPU, 4 kB, {direction}, µs/request")
    assert list(one[2:7]) == ["100.0", "200.0", "2.00", "120.0", "1.50"]


def test_what_is_added_is_above_the_direct_way() -> None:
    found = Found()
    found.runs[ratios.PACED, sides.DIRECT] = [CHUNKS]
    found.runs[ratios.PACED, sides.NGINX] = [replace(CHUNKS, p50_us=90.0)]
    found.runs[ratios.PACED, sides.GATEWAY] = [replace(CHUNKS, p50_us=130.0)]
    assert list(line(found, "added p50 of such a chunk, µs")[2:5]) == ["40", "80", "2.00"]


def test_a_row_without_its_runs_is_left_out() -> None:
    assert table(Found()).rows == []
    assert "compared with" in table(Found()).text()


def test_every_step_that_is_run_has_a_row() -> None:
    found = Found()
    for step in ratios.STEPS:
        streamed = step.name == ratios.SLOW or step.name.startswith(ratios.PACED)
        found.runs |= {(step.name, server): [CHUNKS if streamed else FAST] for server in step.servers}
    assert [row[0] for row in table(found).rows] == [row.title for row in ratios.ROWS]
    assert [row[0] for row in table(found).rows if "–" in row[2:4]] == []


def test_the_target_of_a_large_request_is_beside_an_nginx_with_its_defaults() -> None:
    found = Found()
    for name in ratios.UP:
        for server, cpu in {
            sides.NGINX: 20.0,
            sides.NGINX_GATHERS: 25.0,
            sides.NGINX_DEFAULTS: 40.0,
            sides.GATEWAY: 80.0,
        }.items():
            found.runs[name, server] = [replace(FAST, cpu_us=cpu)]
    rows = [row for row in table(found).rows if "30 MB up" in row[0]]
    assert [(row[1], row[4], row[7]) for row in rows] == [
        ("nginx", "4.00", ""),
        ("nginx, whole bodies", "3.20", ""),
        ("nginx, its defaults", "2.00", "3"),
    ]


def test_one_word_picks_the_steps_of_a_run() -> None:
    assert {step.name for step in ratios.chosen(ratios.STEPS, " up")} == {*ratios.UP}
    assert ratios.chosen(ratios.STEPS, "") == [*ratios.STEPS]


@pytest.mark.parametrize("failed", [0.0, 3.0])
def test_failures_are_said_with_their_place(failed: float) -> None:
    found = Found({(ratios.UNARY, sides.NGINX): [FAST, replace(FAST, failed=failed)]})
    assert found.failures() == ({"failed, unary, nginx": "3"} if failed else {})
