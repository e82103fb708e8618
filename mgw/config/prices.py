"""Prices of models: the settings of ``prices``, and of a price file."""

from __future__ import annotations

from decimal import Decimal
from enum import StrEnum
from typing import Annotated, Final

from pydantic import ConfigDict, Field, PlainValidator, WithJsonSchema

from mgw.config.environment import LoadContext
from mgw.config.field_types import ModelPattern, Name, OneOf, Text
from mgw.config.problems import Path
from mgw.config.settings_base import Documentation, ListOf, Omittable, Settings, set_keys, setting, wrong_type

MAX_PRICE: Final = 1_000_000
DECIMALS: Final = 9
_SMALLEST: Final = Decimal(1).scaleb(-DECIMALS)
_EXPECTED: Final = f"a price in US dollars from 0 to {MAX_PRICE}, with at most {DECIMALS} decimals"
PARTS: Final = (("cache_read", "input"), ("cache_write", "input"), ("reasoning", "output"))
"""Prices of a part of the tokens, and the price of the others."""
_ENOUGH: Final = ("input", "output", "per_image", "per_minute", "per_million_characters")
"""Prices of which a row needs one."""


def _price(value: object) -> Decimal:
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= MAX_PRICE:
        price = Decimal(repr(value))  # as it is written: no float has more digits than its repr
        if price == price.quantize(_SMALLEST):
            return price
    raise wrong_type(_EXPECTED)


Price = Annotated[
    Decimal,
    PlainValidator(_price),
    WithJsonSchema({"type": "number", "minimum": 0, "maximum": MAX_PRICE}),
]


class PriceRowSettings(Settings):
    """Prices of the models that match a pattern, in US dollars."""

    model_config = ConfigDict(
        json_schema_extra={
            "required": ["model"],
            "anyOf": [{"required": [price]} for price in _ENOUGH],
            "dependentRequired": {part: [whole] for part, whole in PARTS},
        }
    )

    model: ModelPattern = Field(
        default=None,
        validate_default=True,
        json_schema_extra=Documentation(
            "Pattern for the model ids that are sent to the provider",
            "``*`` matches any characters, ``?`` one character, ``[...]`` one of these. Case does not "
            "matter, nor does a leading ``models/``.",
        ),
    )
    provider: Omittable[Name] = setting("Provider that the row is for; any provider if absent")
    input: Omittable[Price] = setting("Price per million input tokens")
    output: Omittable[Price] = setting("Price per million output tokens")
    cache_read: Omittable[Price] = setting(
        "Price per million input tokens that are read from the cache", shown="the price of ``input``"
    )
    cache_write: Omittable[Price] = setting(
        "Price per million input tokens that are written to the cache", shown="the price of ``input``"
    )
    reasoning: Omittable[Price] = setting(
        "Price per million output tokens that are reasoning", shown="the price of ``output``"
    )
    per_image: Omittable[Price] = setting("Price per generated image")
    per_minute: Omittable[Price] = setting("Price per minute of transcribed audio or of a realtime session")
    per_million_characters: Omittable[Price] = setting("Price per million characters of text that is spoken")


class PriceFile(Settings):
    """A file of prices."""

    rows: ListOf[PriceRowSettings] | None = setting("The rows; the first one that fits a model counts")


class Unpriced(StrEnum):
    """What happens to requests whose cost nobody can know, of clients under a limit on money."""

    REFUSE = "refuse"
    ALLOW = "allow"


UnpricedName = Annotated[Unpriced, OneOf()]


class PricesSettings(Settings):
    """Prices of models, for ``cost_usd`` in usage events."""

    model_config = ConfigDict(json_schema_extra={"oneOf": [{"required": ["file"]}, {"required": ["rows"]}]})

    file: Omittable[Text] = setting(
        "YAML file with ``rows``; it is read again on SIGHUP",
        "``etc/prices.example.yaml`` is an example. Cannot be combined with ``rows``.",
    )
    rows: ListOf[PriceRowSettings] = setting(
        "Prices by model; the first row that matches the model and the provider applies", default=()
    )
    unpriced: UnpricedName = setting(
        "What happens to requests with an unknown cost if their client is under a limit on ``usd``",
        "``refuse``: requests for a model without a price get a 403, and so do requests that start work at a "
        "cost that no response reports. ``allow``: they cost what the response says, or nothing.",
        default=Unpriced.REFUSE,
    )


def check_prices(prices: PricesSettings, context: LoadContext) -> None:
    """Note what is wrong with ``prices``."""
    report, here = context.report, ("prices",)
    stated = {"file", "rows"} & set_keys(prices)
    if len(stated) == 2:
        report.add((*here, "rows"), "file is also set: keep only one of them")
    elif not stated and not report.has_problem_below(here):
        report.add(here, "expected either file or rows")
    check_rows(prices.rows, (*here, "rows"), context)


def check_rows(rows: tuple[PriceRowSettings, ...], path: Path, context: LoadContext) -> None:
    """Note what is wrong with the rows of a list."""
    for position, row in enumerate(rows):
        here = (*path, position)
        if row.provider is not None:
            context.need_provider(row.provider, (*here, "provider"))
        prices = set_keys(row) - {"model", "provider"}
        if not prices:
            context.report.add(here, "a row without a price, expected at least one, such as input and output")
        for part, whole in PARTS:
            if part in prices and whole not in prices:
                context.report.add(
                    (*here, part), f"requires the price of the other tokens: set {whole} as well"
                )
