"""The table: each row compares the gateway with nginx, or with itself where something is not there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from bench.load import Streams, Unary
from bench.ratios import sides, steps

Found = dict[tuple[str, str], list[Unary | Streams]]
"""The runs of a step on a server, by both their names."""
Value = float | None
_UNKNOWN = "–"
Read = Callable[[Found], Value]


@dataclass(frozen=True, slots=True)
class Row:
    """One line: what is compared with what, and the aim."""

    title: str
    unit: str
    base_name: str
    base: Read
    value: Read
    aim: str = ""
    digits: int = 1


@dataclass(frozen=True, slots=True)
class Line:
    """A row with its values."""

    title: str
    unit: str
    base_name: str
    base: Value
    value: Value
    ratio: Value
    aim: str
    digits: int


def least(step: str, server: str, attribute: str) -> Read:
    """Read the least of all rounds: whatever disturbs a run makes it larger."""

    def read(found: Found) -> Value:
        runs = found.get((step, server), [])
        return min((getattr(run, attribute) for run in runs), default=None)

    return read


def added(step: str, server: str, attribute: str) -> Read:
    """Read what a proxy adds to the direct way."""
    whole, direct = least(step, server, attribute), least(step, sides.DIRECT, attribute)

    def read(found: Found) -> Value:
        one, other = whole(found), direct(found)
        return None if one is None or other is None else one - other

    return read


def _beside_nginx(title: str, unit: str, step: str, attribute: str, aim: str = "") -> Row:
    tls = step in (steps.UNARY_TLS, steps.PACED_TLS)
    base, own = (sides.TLS_NGINX, sides.TLS_GATEWAY) if tls else (sides.NGINX, sides.GATEWAY)
    return Row(title, unit, "nginx", least(step, base, attribute), least(step, own, attribute), aim)


def _added(title: str, step: str, attribute: str, aim: str = "") -> Row:
    return Row(
        title,
        "us",
        "nginx",
        added(step, sides.NGINX, attribute),
        added(step, sides.GATEWAY, attribute),
        aim,
        0,
    )


def _translated(direction: str) -> list[Row]:
    relayed, relayed_chunk = (
        least(steps.UNARY_4K, sides.GATEWAY, "cpu_us"),
        least(steps.PACED, sides.GATEWAY, "cpu_us"),
    )
    request = least(steps.UNARY_4K, direction, "cpu_us")
    chunk = least(steps.PACED_TRANSLATED, direction, "cpu_us")
    return [
        Row(f"CPU, 4 kB, {direction}", "us/request", "relayed", relayed, request, "2.5 x"),
        Row(f"CPU, 100 x 50 chunks/s, {direction}", "us/chunk", "relayed", relayed_chunk, chunk, "+ 5 us"),
    ]


def _beside_rival(name: str) -> list[Row]:
    loads = {"CPU, 1 kB, 4 connections": (steps.RIVALS, "us/request")}
    loads["CPU, 5 streams x 50 chunks/s"] = (steps.PACED_RIVALS, "us/chunk")
    return [
        Row(title, unit, name, least(step, name, "cpu_us"), least(step, sides.GATEWAY, "cpu_us"))
        for title, (step, unit) in loads.items()
    ]


def _grown(title: str, base: tuple[str, str], grown: tuple[str, str]) -> Row:
    return Row(title, "us/request", base[1], least(*base, "cpu_us"), least(*grown, "cpu_us"), "1.1 x")


_SLOW = f"{steps.OPEN:,} slow streams"
ROWS = [
    _beside_nginx("CPU, 1 kB, 32 connections", "us/request", steps.UNARY, "cpu_us", "3.5 x"),
    _beside_nginx("CPU, 4 kB, 32 connections", "us/request", steps.UNARY_4K, "cpu_us"),
    _added("added p50, 1 kB, 1 connection", steps.ALONE, "p50_us", "1.5 x"),
    _added("added p99, 1 kB, 1 connection", steps.ALONE, "p99_us"),
    _beside_nginx("CPU, 100 streams x 50 chunks/s", "us/chunk", steps.PACED, "cpu_us", "2 x"),
    _added("added p50 of such a chunk", steps.PACED, "p50_us"),
    _added("added p99 of such a chunk", steps.PACED, "p99_us"),
    _beside_nginx(f"CPU, {_SLOW}", "us/chunk", steps.SLOW, "cpu_us", "1.4 x"),
    _added(f"added p50, {_SLOW}", steps.SLOW, "p50_us"),
    _added(f"added p99, {_SLOW}", steps.SLOW, "p99_us", "30 ms"),
    _added(f"added p99 of the first event, {_SLOW}", steps.SLOW, "first_p99_us"),
    _beside_nginx(f"memory, {_SLOW}", "KiB/stream", steps.SLOW, "kib_per_stream", "8 KiB"),
    _beside_nginx("CPU, TLS upstream, 1 kB", "us/request", steps.UNARY_TLS, "cpu_us", "3.5 x"),
    _beside_nginx("CPU, TLS, 100 streams x 50 chunks/s", "us/chunk", steps.PACED_TLS, "cpu_us", "3 x"),
    *_translated(sides.TO_ANTHROPIC),
    *_translated(sides.FROM_ANTHROPIC),
    *_translated(sides.TO_GEMINI),
    *_beside_rival(sides.LITELLM),
    *_beside_rival(sides.PORTKEY),
    _beside_nginx("CPU, 1 kB, a new traceparent each", "us/request", steps.TRACED, "cpu_us"),
    _beside_nginx("CPU, 1 kB, a new unknown header each", "us/request", steps.UNKNOWN, "cpu_us"),
    _grown(
        f"CPU, 1 kB, {steps.OPEN:,} streams open",
        (steps.UNARY, sides.GATEWAY),
        (steps.BESIDE, sides.GATEWAY),
    ),
    _grown(
        f"CPU, 1 kB, {sides.MANY:,} aliases",
        (steps.LARGE, sides.ONE_ALIAS),
        (steps.LARGE, sides.MANY_ALIASES),
    ),
    _grown(
        f"CPU, 1 kB, {sides.MANY:,} gateway keys",
        (steps.LARGE, sides.GATEWAY),
        (steps.LARGE, sides.MANY_KEYS),
    ),
]


def table(found: Found) -> list[Line]:
    """Read all rows."""
    return [_line(row, found) for row in ROWS]


def _line(row: Row, found: Found) -> Line:
    base, value = row.base(found), row.value(found)
    ratio = value / base if value is not None and base is not None and base > 0 else None
    return Line(row.title, row.unit, row.base_name, base, value, ratio, row.aim, row.digits)


def failures(found: Found) -> dict[str, float]:
    """Return how many requests and streams failed, by step and server, where any did."""
    counts = {f"{step}, {server}": sum(run.failed for run in runs) for (step, server), runs in found.items()}
    return {where: count for where, count in counts.items() if count}


def as_text(lines: list[Line], facts: dict[str, str]) -> str:
    """Return the table for people."""
    out = [f"{'':46}{'':>11} {'compared with':>18}{'its':>12}{'ours':>12}{'ratio':>8}{'aim':>9}"]
    for line in lines:
        base, value = _written(line.base, line.digits), _written(line.value, line.digits)
        what = f"{line.title:46}{line.unit:>11} {line.base_name:>18}"
        out.append(f"{what}{base:>12}{value:>12}{_written(line.ratio, 2):>8}{line.aim:>9}".rstrip())
    out += ["", *(f"{name}: {value}" for name, value in facts.items())]
    return "\n".join(out) + "\n"


def as_rst(lines: list[Line]) -> str:
    """Return the same as a table of the documentation; rows without values are left out."""
    out = [".. csv-table::", "   :header-rows: 1", ""]
    out.append(_quoted(["", "unit", "compared with", "its", "the gateway's", "ratio"]))
    for line in lines:
        base, value = _written(line.base, line.digits), _written(line.value, line.digits)
        if value != _UNKNOWN:
            cells = [line.title, line.unit, line.base_name, base, value, _written(line.ratio, 1)]
            out.append(_quoted(cells))
    return "\n".join(out) + "\n"


def _quoted(cells: list[str]) -> str:
    return "   " + ", ".join(f'"{cell}"' for cell in cells)


def _written(value: Value, digits: int) -> str:
    return _UNKNOWN if value is None else f"{value:,.{digits}f}"
