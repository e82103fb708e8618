"""Prices of models: the settings of ``prices``, and of a price file."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date
from decimal import Decimal
from enum import StrEnum
from typing import Annotated, Final

from pydantic import ConfigDict, Field, PlainValidator, WithJsonSchema

from mgw.config.environment import LoadContext
from mgw.config.field_types import ModelPattern, Name, OneOf, Text
from mgw.config.problems import Path
from mgw.config.settings_base import (
    Documentation,
    EmptyIfNull,
    ListOf,
    Omittable,
    Settings,
    expect,
    parse_with,
    required,
    set_keys,
    setting,
    wrong_type,
)

MAX_ROWS: Final = 20_000
"""Rows of a file of prices."""
MAX_PRICE: Final = 1_000_000
MAX_FACTOR: Final = 100
DECIMALS: Final = 9
FACTOR_DECIMALS: Final = 4
_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_SMALLEST: Final = Decimal(1).scaleb(-DECIMALS)
_SMALLEST_FACTOR: Final = Decimal(1).scaleb(-FACTOR_DECIMALS)
_EXPECTED: Final = f"a price in US dollars from 0 to {MAX_PRICE}, with at most {DECIMALS} decimals"
_EXPECTED_FACTOR: Final = f"a number above 0, at most {MAX_FACTOR}, with at most {FACTOR_DECIMALS} decimals"
PARTS: Final = (
    *(("cache_read", "input"), ("cache_write", "input"), ("reasoning", "output")),
    *(("cache_write_1h", "input"), ("cache_write_12h", "input")),
    *(("input_audio", "input"), ("output_audio", "output"), ("cache_read_audio", "input")),
    *(("input_image", "input"), ("output_image", "output"), ("cache_read_image", "input")),
)
"""Prices of a part of the tokens, and the price of the others."""
_ENOUGH: Final = ("input", "output", "per_image", "per_minute", "per_million_characters")
"""Prices of which a row needs one."""
ROW_ITSELF: Final = frozenset(
    {"default", "standard", "auto", "on_demand", "unspecified", "traffic_type_unspecified"}
)
"""Service tiers, in lower case, that a row's own prices are for."""


def _price(value: object) -> Decimal:
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= MAX_PRICE:
        price = Decimal(repr(value))  # as it is written: no float has more digits than its repr
        if price == price.quantize(_SMALLEST):
            return price
    raise wrong_type(_EXPECTED)


def _factor(value: object) -> Decimal:
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= MAX_FACTOR:
        factor = Decimal(repr(value))
        if factor == factor.quantize(_SMALLEST_FACTOR):
            return factor
    raise wrong_type(_EXPECTED_FACTOR)


def _date(text: str) -> date:
    try:
        if _DATE.fullmatch(text):  # ISO 8601 has weeks as well
            return date.fromisoformat(text)
    except ValueError:
        pass
    raise ValueError("expected a date such as 2027-03-31")


Price = Annotated[
    Decimal,
    PlainValidator(_price),
    WithJsonSchema({"type": "number", "minimum": 0, "maximum": MAX_PRICE}),
]
Factor = Annotated[
    Decimal,
    PlainValidator(_factor),
    WithJsonSchema({"type": "number", "exclusiveMinimum": 0, "maximum": MAX_FACTOR}),
]
Day = Annotated[
    date,
    parse_with(_date, "a date such as 2027-03-31", date),
    WithJsonSchema({"type": "string", "format": "date"}),
]
Threshold = Annotated[int, Field(ge=0, le=2**53), expect("a whole number of tokens, 0 or more")]


class PriceSettings(Settings):
    """Prices of requests, in US dollars."""

    input: Omittable[Price] = setting("Price per million input tokens")
    output: Omittable[Price] = setting("Price per million output tokens")
    cache_read: Omittable[Price] = setting(
        "Price per million input tokens that are read from the cache", shown="the price of ``input``"
    )
    cache_write: Omittable[Price] = setting(
        "Price per million input tokens that are written to the cache", shown="the price of ``input``"
    )
    cache_write_1h: Omittable[Price] = setting(
        "Price per million input tokens that are written to the cache for an hour",
        shown="the price of ``cache_write``",
    )
    cache_write_12h: Omittable[Price] = setting(
        "Price per million input tokens that are written to the cache for twelve hours",
        shown="the price of ``cache_write``",
    )
    reasoning: Omittable[Price] = setting(
        "Price per million output tokens that are reasoning", shown="the price of ``output``"
    )
    input_audio: Omittable[Price] = setting(
        "Price per million input tokens that are audio", shown="the price of ``input``"
    )
    output_audio: Omittable[Price] = setting(
        "Price per million output tokens that are audio", shown="the price of ``output``"
    )
    cache_read_audio: Omittable[Price] = setting(
        "Price per million input tokens that are audio and are read from the cache",
        shown="the price of ``cache_read``",
    )
    input_image: Omittable[Price] = setting(
        "Price per million input tokens that are images", shown="the price of ``input``"
    )
    output_image: Omittable[Price] = setting(
        "Price per million output tokens that are images", shown="the price of ``output``"
    )
    cache_read_image: Omittable[Price] = setting(
        "Price per million input tokens that are images and are read from the cache",
        shown="the price of ``cache_read``",
    )
    per_search: Omittable[Price] = setting("Price per web search")
    per_image: Omittable[Price] = setting("Price per generated image")
    per_minute: Omittable[Price] = setting("Price per minute of transcribed audio or of a realtime session")
    per_million_characters: Omittable[Price] = setting("Price per million characters of text that is spoken")


class PriceTierSettings(PriceSettings):
    """Prices of requests with many input tokens."""

    model_config = ConfigDict(json_schema_extra={"required": ["above"]})

    above: Threshold | None = required(
        "The number of input tokens, with those of the cache, above which the whole request has these prices"
    )


class ServiceTierSettings(PriceSettings):
    """Prices of requests that a service tier serves."""

    tiers: ListOf[PriceTierSettings] = setting("Prices by the number of input tokens", default=())


class _PricedModels(Settings):
    """The models that prices are for."""

    model_config = ConfigDict(json_schema_extra={"required": ["model"]})

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


class PriceRowSettings(PriceSettings, _PricedModels):
    """Prices of the models that match a pattern, in US dollars."""

    model_config = ConfigDict(
        json_schema_extra={
            "required": ["model"],
            "anyOf": [{"required": [price]} for price in _ENOUGH],
            "dependentRequired": {part: [whole] for part, whole in PARTS},
        }
    )

    valid_from: Omittable[Day] = setting("First day (UTC) of the requests that the row is for")
    valid_until: Omittable[Day] = setting("Last day (UTC) of the requests that the row is for")
    tiers: ListOf[PriceTierSettings] = setting(
        "Prices by the number of input tokens",
        "Each has ``above``, a number of tokens, and prices; the highest that is passed applies to the whole "
        "request. What it does not state is the row's.",
        default=(),
    )
    service_tiers: EmptyIfNull[dict[str, ServiceTierSettings]] = setting(
        "Prices by the service tier that served the request, in lower case",
        "Each has prices and ``tiers`` of its own; what it does not state is the row's.",
        default={},
    )
    inference_geo: EmptyIfNull[dict[str, Factor]] = setting(
        "Factor for the price of all tokens, by the place where the model ran",
        "It is compared with ``usage.inference_geo`` of Anthropic's responses.",
        default={},
    )


class PriceFile(Settings):
    """A file of prices."""

    rows: ListOf[PriceRowSettings] | None = setting("The rows; the first one that fits a model counts")


class UnpricedRule(StrEnum):
    """What happens to requests whose cost nobody can know, of clients under a limit on money."""

    REFUSE = "refuse"
    ALLOW = "allow"


UnpricedName = Annotated[UnpricedRule, OneOf()]


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
        default=UnpricedRule.REFUSE,
    )


def check_prices(prices: PricesSettings, context: LoadContext) -> None:
    """Note what is wrong with ``prices``."""
    report, here = context.report, ("prices",)
    stated = {"file", "rows"} & set_keys(prices)
    if len(stated) == 2:
        report.add((*here, "rows"), "file is also set: keep only one of them")
    elif not stated and not report.has_problem_below(here):
        report.add(here, "expected either file or rows")
    for position, row in enumerate(prices.rows):
        check_row(row, (*here, "rows", position), context)


def check_row(row: PriceRowSettings, path: Path, context: LoadContext) -> None:
    """Note what is wrong with a row."""
    if row.provider is not None:
        context.need_provider(row.provider, (*path, "provider"))
    prices = _prices_of(row)
    if not prices - {"per_search"}:
        context.report.add(path, "a row without a price, expected at least one, such as input and output")
    _check_parts(prices, prices, path, context)
    if row.valid_from and row.valid_until and row.valid_until < row.valid_from:
        context.report.add((*path, "valid_until"), f"earlier than valid_from, which is {row.valid_from}")
    _check_tiers(row.tiers, prices, (*path, "tiers"), context)
    _check_service_tiers(row, prices, (*path, "service_tiers"), context)


def _check_service_tiers(
    row: PriceRowSettings, prices: frozenset[str], path: Path, context: LoadContext
) -> None:
    known: set[str] = set()
    for name, tier in row.service_tiers.items():
        here, spelled = (*path, name), name.lower()
        if spelled in ROW_ITSELF:
            context.report.add(here, "these requests have the prices of the row itself: state them there")
        if spelled in known:
            context.report.add(here, "stated twice, in upper and in lower case")
        known.add(spelled)
        own = _prices_of(tier)
        _check_parts(own, prices | own, here, context)
        _check_tiers(tier.tiers, prices | own, (*here, "tiers"), context)


def _check_tiers(
    tiers: Sequence[PriceTierSettings], prices: frozenset[str], path: Path, context: LoadContext
) -> None:
    """Note what is wrong with prices by the number of tokens.

    :param prices: those that are stated where a tier states none.
    """
    known: set[int] = set()
    for position, tier in enumerate(tiers):
        here = (*path, position)
        own = _prices_of(tier)
        if tier.above is None:
            context.report.add((*here, "above"), "missing, expected a whole number of tokens, 0 or more")
        elif tier.above in known:
            context.report.add((*here, "above"), f"there are prices above {tier.above} already")
        else:
            known.add(tier.above)
        if not own:
            context.report.add(
                here, "a tier without a price, expected at least one, such as input and output"
            )
        _check_parts(own, prices | own, here, context)


def _check_parts(own: frozenset[str], stated: frozenset[str], path: Path, context: LoadContext) -> None:
    for part, whole in PARTS:
        if part in own and whole not in stated:
            context.report.add((*path, part), f"requires the price of the other tokens: set {whole} as well")


def _prices_of(block: PriceSettings) -> frozenset[str]:
    """Return the names of the prices that a block states."""
    return set_keys(block) & PriceSettings.model_fields.keys()
