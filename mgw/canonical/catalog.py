"""What the gateway offers, before any dialect's shape (specification 2.4)."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct


class CatalogEntry(Struct, frozen=True):
    """One model or alias of the catalog.

    ``capabilities`` holds a boolean for each of ``chat``, ``image_gen``, ``video_gen``, ``audio_speech``,
    ``audio_transcribe`` and ``realtime``.  ``created`` counts Unix seconds.
    """

    id: str
    capabilities: Mapping[str, bool]
    created: int
    owned_by: str
