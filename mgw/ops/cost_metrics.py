"""Counters of what requests cost, and of those whose cost is unknown, by provider.

Sums are kept in whole nanodollars, so they do not drift.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from prometheus_client.metrics_core import CounterMetricFamily

from mgw.ops.exposition import CounterTable, Table
from mgw.usage.event import NANODOLLARS
from mgw.usage.record import SettledExchange


@dataclass(slots=True)
class CostMetrics:
    """The numbers of all exchanges that had a cost, or should have had one."""

    _nanodollars: dict[str, int] = field(default_factory=dict)
    _unpriced: dict[tuple[str, str], int] = field(default_factory=dict)

    def add(self, provider: str, settled: SettledExchange) -> None:
        """Count an exchange.

        :param provider: one of a bounded set.
        """
        if settled.cost is not None:
            self._nanodollars[provider] = self._nanodollars.get(provider, 0) + settled.cost
        elif settled.unpriced is not None:
            key = (provider, settled.unpriced.value)
            self._unpriced[key] = self._unpriced.get(key, 0) + 1

    def costs(self) -> Table:
        """Return what all of it costs."""
        family = CounterMetricFamily(
            "mgw_cost_usd", "Cost of requests in US dollars (cost_usd of the events).", labels=("provider",)
        )
        rows = [((name,), amount / NANODOLLARS) for name, amount in self._nanodollars.items()]
        return CounterTable(family, rows)

    def unpriced(self) -> Table:
        """Return how many answers have no cost, and why."""
        family = CounterMetricFamily(
            "mgw_unpriced_requests",
            "Requests that were answered and have no cost, by what is missing.",
            labels=("provider", "reason"),
        )
        return CounterTable(family, sorted(self._unpriced.items()))
