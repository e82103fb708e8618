"""The cost of an exchange, from the operator's prices and the provider's counts.

All arithmetic is in whole numbers.  A price is a whole number of nanodollars (for a million tokens, for an
image, …), a count is whole as well, so what each part costs is exact in units of :data:`UNITS` to the
nanodollar; the sum is rounded once, half up, to whole nanodollars.  Nothing is ever a float, so a million
events add up to what they cost.

Tokens that were read from or written to the cache are part of the input, and reasoning is part of the output
(contract 7.3): each part has its own price, or else that of the whole.

Whatever a price needs must be known, or there is no cost: an unknown number is not guessed.  A part of the
tokens of which the provider says nothing is none: hosts without a cache do not speak of one.  What a provider
itself names as the price of an answer goes before any row.
"""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Final

from msgspec import Struct

from mgw.canonical.reply import TokenUsage
from mgw.config.prices import PARTS, PriceRowSettings
from mgw.nouns.vocabulary import Modality
from mgw.usage.event import Outcome
from mgw.usage.record import ExchangeLabels, SessionCounts

UNITS: Final = 3_000_000
"""Units to the nanodollar: prices are for a million tokens, and a millisecond is a 60,000th of a minute."""
_PER_TOKEN: Final = 3
_PER_PIECE: Final = UNITS
_PER_MILLISECOND: Final = UNITS // 60_000
_MILLISECONDS_PER_MINUTE: Final = 60_000
_SESSION_DECIMALS: Final = 3
"""Of the minutes in the usage event, from which the cost of a session can be worked out."""
_MODELS: Final = "models/"


class Unpriced(StrEnum):
    """Why an exchange that was answered has no cost."""

    PRICE = "price"
    """No row fits, or the row has no price for this."""
    COUNT = "count"
    """Something that the price needs is unknown."""


class Quantities(Struct, frozen=True):
    """What an exchange took; ``None``: unknown."""

    usage: TokenUsage
    milliseconds: int | None = None
    """Of sound that was transcribed, or of a session."""
    images: int | None = None
    characters: int | None = None
    """Of a text that was spoken."""


class PriceRow(Struct, frozen=True):
    """What a model costs, in nanodollars; ``None``: not stated."""

    match: str
    provider: str | None = None
    input: int | None = None
    """Of a million tokens, as the next four."""
    output: int | None = None
    cache_read: int | None = None
    """``None``, as for the next two: the same as the other tokens."""
    cache_write: int | None = None
    reasoning: int | None = None
    per_image: int | None = None
    per_minute: int | None = None
    per_million_characters: int | None = None

    def fits(self, provider: str, model: str) -> bool:
        """Whether the row is for a model of a provider.

        :param model: in lower case.
        """
        return self.provider in (None, provider) and fnmatchcase(model, self.match)

    def has_price_for(self, modality: Modality) -> bool:
        """Whether anything of the row applies to exchanges of this kind."""
        return not (self.input is self.output is None) or self._price_of_medium(modality) is not None

    def exact_cost(self, modality: Modality, taken: Quantities) -> int | None:
        """Return the cost in units (see :data:`UNITS`); ``None`` where what it needs is unknown."""
        total = 0
        if not (self.input is self.output is None):
            usage = taken.usage
            cost_in = _cost_of_tokens(
                usage.tokens_in,
                self.input,
                usage.cache_read,
                self.cache_read,
                usage.cache_write,
                self.cache_write,
            )
            cost_out = _cost_of_tokens(usage.tokens_out, self.output, usage.reasoning, self.reasoning)
            if cost_in is None or cost_out is None:
                return None
            total = cost_in + cost_out
        price = self._price_of_medium(modality)
        if not price:
            return total
        count = _count_of_medium(modality, taken)
        return None if count is None else total + price * count

    def _price_of_medium(self, modality: Modality) -> int | None:
        if modality is Modality.IMAGE_GEN:
            return self.per_image
        if modality is Modality.AUDIO_SPEECH:
            return self.per_million_characters
        return self.per_minute if modality in _BY_THE_MINUTE else None


_BY_THE_MINUTE: Final = frozenset({Modality.AUDIO_TRANSCRIBE, Modality.REALTIME})


def round_to_nanodollars(units: int) -> int:
    """Return the nearest whole number of nanodollars, half up."""
    return (2 * units + UNITS) // (2 * UNITS)


class PriceTable:
    """The rows of one configuration, in the operator's order."""

    def __init__(self, rows: Iterable[PriceRowSettings]) -> None:
        self._rows = tuple(map(_row_of, rows))

    def __len__(self) -> int:
        """Return how many rows there are."""
        return len(self._rows)

    def row(self, provider: str, model: str) -> PriceRow | None:
        """Return the first row that fits.

        :param model: as it is sent to the provider.
        """
        name = model.lower().removeprefix(_MODELS)
        return next((row for row in self._rows if row.fits(provider, name)), None)

    def charge(
        self,
        labels: ExchangeLabels,
        outcome: Outcome,
        usage: TokenUsage,
        session: SessionCounts | None,
        characters: int | None,
    ) -> tuple[int | None, Unpriced | None]:
        """Return what an exchange costs in nanodollars, or why that is unknown.

        Neither is returned for what costs nothing that could be said: requests that were refused, failed or
        broke off, since what is counted until then is not final (Anthropic's first event already has a
        count of the output), and requests that ask no model.  A session is charged however it ended: each of
        its counts is final.
        """
        if labels.provider is None or labels.modality == _PLATFORM:
            return None, None
        if session is None and outcome is not Outcome.OK:
            return None, None
        billed = usage.billed
        if billed is not None and billed.nanodollars is not None:
            return billed.nanodollars, None
        kept = labels.price
        if kept is None or kept.table is not self:
            labels.price = kept = self._price_of(labels)
        if kept.row is None:
            return None, Unpriced.PRICE
        text = kept.modality is _TEXT
        taken = Quantities(usage) if text else _quantities(usage, session, characters)
        units = kept.row.exact_cost(kept.modality, taken)
        return (None, Unpriced.COUNT) if units is None else (round_to_nanodollars(units), None)

    def _price_of(self, labels: ExchangeLabels) -> LabelPrice:
        provider, model, modality = labels.provider, labels.upstream_model, Modality(labels.modality)
        row = None if provider is None or model is None else self.row(provider, model)
        return LabelPrice(self, modality, row if row is not None and row.has_price_for(modality) else None)


class LabelPrice(Struct, frozen=True):
    """What the exchanges that share labels cost; the labels keep it."""

    table: PriceTable
    modality: Modality
    row: PriceRow | None
    """``None``: nobody has said it."""


_TEXT: Final = Modality.TEXT
_PLATFORM: Final = Modality.PLATFORM.value


def _row_of(row: PriceRowSettings) -> PriceRow:
    prices = {
        name: int(price.scaleb(9))
        for name, price in row
        if isinstance(price, Decimal)  # what is left are the names
    }
    for part, whole in PARTS:  # what costs the same needs no split
        if part in prices and prices[part] == prices[whole]:
            del prices[part]
    return PriceRow(row.model, row.provider, **prices)


def _quantities(usage: TokenUsage, session: SessionCounts | None, characters: int | None) -> Quantities:
    billed = usage.billed
    images = milliseconds = None
    if billed is not None:
        images, milliseconds = billed.images, billed.milliseconds
    if session is not None and session.minutes is not None:
        milliseconds = round(round(session.minutes, _SESSION_DECIMALS) * _MILLISECONDS_PER_MINUTE)
    return Quantities(usage, milliseconds, images, characters)


def _count_of_medium(modality: Modality, taken: Quantities) -> int | None:
    """Return how much there was, times the units that one of it has for each nanodollar of the price."""
    if modality is Modality.IMAGE_GEN:
        return None if taken.images is None else taken.images * _PER_PIECE
    if modality is Modality.AUDIO_SPEECH:
        return None if taken.characters is None else taken.characters * _PER_TOKEN
    return None if taken.milliseconds is None else taken.milliseconds * _PER_MILLISECOND


def _cost_of_tokens(
    whole: int | None,
    price: int | None,
    one: int | None,
    price_of_one: int | None,
    other: int | None = None,
    price_of_other: int | None = None,
) -> int | None:
    """Return what tokens of one direction cost, in units; ``None`` where that is unknown.

    :param one: how many of them have a price of their own, if that is stated; ``other`` likewise.
    """
    if price is None:  # not sold by the token, so there must be none
        return None if whole else 0
    if whole is None:
        return None if price or price_of_one or price_of_other else 0
    rest, cost = whole, 0
    if price_of_one is not None and one:
        rest -= one
        cost += one * price_of_one
    if price_of_other is not None and other:
        rest -= other
        cost += other * price_of_other
    if rest < 0:  # the parts are more than the whole: one of the counts is wrong
        return None
    return (cost + rest * price) * _PER_TOKEN
