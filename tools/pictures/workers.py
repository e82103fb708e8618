"""The processes of a service with workers (``docs/workers.rst``)."""

from __future__ import annotations

from tools.pictures.diagram import arrow, diagram, node, words
from tools.pictures.svg import Box, Color

_CLIENTS = Box(24, 24, 712, 44)
_SOCKETS = Box(24, 112, 712, 44)
_WORKERS = tuple(Box(24 + 176 * column, 204, 152, 64) for column in range(3))
_SUPERVISOR = Box(24, 372, 504, 84)
_FORK_SERVER = Box(592, 372, 144, 84)


def render() -> str:
    """Return the file."""
    shapes = [
        node(_CLIENTS, "Clients and operators"),
        arrow((_CLIENTS.middle, _CLIENTS.bottom), (_CLIENTS.middle, _SOCKETS.y)),
        node(_SOCKETS, "Listening sockets, opened by the supervisor"),
    ]
    for worker, name in zip(_WORKERS, ("Worker 0", "Worker 1", "Worker …"), strict=True):
        shapes += [
            arrow((worker.middle, _SOCKETS.bottom), (worker.middle, worker.y)),
            node(worker, name, ("requests, sessions",), edge=Color.ACCENT),
            arrow((worker.middle, worker.bottom), (worker.middle, _SUPERVISOR.y), is_both=True),
        ]
    last = _WORKERS[-1]
    shapes += [
        _label("records, limits,", "tokens, log", _WORKERS[0].middle),
        _label("requests for", "/metrics and /ui", _WORKERS[1].middle),
        node(
            _SUPERVISOR,
            "Supervisor",
            ("usage events, metrics, log, dashboard,", "limits, provider tokens"),
            edge=Color.ACCENT,
        ),
        node(_FORK_SERVER, "Fork server", ("holds the", "imported code")),
        arrow((_SUPERVISOR.right, _SUPERVISOR.center), (_FORK_SERVER.x, _FORK_SERVER.center)),
        arrow(
            (_FORK_SERVER.middle, _FORK_SERVER.y),
            (_FORK_SERVER.middle, last.center),
            (last.right, last.center),
            is_dashed=True,
        ),
        words("forks", (_FORK_SERVER.middle + 10, 312), 60, anchor="start"),
    ]
    return diagram(
        "The processes of a gateway with workers",
        "Clients and operators connect to listening sockets, which the supervisor opens. Workers accept "
        "the connections and serve requests and sessions. Each worker has a channel to the supervisor, "
        "for records, limits, tokens and log lines, and forwards requests for metrics and the "
        "dashboard. The supervisor has the usage events, metrics, log, dashboard, limits and provider "
        "tokens. A fork server starts workers.",
        (760, 480),
        shapes,
    )


def _label(first: str, second: str, x: float) -> str:
    return "\n".join(
        words(line, (x + 10, y), 130, anchor="start") for line, y in ((first, 316), (second, 334))
    )
