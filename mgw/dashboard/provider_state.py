"""The state of providers, derived from clients' requests alone.

A request says something only where the provider decided it.  Refusals of the gateway, clients that left, and
statuses that are the client's own doing, as a 404 for a model that does not exist, neither prove a provider
nor fail it.  What concerns the gateway's own credential (401, 402, 403, 429) does, unless it is the client's.

::

    unknown ── a success ──> ok ── three failures in a row ──> failing ── a success ──> ok
       └────────────── three failures in a row ──────────────────^
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from msgspec import Struct

from mgw.config.auths import AuthMode
from mgw.config.provider import Provider
from mgw.nouns.errors import Cause
from mgw.usage.event import Outcome, SettledExchange, timestamp

FAILURES_IN_A_ROW: Final = 3
_CREDENTIAL_STATUSES: Final = frozenset({401, 402, 403, 429})
_CLIENTS_OWN: Final = frozenset({None, AuthMode.CLIENT_BEARER})
"""Ways to authenticate by which the provider judges a credential of the client's."""


class HealthState(StrEnum):
    """What is known of a provider."""

    UNKNOWN = "unknown"
    OK = "ok"
    FAILING = "failing"


class LastFailure(Struct, frozen=True, omit_defaults=True):
    """The last request that a provider failed."""

    time: str
    error: str | None = None
    """One word, as in the usage event."""
    http_status: int | None = None
    """What the client got."""


class ObservedHealth(Struct, frozen=True, omit_defaults=True):
    """What is known of one provider, since the start of the gateway; times are RFC 3339 in UTC."""

    state: HealthState
    since: str
    last_success: str | None = None
    last_failure: LastFailure | None = None


class HealthChange(Struct, frozen=True, omit_defaults=True):
    """The state of a provider has changed."""

    time: str
    provider: str
    state: HealthState
    error: str | None = None
    """The error of the last failure, where it fails."""


@dataclass(slots=True, eq=False, repr=False)
class _Provider:
    """What is kept of one provider; times are unix seconds."""

    since: float
    has_own_key: bool
    """Whether it is the gateway's own credential that it judges."""
    state: HealthState = HealthState.UNKNOWN
    in_a_row: int = 0
    last_success: float | None = None
    last_failure: tuple[float, str | None, int | None] | None = None

    def health(self) -> ObservedHealth:
        failure = self.last_failure
        return ObservedHealth(
            self.state,
            timestamp(self.since),
            None if self.last_success is None else timestamp(self.last_success),
            None if failure is None else LastFailure(timestamp(failure[0]), failure[1], failure[2]),
        )


def _ignore(_: HealthChange) -> None:
    """Nobody wants to know."""


@dataclass(slots=True, eq=False, repr=False)
class ProviderStates:
    """The providers of the current configuration."""

    wall: Callable[[], float]
    publish: Callable[[HealthChange], None] = _ignore
    _providers: dict[str, _Provider] = field(default_factory=dict)

    def use(self, providers: Mapping[str, Provider]) -> None:
        """Watch these providers; what is known of those that stay is kept."""
        before, now = self._providers, self.wall()
        self._providers = {}
        for name, settings in providers.items():
            has_own_key = settings.auth not in _CLIENTS_OWN or bool(settings.subscriptions)
            known = self._providers[name] = before.get(name) or _Provider(now, has_own_key)
            known.has_own_key = has_own_key

    def health_of(self, name: str) -> ObservedHealth | None:
        """Return what is known of a provider; ``None`` where there is none of that name."""
        known = self._providers.get(name)
        return None if known is None else known.health()

    def record_rows(self, rows: Iterable[SettledExchange]) -> None:
        """Take note of exchanges."""
        providers, ok, healthy = self._providers, Outcome.OK, HealthState.OK
        for row in rows:  # for every exchange of the gateway: a good one calls no Python function
            name = row.labels.provider
            if name is None or not row.attempts:
                continue
            known = providers.get(name)
            if known is None:  # removed by a reload
                continue
            if row.outcome is ok:
                known.in_a_row = 0
                known.last_success = row.time + row.latency_ms / 1000.0
                if known.state is not healthy:
                    self._enter(name, known, healthy, known.last_success)
            elif row.outcome is Outcome.UPSTREAM_ERROR:
                self._record_error(name, known, row)

    def _record_error(self, name: str, known: _Provider, row: SettledExchange) -> None:
        if not _is_failure(row, has_own_key=known.has_own_key):
            return
        time = row.time + row.latency_ms / 1000.0
        known.in_a_row += 1
        known.last_failure = time, row.error, row.http_status
        if known.in_a_row >= FAILURES_IN_A_ROW and known.state is not HealthState.FAILING:
            self._enter(name, known, HealthState.FAILING, time)

    def _enter(self, name: str, known: _Provider, state: HealthState, time: float) -> None:
        known.state, known.since = state, time
        error = known.last_failure[1] if state is HealthState.FAILING and known.last_failure else None
        self.publish(HealthChange(timestamp(time), name, state, error))


def _is_failure(row: SettledExchange, *, has_own_key: bool) -> bool:
    """Whether an error of a provider is its own fault, or that of the gateway's credential."""
    if row.error == Cause.LIMIT:  # the gateway keeps no answer as large as that
        return False
    if row.error != Cause.UPSTREAM_4XX:
        return True
    return has_own_key and row.http_status in _CREDENTIAL_STATUSES
