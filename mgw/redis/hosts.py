"""Shared state of several hosts through Redis, or of one host without it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily

from mgw.clients.limits import ClientCounts, Limits
from mgw.config.fleet import RedisSettings
from mgw.config.settings import Config
from mgw.ops.exposition import Table, ValueTable
from mgw.redis.cooldowns import OnCooldown, RedisCooldowns
from mgw.redis.counts import RedisCounts, RedisSlots
from mgw.redis.link import RedisLink


@dataclass(slots=True, eq=False)
class Fleet:
    """The hosts of a fleet, through one Redis.

    Everything hangs on one link; whatever this gives out outlives a change of ``fleet.redis``, and without
    it counts for this host alone.
    """

    reactor: Any  # of half a dozen interfaces
    link: RedisLink
    slots: RedisSlots
    cooldowns: RedisCooldowns
    settings: RedisSettings | None = None
    _counts: dict[str, RedisCounts] = field(default_factory=dict)

    def counts_factory(self, name: str, limits: Limits) -> ClientCounts:
        """Return the counts of a client, by the name of its key."""
        found = self._counts.get(name)
        if found is None:
            found = self._counts[name] = RedisCounts.of_client(self.link, self.reactor.seconds, name, limits)
        else:
            found.use(limits)
        return found

    def tables(self) -> Iterator[Table]:
        """Yield the numbers of the moment; none without ``fleet.redis``."""
        if self.settings is None:
            return
        up = GaugeMetricFamily("mgw_fleet_redis_up", "1 while Redis is available, else 0.", labels=())
        yield ValueTable(up, [((), float(self.link.is_up))])
        errors = CounterMetricFamily(
            "mgw_fleet_redis_errors", "Times that Redis failed or could not be reached.", labels=()
        )
        yield ValueTable(errors, [((), self.link.errors)])
        hosts = GaugeMetricFamily(
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
        for counts in self._counts.values():
            counts.keep_to_share()  # which may be another one now

    async def stop(self) -> None:
        """Leave the fleet: what is under way here counts for nothing from now on."""
        self.link.stop()

    def went_down(self) -> None:
        """Keep to this host's share."""
        self.slots.went_down()
        for counts in self._counts.values():
            counts.went_down()

    def came_up(self) -> None:
        """Tell Redis what is under way here."""
        self.slots.came_up()
        for counts in self._counts.values():
            counts.came_up()
        self.cooldowns.came_up()

    def kept_keys(self) -> list[str]:
        """Return the keys of what is under way here."""
        kept = [counts.flight_key for counts in self._counts.values() if counts.in_flight]
        return [*kept, self.slots.flight_key] if self.slots.taken else kept


def open_fleet(config: Config, reactor: Any, random: Callable[[], float], on_cooldown: OnCooldown) -> Fleet:
    """Join the fleet of a configuration, if it has one, and stay connected to its Redis.

    :param random: returns a number from 0 to 1.
    :param on_cooldown: told of what other hosts find out about accounts.
    :raises ValueError: TLS cannot be spoken with a host of this name.
    """
    link = RedisLink(reactor, random)
    fleet = Fleet(reactor, link, RedisSlots(link), RedisCooldowns(link, reactor.seconds, on_cooldown))
    fleet.slots.use(config.realtime.max_sessions)
    link.on_up.append(fleet.came_up)
    link.on_down.append(fleet.went_down)
    link.kept_keys = fleet.kept_keys
    link.on_message = fleet.cooldowns.received
    fleet.use(config)
    return fleet
