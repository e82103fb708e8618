"""Metrics as text, in the format that a scraper asks for, produced in small parts.

The library writes a page in one go, at about 10 us a line, nearly all of it for names and labels that never
change.  So a :class:`Table`, a family whose rows differ by their labels, has each row written by the library
once, with zeros; from then on only the numbers are put in.  Where the gateway has many providers and routes,
that is the difference between a reactor that stands still for a quarter of a second and one that does not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from typing import Final, Protocol

from mgw.ops import prometheus

Labels = tuple[str, ...]

BATCH_SAMPLES: Final = 500
"""The library takes some 5 ms for them."""
_ZERO: Final = b" 0.0\n"


class Table(Protocol):
    """A family whose rows differ by their labels; the numbers are those of one moment."""

    @property
    def family(self) -> prometheus.Metric:
        """The family, without samples."""
        ...

    def add_zeros(self, labels: Labels) -> None:
        """Add a row to the family whose numbers are all zero."""
        ...

    def rows(self) -> Iterator[tuple[Labels, Sequence[float]]]:
        """Yield the labels and the numbers of every row, in the order of its lines."""
        ...


@dataclass(slots=True, eq=False, repr=False)
class ValueTable:
    """Counters or gauges: one number for each set of labels."""

    family: prometheus.CounterMetricFamily | prometheus.GaugeMetricFamily
    values: Sequence[tuple[Labels, float]]

    def add_zeros(self, labels: Labels) -> None:
        """Add a row to the family."""
        self.family.add_metric(labels, 0)

    def rows(self) -> Iterator[tuple[Labels, Sequence[float]]]:
        """Yield one number each."""
        for labels, value in self.values:
            yield labels, (value,)


@dataclass(slots=True, eq=False, repr=False)
class HistogramTable:
    """Histograms with the same buckets."""

    family: prometheus.HistogramMetricFamily
    bounds: Sequence[float]
    """The upper bounds of the buckets, the last of which is infinite."""
    histograms: Sequence[tuple[Labels, Sequence[int], float]]
    """The labels of each histogram, how many values fell into each bucket, and their sum."""

    def add_zeros(self, labels: Labels) -> None:
        """Add a row to the family."""
        self.family.add_metric(labels, [(_number_text(bound), 0) for bound in self.bounds], 0)

    def rows(self) -> Iterator[tuple[Labels, Sequence[float]]]:
        """Yield the buckets, each with those below it, the count and the sum."""
        for labels, counts, total in self.histograms:
            below = list(accumulate(counts))
            yield labels, (*below, below[-1], total)


@dataclass(slots=True, eq=False, repr=False)
class _Families:
    """What an encoder of the library reads."""

    families: Iterable[prometheus.Metric]

    def collect(self) -> Iterable[prometheus.Metric]:
        return self.families


class Exposition:
    """One format, and the rows that were written in it before.

    :param accept: the header ``Accept`` of the scraper.
    """

    def __init__(self, accept: bytes | None) -> None:
        try:
            encode, media_type = prometheus.choose_encoder((accept or b"").decode("ascii"))
        except (TypeError, ValueError):  # a version that is no number
            encode, media_type = prometheus.generate_latest, prometheus.CONTENT_TYPE_PLAIN_0_0_4
        self.media_type = media_type.encode("ascii")
        self._encode = encode
        self.ending = encode(_Families(()))
        """The lines that end an exposition."""
        self._templates: dict[tuple[str, Labels], bytes] = {}  # bounded, as the labels of the metrics are

    def render(self, families: Iterable[prometheus.Metric]) -> bytes:
        """Return the text of families, without the ending."""
        return self._encode(_Families(families)).removesuffix(self.ending)

    def render_in_batches(self, family: prometheus.Metric) -> Iterator[bytes]:
        """Yield the text of a family a few samples at a time: limits have as many as there are keys."""
        samples = family.samples
        family.samples = samples[:BATCH_SAMPLES]
        yield self.render((family,))
        family.samples = []
        head = len(self.render((family,)))
        for at in range(BATCH_SAMPLES, len(samples), BATCH_SAMPLES):
            family.samples = samples[at : at + BATCH_SAMPLES]
            yield self.render((family,))[head:]

    def render_table(self, table: Table) -> Iterator[bytes]:
        """Yield the text of a table, row by row."""
        family, templates = table.family, self._templates
        head = self.render((family,))
        yield head
        for labels, numbers in table.rows():
            key = (family.name, labels)
            template = templates.get(key)
            if template is None:
                family.samples.clear()
                table.add_zeros(labels)
                lines = self.render((family,))[len(head) :]
                template = templates[key] = lines.replace(b"%", b"%%").replace(_ZERO, b" %b\n")
            yield template % tuple(map(_render_number, numbers))


@lru_cache(maxsize=4096)
def _render_number(number: float) -> bytes:
    return _number_text(number).encode("ascii")


def _number_text(number: float) -> str:
    text: str = prometheus.floatToGoString(number)  # type: ignore[no-untyped-call]  # the library's
    return text
