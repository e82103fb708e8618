"""How providers are called: one module for each way that the row of a kind names, with its ``WIRE``."""

from __future__ import annotations

from functools import cache
from importlib import import_module

from mgw.config.provider import Provider
from mgw.upstream.wires.wire import VENDOR, ProviderWire


def wire_of(provider: Provider) -> ProviderWire:
    """Return how a provider is called."""
    name = provider.row.wire
    return VENDOR if name is None else _wire_named(name)


@cache
def _wire_named(name: str) -> ProviderWire:
    wire: ProviderWire = import_module(f"{__name__}.{name}").WIRE
    return wire
