"""A worker's share of the service's limits, where no process counts for all.

Realtime sessions and the limits of keys are counted in one place.  Memory, connections and disk are divided:
a worker that asked before each chunk would wait for most of its time.
"""

from __future__ import annotations

from mgw.config.fleet import FleetSettings
from mgw.config.settings import Config
from mgw.config.settings_base import defaults_of


def share_of(config: Config, workers: int) -> Config:
    """Return the configuration of one of so many workers."""
    spool = config.spool
    most = config.max_body_bytes
    providers = {
        name: provider
        if provider.max_connections is None
        else provider.model_copy(update={"max_connections": max(1, provider.max_connections // workers)})
        for name, provider in config.providers.items()
    }
    return config.model_copy(
        update={
            "max_clients": None if config.max_clients is None else -(-config.max_clients // workers),
            "providers": providers,
            "fleet": defaults_of(FleetSettings),  # only the supervisor's process needs the password of Redis
            "spool": spool.model_copy(
                update={
                    "body_memory": _share(spool.body_memory, workers, most),
                    "body_disk": _share(spool.body_disk, workers, most),
                }
            ),
        }
    )


def _share(whole: int, workers: int, least: int) -> int:
    """Return a part of some bytes, which is enough for one body."""
    return max(whole // workers, min(whole, least))
