"""The arithmetic of prices: which of a row's apply to an exchange, and what it comes to.

All arithmetic is in whole numbers.  A price is a whole number of nanodollars, a count is whole as well, and a
factor is a whole number of ten-thousandths, so what each part costs is exact in units of :data:`UNITS` to the
nanodollar; the sum is rounded once, half up, to whole nanodollars.  Nothing is ever a float, so a million
events add up to what they cost.

Tokens that were read from or written to the cache, audio and images are part of the input; reasoning, audio
and images are part of the output (contract 7.3).  Each part has its own price, or else that of the whole::

    input ─┬─ from the cache ─┬─ audio    cache_read_audio, else cache_read, else as other audio
           │                  ├─ images   cache_read_image, else cache_read, else as other images
           │                  └─ others   cache_read, else input
           ├─ to the cache ───┬─ 1 h      cache_write_1h, else cache_write, else input
           │                  ├─ 12 h     cache_write_12h, else cache_write, else input
           │                  └─ others   cache_write, else input
           ├─ audio, images               input_audio, input_image, else input
           └─ others                      input

Cached tokens of which nobody says what they are count as text.  Only what has a price of its own is taken
out of the whole, so a count that no price needs may be wrong.

Whatever a price needs must be known, or there is no cost: an unknown number is not guessed.  A part of the
tokens of which the provider says nothing is none: hosts without a cache do not speak of one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from msgspec import Struct

from mgw.canonical.reply import TokenUsage, UsageParts
from mgw.config.prices import ROW_ITSELF
from mgw.nouns.vocabulary import Modality
from mgw.usage.price_row import PriceRow, Prices, PriceTier, Quantities, Unpriced

ONE: Final = 10_000
"""A factor of one."""
UNITS: Final = 3_000_000 * ONE
"""Units to the nanodollar: prices are for a million tokens, and a millisecond is a 60,000th of a minute."""
_PER_TOKEN: Final = 3
"""Units that a token has for each nanodollar of its price, and for each ten-thousandth of a factor."""
_PER_PIECE: Final = UNITS
_PER_CHARACTER: Final = _PER_TOKEN * ONE
_PER_MILLISECOND: Final = UNITS // 60_000
_OTHER_NAMES: Final = MappingProxyType(
    {
        "on_demand_priority": "priority",
        "on_demand_flex": "flex",
        "on_demand_offpeak": "offpeak",
        "provisioned_throughput": "provisioned",
    }
)
"""What a row calls the service tiers of Vertex (google-genai's ``TrafficType``), in lower case."""
_NO_PARTS: Final = UsageParts()
_UNUSUAL: Final = frozenset(
    (
        *("cache_write_1h", "cache_write_12h", "input_audio", "output_audio", "cache_read_audio"),
        *("input_image", "output_image", "cache_read_image"),
    )
)
"""Prices of parts that few models have."""


class Rates(Struct, frozen=True):
    """The price of each part of an exchange, in nanodollars; every part of what has a price has one."""

    stated: Prices
    input: int = 0
    cached: int = 0
    cached_audio: int = 0
    cached_image: int = 0
    audio: int = 0
    image: int = 0
    written: int = 0
    written_1h: int = 0
    written_12h: int = 0
    output: int = 0
    reasoning: int = 0
    output_audio: int = 0
    output_image: int = 0
    is_usual: bool = False
    """Whether both directions are sold by the token, and nothing but cached tokens, written ones and
    reasoning has a price of its own, as with most models: these take the shorter way."""

    @classmethod
    def of(cls, stated: Prices) -> Rates:
        """Return the price of each part."""
        base, out = stated.input or 0, stated.output or 0
        named = {name for name in stated.__struct_fields__ if getattr(stated, name) is not None}
        audio, image = _first(stated.input_audio, base), _first(stated.input_image, base)
        written = _first(stated.cache_write, base)
        return cls(
            stated,
            input=base,
            cached=_first(stated.cache_read, base),
            cached_audio=_first(stated.cache_read_audio, stated.cache_read, audio),
            cached_image=_first(stated.cache_read_image, stated.cache_read, image),
            audio=audio,
            image=image,
            written=written,
            written_1h=_first(stated.cache_write_1h, written),
            written_12h=_first(stated.cache_write_12h, written),
            output=out,
            reasoning=_first(stated.reasoning, out),
            output_audio=_first(stated.output_audio, out),
            output_image=_first(stated.output_image, out),
            is_usual={"input", "output"} <= named and named.isdisjoint(_UNUSUAL),
        )

    def cost_of_tokens(self, usage: TokenUsage) -> int | None:
        """Return what the tokens cost in nanodollars, times a million; ``None`` where that is unknown."""
        tokens_in, tokens_out, stated = usage.tokens_in, usage.tokens_out, self.stated
        if self.is_usual and tokens_in is not None and tokens_out is not None:
            cached = usage.cache_read or 0 if self.cached != self.input else 0
            written = usage.cache_write or 0 if self.written != self.input else 0
            reasoning = usage.reasoning or 0 if self.reasoning != self.output else 0
            rest, visible = tokens_in - cached - written, tokens_out - reasoning
            if rest < 0 or visible < 0:
                return None
            cost = rest * self.input + cached * self.cached + written * self.written
            return cost + visible * self.output + reasoning * self.reasoning
        if stated.input is None and tokens_in:  # not sold by the token, so there must be none
            return None
        if stated.output is None and tokens_out:
            return None
        parts = usage.parts or _NO_PARTS
        cost_in: int | None = 0
        if stated.input is not None and not (tokens_in is None and self.has_free_input):
            cost_in = _sum(tokens_in, self.input, self._split_input(usage, parts))
        cost_out: int | None = 0
        if stated.output is not None and not (tokens_out is None and self.has_free_output):
            cost_out = _sum(tokens_out, self.output, self._split_output(usage, parts))
        return None if cost_in is None or cost_out is None else cost_in + cost_out

    @property
    def has_free_input(self) -> bool:
        """Whether no token of the input costs anything."""
        kinds = self.input, self.audio, self.image, self.cached, self.cached_audio, self.cached_image
        return not any((*kinds, self.written, self.written_1h, self.written_12h))

    @property
    def has_free_output(self) -> bool:
        """Whether no token of the output costs anything."""
        return not any((self.output, self.reasoning, self.output_audio, self.output_image))

    def _split_input(self, usage: TokenUsage, parts: UsageParts) -> Sequence[tuple[int, int]]:
        """Return how many tokens of the input have a price of their own, and that price."""
        cached = cached_audio = cached_image = audio = image = 0
        if (self.cached, self.cached_audio, self.cached_image) != (self.input, self.audio, self.image):
            cached = usage.cache_read or 0
            if self.cached_audio != self.cached or self.audio != self.input:
                audio = cached_audio = parts.cached_audio or 0
            if self.cached_image != self.cached or self.image != self.input:
                image = cached_image = parts.cached_image or 0
        if self.audio != self.input:
            audio = parts.audio_in or 0
        if self.image != self.input:
            image = parts.image_in or 0
        written = hour = half_day = 0
        if not self.written == self.written_1h == self.written_12h == self.input:
            written = usage.cache_write or 0
            hour = (parts.cache_write_1h or 0) if self.written_1h != self.written else 0
            half_day = (parts.cache_write_12h or 0) if self.written_12h != self.written else 0
        return (
            (cached - cached_audio - cached_image, self.cached),
            (cached_audio, self.cached_audio),
            (cached_image, self.cached_image),
            (audio - cached_audio, self.audio),
            (image - cached_image, self.image),
            (written - hour - half_day, self.written),
            (hour, self.written_1h),
            (half_day, self.written_12h),
        )

    def _split_output(self, usage: TokenUsage, parts: UsageParts) -> Sequence[tuple[int, int]]:
        """Return how many tokens of the output have a price of their own, and that price."""
        return (
            ((usage.reasoning or 0) if self.reasoning != self.output else 0, self.reasoning),
            ((parts.audio_out or 0) if self.output_audio != self.output else 0, self.output_audio),
            ((parts.image_out or 0) if self.output_image != self.output else 0, self.output_image),
        )


class ChosenRates(Struct, frozen=True):
    """The rates that apply, and what of a row's tiers they are."""

    rates: Rates
    name: str | None = None
    """As in the event's ``price_tier``; ``None``: the row itself."""


class _Steps(Struct, frozen=True):
    """Rates by the number of input tokens."""

    base: ChosenRates
    above: tuple[tuple[int, ChosenRates], ...] = ()
    """The rates above a number of tokens, from the highest number to the lowest."""

    @classmethod
    def of(cls, base: Prices, tiers: Sequence[PriceTier], name: str = "") -> _Steps:
        steps = [
            (tier.above, ChosenRates(Rates.of(tier.prices.over(base)), f"{name} above {tier.above}".lstrip()))
            for tier in sorted(tiers, key=_threshold_of, reverse=True)
        ]
        return cls(ChosenRates(Rates.of(base), name or None), tuple(steps))

    def rates_for(self, tokens_in: int) -> ChosenRates:
        for above, rates in self.above:
            if tokens_in > above:
                return rates
        return self.base


class Tariff(Struct, frozen=True):
    """A row, ready for calculations."""

    row: PriceRow
    usual: _Steps
    by_service: Mapping[str, _Steps]
    fixed: Rates | None = None
    """The rates of every answer in text, where nothing but its tokens decides what it costs."""

    @classmethod
    def of(cls, row: PriceRow) -> Tariff:
        """Return a row's tariff."""
        services = {
            name: _Steps.of(tier.prices.over(row.prices), tier.tiers, name)
            for name, tier in (row.service_tiers or {}).items()
        }
        usual = _Steps.of(row.prices, row.tiers)
        varies = row.tiers or services or row.inference_geo or row.prices.per_search
        return cls(row, usual, services, None if varies else usual.base.rates)

    def rates_for(self, usage: TokenUsage) -> ChosenRates | Unpriced:
        """Return the rates for an answer of so many tokens, by the service tier that served it."""
        steps = self.usual
        if self.by_service and usage.service_tier is not None:
            found = self._steps_of_service(usage.service_tier)
            if found is None:
                return Unpriced.TIER
            steps = found
        usual = self.usual.above
        if not steps.above and not usual:
            return steps.base
        if usage.tokens_in is None:
            return Unpriced.COUNT
        if steps.above or usage.tokens_in <= usual[-1][0]:
            return steps.rates_for(usage.tokens_in)
        return Unpriced.TIER  # the row has prices for so long an input, and the service tier has none

    def _steps_of_service(self, name: str) -> _Steps | None:
        name = name.lower()
        found = self.by_service.get(name) or self.by_service.get(_OTHER_NAMES.get(name, ""))
        return self.usual if found is None and name in ROW_ITSELF else found

    def cost_of_answer(self, usage: TokenUsage, rates: Rates) -> int | None:
        """Return what an answer costs in units, but for its medium; ``None`` where that is unknown."""
        stated, total = rates.stated, 0
        if not (stated.input is stated.output is None):
            tokens = rates.cost_of_tokens(usage)
            if tokens is None:
                return None
            total = tokens * _PER_TOKEN * self._factor(usage)
        if stated.per_search and usage.parts is not None:
            total += stated.per_search * (usage.parts.searches or 0) * _PER_PIECE
        return total

    def _factor(self, usage: TokenUsage) -> int:
        if not self.row.inference_geo or usage.parts is None or usage.parts.inference_geo is None:
            return ONE
        return self.row.inference_geo.get(usage.parts.inference_geo, ONE)


class LabelPrice(Struct, frozen=True):
    """What the exchanges that share labels cost; the labels keep it."""

    rows: tuple[PriceRow, ...]
    """All rows of the table that it was looked up in: another table has others, and is asked again."""
    modality: Modality
    tariff: Tariff | None
    """That of the row that fits; ``None``: no row has a price for these exchanges."""
    first_day: int
    """The days of UTC since 1970-01-01 from which and until which that is so."""
    last_day: int


def cost_of_medium(prices: Prices, modality: Modality, taken: Quantities) -> int | None:
    """Return what images, minutes or characters cost, in units; ``None`` where that is unknown."""
    price = prices.price_of_medium(modality)
    if not price:
        return 0
    if modality is Modality.IMAGE_GEN:
        return None if taken.images is None else price * taken.images * _PER_PIECE
    if modality is Modality.AUDIO_SPEECH:
        return None if taken.characters is None else price * taken.characters * _PER_CHARACTER
    return None if taken.milliseconds is None else price * taken.milliseconds * _PER_MILLISECOND


def round_to_nanodollars(units: int) -> int:
    """Return the nearest whole number of nanodollars, half up."""
    return (2 * units + UNITS) // (2 * UNITS)


def _first(*prices: int | None) -> int:
    """Return the first price that is stated; the last one is."""
    return next(price for price in prices if price is not None)


def _threshold_of(tier: PriceTier) -> int:
    return tier.above


def _sum(whole: int | None, price: int, split: Sequence[tuple[int, int]]) -> int | None:
    """Return what tokens of one direction cost.

    :param price: that of tokens without a price of their own; ``split`` has the others, and their prices.
    """
    if whole is None:
        return None
    total = 0
    for count, price_of_part in split:
        if count < 0:  # a part of a part is more than that
            return None
        whole -= count
        total += count * price_of_part
    return None if whole < 0 else total + whole * price  # else the parts are more than the whole
