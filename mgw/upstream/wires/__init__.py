"""How providers are called: one module for each way that the row of a kind names, with its ``WIRE``."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Final

from mgw.config.provider import Provider
from mgw.nouns.kinds import has_betas
from mgw.upstream.wires.betas import ALL, choose_in_headers
from mgw.upstream.wires.wire import VENDOR, ProviderWire

_CHOOSY: Final = ProviderWire(edits=choose_in_headers)
"""As the dialect has it, but for betas that the operator does not let pass."""


def wire_of(provider: Provider) -> ProviderWire:
    """Return how a provider is called."""
    row = provider.row
    name = row.wire_on_vertex if provider.is_vertex else row.wire
    wire = VENDOR if name is None else _wire_named(name)
    if wire is VENDOR and has_betas(row) and provider.betas != (ALL,):
        return _CHOOSY
    return wire


@cache
def _wire_named(name: str) -> ProviderWire:
    wire: ProviderWire = import_module(f"{__name__}.{name}").WIRE
    return wire
