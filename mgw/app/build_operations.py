"""Assembles what the gateway answers itself (:mod:`mgw.web.operations`); see :mod:`mgw.app.late_app`."""

from __future__ import annotations

from collections.abc import Callable

from twisted.internet.interfaces import IReactorTime

from mgw.exchange.upstream_headers import provider_headers
from mgw.ops.live_models import LiveModels
from mgw.ops.metrics import Metrics
from mgw.ops.probes import ProviderProbe
from mgw.ops.provider_health import ProviderHealth
from mgw.web.gateway_request import Endpoint
from mgw.web.operations import Operations
from mgw.web.server import WebServer


def build_operations(
    clock: IReactorTime,
    server: WebServer,
    draining: Callable[[], bool],
    metrics: Metrics,
    pages: tuple[Endpoint, Endpoint],
) -> Operations:
    """Return the endpoints.

    :param draining: whether no new work is taken.
    :param metrics: counts what goes wrong.
    :param pages: respond to requests for the metrics of the service, and for the dashboard.
    """
    probe = ProviderProbe(clock, provider_headers)
    return Operations(
        lambda: server.generation,
        draining,
        *pages,
        LiveModels(probe, metrics.live_list_failed),
        ProviderHealth(probe),
    )
