"""Several hosts that share Redis (``docs/fleet.rst``)."""

from __future__ import annotations

from tools.pictures.diagram import arrow, diagram, node, words
from tools.pictures.svg import Box, Color

_CLIENTS = Box(24, 24, 712, 44)
_BALANCER = Box(24, 112, 712, 44)
_HOSTS = tuple(Box(24 + 246 * column, 204, 220, 104) for column in range(3))
_REDIS = Box(24, 372, 712, 64)


def render() -> str:
    """Return the file."""
    shapes = [
        node(_CLIENTS, "Clients"),
        arrow((_CLIENTS.middle, _CLIENTS.bottom), (_CLIENTS.middle, _BALANCER.y)),
        node(_BALANCER, "Load balancer"),
    ]
    for host, name in zip(_HOSTS, ("Host A", "Host B", "Host …"), strict=True):
        lines = ("usage events, metrics,", "dashboard, spools,", "connections")
        shapes += [
            arrow((host.middle, _BALANCER.bottom), (host.middle, host.y)),
            node(host, name, lines, edge=Color.ACCENT),
            arrow((host.middle, host.bottom), (host.middle, _REDIS.y), is_both=True),
        ]
    shapes += [
        words("one script for each request", (_HOSTS[0].middle + 10, 336), 200, anchor="start"),
        words("of a key with limits", (_HOSTS[0].middle + 10, 354), 200, anchor="start"),
        node(_REDIS, "Redis", ("limits of gateway keys, realtime sessions, cooldowns of accounts",)),
    ]
    return diagram(
        "Several hosts that share Redis",
        "A load balancer spreads clients over several hosts. Each host has its own usage events, "
        "metrics, dashboard, spools and connections. Through Redis, the hosts share the limits of "
        "gateway keys, the number of realtime sessions and the cooldowns of subscription accounts.",
        (760, 460),
        shapes,
    )
