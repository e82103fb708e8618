"""The prices of ``api.json`` of models.dev.

An object by provider; each has ``models`` by id, and a model has ``cost``: US dollars for a million tokens,
by the names that a row has.  ``tiers`` are costs with ``tier: {type: context, size: N}``, for requests with
more than N input tokens; ``context_over_200k`` is what stood there before, and counts only without ``tiers``.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Final

from mgw.usage.price_import.entry import PricedModel
from mgw.usage.price_import.fitting import fit_to_row
from mgw.usage.price_import.json_document import Json, PriceListError

NAME: Final = "models.dev"
_PRICES: Final = frozenset(
    {"input", "output", "reasoning", "cache_read", "cache_write", "input_audio", "output_audio"}
)
_OLD_TIER: Final = "context_over_200k"
_OLD_THRESHOLD: Final = 200_000


def read_models(document: Mapping[str, Json]) -> list[PricedModel]:
    """Return what the list says of each model that it has a price for.

    :raises PriceListError: it has another shape.
    """
    found: list[PricedModel] = []
    for provider, about in document.items():
        models = about.get("models") if isinstance(about, dict) else None
        if not isinstance(models, dict):
            raise PriceListError(f"not the api.json of models.dev: {provider[:64]!r} has no models")
        for model, facts in models.items():
            cost = facts.get("cost") if isinstance(facts, dict) else None
            if isinstance(cost, dict):
                entry = PricedModel(provider, model, f"{provider}/{model}")
                _add_costs(entry, cost)
                fit_to_row(entry)
                found.append(entry)
    return found


def _add_costs(entry: PricedModel, cost: Mapping[str, Json]) -> None:
    tiers = cost.get("tiers")
    for name, value in cost.items():
        if name == "tiers" or (name == _OLD_TIER and isinstance(tiers, list)):
            continue
        if name == _OLD_TIER and isinstance(value, dict):
            _add_prices(entry, value, _OLD_THRESHOLD)
        else:
            _add_price(entry, name, value, None)
    if tiers is None:
        return
    for tier in tiers if isinstance(tiers, list) else [tiers]:
        threshold = _threshold_of(tier)
        if threshold is None or not isinstance(tier, dict):
            entry.leave_out("tiers", "of another kind")
        else:
            _add_prices(entry, {name: value for name, value in tier.items() if name != "tier"}, threshold)


def _threshold_of(tier: Json) -> int | None:
    about = tier.get("tier") if isinstance(tier, dict) else None
    if not isinstance(about, dict) or about.get("type") != "context":
        return None
    size = about.get("size")
    whole = isinstance(size, Decimal) and 0 <= size <= 2**53 and size == int(size)
    return int(size) if isinstance(size, Decimal) and whole else None


def _add_prices(entry: PricedModel, prices: Mapping[str, Json], above: int) -> None:
    for name, value in prices.items():
        _add_price(entry, name, value, above)


def _add_price(entry: PricedModel, name: str, value: Json, above: int | None) -> None:
    if value is None:
        return
    if name in _PRICES and isinstance(value, Decimal):
        entry.usual.add(name, value, above)
    elif value != 0:
        place = "" if above is None else f"above {above} "
        entry.leave_out(f"{place}{name}", value if isinstance(value, Decimal) else "")
