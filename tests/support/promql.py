"""Enough of PromQL for the dashboard and the alert rules of ``etc``, over one page of metrics.

There is one scrape, of a gateway that has just started, so the ``rate`` and ``increase`` of a counter are all
that it has counted: rates are of one second.  What is not known here fails.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from prometheus_client.parser import text_string_to_metric_families

Labels = frozenset[tuple[str, str]]
Vector = dict[Labels, float]
"""Values by their labels, the name of the metric not included."""
OF_SCRAPE: Final = frozenset({("job", "mgw"), ("instance", "a:1")})
_TOKEN: Final = re.compile(r'\s*([\w:.]+|"[^"]*"|=~|!~|!=|>=|<=|[^\s\w])')
_BINARY: Final[tuple[frozenset[str], ...]] = (
    frozenset({"and"}),
    frozenset({">", "<"}),
    frozenset({"+", "-"}),
    frozenset({"*", "/"}),
)
"""Operators by how closely they bind, the loosest first."""
_ARITHMETIC: Final[Mapping[str, Callable[[float, float], float]]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
}
_MATCHES: Final[Mapping[str, Callable[[str, str], bool]]] = {
    "=": lambda value, wanted: value == wanted,
    "!=": lambda value, wanted: value != wanted,
    "=~": lambda value, wanted: re.fullmatch(wanted, value) is not None,
    "!~": lambda value, wanted: re.fullmatch(wanted, value) is None,
}


class Scrape:
    """The samples of one page, and the rules that record further ones."""

    def __init__(self, page: str, recorded: Mapping[str, str]) -> None:
        self.recorded = recorded
        self._samples: dict[str, Vector] = {}
        for family in text_string_to_metric_families(page):
            for sample in family.samples:
                labels = frozenset(sample.labels.items()) | OF_SCRAPE
                self._samples.setdefault(sample.name, {})[labels] = sample.value

    def ask(self, text: str) -> Vector:
        """Return what an expression comes to."""
        found = _Parser(self, list(_TOKEN.findall(text))).whole()
        assert isinstance(found, dict), text
        return found

    def select(self, name: str) -> Vector:
        """Return the samples of a metric, or of a recording rule."""
        return self.ask(self.recorded[name]) if name in self.recorded else self._samples.get(name, {})


def by_label(found: Vector, label: str) -> dict[str, float]:
    """Return values by one of their labels."""
    return {dict(labels).get(label, ""): value for labels, value in found.items()}


@dataclass
class _Parser:
    scrape: Scrape
    tokens: list[str]
    at: int = field(default=0)

    def whole(self) -> Vector | float:
        found = self.binary()
        assert self.at == len(self.tokens), self.tokens[self.at :]
        return found

    def take(self, *wanted: str) -> str:
        token = self.tokens[self.at]
        assert not wanted or token in wanted, f"{token} where {wanted} was expected in {self.tokens}"
        self.at += 1
        return token

    def next_is(self, *wanted: str) -> bool:
        return self.at < len(self.tokens) and self.tokens[self.at] in wanted

    def binary(self, level: int = 0) -> Vector | float:
        if level == len(_BINARY):
            return self.unary()
        found = self.binary(level + 1)
        while self.next_is(*_BINARY[level]):
            found = _combine(self.take(), found, self.binary(level + 1))
        return found

    def unary(self) -> Vector | float:
        token = self.take()
        if token == "(":
            found = self.binary()
            self.take(")")
            return found
        if re.fullmatch(r"[\d.]+", token):
            return float(token)
        if token in ("sum", "topk", "rate", "increase", "histogram_quantile"):
            return self.call(token)
        return self.selector(token)

    def call(self, name: str) -> Vector:
        by = self.grouping()
        self.take("(")
        arguments = [self.binary()]
        while self.next_is(","):
            self.take(",")
            arguments.append(self.binary())
        self.take(")")
        *numbers, found = arguments
        assert isinstance(found, dict)
        if name == "sum":
            return _sum(found, by or self.grouping() or frozenset())
        if name == "histogram_quantile":
            (share,) = numbers
            assert isinstance(share, float)
            return _quantile(share, found)
        return found  # topk: a test has less than that

    def grouping(self) -> frozenset[str] | None:
        if not self.next_is("by"):
            return None
        self.take("by")
        self.take("(")
        names = set()
        while not self.next_is(")"):
            names.add(self.take())
            if self.next_is(","):
                self.take(",")
        self.take(")")
        return frozenset(names)

    def selector(self, name: str) -> Vector:
        found = self.scrape.select(name)
        if self.next_is("{"):
            self.take("{")
            for label, sign, wanted in self.matchers():
                matches = _MATCHES[sign]
                found = {
                    labels: value
                    for labels, value in found.items()
                    if matches(dict(labels).get(label, ""), wanted)
                }
        if self.next_is("["):
            self.at = self.tokens.index("]", self.at) + 1
        return found

    def matchers(self) -> Iterator[tuple[str, str, str]]:
        while not self.next_is("}"):
            label, sign, wanted = self.take(), self.take(*_MATCHES), self.take()
            yield label, sign, wanted.strip('"')
            if self.next_is(","):
                self.take(",")
        self.take("}")


def _combine(sign: str, left: Vector | float, right: Vector | float) -> Vector | float:
    if not isinstance(left, dict):
        assert not isinstance(right, dict)
        return _ARITHMETIC[sign](left, right)
    if sign == "and":
        assert isinstance(right, dict)
        return {labels: value for labels, value in left.items() if labels in right}
    if sign in _ARITHMETIC:
        others = right if isinstance(right, dict) else dict.fromkeys(left, right)
        return {
            labels: _ARITHMETIC[sign](value, others[labels])
            for labels, value in left.items()
            if labels in others
        }
    assert isinstance(right, float)
    compare = operator.gt if sign == ">" else operator.lt
    return {labels: value for labels, value in left.items() if compare(value, right)}


def _sum(found: Vector, by: frozenset[str]) -> Vector:
    sums: Vector = {}
    for labels, value in found.items():
        key = frozenset((name, text) for name, text in labels if name in by)
        sums[key] = sums.get(key, 0.0) + value
    return sums


def _quantile(share: float, found: Vector) -> Vector:
    """Return the quantiles of histograms, as even as values may lie in a bucket."""
    histograms: dict[Labels, list[tuple[float, float]]] = {}
    for labels, count in found.items():
        bound = float(dict(labels)["le"])
        histograms.setdefault(frozenset(one for one in labels if one[0] != "le"), []).append((bound, count))
    quantiles: Vector = {}
    for labels, buckets in histograms.items():
        buckets.sort()
        rank = share * buckets[-1][1]
        lower, before = 0.0, 0.0
        for bound, count in buckets:
            if count >= rank and count > before:
                inner = (
                    lower
                    if bound == float("inf")
                    else lower + (bound - lower) * (rank - before) / (count - before)
                )
                quantiles[labels] = inner
                break
            lower, before = bound, count
    return quantiles
