"""The text of metrics is the library's own, made in parts that hold nobody up."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import CounterMetricFamily, HistogramMetricFamily, Metric
from twisted.internet.defer import CancelledError, Deferred, fail, succeed

from mgw.nouns.errors import GatewayError, Reason
from mgw.ops.exposition import Exposition, HistogramTable, ValueTable
from mgw.ops.metrics import PART_SECONDS, Metrics
from tests.support.deferreds import result_of
from tests.support.usage import exchange

PLAIN, OPEN = b"text/plain", b"application/openmetrics-text; version=1.0.0"
FORMATS = [PLAIN, OPEN, OPEN + b"; escaping=values", b"text/plain; version=1.0.0; escaping=allow-utf-8"]
BOUNDS = {0.5: "0.5", 1.0: "1.0", float("inf"): "+Inf"}
LABELS = st.tuples(
    st.text(max_size=4) | st.sampled_from(['a"b', "a\\n\n", "100 %", "%s 0.0"]), st.text(max_size=2)
)
COUNTS = st.integers(0, 2**60)
TOTALS = st.floats(0, 1e18)


class _Families(CollectorRegistry):
    """Some families as the library's encoders read them."""

    def __init__(self, *families: Metric) -> None:
        self.families = families

    def collect(self) -> Iterable[Metric]:
        return self.families


@pytest.mark.parametrize("accept", FORMATS)
@given(
    counters=st.dictionaries(LABELS, COUNTS | TOTALS, max_size=3),
    histograms=st.dictionaries(LABELS, st.tuples(COUNTS, COUNTS, COUNTS, TOTALS), max_size=3),
)
def test_a_table_reads_as_the_library_writes_it(
    accept: bytes,
    counters: dict[tuple[str, str], float],
    histograms: dict[tuple[str, str], tuple[int, int, int, float]],
) -> None:
    names = ("one", "two")
    counter = CounterMetricFamily("mgw_c", "Counts \\ of.", labels=names)
    for labels, count in counters.items():
        counter.add_metric(labels, count)
    histogram = HistogramMetricFamily("mgw_h", "Times.", labels=names)
    for labels, (a, b, c, total) in histograms.items():
        histogram.add_metric(labels, list(zip(BOUNDS.values(), (a, a + b, a + b + c), strict=True)), total)
    encode, _ = choose_encoder(accept.decode())
    expected = encode(_Families(counter, histogram))

    exposition = Exposition(accept)
    for _ in range(2):  # the second time with the rows of the first
        found = [
            *exposition.render_table(
                ValueTable(CounterMetricFamily("mgw_c", "Counts \\ of.", labels=names), [*counters.items()])
            ),
            *exposition.render_table(
                HistogramTable(
                    HistogramMetricFamily("mgw_h", "Times.", labels=names),
                    [*BOUNDS],
                    [(labels, (a, b, c), total) for labels, (a, b, c, total) in histograms.items()],
                )
            ),
            exposition.ending,
        ]
        assert b"".join(found) == expected


async def page_of(metrics: Metrics, accept: bytes | None = None) -> tuple[bytes, bytes]:
    """The media type and the whole text."""
    media_type, parts = await metrics.render(accept)
    return media_type, b"".join(parts)


@dataclass
class Turns:
    """A clock that goes on with each look at it, and a reactor that counts its turns."""

    metrics: Metrics = field(default_factory=lambda: Metrics(frozenset({"chat", "messages"})))
    seconds: float = 0.0
    looks: int = 0
    most_looks: int = 0
    turns: int = 0
    waiting: list[Deferred[None]] = field(default_factory=list)
    holds: bool = False

    def __post_init__(self) -> None:
        self.metrics.timer, self.metrics.pause = self.timer, self.pause

    def timer(self) -> float:
        self.looks += 1
        self.most_looks = max(self.looks, self.most_looks)
        self.seconds += PART_SECONDS / 4
        return self.seconds

    def pause(self) -> Deferred[None]:
        self.turns, self.looks = self.turns + 1, 0
        if not self.holds:
            return succeed(None)
        self.waiting.append(Deferred())
        return self.waiting[-1]

    def scrape(self, accept: bytes | None = None) -> Deferred[tuple[bytes, bytes]]:
        return Deferred.fromCoroutine(page_of(self.metrics, accept))


def test_many_rows_are_rendered_in_many_turns() -> None:
    turns = Turns()
    turns.metrics.reloaded(1, [f"p{number}" for number in range(50)])
    turns.metrics.record_all(exchange(provider=f"p{number}") for number in range(50))
    result_of(turns.scrape())
    assert turns.turns > 50
    assert turns.most_looks <= 6


def test_a_family_has_the_numbers_of_one_moment() -> None:
    turns = Turns(holds=True)
    providers = [f"p{number}" for number in range(20)]
    turns.metrics.reloaded(1, providers)
    turns.metrics.record_all(exchange(provider=name) for name in providers)
    scrape = turns.scrape()
    while turns.waiting:
        turns.metrics.record_all(exchange(provider=name) for name in providers)  # all change together
        turns.waiting.pop().callback(None)
    _, text = result_of(scrape)
    for name in (
        b"mgw_requests_total",
        b"mgw_request_seconds_count",
        b"mgw_time_to_first_byte_seconds_count",
    ):
        found = re.findall(rb"^%b\{.*\} (\S+)$" % name, text, re.MULTILINE)
        assert len(found) == 20
        assert len(set(found)) == 1


def test_the_next_scrape_has_the_new_numbers_in_either_format() -> None:
    turns = Turns()
    turns.metrics.reloaded(1, ["main"])
    for count, accept in enumerate((None, OPEN, OPEN, None), 1):
        turns.metrics.record_all(iter([exchange()]))
        _, text = result_of(turns.scrape(accept))
        assert b'mgw_request_seconds_count{provider="main",route="chat"} %d.0\n' % count in text
        assert text.endswith(b"# EOF\n") is (accept is OPEN)


def test_a_scrape_goes_on_where_no_thread_is_free() -> None:
    metrics = Metrics(frozenset(), offload=lambda work: fail(GatewayError(Reason.OVERLOADED, "busy")))
    _, text = result_of(Deferred.fromCoroutine(page_of(metrics)))
    assert b"\nprocess_open_fds " in text


def test_a_scraper_that_leaves_ends_its_scrape() -> None:
    turns = Turns(holds=True)
    turns.metrics.reloaded(1, [f"p{number}" for number in range(50)])
    scrape = turns.scrape()
    scrape.cancel()
    with pytest.raises(CancelledError):
        result_of(scrape)
