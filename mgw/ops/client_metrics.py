"""Counters by client: tokens, cost, requests without them, and how often a limit was reached.

Sums of money are kept in whole nanodollars, so they do not drift.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from mgw.canonical.reply import TokenUsage
from mgw.ops import prometheus
from mgw.ops.exposition import Table, ValueTable
from mgw.usage.event import NANODOLLARS
from mgw.usage.price_row import Unpriced


def _no_refusals() -> Iterable[tuple[str, str, int]]:
    return ()


@dataclass(slots=True, eq=False, repr=False)
class Consumption:
    """What one client has used of one provider."""

    tokens_in: int = 0
    tokens_out: int = 0
    cache_read: int = 0
    cache_write: int = 0
    reasoning: int = 0
    nanodollars: int | None = None
    """The cost in nanodollars; ``None``: nothing had a price."""

    def add_tokens(self, usage: TokenUsage) -> None:
        """Count tokens."""
        self.tokens_in += usage.tokens_in or 0
        self.tokens_out += usage.tokens_out or 0
        self.cache_read += usage.cache_read or 0
        self.cache_write += usage.cache_write or 0
        self.reasoning += usage.reasoning or 0

    def add_cost(self, nanodollars: int) -> None:
        """Count money."""
        self.nanodollars = (self.nanodollars or 0) + nanodollars

    def tokens(self) -> Iterator[tuple[str, int]]:
        """Yield the tokens of each direction."""
        yield "in", self.tokens_in
        yield "out", self.tokens_out
        yield "cache_read", self.cache_read
        yield "cache_write", self.cache_write
        yield "reasoning", self.reasoning


@dataclass(slots=True, eq=False, repr=False)
class ClientMetrics:
    """The numbers of all clients."""

    refusals: Callable[[], Iterable[tuple[str, str, int]]] = _no_refusals
    """The name of each client and of each of its limits, and how often it has reached that."""
    _used: dict[tuple[str, str], Consumption] = field(default_factory=dict)
    """The consumption by provider and client, each one of a bounded set."""
    _unpriced: dict[tuple[str, str], int] = field(default_factory=dict)
    _uncounted: dict[str, int] = field(default_factory=dict)
    _estimated: dict[str, int] = field(default_factory=dict)

    def consumption(self, provider: str, client: str) -> Consumption:
        """Return what counts the tokens and costs of a client at a provider."""
        return self._used.setdefault((provider, client), Consumption())

    def add_unpriced(self, provider: str, reason: Unpriced) -> None:
        """Count an exchange that should have had a cost."""
        key = (provider, reason.value)
        self._unpriced[key] = self._unpriced.get(key, 0) + 1

    def add_uncounted(self, provider: str) -> None:
        """Count a stream that was answered without token counts."""
        self._uncounted[provider] = self._uncounted.get(provider, 0) + 1

    def add_estimated(self, provider: str) -> None:
        """Count a request with estimated tokens."""
        self._estimated[provider] = self._estimated.get(provider, 0) + 1

    def tables(self) -> Iterator[Table]:
        """Yield all of it, each table with the numbers of the moment."""
        yield self._tokens()
        yield self._costs()
        yield self._unpriced_requests()
        yield self._uncounted_streams()
        yield self._estimated_requests()
        yield self._refusals()

    def _tokens(self) -> Table:
        family = prometheus.CounterMetricFamily(
            "mgw_tokens",
            "Tokens reported by providers; in includes cached tokens, out includes reasoning tokens.",
            labels=("provider", "direction", "client"),
        )
        rows = [
            ((provider, direction, client), count)
            for (provider, client), used in self._used.items()
            for direction, count in used.tokens()
        ]
        return ValueTable(family, rows)

    def _costs(self) -> Table:
        family = prometheus.CounterMetricFamily(
            "mgw_cost_usd",
            "Cost of requests in US dollars (cost_usd in usage events).",
            labels=("provider", "client"),
        )
        rows = [
            (key, used.nanodollars / NANODOLLARS)
            for key, used in self._used.items()
            if used.nanodollars is not None
        ]
        return ValueTable(family, rows)

    def _unpriced_requests(self) -> Table:
        family = prometheus.CounterMetricFamily(
            "mgw_unpriced_requests",
            "Requests that were answered but have no cost, by what is missing.",
            labels=("provider", "reason"),
        )
        return ValueTable(family, sorted(self._unpriced.items()))

    def _uncounted_streams(self) -> Table:
        family = prometheus.CounterMetricFamily(
            "mgw_uncounted_streams",
            "Streams that were answered without token counts.",
            labels=("provider",),
        )
        return ValueTable(family, [((name,), count) for name, count in sorted(self._uncounted.items())])

    def _estimated_requests(self) -> Table:
        family = prometheus.CounterMetricFamily(
            "mgw_estimated_requests",
            "Requests with tokens estimated for a limit, because the provider did not report them.",
            labels=("provider",),
        )
        return ValueTable(family, [((name,), count) for name, count in sorted(self._estimated.items())])

    def _refusals(self) -> Table:
        family = prometheus.CounterMetricFamily(
            "mgw_client_limit_rejections",
            "Requests rejected because a limit of their client was reached, by its holder.",
            labels=("client", "limit"),
        )
        return ValueTable(family, [((client, limit), count) for client, limit, count in self.refusals()])
