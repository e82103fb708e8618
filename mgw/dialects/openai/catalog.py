"""The catalog as OpenAI's clients read it.

It is the SDK's ``Model``, with the ``capabilities`` of specification 2.4.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct
from msgspec.json import Encoder

from mgw.canonical.catalog import CatalogEntry


class _Model(Struct, frozen=True, kw_only=True):
    id: str
    object: str = "model"
    created: int
    owned_by: str
    capabilities: Mapping[str, bool]


class _Page(Struct, frozen=True, kw_only=True):
    object: str = "list"
    data: list[_Model]


_ENCODER: Final = Encoder()


def _model(entry: CatalogEntry) -> _Model:
    return _Model(
        id=entry.id, created=entry.created, owned_by=entry.owned_by, capabilities=entry.capabilities
    )


def render_list(entries: Sequence[CatalogEntry], query: Mapping[str, str]) -> bytes:  # noqa: ARG001
    """Return all entries; this list has no pages, so nothing is asked of it."""
    return _ENCODER.encode(_Page(data=[_model(entry) for entry in entries]))


def render_entry(entry: CatalogEntry) -> bytes:
    """Return one entry."""
    return _ENCODER.encode(_model(entry))
