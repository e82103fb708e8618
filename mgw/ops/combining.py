"""Combine the metrics of several processes into one set.

What is counted from usage records is counted in one process anyhow.  The other families are here, each with
what is to be done with the numbers of workers; a family that is not here has those of one process alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final, Protocol

from mgw.ops import prometheus
from mgw.ops.exposition import Labels, Table

Row = tuple[Labels, Sequence[float]]


class Combination(Enum):
    """What becomes of the numbers of several processes."""

    SUM = auto()
    """The sum over the processes that run, for gauges."""
    MOST = auto()
    """The largest value, for gauges that every process has alike."""
    TOTAL = auto()
    """The sum over all processes, those included that have ended, for counters and histograms."""


COMBINATIONS: Final = {
    "mgw_requests_in_flight": Combination.SUM,
    "mgw_sessions_in_flight": Combination.SUM,
    "mgw_request_body_bytes": Combination.SUM,
    "mgw_client_connections": Combination.SUM,
    "mgw_client_connections_max": Combination.SUM,
    "mgw_upstream_connections": Combination.SUM,
    "mgw_upstream_connections_max": Combination.SUM,
    "mgw_upstream_requests_waiting": Combination.SUM,
    "mgw_sessions_max": Combination.MOST,
    "mgw_accounts": Combination.MOST,
    "mgw_accounts_usable": Combination.MOST,
    "mgw_accounts_resting": Combination.MOST,
    "mgw_client_connections_refused": Combination.TOTAL,
    "mgw_client_limit_rejections": Combination.TOTAL,
    "mgw_upstream_connections_opened": Combination.TOTAL,
    "mgw_token_refresh_failures": Combination.TOTAL,
    "mgw_signed_again": Combination.TOTAL,
    "mgw_live_list_failures": Combination.TOTAL,
    "mgw_malformed_requests": Combination.TOTAL,
    "mgw_edge_rejections": Combination.TOTAL,
    "mgw_token_rejections": Combination.TOTAL,
    "mgw_event_loop_delay_seconds": Combination.TOTAL,
    "mgw_worker_records_dropped": Combination.TOTAL,
}
"""How each family of metrics is combined, by its name; a limit per process is summed like what it limits."""


SPARSE: Final = frozenset({"mgw_client_limit_rejections"})
"""The families of which workers report only what is not zero.  There is a row for each limit of each key, and
the process that combines them has these rows itself."""


class OtherProcesses(Protocol):
    """What processes other than this one have counted."""

    def combine(self, name: str, own: Iterable[Row]) -> list[Row]:
        """Return the rows of a family, for all processes."""
        ...

    def families(self) -> Iterator[prometheus.Metric]:
        """Yield what is to be said of the processes themselves."""
        ...


@dataclass(slots=True, eq=False, repr=False)
class CombinedTable:
    """A table with the numbers of all processes."""

    table: Table
    combined: Sequence[Row]

    @property
    def family(self) -> prometheus.Metric:
        """The family, without samples."""
        return self.table.family

    def add_zeros(self, labels: Labels) -> None:
        """Add a row to the family."""
        self.table.add_zeros(labels)

    def rows(self) -> Iterator[Row]:
        """Yield the rows."""
        yield from self.combined


def rows_of(family: prometheus.Metric) -> list[Row]:
    """Return the rows of counters or gauges, with one number each."""
    return [(tuple(sample.labels.values()), (sample.value,)) for sample in family.samples]


def combine_family(family: prometheus.Metric, others: OtherProcesses) -> prometheus.Metric:
    """Return counters or gauges with the numbers of all processes."""
    if family.name in COMBINATIONS and isinstance(
        family, (prometheus.CounterMetricFamily, prometheus.GaugeMetricFamily)
    ):
        rows = others.combine(family.name, rows_of(family))
        family.samples.clear()
        for labels, numbers in rows:
            family.add_metric(labels, numbers[0])
    return family


def combine_table(table: Table, others: OtherProcesses) -> Table:
    """Return a table with the numbers of all processes."""
    name = table.family.name
    return CombinedTable(table, others.combine(name, table.rows())) if name in COMBINATIONS else table
