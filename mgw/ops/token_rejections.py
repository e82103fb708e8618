"""Tokens of identity providers that were refused: counted, and logged once a minute by issuer and reason."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from time import monotonic
from typing import Final

from twisted.logger import Logger

from mgw.nouns.token_flaw import TokenFlaw
from mgw.ops import prometheus
from mgw.ops.exposition import Table, ValueTable
from mgw.reactor.rate_limited_log import REPORT_SECONDS

_log: Final = Logger()


@dataclass(slots=True, eq=False, repr=False)
class TokenRejections:
    """Those of one process; the issuers are the names of their entries, so there are few."""

    monotonic: Callable[[], float] = monotonic
    _counts: dict[tuple[str, str], int] = field(default_factory=dict)
    _reported: dict[tuple[str, str], tuple[float, int]] = field(default_factory=dict)
    """When the log told of them, and how many there had been then."""

    def add(self, issuer: str, flaw: TokenFlaw) -> None:
        """Count a refused token."""
        key = issuer, flaw.value
        self._counts[key] = count = self._counts.get(key, 0) + 1
        at, before = self._reported.get(key, (None, 0))
        now = self.monotonic()
        if at is None or now - at >= REPORT_SECONDS:
            self._reported[key] = now, count
            _log.warn(
                "edge_auth.jwt {issuer}: tokens rejected: {count} ({flaw})",
                issuer=issuer,
                count=count - before,
                flaw=flaw.value,
            )

    def table(self) -> Table:
        """Return the numbers of the moment."""
        family = prometheus.CounterMetricFamily(
            "mgw_token_rejections",
            "Tokens rejected, by issuer and reason.",
            labels=("issuer", "reason"),
        )
        return ValueTable(family, sorted(self._counts.items()))
