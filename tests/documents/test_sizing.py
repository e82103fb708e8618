"""The table of sizes in the page on deployment is what the page's inputs and formulas give."""

from __future__ import annotations

import csv
from math import ceil
from pathlib import Path
from typing import Any, Final

import pytest

ROOT: Final = Path(__file__).resolve().parents[2]
DOCS: Final = ROOT / "docs"
ROWS: Final = {
    "cores in use": "cores",
    "workers": "workers",
    "hosts": "hosts",
    "open streams": "streams",
    "memory, GiB": "memory_gib",
    "usage events and log, MB/s": "events_mb",
    "Redis scripts/s": "redis_scripts",
    "USD for a million requests": "usd_per_million",
    "USD for a month": "usd_per_month",
}
"""The rows of the table, and what the formulas call their values."""
WHOLE: Final = ("workers", "hosts", "streams", "redis_scripts", "usd_per_month")
LIMITS: Final = {"one process": "per_worker", "one host": "per_host", "one Redis": "per_redis"}
Table = list[list[str]]


def tables() -> tuple[Table, Table, Table]:
    """Return the sizes, the inputs and the formulas, each with its header."""
    section = (DOCS / "deployment.rst").read_text(encoding="utf-8").split("\nSizing\n------\n")[1]
    found = []
    for block in section.split(".. csv-table::\n   :header: ")[1:4]:
        lines = block.split("\n\n- ")[0].replace("\n\n   ", "\n   ", 1).split("\n\n")[0].splitlines()
        found.append(list(csv.reader((line.strip() for line in lines), skipinitialspace=True)))
    sizes, inputs, formulas = found
    return sizes, inputs, formulas


SIZES, INPUT_ROWS, FORMULAS = tables()
INPUTS: Final = {row[0].strip("`"): float(row[2]) for row in INPUT_ROWS[1:]}


def sized(rate: int, **changed: float) -> dict[str, Any]:
    """Return all values for a rate: the inputs, and what each formula gives."""
    values: dict[str, Any] = {**INPUTS, **changed, "rate": rate}
    for name, formula in FORMULAS[1:]:
        allowed = {"__builtins__": {}, "ceil": ceil, "min": min}
        values[name.strip("`")] = eval(formula.strip("`"), allowed, values)  # our own page
    return values


def next_limit(values: dict[str, Any]) -> str:
    """Return what is full next, as its row begins."""
    for words, name in LIMITS.items():
        if values["rate"] < values[name]:
            return f"{words}:"
    return "one Redis:"


def written(name: str, value: float) -> str:
    if name == "usd_per_million":
        return f"{value:.2f}"
    return f"{value:,.0f}" if name in WHOLE or value >= 10 else f"{value:.2g}"


@pytest.mark.parametrize("row", SIZES[1:-1], ids=lambda row: row[0])
def test_each_row_is_what_its_formula_gives(row: list[str]) -> None:
    name = ROWS[row[0]]
    rates = [int(title.split()[0].replace(",", "")) for title in SIZES[0][1:]]
    assert row[1:] == [written(name, sized(rate)[name]) for rate in rates]


def test_what_is_full_next_is_the_first_limit_above_the_rate() -> None:
    rates = [int(title.split()[0].replace(",", "")) for title in SIZES[0][1:]]
    for rate, cell in zip(rates, SIZES[-1][1:], strict=True):
        values = sized(rate)
        assert cell.startswith(next_limit(values)), cell
        limit = LIMITS[next_limit(values).rstrip(":")]
        assert f"at {written(limit, values[limit])}/s" in cell
        assert rate < 100_000 or f"now {values['hosts']}" in cell
    assert next_limit(sized(1_000, host_cores=64)) == "one host:"
    assert next_limit(sized(1_900, redis_per_second=4_000)) == "one Redis:"


def test_each_input_that_is_measured_is_on_its_page() -> None:
    """The numbers of workers are differences of what their page has."""
    for name, _, value, source in INPUT_ROWS[1:]:
        if source == "performance.rst":
            page = (DOCS / source).read_text(encoding="utf-8")
            assert any(f'"{float(value):{form}}"' in page for form in ("g", ".1f")), name


def test_twice_the_cost_of_a_chunk_needs_more_of_all() -> None:
    before, after = sized(100_000), sized(100_000, chunk_us=125.4, translated_chunk_us=152.2)
    assert after["workers"] > 1.9 * before["workers"]
    assert after["hosts"] > before["hosts"]
    assert after["usd_per_million"] > 1.9 * before["usd_per_million"]
