"""Whether a page of metrics keeps the rules of its format, and Prometheus' conventions for names.

Sources: the text format and OpenMetrics 1.0 as Prometheus documents them, "Metric and label naming", and what
``promtool check metrics`` reports.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

_UNITS: Final = frozenset(
    {
        *(
            "ms",
            "us",
            "ns",
            "sec",
            "secs",
            "min",
            "hrs",
            "milliseconds",
            "microseconds",
            "nanoseconds",
        ),
        *(
            "minute",
            "minutes",
            "hour",
            "hours",
            "day",
            "days",
            "weeks",
            "cents",
            "percent",
            "percents",
            "bits",
        ),
        *("kb", "mb", "gb", "kib", "mib", "gib", "kilobyte", "kilobytes", "megabytes", "gigabytes"),
    }
)
"""Words for what is no base unit, or for one in another form."""
_TYPES: Final = frozenset({"counter", "gauge", "histogram", "summary", "untyped"})
_NAME: Final = re.compile(r"[a-z][a-z0-9_]*")
_LABEL: Final = re.compile(r'([a-zA-Z_]\w*)="((?:[^"\\\n]|\\["\\n])*)"(?:,|$)')
_SAMPLE: Final = re.compile(r"(\w+)(?:\{(.*)\})? (\S+)")
_SUFFIXES: Final = {"histogram": ("_bucket", "_count", "_sum"), "gauge": ("",)}


@dataclass
class _Family:
    name: str
    help: str = ""
    type: str = ""
    samples: list[tuple[str, dict[str, str], float]] = field(default_factory=list)


def problems(page: str, *, openmetrics: bool = False) -> list[str]:
    """Return what is wrong with a page, a line for each thing."""
    lines = page.split("\n")
    found = [] if lines[-1] == "" else ["the last line does not end"]
    del lines[-1]
    if openmetrics and lines.pop() != "# EOF":
        found.append("there is no # EOF at the end")
    families, wrong = _families(lines)
    names = [family.name for family in families]
    found += wrong + [f"{name}: twice" for name in {name for name in names if names.count(name) > 1}]
    for family in families:
        found += [f"{family.name}: {problem}" for problem in _problems(family, openmetrics=openmetrics)]
    return found


def _families(lines: list[str]) -> tuple[list[_Family], list[str]]:
    families: list[_Family] = []
    wrong: list[str] = []
    for line in lines:
        if line.startswith("# "):
            _, keyword, name, text = [*line.split(" ", 3), ""][:4]
            if not families or families[-1].name != name:
                families.append(_Family(name))
            if getattr(families[-1], keyword.lower(), "none") != "":
                wrong.append(f"{name}: {keyword} again, or unknown")
            setattr(families[-1], keyword.lower(), text)
            continue
        match = _SAMPLE.fullmatch(line)
        labels = {} if match is None else dict(_LABEL.findall(match[2] or ""))
        if match is None or "".join(found[0] for found in _LABEL.finditer(match[2] or "")) != (
            match[2] or ""
        ):
            wrong.append(f"unreadable: {line!r}")
        elif not families:
            wrong.append(f"no family: {line!r}")
        else:
            families[-1].samples.append((match[1], labels, float(match[3])))
    return families, wrong


def _problems(family: _Family, *, openmetrics: bool) -> Iterator[str]:
    if not family.help.strip():
        yield "no help"
    if family.type not in _TYPES:
        yield f"type {family.type!r}"
    name = family.name.removesuffix("_total")
    if not _NAME.fullmatch(family.name) or "__" in family.name:
        yield "not in snake case, or with a colon"
    for word in set(name.split("_")) & (_UNITS | _TYPES):
        yield f"{word!r} in the name"
    if (family.type == "counter") != family.name.endswith("_total") and not openmetrics:
        yield "counters end in _total, and nothing else does"
    if openmetrics and family.name.endswith("_total"):
        yield "the family's name has no _total"
    if family.name.endswith(("_count", "_sum", "_bucket")):
        yield "a suffix of histograms"
    yield from _sample_problems(family, openmetrics=openmetrics)
    if family.type == "histogram":
        yield from _histogram_problems(family)


def _sample_problems(family: _Family, *, openmetrics: bool) -> Iterator[str]:
    suffixes = _SUFFIXES.get(family.type, ("_total" if openmetrics else "",))
    keys = [(name, *sorted(labels.items())) for name, labels, _ in family.samples]
    if len(keys) != len(set(keys)):
        yield "a series stands there twice"
    for name, labels, value in family.samples:
        if name.removeprefix(family.name) not in suffixes or not name.startswith(family.name):
            yield f"{name} does not belong to it"
        if ("le" in labels) != name.endswith("_bucket"):
            yield "le outside of a bucket, or a bucket without"
        if family.type != "gauge" and value < 0:
            yield "a negative count"
        for label in labels:
            if not _NAME.fullmatch(label) or label.startswith("__") or label in {"job", "instance"}:
                yield f"label {label}"


def _histogram_problems(family: _Family) -> Iterator[str]:
    groups: dict[tuple[tuple[str, str], ...], dict[str, list[tuple[float, float]]]] = {}
    for name, labels, value in family.samples:
        key = tuple(sorted((label, text) for label, text in labels.items() if label != "le"))
        kinds = groups.setdefault(key, {})
        kinds.setdefault(name.removeprefix(family.name), []).append((float(labels.get("le", "0")), value))
    for kinds in groups.values():
        buckets, counts = kinds.get("_bucket", []), kinds.get("_count", [])
        if len(counts) != 1 or len(kinds.get("_sum", [])) != 1 or not buckets:
            yield "not one _count and one _sum for each set of labels"
            continue
        if buckets[-1] != (float("inf"), counts[0][1]):
            yield "the last bucket is not +Inf with the count"
        if any(before >= after for (before, _), (after, _) in pairwise(buckets)):
            yield "buckets are not sorted"
        if any(before > after for (_, before), (_, after) in pairwise(buckets)):
            yield "buckets do not include those below"
