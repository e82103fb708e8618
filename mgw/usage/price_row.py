"""What a model costs, as an operator states it: the values that tables of prices are made of.

A price is a whole number of nanodollars (for a million tokens, for an image, …); what an exchange comes to
is in :mod:`mgw.usage.tariff`.
"""

from __future__ import annotations

from enum import StrEnum
from fnmatch import fnmatchcase

from msgspec import Struct

from mgw.canonical.reply import TokenUsage
from mgw.nouns.vocabulary import Modality


class Unpriced(StrEnum):
    """Why an exchange that was answered has no cost."""

    PRICE = "price"
    """No row fits, or the row has no price for this."""
    COUNT = "count"
    """Something that the price needs is unknown."""
    TIER = "tier"
    """The row has no price for the service tier that served it, or none for so long an input in that tier."""


class Quantities(Struct, frozen=True):
    """What an exchange took; ``None``: unknown."""

    usage: TokenUsage
    milliseconds: int | None = None
    """How long the transcribed sound, or the session, was."""
    images: int | None = None
    characters: int | None = None
    """How long the spoken text was."""


class Prices(Struct, frozen=True, gc=False):
    """Prices in nanodollars; ``None``: not stated."""

    input: int | None = None
    """The price of a million tokens; so are those up to ``cache_read_image``."""
    output: int | None = None
    cache_read: int | None = None
    cache_write: int | None = None
    cache_write_1h: int | None = None
    cache_write_12h: int | None = None
    reasoning: int | None = None
    input_audio: int | None = None
    output_audio: int | None = None
    cache_read_audio: int | None = None
    input_image: int | None = None
    output_image: int | None = None
    cache_read_image: int | None = None
    per_search: int | None = None
    per_image: int | None = None
    per_minute: int | None = None
    per_million_characters: int | None = None

    def has_price_for(self, modality: Modality) -> bool:
        """Whether anything of these applies to exchanges of this kind."""
        return not (self.input is self.output is None) or self.price_of_medium(modality) is not None

    def price_of_medium(self, modality: Modality) -> int | None:
        """Return the price of an image, a minute or a million characters, as the kind of exchange has it."""
        if modality is Modality.IMAGE_GEN:
            return self.per_image
        if modality is Modality.AUDIO_SPEECH:
            return self.per_million_characters
        return self.per_minute if modality in _BY_THE_MINUTE else None

    def over(self, base: Prices) -> Prices:
        """Return these, and of ``base`` what they do not state."""
        pairs = [(getattr(self, name), getattr(base, name)) for name in self.__struct_fields__]
        return Prices(*[ours if ours is not None else theirs for ours, theirs in pairs])


_BY_THE_MINUTE = frozenset({Modality.AUDIO_TRANSCRIBE, Modality.REALTIME})


class PriceTier(Struct, frozen=True, gc=False):
    """Prices of requests with more input tokens than a number; what they do not state is stated elsewhere."""

    above: int
    prices: Prices


class ServiceTier(Struct, frozen=True, gc=False):
    """Prices of requests that a service tier serves; what they do not state is the row's."""

    prices: Prices
    tiers: tuple[PriceTier, ...] = ()


class PriceRow(Struct, frozen=True, gc=False):
    """What a model costs."""

    match: str
    """The pattern of its id, in lower case."""
    provider: str | None = None
    prices: Prices = Prices()
    valid_from: int | None = None
    """The first day of requests that it is for: days of UTC since 1970-01-01."""
    valid_until: int | None = None
    """The last day."""
    tiers: tuple[PriceTier, ...] = ()
    service_tiers: dict[str, ServiceTier] | None = None
    """By the name of the tier, in lower case."""
    inference_geo: dict[str, int] | None = None
    """The factor for tokens by the place where the model ran, in ten-thousandths."""

    def fits(self, provider: str, model: str) -> bool:
        """Whether the row is for a model of a provider, on whatever day.

        :param model: in lower case.
        """
        return self.provider in (None, provider) and fnmatchcase(model, self.match)

    def holds_on(self, day: int) -> bool:
        """Whether the row is for requests of a day."""
        return (self.valid_from is None or self.valid_from <= day) and (
            self.valid_until is None or day <= self.valid_until
        )
