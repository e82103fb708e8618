"""Shared state of several hosts through Redis, or of one host without it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from mgw.clients.calendar_window import TotalStore
from mgw.clients.local_counts import LocalCounts
from mgw.config.fleet import RedisSettings
from mgw.config.settings import Config
from mgw.identity.shared_counts import SharedCounts
from mgw.ops import prometheus
from mgw.ops.exposition import Table, ValueTable
from mgw.redis.cooldowns import OnCooldown, RedisCooldowns
from mgw.redis.counts import RedisTallies
from mgw.redis.host_totals import HostTotals
from mgw.redis.limit_rows import Ticket
from mgw.redis.link import RedisLink


@dataclass(slots=True, eq=False)
class Fleet:
    """The hosts of a fleet, through one Redis.

    Everything hangs on one link; whatever this gives out outlives a change of ``fleet.redis``, and without
    it counts for this host alone.
    """

    reactor: Any  # of half a dozen interfaces
    link: RedisLink
    counts: SharedCounts[Ticket]
    """The counts of clients and of sessions."""
    cooldowns: RedisCooldowns
    settings: RedisSettings | None = None

    def tables(self) -> Iterator[Table]:
        """Yield the numbers of the moment; none without ``fleet.redis``."""
        if self.settings is None:
            return
        up = prometheus.GaugeMetricFamily(
            "mgw_fleet_redis_up", "1 while Redis is available, else 0.", labels=()
        )
        yield ValueTable(up, [((), float(self.link.is_up))])
        errors = prometheus.CounterMetricFamily(
            "mgw_fleet_redis_errors", "Times that Redis failed or could not be reached.", labels=()
        )
        yield ValueTable(errors, [((), self.link.errors)])
        hosts = prometheus.GaugeMetricFamily(
            "mgw_fleet_hosts", "Last known number of hosts that share their limits.", labels=()
        )
        yield ValueTable(hosts, [((), self.link.hosts)])

    def use(self, config: Config) -> None:
        """Obey another configuration: another address or prefix is another fleet, which learns what is here.

        :raises ValueError: TLS cannot be spoken with a host of this name.
        """
        before, after = self.settings, config.fleet.redis
        if after is None:
            self.link.stop()
            self.link.hosts = 1
        elif before is None or (before.url, before.prefix) != (after.url, after.prefix):
            assert after.url is not None, "a configuration that was loaded has it"
            self.link.start(after.url, after.prefix)
        self.settings = after

    async def stop(self) -> None:
        """Leave the fleet: what is under way here counts for nothing from now on."""
        self.link.stop()


def open_fleet(
    config: Config,
    reactor: Any,
    random: Callable[[], float],
    on_cooldown: OnCooldown,
    store: TotalStore,
    *,
    is_host: bool = True,
) -> Fleet:
    """Join the fleet of a configuration, if it has one, and stay connected to its Redis.

    :param random: returns a number from 0 to 1.
    :param on_cooldown: told of what other hosts find out about accounts.
    :param store: keeps what is used on this host while Redis is away.
    :param is_host: whether it serves requests, so that others count it.
    :raises ValueError: TLS cannot be spoken with a host of this name.
    """
    link = RedisLink(reactor, random, is_host=is_host)
    totals = HostTotals(link, store)
    local = LocalCounts(reactor.seconds, totals)
    tallies = RedisTallies(link, local, totals)
    cooldowns = RedisCooldowns(link, reactor.seconds, on_cooldown)
    fleet = Fleet(reactor, link, SharedCounts(tallies, local), cooldowns)
    link.on_up += [tallies.came_up, cooldowns.came_up]
    link.on_down.append(tallies.went_down)
    link.kept_keys = tallies.kept_keys
    link.on_message = cooldowns.received
    fleet.use(config)
    return fleet
