"""The operator's table of prices, and what it charges for an exchange.

What a provider itself names as the price of an answer goes before any row; the arithmetic of a row is in
:mod:`mgw.usage.price_row`.
"""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from typing import Final

from mgw.canonical.reply import TokenUsage
from mgw.config.file_faults import unreadable
from mgw.config.load import parse_prices, read_text
from mgw.config.prices import PARTS, PriceRowSettings
from mgw.config.problems import ConfigError
from mgw.config.settings import Config
from mgw.nouns.vocabulary import Modality
from mgw.usage.event import Outcome, SessionCounts
from mgw.usage.labels import ExchangeLabels
from mgw.usage.price_row import LabelPrice, PriceRow, Quantities, Unpriced, round_to_nanodollars

_MILLISECONDS_PER_MINUTE: Final = 60_000
_SESSION_DECIMALS: Final = 3
"""How many decimals a session's minutes have in its usage event, from which its cost can be worked out."""
_MODELS: Final = "models/"
_TEXT: Final = Modality.TEXT
_PLATFORM: Final = Modality.PLATFORM.value


def read_prices(config: Config) -> PriceTable | None:
    """Return what models cost, as the configuration or a file of it says; this blocks.

    :raises ValueError: the file cannot be read, or has problems; a line for each.
    """
    prices = config.prices
    if prices is None or prices.file is None:
        return None if prices is None else PriceTable(prices.rows)
    try:
        return PriceTable(parse_prices(read_text(prices.file), prices.file, config.providers))
    except OSError as error:
        reason = f"prices.file: {unreadable(prices.file, error)}"
    except ConfigError as error:
        reason = str(error)
    raise ValueError(reason)


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
        if kept is None or kept.rows is not self._rows:
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
        if row is not None and not row.has_price_for(modality):
            row = None
        return LabelPrice(self._rows, modality, row)


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
