"""Lists of models, both ways."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec.json import Decoder, Encoder

from mgw.canonical.catalog import CatalogEntry, ListedModel
from mgw.dialects.dialect import ModelLister, ModelPage
from mgw.dialects.paging import read_list

_ENCODER: Final = Encoder()
_DECODER: Final = Decoder(list[str])


def render_list(entries: Sequence[CatalogEntry], query: Mapping[str, str]) -> bytes:
    return _ENCODER.encode([entry.id for entry in entries])


def render_entry(entry: CatalogEntry) -> bytes:
    return _ENCODER.encode(entry.id)


def _parse_page(body: bytes) -> ModelPage:
    return ModelPage([ListedModel(name) for name in read_list(_DECODER, body)])


LISTER: Final = ModelLister(lambda size, page: "", _parse_page)
