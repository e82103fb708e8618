"""Everything in ``GET /metrics``, and the page itself.

What stands in usage events is counted from them, so the two agree by construction
(:mod:`mgw.ops.request_metrics`); what has no event is counted by calls, and what is true only now is asked
for when somebody scrapes.  Every label value is one of a set that the operator's configuration bounds, never
something that a client sent: routes are rows of the table, providers are configured ones, whatever else
comes is ``other``.

The counts are plain numbers in plain objects, and :meth:`Metrics.render` makes text of them when somebody
asks: ``labels()`` and ``observe()`` of the library take several times as long.  The text is made in as many
turns of the reactor as it needs, none of which takes long; each family has the numbers of one moment.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from time import perf_counter, time
from typing import Final

from twisted.internet.defer import Deferred, succeed

from mgw.nouns.errors import GatewayError
from mgw.ops import prometheus
from mgw.ops.combining import (
    COMBINATIONS,
    SPARSE,
    OtherProcesses,
    Row,
    combine_family,
    combine_table,
    rows_of,
)
from mgw.ops.exposition import Exposition, Table, ValueTable
from mgw.ops.loop_delay import LoopDelay
from mgw.ops.provider_metrics import ProviderMetrics
from mgw.ops.request_metrics import OTHER, KnownNames, RequestMetrics
from mgw.ops.state_metrics import StateMetrics
from mgw.ops.token_rejections import TokenRejections
from mgw.usage.event import SettledExchange

EDGE_REASONS: Final = frozenset({"key", "origin", "expired", "disabled", "revoked", "token", "rule"})
PART_SECONDS: Final = 0.0005
"""How long a turn of the reactor may render."""


def _no_pause() -> Deferred[None]:
    return succeed(None)


def _do_inline(work: Callable[[], bytes]) -> Deferred[bytes]:
    return succeed(work())


@dataclass(slots=True, eq=False, repr=False)
class Metrics:
    """The numbers of one process: a usage sink, and what counts the rest."""

    routes: frozenset[str]
    """The names of the rows of the route table."""
    providers: set[str] = field(default_factory=set)
    """Every provider that was ever configured; see :meth:`reloaded`."""
    state: StateMetrics = field(default_factory=StateMetrics)
    upstreams: ProviderMetrics = field(default_factory=ProviderMetrics)
    loop_delay: LoopDelay = field(default_factory=LoopDelay)
    fleet: Callable[[], Iterable[Table]] = tuple
    """Returns the metrics of the hosts that share limits."""
    workers: OtherProcesses | None = None
    """The other processes, whose metrics are combined with those of this one."""
    pause: Callable[[], Awaitable[None]] = _no_pause
    """Returns when the reactor has done other things."""
    offload: Callable[[Callable[[], bytes]], Awaitable[bytes]] = _do_inline
    """Runs work in a thread."""
    timer: Callable[[], float] = perf_counter
    """Returns seconds, from any time on."""
    wall: Callable[[], float] = time
    """Returns Unix seconds."""
    name: str = field(default="metrics", init=False)
    errors: int = field(default=0, init=False)
    dropped: int = field(default=0, init=False)
    waiting: int = field(default=0, init=False)
    requests: RequestMetrics = field(init=False)
    token_rejections: TokenRejections = field(default_factory=TokenRejections)
    _generation: int = 0
    _reloaded_at: float = 0.0
    _reload_ok: int = 1
    _reload_failures: int = 0
    _malformed: int = 0
    _edge_rejections: dict[str, int] = field(default_factory=lambda: dict.fromkeys(EDGE_REASONS, 0))
    _live_list_failures: dict[str, int] = field(default_factory=dict)
    _exposition_for: Callable[[bytes | None], Exposition] = field(
        default_factory=lambda: lru_cache(maxsize=2)(Exposition)
    )
    """The expositions by ``Accept`` header: that of the scraper, and that of whoever looks as well."""
    _process: prometheus.CollectorRegistry | None = None
    """What the library knows of the process, from the first scrape on."""

    def __post_init__(self) -> None:
        self.requests = RequestMetrics(KnownNames(self.routes, self.providers))

    def record_all(self, rows: Iterator[SettledExchange]) -> None:
        """Count exchanges."""
        self.requests.record_all(rows)

    def flush(self) -> None:
        """Do nothing: numbers wait for nobody."""

    def reopen(self) -> None:
        """Do nothing."""

    def close(self) -> Deferred[None]:
        """Do nothing; the numbers stay readable."""
        return succeed(None)

    def reloaded(self, generation: int, providers: Iterable[str], clients: Iterable[str] = ()) -> None:
        """A configuration is in use, the first one included; it names these ``clients``: keys and issuers."""
        self.requests.names.add_clients(clients)
        self._generation = generation
        self._reloaded_at = self.wall()
        self._reload_ok = 1
        self.providers.update(providers)
        for name in self.providers:
            self._live_list_failures.setdefault(name, 0)

    def reload_failed(self) -> None:
        """A configuration was not valid; the one before stays in use."""
        self._reload_ok = 0
        self._reload_failures += 1

    def edge_rejected(self, reason: str = "key") -> None:
        """A caller was turned away: its ``key`` or its ``origin`` did not fit."""
        name = reason if reason in EDGE_REASONS else OTHER
        self._edge_rejections[name] = self._edge_rejections.get(name, 0) + 1

    def live_list_failed(self, provider: str) -> None:
        """A provider's own model list could not be had."""
        name = provider if provider in self.providers else OTHER
        self._live_list_failures[name] = self._live_list_failures.get(name, 0) + 1

    def malformed(self) -> None:
        """Something came in that is no HTTP."""
        self._malformed += 1

    async def render(self, accept: bytes | None) -> tuple[bytes, list[bytes]]:
        """Return the media type and the text, in the format that the ``Accept`` header asks for.

        The text may be megabytes, and comes in the parts in which it was made.
        """
        exposition = self._exposition_for(accept)
        page: list[bytes] = []
        parts: list[bytes] = []
        began = self.timer()
        for part in self._render_parts(exposition):
            parts.append(part)
            if self.timer() - began >= PART_SECONDS:
                page.append(b"".join(parts))  # not all at the end: there may be thousands
                parts.clear()
                await self.pause()
                began = self.timer()
        page += [b"".join(parts), await self._render_process(exposition), exposition.ending]
        return exposition.media_type, page

    def own_rows(self) -> Iterator[tuple[str, list[Row]]]:
        """Yield the rows of each family that is not counted from usage records, by its name."""
        for table in self._tables():
            name = table.family.name
            if name in SPARSE:
                yield name, [(labels, numbers) for labels, numbers in table.rows() if any(numbers)]
            elif name in COMBINATIONS:
                yield name, list(table.rows())
        for families in (self.state.families, self._configuration):
            for family in families():
                if family.name in COMBINATIONS:
                    yield family.name, rows_of(family)

    def _render_parts(self, exposition: Exposition) -> Iterator[bytes]:
        workers = self.workers
        for table in self._tables():
            yield from exposition.render_table(table if workers is None else combine_table(table, workers))
            del table  # before the next one is made
        for families in (self.state.families, self._configuration):
            for family in families():
                whole = family if workers is None else combine_family(family, workers)
                yield from exposition.render_in_batches(whole)
        if workers is not None:
            for family in workers.families():
                yield exposition.render((family,))

    def _tables(self) -> Iterator[Table]:
        yield from self.requests.tables()
        yield from self.upstreams.tables()
        yield self._live_lists()
        yield self.token_rejections.table()
        yield from self.loop_delay.tables()
        yield from self.fleet()

    async def _render_process(self, exposition: Exposition) -> bytes:
        """Return what the library says of the process; it lists all open files, which may be many."""
        if self._process is None:
            self._process = registry = prometheus.CollectorRegistry()
            prometheus.ProcessCollector(registry=registry)
            prometheus.PlatformCollector(registry=registry)
            prometheus.GCCollector(registry=registry)
        collect = self._process.collect

        def render() -> bytes:
            return exposition.render(collect())

        try:
            return await self.offload(render)
        except GatewayError:  # the threads have too much to do
            return render()

    def _configuration(self) -> Iterator[prometheus.Metric]:
        gauge, counter = prometheus.GaugeMetricFamily, prometheus.CounterMetricFamily
        yield gauge(
            "mgw_config_generation", "Number of the configuration in use, counting from 1.", self._generation
        )
        yield gauge(
            "mgw_config_loaded_timestamp_seconds",
            "Unix time at which the configuration came into use.",
            self._reloaded_at,
        )
        yield gauge(
            "mgw_config_reload_ok", "1 if the last reload succeeded, 0 if it failed.", self._reload_ok
        )
        yield counter("mgw_config_reload_failures", "Failed reloads.", self._reload_failures)
        yield counter("mgw_malformed_requests", "Input that was not valid HTTP.", self._malformed)
        rejections = counter("mgw_edge_rejections", "Requests rejected by edge auth.", labels=("reason",))
        for reason, count in sorted(self._edge_rejections.items()):
            rejections.add_metric((reason,), count)
        yield rejections

    def _live_lists(self) -> Table:
        family = prometheus.CounterMetricFamily(
            "mgw_live_list_failures",
            "Failed attempts to fetch a provider's model list.",
            labels=("provider",),
        )
        return ValueTable(
            family, [((provider,), count) for provider, count in sorted(self._live_list_failures.items())]
        )
