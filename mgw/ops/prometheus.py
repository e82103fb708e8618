"""The names of prometheus_client that metrics are made with, imported for the first scrape.

With them come a server of HTTP and other things that an exposition has no use for: 12 ms of CPU and 1.2 MiB,
which a gateway that nobody scrapes does without.
"""

from __future__ import annotations

from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
    from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, choose_encoder, generate_latest
    from prometheus_client.metrics_core import (
        CounterMetricFamily,
        GaugeMetricFamily,
        HistogramMetricFamily,
        Metric,
    )
    from prometheus_client.utils import floatToGoString

__all__ = [
    "CONTENT_TYPE_PLAIN_0_0_4",
    "CollectorRegistry",
    "CounterMetricFamily",
    "GCCollector",
    "GaugeMetricFamily",
    "HistogramMetricFamily",
    "Metric",
    "PlatformCollector",
    "ProcessCollector",
    "choose_encoder",
    "floatToGoString",
    "generate_latest",
]

_PLACES: Final = MappingProxyType(
    {
        "prometheus_client": ("CollectorRegistry", "GCCollector", "PlatformCollector", "ProcessCollector"),
        "prometheus_client.exposition": ("CONTENT_TYPE_PLAIN_0_0_4", "choose_encoder", "generate_latest"),
        "prometheus_client.metrics_core": (
            "CounterMetricFamily",
            "GaugeMetricFamily",
            "HistogramMetricFamily",
            "Metric",
        ),
        "prometheus_client.utils": ("floatToGoString",),
    }
)


def __getattr__(name: str) -> Any:  # Any: one of the above
    """Import the names when one of them is first asked for (PEP 562)."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    for place, names in _PLACES.items():
        module = import_module(place)
        globals().update({one: getattr(module, one) for one in names})
    return globals()[name]
