"""The prices of images, sound and spoken text in LiteLLM's price list.

A model that is sold by the token states these as well, as what its tokens come to on average.  A row would
charge both, so they have no place there.
"""

from __future__ import annotations

from decimal import Decimal
from types import MappingProxyType
from typing import Final, NamedTuple

from mgw.usage.price_import.entry import EXACT, PricedModel
from mgw.usage.price_import.json_document import Json


class _Medium(NamedTuple):
    """A price of a medium."""

    price: str
    """Its name in a row."""
    names: tuple[str, ...]
    """Its names in the list; the first one that costs something counts."""
    units: Decimal
    """How many of the list's units the row's has."""
    tokens: tuple[str, ...]
    """Prices of a row; where one of them costs something, the model is sold by the token."""


_ANSWER: Final = ("output", "output_audio", "output_image")
_TOKENS: Final = (*_ANSWER, "input", "input_audio", "input_image")
_IMAGES: Final = _Medium("per_image", ("output_cost_per_image", "input_cost_per_image"), Decimal(1), _ANSWER)
_MINUTES: Final = _Medium(
    "per_minute", ("output_cost_per_second", "input_cost_per_second"), Decimal(60), _TOKENS
)
_TEXT: Final = _Medium("per_million_characters", ("input_cost_per_character",), Decimal(1_000_000), _TOKENS)
_BY_MODE: Final = MappingProxyType(
    {
        "image_generation": _IMAGES,
        "image_edit": _IMAGES,
        "audio_transcription": _MINUTES,
        "realtime": _MINUTES,
        "audio_speech": _TEXT,
    }
)


def add_media_prices(entry: PricedModel, rest: dict[str, Json]) -> dict[str, Json]:
    """Take the price of a medium, if the model's mode has one; return what the entry says besides."""
    mode = rest.get("mode")
    medium = _BY_MODE.get(mode) if isinstance(mode, str) else None
    if medium is None or any(entry.usual.prices.get(name) for name in medium.tokens):
        return rest
    stated = {name: price for name in medium.names if isinstance(price := rest.get(name), Decimal)}
    if not stated:
        return rest
    price = next(filter(None, stated.values()), Decimal(0))
    entry.usual.prices[medium.price] = EXACT.multiply(price, medium.units)
    return {name: value for name, value in rest.items() if name not in stated or value != price}
