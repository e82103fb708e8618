"""Assembles what the gateway answers itself (:mod:`mgw.web.operations`); see :mod:`mgw.app.late_app`."""

from __future__ import annotations

from twisted.internet.interfaces import IReactorTime

from mgw.exchange.upstream_headers import provider_headers
from mgw.ops.live_models import LiveModels
from mgw.ops.metrics import Metrics
from mgw.ops.probes import ProviderProbe
from mgw.ops.provider_health import ProviderHealth
from mgw.web.gateway_request import DashboardEndpoint
from mgw.web.operations import Operations
from mgw.web.server import WebServer


def build_operations(
    clock: IReactorTime,
    server: WebServer,
    metrics: Metrics,
    dashboard: DashboardEndpoint,
) -> Operations:
    """Return the endpoints.

    :param metrics: counts what goes wrong.
    """
    probe = ProviderProbe(clock, provider_headers)
    return Operations(
        lambda: server.generation,
        dashboard,
        LiveModels(probe, metrics.live_list_failed),
        ProviderHealth(probe),
    )
