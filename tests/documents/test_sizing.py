"""The tables of sizes in the page on deployment are what the script calculates."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from bench.cost_model import INPUTS, as_rst, input_table, model, size_table

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "deployment.rst").read_text(encoding="utf-8")


@pytest.mark.parametrize("table", [input_table(), size_table(model())], ids=["inputs", "sizes"])
def test_the_page_has_the_tables_that_the_script_prints(table: list[tuple[str, ...]]) -> None:
    assert as_rst(table) in PAGE, "copy what `python -m bench.cost_model --rst` prints"


def test_each_input_that_is_measured_is_on_its_page() -> None:
    """The numbers of workers are differences of what their page has."""
    for one in INPUTS:
        if one.source == "performance.rst":
            page = (ROOT / "docs" / one.source).read_text(encoding="utf-8")
            assert f'"{one.value:g}"' in page, one.name


def test_twice_the_cost_of_a_chunk_needs_more_of_all() -> None:
    before = model().size(100_000)
    after = model({"chunk_us": 125.4, "translated_chunk_us": 152.2}).size(100_000)
    assert after.workers > 1.9 * before.workers
    assert after.hosts > before.hosts
    assert after.usd_per_million > 1.9 * before.usd_per_million


def test_a_limit_that_is_lowered_is_what_is_full_next() -> None:
    assert "one process" in model().size(10).next_limit
    assert "one host" in model({"host_cores": 64}).size(1_000).next_limit
    assert "one Redis" in model({"redis_per_second": 4_000}).size(1_000).next_limit


def test_inputs_are_changed_on_the_command_line() -> None:
    def run(*options: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "bench.cost_model", *options]
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)

    assert run("--rst").stdout == f"{as_rst(input_table())}\n\n{as_rst(size_table(model()))}\n"
    changed = run("--set", "core_hour_usd=0.08").stdout
    assert "0.08" in changed
    unknown = run("--set", "cores=3")
    assert unknown.returncode == 2
    assert "there is no input 'cores'" in unknown.stderr
