"""The tables of the public method: what was found, a column for each server."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from bench.load import Unary
from bench.public.measures import BOUNDS_MS, CONNECTIONS, PACE_MS, Frontier, Held, Memory
from bench.public.search import Reading
from bench.sides import DIRECT
from bench.steps import Found
from bench.table import UNKNOWN, Table, number

ALONE = "added latency"


@dataclass(slots=True)
class Outcome:
    """What was found of each server, by name; what was left out or failed is missing."""

    alone: Found = field(default_factory=Found)
    frontiers: dict[str, Frontier] = field(default_factory=dict)
    held: dict[str, Held] = field(default_factory=dict)
    memory: dict[str, Memory] = field(default_factory=dict)
    grids: dict[str, dict[tuple[str, str], Unary]] = field(default_factory=dict)
    """Of each gateway, by the client's API and the provider's."""


Cell = Callable[[str], str]


def main_table(outcome: Outcome, servers: Sequence[str]) -> Table:
    """Return one row for each quantity that any of the servers has."""
    table = Table(["", *servers])
    for title, cell in _rows(outcome):
        cells = [cell(name) for name in servers]
        if any(one != UNKNOWN for one in cells):
            table.rows.append([title, *cells])
    return table


def _rows(outcome: Outcome) -> list[tuple[str, Cell]]:
    rows: list[tuple[str, Cell]] = [
        (f"added {name}, one request at a time, µs", _added(outcome, attribute))
        for name, attribute in (("p50", "p50_us"), ("p99", "p99_us"))
    ]
    rows += [
        (
            "CPU of all processes, µs/request",
            _of(outcome.frontiers, lambda it: number(it.unbounded.cpu_us, 1)),
        ),
        (
            f"requests/s, {CONNECTIONS} connections that wait, no bound",
            _of(outcome.frontiers, lambda it: number(it.unbounded.per_second)),
        ),
    ]
    rows += [
        (f"requests/s, open loop, p99 under {bound} ms", _bounded(outcome, bound)) for bound in BOUNDS_MS
    ]
    rows += [
        (
            f"streams held, an event every {PACE_MS} ms",
            _of(outcome.held, lambda it: _load(it.streams, is_exact=it.is_exact)),
        ),
        ("memory before the first request, MiB", _of(outcome.memory, lambda it: number(it.idle, 1))),
        ("memory under load, MiB", _of(outcome.memory, _plateau)),
        ("memory after it, MiB", _of(outcome.memory, lambda it: number(it.after, 1))),
    ]
    return rows


def _added(outcome: Outcome, attribute: str) -> Cell:
    return lambda name: number(outcome.alone.added(ALONE, name, attribute))


def _bounded(outcome: Outcome, bound: int) -> Cell:
    return _of(outcome.frontiers, lambda it: _load(it.readings[bound], is_exact=it.is_exact))


def _of(found: Mapping[str, object], text: Callable[..., str]) -> Cell:
    return lambda name: text(found[name]) if name in found else UNKNOWN


def _load(reading: Reading, *, is_exact: bool) -> str:
    if not (reading.load or is_exact):
        return UNKNOWN
    return f"{'≥ ' if reading.is_floor else ''}{reading.load:,.0f}"


def _plateau(memory: Memory) -> str:
    if memory.is_steady:
        return number(memory.loaded, 1)
    return f"{memory.loaded:,.1f}, {memory.growth_per_minute:+,.1f}/min"


def grid_table(
    gateway: str, grid: Mapping[tuple[str, str], Unary], names: Mapping[str, str], direct: float | None
) -> Table:
    """Return a row for each client's API, and a column for each provider's.

    :param names: how people call the APIs.
    :param direct: the 99th percentile without a gateway, one request at a time.
    """
    table = Table(
        [f"{gateway}: CPU, µs/request (added p99, µs)", *(f"{name} provider" for name in names.values())]
    )
    for client, name in names.items():
        table.rows.append([f"{name} client", *(_cell(grid.get((client, one)), direct) for one in names)])
    return table


def _cell(found: Unary | None, direct: float | None) -> str:
    if found is None:
        return UNKNOWN
    if found.failed:
        return f"{found.failed:,.0f} failed"
    added = UNKNOWN if direct is None else number(found.p99_us - direct)
    return f"{found.cpu_us:,.1f} ({added})"


def warnings(outcome: Outcome) -> list[str]:
    """Return what makes a result doubtful."""
    found = [
        f"{name}: within a tenth of what the client and the upstream can do, so this is their limit"
        for name, one in outcome.frontiers.items()
        if name != DIRECT and _is_of_the_rig(one, outcome.frontiers.get(DIRECT))
    ]
    searched = {"rates": outcome.frontiers, "streams": outcome.held}
    found += [
        f"{name}: the search for {part} had no time to end; the server may carry more"
        for part, those in searched.items()
        for name, one in those.items()
        if not one.is_exact
    ]
    return found + [
        f"{name}: the client itself was {one.late_p99_us:,.0f} µs late (p99) in a probe that counts"
        for name, one in outcome.frontiers.items()
        if one.late_p99_us > BOUNDS_MS[0] * 500
    ]


def _is_of_the_rig(one: Frontier, direct: Frontier | None) -> bool:
    return direct is not None and one.unbounded.per_second > 0.9 * direct.unbounded.per_second
