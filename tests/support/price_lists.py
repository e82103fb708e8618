"""Price lists for tests, in our own words, and what the gateway makes of them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from mgw.config.load import parse_prices
from mgw.config.prices import PriceRowSettings
from mgw.config.settings_base import Settings
from mgw.usage.price_import import litellm, models_dev
from mgw.usage.price_import.entry import PricedModel
from mgw.usage.price_import.json_document import read_document
from mgw.usage.price_import.price_file import write_price_file
from mgw.usage.price_import.selection import ProviderChoice, select

Written = Mapping[str, object]
"""Facts of a model; a price is its JSON text."""


class Number(str):
    """A number as it is to stand in JSON."""

    __slots__ = ()


def json_text(value: object) -> str:
    """Return JSON in which each :class:`Number` stands as it is."""
    if isinstance(value, Number):
        return str(value)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{json.dumps(name)}: {json_text(held)}" for name, held in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(json_text, value)) + "]"
    return json.dumps(value)


def litellm_model(facts: Written, key: str = "m", provider: str = "openai") -> PricedModel:
    """Return what LiteLLM's list says of a model."""
    content = json_text({key: {"litellm_provider": provider, "mode": "chat", **facts}})
    (found,) = litellm.read_models(read_document(content.encode()))
    return found


def models_dev_model(cost: Written, model: str = "m", provider: str = "openai") -> PricedModel:
    """Return what the list of models.dev says of a model."""
    content = json_text({provider: {"models": {model: {"cost": cost}}}})
    (found,) = models_dev.read_models(read_document(content.encode()))
    return found


def rows_of(
    models: Sequence[PricedModel], providers: Sequence[ProviderChoice] = (), patterns: Sequence[str] = ()
) -> tuple[PriceRowSettings, ...]:
    """Return the rows that the gateway reads from the file that is made of models."""
    return parse_prices(file_of(models, providers, patterns), "prices.yaml", None)


def file_of(
    models: Sequence[PricedModel], providers: Sequence[ProviderChoice] = (), patterns: Sequence[str] = ()
) -> str:
    """Return the file that is made of models."""
    return write_price_file(select(models, providers, patterns), ())


def stated(block: Settings) -> dict[str, object]:
    """Return what a row states, with its numbers as text."""
    return {name: _plain(value) for name, value in block if name in block.model_fields_set}


def _plain(value: object) -> object:
    if isinstance(value, Settings):
        return stated(value)
    if isinstance(value, dict):
        return {name: _plain(held) for name, held in value.items()}
    return tuple(map(_plain, value)) if isinstance(value, tuple) else str(value)
