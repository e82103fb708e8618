"""The results as a table for people and as JSON for comparisons; medians over the rounds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from statistics import median

from bench.measure import Found

RATIOS = ("klein+treq", "nginx")
Value = float | None


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table: how it is called, how it is read, and how it is written."""

    group: str
    title: str
    unit: str
    read: Callable[[Found], Value]
    digits: int = 0
    added: bool = False
    """What a proxy adds to the direct way, not the value itself."""
    of_proxies: bool = False
    """What the direct way does not have: its process is the upstream."""


def unary_row(kib: int, how: str, attribute: str) -> Callable[[Found], Value]:
    """The median of one attribute of the runs with whole answers."""
    return lambda found: _median([getattr(run, attribute) for run in found.unary.get(f"{kib}k {how}", ())])


def stream_row(how: str, attribute: str) -> Callable[[Found], Value]:
    """The median of one attribute of the runs with event streams."""
    return lambda found: _median([getattr(run, attribute) for run in found.streams.get(how, ())])


def _median(values: list[float]) -> Value:
    return median(values) if values else None


def _unary_rows(kib: int) -> list[Row]:
    group = f"{kib} kB in, {kib} kB out"
    return [
        Row(group, "throughput, 32 connections", "requests/s", unary_row(kib, "loaded", "per_second")),
        Row(group, "CPU", "us/request", unary_row(kib, "loaded", "cpu_us"), 1, of_proxies=True),
        Row(group, "core busy", "share", unary_row(kib, "loaded", "busy"), 2, of_proxies=True),
        Row(group, "latency under load p50", "us", unary_row(kib, "loaded", "p50_us")),
        Row(group, "latency under load p99", "us", unary_row(kib, "loaded", "p99_us")),
        Row(group, "added latency p50, 1 connection", "us", unary_row(kib, "alone", "p50_us"), added=True),
        Row(group, "added latency p99, 1 connection", "us", unary_row(kib, "alone", "p99_us"), added=True),
    ]


def _memory(found: Found, attribute: str) -> Value:
    return getattr(found.memory, attribute) / 2**20 if found.memory else None


def _memory_per_stream(found: Found) -> Value:
    memory = found.memory
    return (
        (memory.with_streams - memory.before) / memory.streams / 1024 if memory and memory.streams else None
    )


def _failures(found: Found) -> Value:
    runs = [run for group in (found.unary, found.streams) for runs in group.values() for run in runs]
    return float(sum(run.failed for run in runs)) if runs else None


PACED = "64 streams, a chunk every 10 ms"
FLAT = "64 streams, at full speed"
ROWS = [
    *_unary_rows(1),
    *_unary_rows(100),
    Row(PACED, "CPU", "us/chunk", stream_row("paced", "cpu_us"), 1, of_proxies=True),
    Row(PACED, "core busy", "share", stream_row("paced", "busy"), 2, of_proxies=True),
    Row(PACED, "added delay of a chunk p50", "us", stream_row("paced", "p50_us"), added=True),
    Row(PACED, "added delay of a chunk p99", "us", stream_row("paced", "p99_us"), added=True),
    Row(FLAT, "throughput", "chunks/s", stream_row("flat", "chunks_per_second")),
    Row(FLAT, "CPU", "us/chunk", stream_row("flat", "cpu_us"), 2, of_proxies=True),
    Row("memory", "resident, no stream", "MiB", lambda found: _memory(found, "before"), 1),
    Row("memory", "resident, 1,000 idle streams", "MiB", lambda found: _memory(found, "with_streams"), 1),
    Row("memory", "for each idle stream", "KiB", _memory_per_stream, 1),
    Row(
        "memory", "resident after the whole load", "MiB", lambda found: found.memory_after / 2**20 or None, 1
    ),
    Row("start", "until /healthz answers", "s", lambda found: _median(found.start_seconds), 3),
    Row("checks", "failed requests and streams", "", _failures),
]


@dataclass(frozen=True, slots=True)
class Line:
    """A row with its values by target, and the gateway's ratio to the others."""

    row: Row
    values: dict[str, Value]
    ratios: dict[str, Value]


def table(found: dict[str, Found]) -> list[Line]:
    """All rows, read from what was found."""
    return [_line(row, found) for row in ROWS]


def _line(row: Row, found: dict[str, Found]) -> Line:
    values = {name: row.read(one) for name, one in found.items()}
    direct = values.get("direct")
    if row.added:
        values = {name: None if v is None or direct is None else v - direct for name, v in values.items()}
        values["direct"] = direct
    if row.of_proxies and "direct" in values:
        values["direct"] = None
    gateway = values.get("gateway")
    ratios: dict[str, Value] = {}
    for other in RATIOS:
        base = values.get(other)
        ratios[other] = gateway / base if gateway is not None and base and row.unit else None
    return Line(row, values, ratios)


def as_text(lines: list[Line], facts: dict[str, str], problems: dict[str, list[str]]) -> str:
    """The table with the facts under it; in rows of added latency the direct column is the absolute value."""
    names = list(lines[0].values)
    header = f"{'':34}{'':>12}" + "".join(f"{name:>12}" for name in names)
    header += "".join(f"{'gw/' + name.partition('+')[0]:>10}" for name in RATIOS)
    out = [header]
    group = ""
    for line in lines:
        if line.row.group != group:
            group = line.row.group
            out += ["", group]
        cells = "".join(f"{_written(line.values[name], line.row.digits):>12}" for name in names)
        ratios = "".join(f"{_written(line.ratios[name], 2):>10}" for name in RATIOS)
        out.append(f"  {line.row.title:32}{line.row.unit:>12}{cells}{ratios}")
    out += ["", "In rows of what is added, the direct column holds the absolute value.", ""]
    out += [f"{name}: {value}" for name, value in facts.items()]
    out += [f"{name}: {problem}" for name, all_of_it in problems.items() for problem in all_of_it]
    return "\n".join(out) + "\n"


def _written(value: Value, digits: int) -> str:
    return "-" if value is None else f"{value:,.{digits}f}"


def as_data(lines: list[Line], facts: dict[str, str], found: dict[str, Found]) -> dict[str, object]:
    """The same for machines, with every single run."""
    rows = [
        {
            "group": line.row.group,
            "title": line.row.title,
            "unit": line.row.unit,
            "values": line.values,
            "gateway_to": line.ratios,
        }
        for line in lines
    ]
    return {"facts": facts, "table": rows, "runs": {name: asdict(one) for name, one in found.items()}}
