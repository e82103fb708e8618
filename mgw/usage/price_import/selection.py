"""Which models of a price list become rows, for which provider of the configuration, and in which order.

A row without a provider fits any, so those stand last, and a model that several providers of the list sell
at different prices has only one of them there: that under the plain name, else the first provider's.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase

from msgspec import Struct
from msgspec.structs import replace

from mgw.usage.price_import.entry import PricedModel


class ProviderChoice(Struct, frozen=True):
    """A provider of the list, and what it is called in the configuration."""

    theirs: str
    ours: str | None = None
    """``None``: the rows are for any provider."""

    def fits(self, provider: str) -> bool:
        """Whether it means a provider of the list: ``vertex_ai`` also means ``vertex_ai-mistral_models``."""
        return provider == self.theirs or provider.startswith(f"{self.theirs}-")


class ImportedRow(Struct, frozen=True):
    """A row of prices to be written."""

    provider: str | None
    entry: PricedModel


def select(
    models: Iterable[PricedModel], providers: Sequence[ProviderChoice], patterns: Sequence[str]
) -> list[ImportedRow]:
    """Return the rows for the chosen models, sorted by provider and model.

    :param providers: the providers whose models are taken; none: all of them.
    :param patterns: for ids of models, with or without what the list has before them; none: all models.
    """
    matches = [pattern.lower() for pattern in patterns]
    rows: dict[tuple[str | None, str], list[PricedModel]] = {}
    for entry in models:
        names = {entry.model.lower(), entry.key.lower()}
        if matches and not any(fnmatchcase(name, match) for name in names for match in matches):
            continue
        if not entry.has_price and not entry.unplaced:
            continue
        ours = {choice.ours for choice in providers if choice.fits(entry.provider)}
        for provider in ours if providers else (None,):
            rows.setdefault((provider, entry.model.lower()), []).append(entry)
    order = sorted(rows, key=lambda key: (key[0] is None, key[0] or "", key[1]))
    return [ImportedRow(key[0], _first_of(rows[key])) for key in order]


def unknown_providers(models: Iterable[PricedModel], providers: Iterable[ProviderChoice]) -> list[str]:
    """Return the names of providers that the list does not have."""
    known = {entry.provider for entry in models}
    return [choice.theirs for choice in providers if not any(map(choice.fits, known))]


def _first_of(entries: list[PricedModel]) -> PricedModel:
    """Return the entry whose prices count for a model, with a note of the others."""
    first, *others = sorted(
        entries, key=lambda entry: (not entry.has_price, entry.key != entry.model, entry.provider, entry.key)
    )
    differing = [other for other in others if other.has_price and not _same_prices(first, other)]
    if not differing:
        return first
    names = ", ".join(dict.fromkeys(other.provider for other in differing))
    return replace(first, unplaced=[*first.unplaced, f"other prices of {names}"])


def _same_prices(one: PricedModel, other: PricedModel) -> bool:
    return (one.usual, one.services, one.geo) == (other.usual, other.services, other.geo)
