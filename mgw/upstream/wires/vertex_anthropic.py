"""Claude on Vertex AI."""

from __future__ import annotations

from typing import Final

from mgw.upstream.wires.wire import ProviderWire

WIRE: Final = ProviderWire()
