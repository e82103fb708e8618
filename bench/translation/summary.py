"""The results as the two tables of ``docs/performance.rst``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from bench.load import Streams, Unary
from bench.translation.gateway import Direction
from bench.translation.gateway import Found as Served
from bench.translation.pure import Found
from bench.translation.report import (
    OURS,
    RIVALS,
    TRANSLATED,
    UNARY,
    cpu,
    ratio,
    time_of,
    written,
)
from bench.translation.side import ANSWER, REQUEST, STREAM

_CASES = (
    ("4 kB", "chat", UNARY, 0),
    ("200 kB", "agent", UNARY, 0),
    ("a chunk", "text", STREAM, 1),
)


def conversions(found: dict[str, Found]) -> str:
    """The table of the conversions alone."""
    names = [OURS, *(name for name in RIVALS if name in found)]
    titles = ["passing", "gateway", *(found[name].version for name in names[1:])]
    return _table("µs of CPU", titles, _converted(found, names))


def _converted(found: dict[str, Found], names: list[str]) -> Iterator[list[str]]:
    for title, case, what, digits in _CASES:
        for client, provider in TRANSLATED:
            times = [time_of(found[name], case, what, (client, provider)) for name in names]
            cells = [_passing(found[OURS], case, what, (client, provider)), *times]
            yield [f"{title}, {client} → {provider}", *(written(one, digits) for one in cells)]


def _passing(ours: Found, case: str, what: str, direction: Direction) -> float | None:
    """What passing the same bytes costs: the client's request, the provider's answer."""
    client, provider = direction
    if what != UNARY:
        return time_of(ours, case, what, (provider, provider))
    answered = time_of(ours, case, ANSWER, (provider, provider))
    if answered is None:
        return None
    return answered + (time_of(ours, case, REQUEST, (client, client)) or 0)


def served(found: dict[Direction, Served]) -> str:
    """The table of the running gateway."""
    titles = ["a request of 4 kB", "a chunk every 10 ms", "a chunk, at full speed"]
    return _table("µs of CPU of the process", titles, (_served(found, direction) for direction in found))


def _served(found: dict[Direction, Served], direction: Direction) -> list[str]:
    client, provider = direction
    one, base = found[direction], found[provider, provider]
    pairs = ((one.unary, base.unary), (one.paced, base.paced), (one.flat, base.flat))
    if client == provider:
        return [f"{client}, relayed", *(written(cpu(runs), 1) for runs, _ in pairs)]
    return [f"{client} → {provider}", *(_beside(*pair) for pair in pairs)]


def _beside(runs: Sequence[Unary | Streams], base: Sequence[Unary | Streams]) -> str:
    return f"{written(cpu(runs), 1)} ({ratio(cpu(runs), cpu(base))})"


def _table(corner: str, titles: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [_line([corner, *titles]), *map(_line, rows)]
    return "\n".join([".. csv-table::", "   :header-rows: 1", "", *lines]) + "\n"


def _line(cells: Sequence[str]) -> str:
    return "   " + ", ".join(f'"{cell}"' for cell in cells)
