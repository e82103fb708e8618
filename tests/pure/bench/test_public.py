"""The tables of the public method, and what they say where something is not known or not steady."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from bench.load import Unary
from bench.public.__main__ import durations, read_options
from bench.public.measures import BOUNDS_MS, Frontier, Held, Memory
from bench.public.report import ALONE, Outcome, grid_table, main_table, warnings
from bench.public.search import Reading
from bench.sides import DIRECT, GATEWAY, NGINX
from bench.streams import NAMES
from tests.support.wires import CHAT, GEMINI

FAST = Unary(40_000.0, 20.0, 0.5, 100.0, 200.0, 1000.0, 0.0)
FRONTIER = Frontier(
    FAST, {bound: Reading(100.0 * bound, bound * 900.0, is_floor=False) for bound in BOUNDS_MS}, [], 9.0
)
MEMORY = Memory(70.0, 90.04, 85.0, is_steady=True, seconds_to_plateau=12.0, growth_per_minute=0.1, failed=0.0)


def rows(outcome: Outcome) -> dict[str, list[str]]:
    return {row[0]: list(row[1:]) for row in main_table(outcome, [DIRECT, NGINX, GATEWAY]).rows}


def test_latency_is_what_a_server_adds_to_the_direct_way() -> None:
    outcome = Outcome()
    for name, p99 in ((DIRECT, 200.0), (NGINX, 260.0), (GATEWAY, 450.0)):
        outcome.alone.runs[ALONE, name] = [replace(FAST, p99_us=p99), replace(FAST, p99_us=p99 + 900)]
    assert rows(outcome)["added p99, one request at a time, µs"] == ["–", "60", "250"]


def test_each_bound_has_the_highest_rate_that_kept_it() -> None:
    readings = {
        **FRONTIER.readings,
        100: Reading(12_345.6, 2_000.0, is_floor=True),
        1: Reading(0.0, 0.0, is_floor=False),
    }
    outcome = Outcome(frontiers={DIRECT: FRONTIER, GATEWAY: replace(FRONTIER, readings=readings)})
    found = rows(outcome)
    assert found["requests/s, open loop, p99 under 10 ms"] == ["1,000", "–", "1,000"]
    assert found["requests/s, open loop, p99 under 1 ms"] == ["100", "–", "0"]
    assert found["requests/s, open loop, p99 under 100 ms"] == ["10,000", "–", "≥ 12,346"]
    assert found["CPU of all processes, µs/request"] == ["20.0", "–", "20.0"]


def test_a_search_that_ended_before_anything_passed_has_no_value() -> None:
    nothing = Reading(0.0, 0.0, is_floor=False)
    cut = replace(FRONTIER, readings=dict.fromkeys(BOUNDS_MS, nothing), is_exact=False)
    outcome = Outcome(
        frontiers={NGINX: replace(cut, is_exact=True), GATEWAY: cut},
        held={NGINX: Held(nothing, []), GATEWAY: Held(nothing, [], is_exact=False)},
    )
    found = rows(outcome)
    assert found["requests/s, open loop, p99 under 5 ms"] == ["–", "0", "–"]
    assert found["streams held, an event every 20 ms"] == ["–", "0", "–"]


def test_memory_that_did_not_become_steady_has_its_growth() -> None:
    rising = replace(MEMORY, is_steady=False, growth_per_minute=3.21)
    outcome = Outcome(memory={NGINX: MEMORY, GATEWAY: rising})
    assert rows(outcome)["memory under load, MiB"] == ["–", "90.0", "90.0, +3.2/min"]


def test_a_part_that_was_not_measured_has_no_row() -> None:
    outcome = Outcome(held={GATEWAY: Held(Reading(300.0, 90_000.0, is_floor=False), [])})
    assert rows(outcome) == {"streams held, an event every 20 ms": ["–", "–", "300"]}
    assert main_table(Outcome(), [DIRECT]).rows == []


def test_the_grid_has_a_row_for_each_client_and_a_column_for_each_provider() -> None:
    grid = {(CHAT, CHAT): FAST, (CHAT, GEMINI): replace(FAST, failed=3.0)}
    table = grid_table(GATEWAY, grid, NAMES, direct=150.0)
    assert table.header[0] == "gateway: CPU, µs/request (added p99, µs)"
    assert list(table.header[1:]) == ["OpenAI provider", "Anthropic provider", "Gemini provider"]
    assert list(table.rows[0]) == ["OpenAI client", "20.0 (50)", "–", "3 failed"]
    assert list(grid_table(GATEWAY, grid, NAMES, direct=None).rows[0])[1] == "20.0 (–)"


def test_a_limit_of_the_bench_is_not_taken_for_one_of_the_server() -> None:
    slow = replace(FRONTIER, unbounded=replace(FAST, per_second=1_000.0))
    found = warnings(Outcome(frontiers={DIRECT: FRONTIER, NGINX: FRONTIER, GATEWAY: slow}))
    assert [text.partition(":")[0] for text in found] == [NGINX]


def test_a_search_that_had_no_time_to_end_is_said_so() -> None:
    cut = Outcome(
        frontiers={GATEWAY: replace(FRONTIER, is_exact=False), NGINX: FRONTIER},
        held={NGINX: Held(Reading(300.0, 90_000.0, is_floor=False), [], is_exact=False)},
    )
    assert warnings(cut) == [
        "gateway: the search for rates had no time to end; the server may carry more",
        "nginx: the search for streams had no time to end; the server may carry more",
    ]


def test_a_client_that_was_late_itself_is_said_so() -> None:
    [said] = warnings(Outcome(frontiers={GATEWAY: replace(FRONTIER, late_p99_us=800.0)}))
    assert "late" in said


def test_without_options_the_gateway_of_this_checkout_is_measured() -> None:
    assert read_options([]).gateway_tree is None
    assert read_options(["--gateway-tree", "."]).gateway_tree == str(Path.cwd())
    with pytest.raises(SystemExit):
        read_options(["--gateway-tree", "bench"])


def test_more_servers_get_more_time_and_a_quick_run_little() -> None:
    usual, beside, quick = (durations(read_options(words)) for words in ([], ["--rivals"], ["--quick"]))
    assert usual.limit < 600 < beside.limit < 900
    assert quick.rates < usual.rates < beside.rates
    assert durations(read_options(["--plateau", "120"])).memory.most == 120
