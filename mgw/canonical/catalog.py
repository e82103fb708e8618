"""What the gateway offers, and what an upstream lists, before a dialect formats it (contract 4.17)."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct


class ModelMetadata(Struct, frozen=True):
    """What an operator says about a model; ``None``: nothing."""

    display_name: str | None = None
    description: str | None = None
    context_window: int | None = None
    """Tokens of input."""
    max_output: int | None = None
    """Tokens of output."""


class CatalogEntry(Struct, frozen=True):
    """One model or alias of the catalog.

    ``capabilities`` holds a boolean for each of ``chat``, ``image_gen``, ``video_gen``, ``audio_speech``,
    ``audio_transcribe`` and ``realtime``.  ``created`` counts Unix seconds.
    """

    id: str
    capabilities: Mapping[str, bool]
    created: int
    owned_by: str
    display_name: str | None = None
    """The name that the upstream shows to people; ``None``: no other than the id."""
    metadata: ModelMetadata | None = None

    @property
    def shown_name(self) -> str | None:
        """The name that is shown to people, the operator's before the upstream's."""
        said = None if self.metadata is None else self.metadata.display_name
        return said or self.display_name


class ListedModel(Struct, frozen=True):
    """One model of an upstream's own list."""

    id: str
    """The name under which the API is asked for it, without Google's ``models/``."""
    created: int | None = None
    """Unix seconds, where the upstream knows them."""
    display_name: str | None = None
