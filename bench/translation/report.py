"""The results as tables for people and as JSON for comparisons; medians everywhere."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from statistics import median

from bench.load import Streams, Unary
from bench.translation.gateway import Direction
from bench.translation.gateway import Found as Served
from bench.translation.pure import Found
from bench.translation.side import ANSWER, READS, REQUEST, STREAM, key
from bench.translation.wires import WIRES

OURS = "ours"
RIVALS = ("litellm", "rosetta")
UNARY = "request and answer"
Group = tuple[str, str, str]
GROUPS: tuple[Group, ...] = (
    ("chat", REQUEST, "a request of 4 kB, us"),
    ("chat", ANSWER, "its answer of 4 kB, us"),
    ("chat", UNARY, "both, us"),
    ("agent", REQUEST, "a request of 200 kB with 40 tools, us"),
    ("agent", ANSWER, "its answer with 3 calls, us"),
    ("agent", UNARY, "both, us"),
    ("text", STREAM, "a chunk of a text, one in each read, us"),
    ("text", READS, "a chunk of a text, 16 in each read, us"),
    ("calls", STREAM, "a chunk of a text and three calls, one in each read, us"),
    ("calls", READS, "a chunk of a text and three calls, 16 in each read, us"),
)
TRANSLATED = tuple((client, provider) for client in WIRES for provider in WIRES if client != provider)


def conversions(found: dict[str, Found]) -> str:
    """The table of the conversions alone."""
    rivals = [name for name in RIVALS if name in found]
    columns = ("passing", OURS, "spread", *rivals, "to pass", *(f"to {name}" for name in rivals))
    out = [f"{'client > provider':28}" + "".join(f"{column:>11}" for column in columns)]
    for group in GROUPS:
        out += ["", group[2], *(_conversion(found, rivals, group, direction) for direction in TRANSLATED)]
    out += ["", "A * stands where an output lacks something or has too much:"]
    out += list(_remarks(found))
    return "\n".join(out) + "\n"


def _conversion(found: dict[str, Found], rivals: list[str], group: Group, direction: Direction) -> str:
    case, what, _ = group
    client, provider = direction
    same = client if what == REQUEST else provider
    passing = None if what == UNARY else time_of(found[OURS], case, what, (same, same))
    ours = time_of(found[OURS], case, what, direction)
    theirs = {name: time_of(found[name], case, what.replace(READS, STREAM), direction) for name in rivals}
    cells = [
        written(passing, 1),
        written(ours, 1) + _mark(found[OURS], case, what, direction),
        written(found[OURS].spread(key(case, *direction, what)), 2),
        *(written(one, 1) + _mark(found[name], case, what, direction) for name, one in theirs.items()),
        ratio(ours, passing),
        *(ratio(ours, one) for one in theirs.values()),
    ]
    return f"  {client + ' > ' + provider:26}" + "".join(f"{cell:>11}" for cell in cells)


def time_of(found: Found, case: str, what: str, direction: Direction) -> float | None:
    """The median time of one thing, or of a request and its answer together."""
    if what != UNARY:
        return found.microseconds(key(case, *direction, what))
    both = [found.microseconds(key(case, *direction, one)) for one in (REQUEST, ANSWER)]
    return None if None in both else sum(filter(None, both))


def _mark(found: Found, case: str, what: str, direction: Direction) -> str:
    parts = (REQUEST, ANSWER) if what == UNARY else (what, what.replace(READS, STREAM))
    return "*" if any(key(case, *direction, one) in found.wrong for one in parts) else ""


def _remarks(found: dict[str, Found]) -> Iterator[str]:
    for name, one in found.items():
        yield f"{name}: {one.version}"
        yield from (f"  {what}: {'; '.join(said)}" for what, said in one.wrong.items())
        yield from (f"  {problem}" for problem in one.problems)


def served(found: dict[Direction, Served]) -> str:
    """The table of the running gateway; what is relayed has its provider's wire on both sides."""
    columns = ("4 kB, us", "ratio", "paced, us", "ratio", "p50, us", "p99, us", "flat, us", "ratio", "failed")
    out = [f"{'client > provider':28}" + "".join(f"{column:>11}" for column in columns)]
    for direction, one in found.items():
        relayed = found[direction[1], direction[1]]
        runs: list[Unary | Streams] = [*one.unary, *one.paced, *one.flat]
        failed = sum(run.failed for run in runs)
        cells = [
            written(cpu(one.unary), 0),
            ratio(cpu(one.unary), cpu(relayed.unary)),
            written(cpu(one.paced), 1),
            ratio(cpu(one.paced), cpu(relayed.paced)),
            written(_median([run.p50_us for run in one.paced]), 0),
            written(_median([run.p99_us for run in one.paced]), 0),
            written(cpu(one.flat), 2),
            ratio(cpu(one.flat), cpu(relayed.flat)),
            f"{failed:.0f}",
        ]
        out.append(f"{' > '.join(direction):28}" + "".join(f"{cell:>11}" for cell in cells))
        out += [f"  {problem}" for problem in one.problems]
    return "\n".join(out) + "\n"


def cpu(runs: Sequence[Unary | Streams]) -> float | None:
    """The median of what the process used."""
    return _median([run.cpu_us for run in runs])


def _median(values: list[float]) -> float | None:
    return median(values) if values else None


def ratio(one: float | None, other: float | None) -> str:
    """One as a multiple of the other."""
    return f"{one / other:.2f}" if one is not None and other else "-"


def written(value: float | None, digits: int) -> str:
    """A number, or a dash."""
    return "-" if value is None else f"{value:,.{digits}f}"


def as_data(
    facts: dict[str, str], pure: dict[str, Found], gateway: dict[Direction, Served]
) -> dict[str, object]:
    """The same for machines, with every single run."""
    return {
        "facts": facts,
        "conversions": {name: asdict(one) for name, one in pure.items()},
        "gateway": {" > ".join(direction): asdict(one) for direction, one in gateway.items()},
    }
