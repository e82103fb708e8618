"""The prices of LiteLLM's ``model_prices_and_context_window.json``.

An object by model.  A price for a token is a number in US dollars under a name that says all: of which
tokens, above how many input tokens of the request, for which service tier::

    cache_read_input_token_cost _above_272k_tokens _priority
    └─ one of _TOKEN_PRICES     └─ else the usual  └─ else the usual

Which of them LiteLLM takes is in its ``llm_cost_calc/utils.py`` (1.110), and rows are made so that they come
to the same: what is not stated above a threshold is as above the one before it, and what a service tier does
not state there is as without a service tier.  A service tier that states nothing above any threshold has no
prices there in a row.  "Above" is "from" for xAI.
"""

from __future__ import annotations

import re
from collections import ChainMap
from collections.abc import Mapping
from decimal import Decimal
from types import MappingProxyType
from typing import Final

from mgw.usage.price_import.entry import EXACT, PricedModel, PriceLevels, Prices
from mgw.usage.price_import.fitting import fit_to_row
from mgw.usage.price_import.json_document import Json, PriceListError, number_in
from mgw.usage.price_import.litellm_media import add_media_prices

NAME: Final = "LiteLLM"
_TOKEN_PRICES: Final = MappingProxyType(
    {
        "input_cost_per_token": "input",
        "output_cost_per_token": "output",
        "cache_read_input_token_cost": "cache_read",
        "cache_creation_input_token_cost": "cache_write",
        "cache_creation_input_token_cost_above_1hr": "cache_write_1h",
        "cache_creation_input_token_cost_above_12hr": "cache_write_12h",
        "output_cost_per_reasoning_token": "reasoning",
        "input_cost_per_audio_token": "input_audio",
        "output_cost_per_audio_token": "output_audio",
        "cache_read_input_audio_token_cost": "cache_read_audio",
        "input_cost_per_image_token": "input_image",
        "output_cost_per_image_token": "output_image",
        "cache_read_input_image_token_cost": "cache_read_image",
    }
)
_SERVICE_TIERS: Final = MappingProxyType(
    {
        "priority": "priority",
        "flex": "flex",
        "batches": "batch",
        "balanced": "balanced",
        "ultrafast": "ultrafast",
    }
)
_TOKEN_PRICE: Final = re.compile(
    rf"({'|'.join(_TOKEN_PRICES)})(?:_above_(\d{{1,12}})(k?)_tokens)?(?:_({'|'.join(_SERVICE_TIERS)}))?"
)
_MILLION: Final = Decimal(1_000_000)
_FROM: Final = frozenset({"xai"})
"""Providers of which the thresholds belong to the higher prices."""
_EXAMPLE: Final = "sample_spec"
_SEARCH: Final = "search_context_cost_per_query"
_USUAL_SEARCH: Final = "search_context_size_medium"
_SAME_AS_CACHE_READ: Final = "input_cost_per_token_cache_hit"
_TIERS: Final = "tiered_pricing"
_FACTORS: Final = "provider_specific_entry"
_FAST: Final = "fast"
_FACTOR_NAME: Final = re.compile(r"[a-z]{2,12}")
_OTHER_PRICES: Final = re.compile(r"cost|_pricing$|_multiplier$|^search_context_size_")
"""What a name has that says something of prices."""
_OTHER_UNITS: Final = re.compile(r"_dbu_")
"""Names of prices that are stated in US dollars as well."""


def read_models(document: Mapping[str, Json]) -> list[PricedModel]:
    """Return what the list says of each model.

    :raises PriceListError: it has another shape.
    """
    found: list[PricedModel] = []
    for key, facts in document.items():
        if not isinstance(facts, dict):
            raise PriceListError(f"not LiteLLM's price list: {key[:64]!r} is not an object")
        alias = facts.get("alias_of")
        target = document.get(alias) if isinstance(alias, str) else facts
        if key == _EXAMPLE or not isinstance(target, dict):
            continue
        provider = target.get("litellm_provider")
        if isinstance(provider, str):
            found.append(_read_model(key, provider, target))
    return found


def _read_model(key: str, provider: str, facts: Mapping[str, Json]) -> PricedModel:
    entry = PricedModel(provider, _model_id(key, provider), key)
    rest: dict[str, Json] = {}
    for name, value in facts.items():
        known = _TOKEN_PRICE.fullmatch(name)
        price = _number(value)
        if known is not None and price is not None:
            _add_token_price(entry, known, price)
        elif value is not None:
            rest[name] = value
    rest = _add_tiers(entry, rest)
    _complete(entry)
    rest = add_media_prices(entry, rest)
    rest = _add_factors(entry, _add_search(entry, rest))
    if _number(rest.get(_SAME_AS_CACHE_READ)) == _number(facts.get("cache_read_input_token_cost")):
        rest.pop(_SAME_AS_CACHE_READ, None)
    _leave_out(entry, rest)
    fit_to_row(entry)
    return entry


def _model_id(key: str, provider: str) -> str:
    """Return a key without its provider before the first slash, ``vertex_ai`` for ``vertex_ai-ai21``."""
    before, slash, model = key.partition("/")
    return model if slash and model and before in (provider, provider.partition("-")[0]) else key


def _number(value: Json) -> Decimal | None:
    return number_in(value) if isinstance(value, str) else value if isinstance(value, Decimal) else None


def _add_token_price(entry: PricedModel, name: re.Match[str], price: Decimal) -> None:
    kind, number, thousand, service = name.groups()
    above = None if number is None else int(number) * (1000 if thousand else 1)
    if above and entry.provider in _FROM:
        above -= 1
    levels = entry.services.setdefault(_SERVICE_TIERS[service], PriceLevels()) if service else entry.usual
    levels.add(_TOKEN_PRICES[kind], EXACT.multiply(price, _MILLION), above)


def _complete(entry: PricedModel) -> None:
    """State what follows from other prices of the entry where it would not in a row."""
    usual = entry.usual
    if usual.prices.get("reasoning") == usual.prices.get("output"):
        usual.prices.pop("reasoning", None)
    for levels in entry.services.values():
        if levels.above:
            levels.above = _accumulate(usual.above, levels.above)
        if "reasoning" in usual.prices.keys() - levels.prices.keys():
            for block in levels.blocks():
                if "output" in block:
                    block["reasoning"] = block["output"]
    usual.above = _accumulate(usual.above)


def _accumulate(*levels: Mapping[int, Prices]) -> dict[int, Prices]:
    """Return the prices above each threshold, with those above lower ones that it does not change.

    :param levels: prices by threshold, of which the last that has one counts.
    """
    found: dict[int, Prices] = {}
    before: Prices = {}
    for number in sorted({number for above in levels for number in above}):
        before = dict(ChainMap(*(above.get(number, {}) for above in reversed(levels)), before))
        found[number] = before
    return found


def _add_tiers(entry: PricedModel, rest: dict[str, Json]) -> dict[str, Json]:
    """Take a table of prices by ranges of input tokens, which goes before all other prices of tokens."""
    table = rest.get(_TIERS)
    ranges = _ranges_of(table) if isinstance(table, list) else None
    if ranges is None:
        return rest
    stated = {name for _, prices in ranges for name in prices}
    for _, prices in ranges:
        for part, whole in (("cache_read", "input"), ("cache_write", "input"), ("reasoning", "output")):
            if whole in prices and part in stated | entry.usual.prices.keys():
                prices.setdefault(part, prices[whole])
    entry.usual.prices |= ranges[0][1]
    entry.usual.above = dict(ranges[1:])
    return {name: value for name, value in rest.items() if name != _TIERS}


def _ranges_of(table: list[Json]) -> list[tuple[int, Prices]] | None:
    """Return the prices above each number of input tokens; ``None``: the ranges leave gaps, or say more."""
    ranges: list[tuple[int, Prices]] = []
    end: Json = Decimal(0)
    for tier in table:
        bounds = tier.get("range") if isinstance(tier, dict) else None
        if not isinstance(tier, dict) or not isinstance(bounds, list) or len(bounds) != 2:
            return None
        prices: Prices = {}
        for name, value in tier.items():
            kind, price = _TOKEN_PRICES.get(name), _number(value)
            if kind is not None and price is not None:
                prices[kind] = EXACT.multiply(price, _MILLION)
            elif name != "range":
                return None
        begin = bounds[0]
        if begin != end or not isinstance(begin, Decimal) or begin != int(begin) or "input" not in prices:
            return None
        ranges.append((int(begin), prices))
        end = bounds[1]
    return ranges or None


def _add_search(entry: PricedModel, rest: dict[str, Json]) -> dict[str, Json]:
    sizes = rest.get(_SEARCH)
    usual = _number(sizes.get(_USUAL_SEARCH)) if isinstance(sizes, dict) else None
    if not isinstance(sizes, dict) or usual is None:
        return rest
    entry.usual.prices["per_search"] = usual
    others = {name: value for name, value in sizes.items() if _number(value) != usual}
    return {name: value for name, value in rest.items() if name != _SEARCH} | others


def _add_factors(entry: PricedModel, rest: dict[str, Json]) -> dict[str, Json]:
    """Take factors by the place where the model ran, and that of the fast mode."""
    factors = rest.get(_FACTORS)
    if not isinstance(factors, dict):
        return rest
    for name, value in factors.items():
        factor = _number(value)
        if factor is None or not _FACTOR_NAME.fullmatch(name):
            continue
        if name == _FAST:
            entry.services[_FAST] = _multiplied(entry.usual, factor)
        elif factor != 1:
            entry.geo[name] = factor
    return rest


def _multiplied(levels: PriceLevels, factor: Decimal) -> PriceLevels:
    def of(prices: Prices) -> Prices:
        return {
            name: EXACT.multiply(price, factor)
            for name, price in prices.items()
            if name in _TOKEN_PRICES.values()
        }

    return PriceLevels(of(levels.prices), {number: of(prices) for number, prices in levels.above.items()})


def _leave_out(entry: PricedModel, rest: Mapping[str, Json]) -> None:
    """Note what else the entry says of prices; what costs nothing needs no place."""
    for name, value in rest.items():
        if not _OTHER_PRICES.search(name) or _OTHER_UNITS.search(name):
            continue
        number = _number(value)
        if number is not None:
            neutral = 1 if name.endswith("_multiplier") else 0
            if number != neutral:
                entry.leave_out(name, number)
        elif not isinstance(value, bool) and value:
            entry.leave_out(name, "")
