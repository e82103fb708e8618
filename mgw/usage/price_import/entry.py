"""What a price list says of a model, in the words of a row of prices.

Prices are in US dollars, as a row states them: for a million tokens, for an image, for a minute.
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Context, Decimal
from typing import Final

from msgspec import Struct, field

EXACT: Final = Context(prec=400)
"""Wide enough for products of numbers that a price list may have."""
MAX_SHOWN: Final = 100
"""Characters of a name from the list that a comment repeats."""

Prices = dict[str, Decimal]
"""By the names that they have in a row."""


class PriceLevels(Struct):
    """Prices, and those above numbers of input tokens."""

    prices: Prices = field(default_factory=dict)
    above: dict[int, Prices] = field(default_factory=dict)

    def blocks(self) -> Iterator[Prices]:
        """Return all prices that belong together."""
        yield self.prices
        yield from self.above.values()

    def add(self, name: str, price: Decimal, above: int | None = None) -> None:
        """Add a price."""
        block = self.prices if above is None else self.above.setdefault(above, {})
        block[name] = price


class PricedModel(Struct):
    """An entry of a price list."""

    provider: str
    """As the list calls it."""
    model: str
    """The id that is sent to the provider."""
    key: str
    """The entry's name in the list."""
    usual: PriceLevels = field(default_factory=PriceLevels)
    services: dict[str, PriceLevels] = field(default_factory=dict)
    """By service tier."""
    geo: Prices = field(default_factory=dict)
    """Factors by the place where the model ran."""
    unplaced: list[str] = field(default_factory=list)
    """What the entry says of prices and a row cannot."""

    @property
    def has_price(self) -> bool:
        """Whether a row can be made of it."""
        return bool(self.usual.prices.keys() - {"per_search"})

    def blocks(self) -> Iterator[tuple[str, PriceLevels, Prices]]:
        """Return all prices that belong together, after the words that name them."""
        for service, levels in [("", self.usual), *self.services.items()]:
            start = f"{service} " if service else ""
            yield start, levels, levels.prices
            for threshold, prices in levels.above.items():
                yield f"{start}above {threshold} ", levels, prices

    def drop_empty(self) -> None:
        """Forget thresholds and service tiers without prices."""
        for levels in (self.usual, *self.services.values()):
            levels.above = {number: prices for number, prices in levels.above.items() if prices}
        self.services = {
            name: levels for name, levels in self.services.items() if levels.prices or levels.above
        }

    def leave_out(self, name: str, value: object) -> None:
        """Note a price that has no place in a row."""
        self.unplaced.append(f"{printable(name)} {printable(str(value))}".rstrip())


def printable(text: str) -> str:
    """Return a text from a list so that a comment may hold it."""
    shown = text if text.isprintable() else ascii(text)[1:-1]
    return shown if len(shown) <= MAX_SHOWN else f"{shown[:MAX_SHOWN]}…"
