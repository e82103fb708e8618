"""The table: each row is one number of every server, beside one another."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from bench.realtime import sides, steps
from bench.realtime.load import AUDIO, Sessions

Found = dict[tuple[str, str], list[Sessions]]
"""The runs of a step on a server, by both their names."""
Value = float | None
Read = Callable[[Found, str], Value]
"""Reads a number of a server."""
_UNKNOWN = "–"


@dataclass(frozen=True, slots=True)
class Row:
    """One line, and the aim that the gateway has there."""

    title: str
    unit: str
    read: Read
    aim: str = ""
    digits: int = 0


@dataclass(frozen=True, slots=True)
class Line:
    """A row with its values by server, and the gateway's beside the decoding relay's."""

    title: str
    unit: str
    values: dict[str, Value]
    ratio: Value
    aim: str
    digits: int


def _best(step: str, attribute: str, choose: Callable[[list[float]], float] = min) -> Read:
    """Read the best of all rounds: whatever disturbs a run makes it worse."""

    def read(found: Found, server: str) -> Value:
        values = [getattr(run, attribute) for run in found.get((step, server), [])]
        return choose(values) if values else None

    return read


def _of_proxies(read_any: Read) -> Read:
    """Read nothing of the upstream itself."""
    return lambda found, server: None if server == sides.DIRECT else read_any(found, server)


def _added(step: str, attribute: str) -> Read:
    """Read what a proxy adds to the direct way, there and back."""
    read_any = _best(step, attribute)

    def read(found: Found, server: str) -> Value:
        whole, direct = read_any(found, server), read_any(found, sides.DIRECT)
        return None if whole is None or direct is None or server == sides.DIRECT else whole - direct

    return read


def _rows(kind: str) -> list[Row]:
    aim = "20 us, 0.3" if kind == AUDIO else ""
    alone, paced, flat = steps.alone(kind), steps.paced(kind), steps.flat(kind)
    per_second = 1000 // steps.INTERVAL_MS
    many = f"{steps.SESSIONS} sessions"
    return [
        Row(f"CPU, {many} at full speed", "us/frame", _of_proxies(_best(flat, "cpu_us")), aim, 1),
        Row(f"CPU, {many} x {per_second}/s", "us/frame", _of_proxies(_best(paced, "cpu_us")), aim, 1),
        Row(f"frames, {many} at full speed", "1/s", _best(flat, "frames_per_second", max)),
        Row("frames, 1 session", "1/s", _best(alone, "frames_per_second", max)),
        Row("added p50, 1 session", "us", _added(alone, "p50_us")),
        Row("added p99, 1 session", "us", _added(alone, "p99_us")),
        Row(f"added p50, {many} x {per_second}/s", "us", _added(paced, "p50_us")),
        Row(f"added p99, {many} x {per_second}/s", "us", _added(paced, "p99_us")),
    ]


ROWS = {
    **{kind: _rows(kind) for kind in steps.KINDS},
    steps.IDLE: [
        Row("memory", "KiB/session", _of_proxies(_best(steps.IDLE, "kib_per_session")), "16 KiB", 1)
    ],
}
"""By what travels in the sessions."""


def table(found: Found) -> dict[str, list[Line]]:
    """Read all rows."""
    return {kind: [_line(row, found) for row in rows] for kind, rows in ROWS.items()}


def _line(row: Row, found: Found) -> Line:
    values = {name: row.read(found, name) for name in sides.NAMES}
    own, base = values[sides.GATEWAY], values[sides.DECODING]
    ratio = own / base if own is not None and base is not None and base > 0 else None
    return Line(row.title, row.unit, values, ratio, row.aim, row.digits)


def failures(found: Found) -> dict[str, float]:
    """Return how many sessions failed, by step and server, where any did."""
    counts = {f"{step}, {server}": sum(run.failed for run in runs) for (step, server), runs in found.items()}
    return {where: count for where, count in counts.items() if count}


def as_text(tables: dict[str, list[Line]], facts: dict[str, str]) -> str:
    """Return the table for people."""
    heading = "".join(f"{name:>16}" for name in (*sides.NAMES, "of decoding"))
    out = [f"{'':40}{'':>12}{heading}  aim"]
    for kind, lines in tables.items():
        out += ["", kind]
        for line in lines:
            values = "".join(f"{_written(line.values[name], line.digits):>16}" for name in sides.NAMES)
            end = f"{_written(line.ratio, 2):>16}  {line.aim}"
            out.append(f"{line.title:40}{line.unit:>12}{values}{end}".rstrip())
    out += ["", *(f"{name}: {value}" for name, value in facts.items())]
    return "\n".join(out) + "\n"


def as_rst(tables: dict[str, list[Line]]) -> str:
    """Return the same as a table of the documentation; rows without the gateway's value are left out."""
    out = [".. csv-table::", "   :header-rows: 1", ""]
    out.append(_quoted(["", *sides.NAMES, "ratio", "target"]))
    for kind, lines in tables.items():
        for line in lines:
            if line.values[sides.GATEWAY] is None:
                continue
            values = [_written(line.values[name], line.digits) for name in sides.NAMES]
            title = f"{kind}: {line.title}, {line.unit}"
            out.append(_quoted([title, *values, _written(line.ratio, 2), line.aim]))
    return "\n".join(out) + "\n"


def _quoted(cells: list[str]) -> str:
    return "   " + ", ".join(f'"{cell}"' for cell in cells)


def _written(value: Value, digits: int) -> str:
    return _UNKNOWN if value is None else f"{value:,.{digits}f}"
