"""Metrics by provider: connections, accounts, tokens.

They are asked for when somebody scrapes, and belong to the configuration in use: after a reload, what counts
begins at zero, and providers that are gone have none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from mgw.credentials.provider import CredentialProvider
from mgw.credentials.signed_again import SignedAgain
from mgw.credentials.subscription.source import SubscriptionSource
from mgw.ops import prometheus
from mgw.ops.exposition import Labels, Table, ValueTable
from mgw.upstream.client import Upstream


def _no_upstreams() -> Mapping[str, Upstream]:
    return {}


def _no_credentials() -> Mapping[str, CredentialProvider]:
    return {}


@runtime_checkable
class ObtainsTokens(Protocol):
    """A source that gets what it gives out from elsewhere, in vain at times."""

    @property
    def failures(self) -> int:
        """How often it got nothing."""
        ...


@dataclass(slots=True, eq=False, repr=False)
class ProviderMetrics:
    """Where to ask, by name of provider."""

    upstreams: Callable[[], Mapping[str, Upstream]] = _no_upstreams
    credentials: Callable[[], Mapping[str, CredentialProvider]] = _no_credentials
    signed_again: Callable[[], SignedAgain] = SignedAgain

    def tables(self) -> Iterator[Table]:
        """Yield all of it, each table with the numbers of the moment."""
        yield self._connections()
        yield _gauge(
            "mgw_upstream_connections_max",
            "Maximum number of connections to a provider; absent if there is no limit.",
            [
                ((name,), upstream.max_connections)
                for name, upstream in self.upstreams().items()
                if upstream.max_connections is not None
            ],
        )
        yield self._opened()
        yield _gauge(
            "mgw_upstream_requests_waiting",
            "Requests waiting for a connection to a provider.",
            [((name,), upstream.waiting) for name, upstream in self.upstreams().items()],
        )
        yield from self._accounts()
        yield self._token_failures()
        yield self._signed_again()

    def _connections(self) -> Table:
        family = prometheus.GaugeMetricFamily(
            "mgw_upstream_connections",
            "Connections to a provider, including those being opened.",
            labels=("provider", "state"),
        )
        rows: list[tuple[Labels, float]] = []
        for name, upstream in self.upstreams().items():
            rows += [((name, "active"), upstream.active), ((name, "idle"), upstream.idle)]
        return ValueTable(family, rows)

    def _opened(self) -> Table:
        family = prometheus.CounterMetricFamily(
            "mgw_upstream_connections_opened",
            "Connections opened to a provider since the last reload.",
            labels=("provider",),
        )
        rows = [((name,), upstream.opened_total) for name, upstream in self.upstreams().items()]
        return ValueTable(family, rows)

    def _accounts(self) -> Iterator[Table]:
        sources = [
            (name, source)
            for name, source in self.credentials().items()
            if isinstance(source, SubscriptionSource)
        ]
        shared = [source.pool.cooldowns for _, source in sources]
        cooling = {id(cooldowns): cooldowns.names_in_cooldown() for cooldowns in shared}
        yield _gauge(
            "mgw_accounts",
            "Configured subscription accounts of a provider.",
            [((name,), len(source.pool.names)) for name, source in sources],
        )
        yield _gauge(
            "mgw_accounts_usable",
            "Accounts that have a token or can obtain one, including accounts in cooldown.",
            [((name,), source.usable_accounts) for name, source in sources],
        )
        yield _gauge(
            "mgw_accounts_resting",
            "Accounts in cooldown for at least one model.",
            [
                ((name,), len(cooling[id(source.pool.cooldowns)].intersection(source.pool.names)))
                for name, source in sources
            ],
        )

    def _token_failures(self) -> Table:
        family = prometheus.CounterMetricFamily(
            "mgw_token_refresh_failures",
            "Failed attempts to obtain a new token for a provider.",
            labels=("provider",),
        )
        rows = [
            ((name,), source.failures)
            for name, source in self.credentials().items()
            if isinstance(source, ObtainsTokens)
        ]
        return ValueTable(family, rows)

    def _signed_again(self) -> Table:
        family = prometheus.CounterMetricFamily(
            "mgw_signed_again",
            "Requests sent once more, signed again or without a beta that the provider rejected.",
            labels=("provider", "reason"),
        )
        return ValueTable(family, [(labels, count) for labels, count in self.signed_again().rows()])


def _gauge(name: str, text: str, rows: list[tuple[Labels, float]]) -> Table:
    """Return a gauge for each provider."""
    return ValueTable(prometheus.GaugeMetricFamily(name, text, labels=("provider",)), rows)
