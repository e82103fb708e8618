"""Gauges of the current state: what is in progress and held, and its share of the limits.

Nothing is counted for them: each is asked for when somebody scrapes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from platform import python_version
from typing import Protocol

import twisted

from mgw import __version__
from mgw.clients.client_limits import OF_EACH
from mgw.clients.limits import RowState, Unit
from mgw.nouns.secret import DIGEST_PREFIX
from mgw.ops import prometheus
from mgw.usage.event import NANODOLLARS
from mgw.usage.journal import SinkCounts


class IssuerRow(Protocol):
    """What is known of an issuer of tokens."""

    @property
    def name(self) -> str:
        """The name of its entry in the configuration."""
        ...

    @property
    def succeeded(self) -> int:
        """How often its keys were fetched."""
        ...

    @property
    def failed(self) -> int:
        """How often they could not be."""
        ...

    @property
    def age(self) -> float | None:
        """Seconds since they were fetched last; ``None``: never, or the entry is gone."""
        ...


def _zero() -> int:
    return 0


def _no() -> bool:
    return False


def _two_zeros() -> tuple[int, int]:
    return 0, 0


def _no_clients() -> tuple[int, int, int]:
    return 0, 0, 0


def _no_bodies() -> Mapping[str, int]:
    return {"memory": 0, "disk": 0}


def _no_sinks() -> Mapping[str, SinkCounts]:
    return {}


def _no_keys() -> Mapping[str, int]:
    return {"active": 0, "expired": 0, "disabled": 0}


def _yes() -> bool:
    return True


def _no_rows() -> Sequence[RowState]:
    return ()


def _no_issuers() -> Iterable[IssuerRow]:
    return ()


def _no_time() -> float | None:
    return None


@dataclass(slots=True, eq=False, repr=False)
class StateMetrics:
    """What the gateway is asked for, and the gauges of it."""

    requests_in_flight: Callable[[], int] = _zero
    sessions: Callable[[], tuple[int, int]] = _two_zeros
    """Returns how many realtime sessions are open, and how many are allowed."""
    clients: Callable[[], tuple[int, int, int]] = _no_clients
    """Returns how many connections of clients are open, are allowed, and were refused so far."""
    bodies_held: Callable[[], Mapping[str, int]] = _no_bodies
    """Returns the bytes of request bodies that are held in ``memory`` and on ``disk``."""
    draining: Callable[[], bool] = _no
    certificate_expires: Callable[[], float | None] = _no_time
    """Returns when the listener's certificate ends, in Unix seconds; ``None`` without TLS."""
    counts_by_sink: Callable[[], Mapping[str, SinkCounts]] = _no_sinks
    """Returns the journal's counts of events, by name of sink."""
    keys: Callable[[], Mapping[str, int]] = _no_keys
    """Returns how many gateway keys with names there are, by their states."""
    key_files_invalid: Callable[[], int] = _zero
    """Returns how many key files cannot be used."""
    issuers: Callable[[], Iterable[IssuerRow]] = _no_issuers
    """Returns what is known of issuers of tokens."""
    limits: Callable[[], Sequence[RowState]] = _no_rows
    """Returns what is used of the rows of limits that last longer than a minute."""
    limit_store_up: Callable[[], bool] = _yes
    """Returns whether what is counted against them is in a file."""
    events_stored: Callable[[], tuple[int, int]] = _two_zeros
    """Returns the bytes that undelivered events use on disk, and those that they may."""

    def families(self) -> Iterator[prometheus.Metric]:
        """Yield all of it; there are few samples."""
        yield from self._process()
        yield from self._limits()
        yield from self._keys()
        yield from self._issuers()
        yield from self._rows_of_limits()
        yield from self._sinks()

    def _process(self) -> Iterator[prometheus.Metric]:
        gauge = prometheus.GaugeMetricFamily
        build = gauge(
            "mgw_build_info",
            "Versions of the gateway, Python and Twisted; always 1.",
            labels=("version", "python", "twisted"),
        )
        build.add_metric((__version__, python_version(), twisted.__version__), 1)
        yield build
        yield gauge("mgw_draining", "1 while the gateway is stopping, else 0.", self.draining())
        expiry = gauge(
            "mgw_tls_certificate_expiry_timestamp_seconds",
            "Unix time at which the listener's certificate expires; absent without TLS.",
        )
        seconds = self.certificate_expires()
        if seconds is not None:
            expiry.add_metric((), seconds)
        yield expiry

    def _limits(self) -> Iterator[prometheus.Metric]:
        gauge = prometheus.GaugeMetricFamily
        yield gauge("mgw_requests_in_flight", "Requests in progress.", self.requests_in_flight())
        sessions, allowed = self.sessions()
        yield gauge("mgw_sessions_in_flight", "Realtime sessions in progress.", sessions)
        yield gauge("mgw_sessions_max", "Maximum number of realtime sessions.", allowed)
        bodies = gauge("mgw_request_body_bytes", "Bytes of request bodies currently held.", labels=("place",))
        for place, held in self.bodies_held().items():
            bodies.add_metric((place,), held)
        yield bodies
        connected, allowed, refused = self.clients()
        yield gauge("mgw_client_connections", "Open client connections.", connected)
        yield gauge("mgw_client_connections_max", "Maximum number of client connections.", allowed)
        yield prometheus.CounterMetricFamily(
            "mgw_client_connections_refused",
            "Client connections refused because the limit was reached.",
            refused,
        )

    def _keys(self) -> Iterator[prometheus.Metric]:
        gauge = prometheus.GaugeMetricFamily
        keys = gauge("mgw_keys", "Gateway keys with names.", labels=("state",))
        for state, count in self.keys().items():
            keys.add_metric((state,), count)
        yield keys
        yield gauge("mgw_key_files_invalid", "Key files that cannot be used.", self.key_files_invalid())

    def _issuers(self) -> Iterator[prometheus.Metric]:
        fetches = prometheus.CounterMetricFamily(
            "mgw_jwks_fetches", "Fetches of an issuer's public keys.", labels=("issuer", "result")
        )
        age = prometheus.GaugeMetricFamily(
            "mgw_jwks_age_seconds",
            "Time since an issuer's public keys were last fetched.",
            labels=("issuer",),
        )
        for row in self.issuers():
            fetches.add_metric((row.name, "ok"), row.succeeded)
            fetches.add_metric((row.name, "failed"), row.failed)
            if row.age is not None:
                age.add_metric((row.name,), row.age)
        yield from (fetches, age)

    def _rows_of_limits(self) -> Iterator[prometheus.Metric]:
        gauge, labels = prometheus.GaugeMetricFamily, ("holder", "limit")
        used = gauge(
            "mgw_limit_used",
            "Use of a limit longer than a minute in its current period: requests, tokens or US dollars.",
            labels=labels,
        )
        allowed = gauge("mgw_limit_max", "What such a limit allows in a period.", labels=labels)
        rows: dict[tuple[str, str], RowState] = {}
        for row in self.limits():
            # What each client has separately would be a series for each client, and so would a key's digest.
            if OF_EACH not in row.holder and not row.holder.startswith(DIGEST_PREFIX):
                place = row.holder, row.limit.name
                if row.refuses or place not in rows:
                    rows[place] = row
        for place, row in rows.items():
            scale = NANODOLLARS if row.limit.unit is Unit.NANODOLLAR else 1
            used.add_metric(place, row.used / scale)
            if row.most is not None:
                allowed.add_metric(place, row.most / scale)
        yield from (used, allowed)
        yield gauge(
            "mgw_limit_store_up",
            "1 while limits longer than a minute are counted in their file, 0 while in memory alone.",
            self.limit_store_up(),
        )

    def _sinks(self) -> Iterator[prometheus.Metric]:
        gauge, counter, label = prometheus.GaugeMetricFamily, prometheus.CounterMetricFamily, ("sink",)
        events = counter("mgw_usage_events", "Usage events handed to a sink.", labels=label)
        errors = counter(
            "mgw_usage_sink_errors", "Failures of a sink to open or write its output.", labels=label
        )
        dropped = counter("mgw_usage_events_dropped", "Events that a sink accepted but lost.", labels=label)
        waiting = gauge(
            "mgw_usage_events_waiting", "Events that a sink has not yet written or delivered.", labels=label
        )
        for name, counts in sorted(self.counts_by_sink().items()):
            events.add_metric((name,), counts.events)
            errors.add_metric((name,), counts.errors)
            dropped.add_metric((name,), counts.dropped)
            waiting.add_metric((name,), counts.waiting)
        yield from (events, errors, dropped, waiting)
        stored, allowed = self.events_stored()
        yield gauge("mgw_usage_spool_bytes", "Bytes of undelivered usage events on disk.", stored)
        yield gauge("mgw_usage_spool_max_bytes", "Limit on mgw_usage_spool_bytes.", allowed)
