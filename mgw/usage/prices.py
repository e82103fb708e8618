"""The operator's table of prices, and what it charges for an exchange.

What a provider itself names as the price of an answer goes before any row; the arithmetic of a row is in
:mod:`mgw.usage.tariff`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Final, Protocol

from msgspec import Struct

from mgw.canonical.reply import TokenUsage
from mgw.config.file_faults import unreadable
from mgw.config.load import MAX_PRICE_FILE_BYTES, parse_each_price, read_text
from mgw.config.prices import FACTOR_DECIMALS, PriceRowSettings, PriceSettings, PriceTierSettings
from mgw.config.problems import ConfigError
from mgw.config.settings import Config
from mgw.nouns.vocabulary import Modality
from mgw.usage.event import Outcome, SessionCounts
from mgw.usage.labels import ExchangeLabels
from mgw.usage.price_index import PriceIndex
from mgw.usage.price_row import PriceRow, Prices, PriceTier, Quantities, ServiceTier, Unpriced
from mgw.usage.tariff import LabelPrice, Tariff, cost_of_medium, round_to_nanodollars

_MILLISECONDS_PER_MINUTE: Final = 60_000
_SESSION_DECIMALS: Final = 3
"""How many decimals a session's minutes have in its usage event, from which its cost can be worked out."""
_SECONDS_PER_DAY: Final = 86_400
_MODELS: Final = "models/"
_TEXT: Final = Modality.TEXT
_PLATFORM: Final = Modality.PLATFORM.value
_FIRST_DAY: Final = date(1970, 1, 1).toordinal()
_ANY_DAY: Final = (-(2**53), 2**53)


class Charge(Struct, frozen=True):
    """What an exchange costs, or why that is unknown."""

    nanodollars: int | None = None
    unpriced: Unpriced | None = None
    """Neither is there for what costs nothing that could be said."""
    tier: str | None = None
    """What of a row's tiers counted, as in the event's ``price_tier``."""


_MILLION: Final = 1_000_000
_HALF: Final = _MILLION // 2
NO_CHARGE: Final = Charge()
"""What costs nothing that could be said."""
_NO_PRICE: Final = Charge(unpriced=Unpriced.PRICE)
_UNKNOWN: Final = Charge(unpriced=Unpriced.COUNT)


class Measured(Protocol):
    """What is known of an exchange beside what its answer says."""

    wall: float
    """Unix seconds of its beginning."""
    session: SessionCounts | None
    characters: int | None
    """The length of the text that is to be spoken."""
    bill: SessionBill | None
    """What the responses of a session cost."""


def read_prices(config: Config) -> PriceTable | None:
    """Return what models cost, as the configuration or a file of it says; this blocks.

    :raises ValueError: the file cannot be read, or has problems; a line for each.
    """
    prices = config.prices
    if prices is None or prices.file is None:
        return None if prices is None else PriceTable(prices.rows)
    try:
        text = read_text(prices.file, MAX_PRICE_FILE_BYTES)
        return PriceTable(parse_each_price(text, prices.file, config.providers, row_of))
    except OSError as error:
        reason = f"prices.file: {unreadable(prices.file, error)}"
    except ConfigError as error:
        reason = str(error)
    raise ValueError(reason)


class PriceTable:
    """The rows of one configuration, in the operator's order."""

    def __init__(self, rows: Iterable[PriceRowSettings | PriceRow]) -> None:
        self.rows: tuple[PriceRow, ...] = tuple(
            [row if isinstance(row, PriceRow) else row_of(row) for row in rows]
        )
        self._index = PriceIndex(self.rows)

    def __len__(self) -> int:
        """Return how many rows there are."""
        return len(self.rows)

    @property
    def patterns(self) -> int:
        """How many rows a model may have to be compared with."""
        return self._index.patterns

    def row(self, provider: str, model: str, wall: float) -> PriceRow | None:
        """Return the first row that fits.

        :param model: as it is sent to the provider.
        :param wall: Unix seconds, on the day of the request.
        """
        return self._find(provider, model, _day_of(wall))[0]

    def has_price(self, provider: str, model: str, modality: Modality, wall: float) -> bool:
        """Whether a row has a price for requests of this kind to a model; arguments as for :meth:`row`."""
        row = self.row(provider, model, wall)
        return row is not None and row.prices.has_price_for(modality)

    def hold(self, provider: str, model: str, tokens_in: int, tokens_out: int, wall: float) -> int | None:
        """Return what so many tokens cost at ``input`` and ``output``, in nanodollars; ``None``: unknown.

        No tier counts; other arguments are those of :meth:`row`.
        """
        row = self.row(provider, model, wall)
        if row is None or not row.prices.has_price_for(_TEXT):
            return None
        prices = row.prices
        return (tokens_in * (prices.input or 0) + tokens_out * (prices.output or 0) + _HALF) // _MILLION

    def estimate(
        self, provider: str, model: str, modality: Modality, taken: Quantities, wall: float
    ) -> int | None:
        """Return what an estimated exchange costs, in nanodollars; ``None``: unknown.

        Tiers count as for an answer that tells the same; arguments are those of :meth:`row`.
        """
        row = self.row(provider, model, wall)
        if row is None or not row.prices.has_price_for(modality):
            return None
        return _charge(Tariff.of(row), modality, taken, None).nanodollars

    def open_bill(self, provider: str, model: str, wall: float) -> SessionBill | None:
        """Return what a session's responses are put on, or ``None``: no row fits; arguments are those of
        :meth:`row`.
        """
        row = self.row(provider, model, wall)
        return None if row is None else SessionBill(Tariff.of(row))

    def charge(
        self, labels: ExchangeLabels, outcome: Outcome, usage: TokenUsage, measured: Measured
    ) -> Charge:
        """Return what an exchange costs in nanodollars, or why that is unknown.

        Neither is returned for what costs nothing that could be said: requests that were refused, failed or
        broke off, since what is counted until then is not final (Anthropic's first event already has a
        count of the output), and requests that ask no model.  A session is charged however it ended: each of
        its counts is final.
        """
        session = measured.session
        if labels.provider is None or labels.modality == _PLATFORM:
            return NO_CHARGE
        if session is None and outcome is not Outcome.OK:
            return NO_CHARGE
        billed = usage.billed
        if billed is not None and billed.nanodollars is not None:
            return Charge(billed.nanodollars)
        kept, day = labels.price, measured.wall // _SECONDS_PER_DAY
        if kept is None or kept.rows is not self.rows or not kept.first_day <= day <= kept.last_day:
            labels.price = kept = self._price_of(labels, int(day))
        tariff, text = kept.tariff, kept.modality is _TEXT
        if tariff is None:
            return _NO_PRICE
        if text and tariff.fixed is not None and session is None:
            tokens = tariff.fixed.cost_of_tokens(usage)
            return _UNKNOWN if tokens is None else Charge((tokens + _HALF) // _MILLION)
        taken = Quantities(usage) if text else _quantities(usage, session, measured.characters)
        return _charge(tariff, kept.modality, taken, measured.bill)

    def _price_of(self, labels: ExchangeLabels, day: int) -> LabelPrice:
        provider, model, modality = labels.provider, labels.upstream_model, Modality(labels.modality)
        if provider is None or model is None:
            return LabelPrice(self.rows, modality, None, *_ANY_DAY)
        row, first_day, last_day = self._find(provider, model, day)
        if row is not None and not row.prices.has_price_for(modality):
            row = None
        return LabelPrice(self.rows, modality, None if row is None else Tariff.of(row), first_day, last_day)

    def _find(self, provider: str, model: str, day: int) -> tuple[PriceRow | None, int, int]:
        """Return the first row that fits on a day, and from which day to which the answer is the same."""
        first, last = _ANY_DAY
        for row in self._index.rows_for(provider, model.lower().removeprefix(_MODELS)):
            begin = first if row.valid_from is None else row.valid_from
            end = last if row.valid_until is None else row.valid_until
            if day < begin:
                last = min(last, begin - 1)
            elif day > end:
                first = max(first, end + 1)
            else:
                return row, max(first, begin), min(last, end)
        return None, first, last


@dataclass(slots=True, eq=False, repr=False)
class SessionBill:
    """What the responses of a session cost so far, each by the tier that it has itself."""

    tariff: Tariff
    units: int = 0
    unpriced: Unpriced | None = None
    """Why one of them has no known cost."""
    tiers: tuple[str, ...] = ()
    """What of the row's tiers counted."""

    @property
    def nanodollars(self) -> int:
        """What the responses cost, as far as their cost is known."""
        return round_to_nanodollars(self.units)

    def add(self, usage: TokenUsage) -> None:
        """Put a response on the bill."""
        chosen = self.tariff.rates_for(usage)
        if isinstance(chosen, Unpriced):
            self.unpriced = self.unpriced or chosen
            return
        units = self.tariff.cost_of_answer(usage, chosen.rates)
        if units is None:
            self.unpriced = self.unpriced or Unpriced.COUNT
        else:
            self.units += units
        if chosen.name is not None and chosen.name not in self.tiers:
            self.tiers = (*self.tiers, chosen.name)


def _charge(tariff: Tariff, modality: Modality, taken: Quantities, bill: SessionBill | None) -> Charge:
    if bill is not None:
        return _charge_session(bill, modality, taken)
    chosen = tariff.rates_for(taken.usage)
    if isinstance(chosen, Unpriced):
        return Charge(unpriced=chosen)
    units = tariff.cost_of_answer(taken.usage, chosen.rates)
    medium = cost_of_medium(chosen.rates.stated, modality, taken)
    if units is None or medium is None:
        return _UNKNOWN
    return Charge(round_to_nanodollars(units + medium), None, chosen.name)


def _charge_session(bill: SessionBill, modality: Modality, taken: Quantities) -> Charge:
    medium = cost_of_medium(bill.tariff.row.prices, modality, taken)
    if bill.unpriced is not None or medium is None:
        return Charge(unpriced=bill.unpriced or Unpriced.COUNT)
    return Charge(round_to_nanodollars(bill.units + medium), None, ", ".join(bill.tiers) or None)


def row_of(row: PriceRowSettings) -> PriceRow:
    """Return a row as tables have it."""
    return PriceRow(
        row.model,
        row.provider,
        _prices_of(row),
        None if row.valid_from is None else row.valid_from.toordinal() - _FIRST_DAY,
        None if row.valid_until is None else row.valid_until.toordinal() - _FIRST_DAY,
        _tiers_of(row.tiers),
        {
            name.lower(): ServiceTier(_prices_of(tier), _tiers_of(tier.tiers))
            for name, tier in row.service_tiers.items()
        }
        or None,
        {name: int(factor.scaleb(FACTOR_DECIMALS)) for name, factor in row.inference_geo.items()} or None,
    )


def _tiers_of(tiers: Iterable[PriceTierSettings]) -> tuple[PriceTier, ...]:
    return tuple([PriceTier(tier.above, _prices_of(tier)) for tier in tiers if tier.above is not None])


def _prices_of(block: PriceSettings) -> Prices:
    prices = {
        name: int(price.scaleb(9))
        for name, price in block
        if isinstance(price, Decimal)  # what is left are names, days and tiers
    }
    return Prices(**prices)


def _day_of(wall: float) -> int:
    return int(wall // _SECONDS_PER_DAY)


def _quantities(usage: TokenUsage, session: SessionCounts | None, characters: int | None) -> Quantities:
    billed = usage.billed
    images = milliseconds = None
    if billed is not None:
        images, milliseconds = billed.images, billed.milliseconds
    if session is not None and session.minutes is not None:
        milliseconds = round(round(session.minutes, _SESSION_DECIMALS) * _MILLISECONDS_PER_MINUTE)
    return Quantities(usage, milliseconds, images, characters)
