"""What a model costs, and what an amount of it comes to: the values that events, metrics and tables share.

All arithmetic is in whole numbers.  A price is a whole number of nanodollars (for a million tokens, for an
image, …), a count is whole as well, so what each part costs is exact in units of :data:`UNITS` to the
nanodollar; the sum is rounded once, half up, to whole nanodollars.  Nothing is ever a float, so a million
events add up to what they cost.

Tokens that were read from or written to the cache are part of the input, and reasoning is part of the output
(contract 7.3): each part has its own price, or else that of the whole.

Whatever a price needs must be known, or there is no cost: an unknown number is not guessed.  A part of the
tokens of which the provider says nothing is none: hosts without a cache do not speak of one.
"""

from __future__ import annotations

from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Final

from msgspec import Struct

from mgw.canonical.reply import TokenUsage
from mgw.nouns.vocabulary import Modality

UNITS: Final = 3_000_000
"""Units to the nanodollar: prices are for a million tokens, and a millisecond is a 60,000th of a minute."""
_PER_TOKEN: Final = 3
_PER_PIECE: Final = UNITS
_PER_MILLISECOND: Final = UNITS // 60_000


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
    """How long the transcribed sound, or the session, was."""
    images: int | None = None
    characters: int | None = None
    """How long the spoken text was."""


class PriceRow(Struct, frozen=True):
    """What a model costs, in nanodollars; ``None``: not stated."""

    match: str
    provider: str | None = None
    input: int | None = None
    """The price of a million tokens; so are the next four."""
    output: int | None = None
    cache_read: int | None = None
    """``None``: these tokens cost what the rest of the input costs."""
    cache_write: int | None = None
    """``None``: these tokens cost what the rest of the input costs."""
    reasoning: int | None = None
    """``None``: these tokens cost what the rest of the output costs."""
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


class LabelPrice(Struct, frozen=True):
    """What the exchanges that share labels cost; the labels keep it."""

    rows: tuple[PriceRow, ...]
    """All rows of the table that it was looked up in: another table has others, and is asked again."""
    modality: Modality
    row: PriceRow | None
    """The row that fits; ``None``: no row has a price for these exchanges."""


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
