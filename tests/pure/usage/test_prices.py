"""What an exchange costs: exact, additive, and unknown where a count is (contract 7.10, 7.11)."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from mgw.canonical.reply import NO_USAGE, Billed, TokenUsage
from mgw.config.prices import PriceRowSettings
from mgw.nouns.vocabulary import Modality
from mgw.usage.event import Outcome, SessionCounts
from mgw.usage.labels import ExchangeLabels
from mgw.usage.price_row import Prices, Quantities, Unpriced
from mgw.usage.prices import Charge, PriceTable
from mgw.usage.tariff import UNITS, Rates, Tariff, cost_of_medium, round_to_nanodollars
from tests.support.prices import Measures

DOLLARS = st.decimals(0, 1000, places=9)
COUNTS = st.integers(0, 2**53)
TEXT = Modality.TEXT


def row(model: str = "*", /, **prices: Any) -> PriceRowSettings:  # Any: prices and a provider by name
    return PriceRowSettings.model_validate({"model": model, **prices})


def table(**prices: Any) -> PriceTable:  # Any: as above
    return PriceTable([row(**prices)])


def labels(modality: Modality = TEXT, **changes: Any) -> ExchangeLabels:  # Any: fields by name
    fields = {"provider": "main", "model": "fast", "upstream_model": "gpt-5", "key_hash": None, **changes}
    return ExchangeLabels("openai", "chat", modality=modality.value, transport="http", **fields)


def charge(
    prices: PriceTable,
    usage: TokenUsage = NO_USAGE,
    modality: Modality = TEXT,
    outcome: Outcome = Outcome.OK,
    session: SessionCounts | None = None,
    characters: int | None = None,
) -> tuple[int | None, Unpriced | None]:
    found = prices.charge(labels(modality), outcome, usage, Measures(0.0, session, characters))
    return found.nanodollars, found.unpriced


def usage_of(parts: tuple[int, int, int, int, int]) -> TokenUsage:
    uncached, read, written, visible, reasoning = parts
    return TokenUsage(uncached + read + written, visible + reasoning, read, written, reasoning)


PRICES = st.fixed_dictionaries(
    {"input": DOLLARS, "output": DOLLARS},
    optional={"cache_read": DOLLARS, "cache_write": DOLLARS, "reasoning": DOLLARS},
).map(lambda found: {name: float(price) for name, price in found.items()})
PARTS = st.tuples(COUNTS, COUNTS, COUNTS, COUNTS, COUNTS)


@given(prices=PRICES, parts=PARTS)
def test_a_total_is_the_sum_of_its_parts_rounded_once(
    prices: dict[str, float], parts: tuple[int, int, int, int, int]
) -> None:
    names = [("input", "input"), ("cache_read", "input"), ("cache_write", "input")]
    names += [("output", "output"), ("reasoning", "output")]
    each = [Decimal(repr(prices.get(name, prices[other]))) for name, other in names]
    exact = sum(Fraction(price) * count * 1000 for price, count in zip(each, parts, strict=True))
    rounded = int((exact + Fraction(1, 2)).__floor__())
    assert charge(table(**prices), usage_of(parts)) == (rounded, None)


@given(prices=PRICES, one=PARTS, other=PARTS)
def test_two_requests_cost_what_their_tokens_cost_together(
    prices: dict[str, float], one: tuple[int, int, int, int, int], other: tuple[int, int, int, int, int]
) -> None:
    priced = PriceTable([row(**prices)]).row("main", "m", 0.0)
    assert priced is not None
    tariff = Tariff.of(priced)
    summed = [sum(pair) for pair in zip(one, other, strict=True)]
    both = usage_of((summed[0], summed[1], summed[2], summed[3], summed[4]))
    costs = [
        tariff.cost_of_answer(usage, Rates.of(priced.prices))
        for usage in (usage_of(one), usage_of(other), both)
    ]
    assert None not in costs
    assert costs[0] + costs[1] == costs[2]  # type: ignore[operator]  # as was asserted


@given(
    tokens=st.integers(0, 10**6),
    images=st.integers(0, 100),
    characters=st.integers(0, 10**5),
    milliseconds=st.integers(0, 10**8),
    price=DOLLARS,
)
def test_each_medium_costs_its_number_times_its_price(
    tokens: int, images: int, characters: int, milliseconds: int, price: Decimal
) -> None:
    nanodollars = int(price.scaleb(9))
    priced = Prices(per_image=nanodollars, per_minute=nanodollars, per_million_characters=nanodollars)
    taken = Quantities(TokenUsage(tokens, tokens), milliseconds, images, characters)
    assert cost_of_medium(priced, Modality.IMAGE_GEN, taken) == images * nanodollars * UNITS
    assert cost_of_medium(priced, Modality.AUDIO_SPEECH, taken) == characters * nanodollars * UNITS // 10**6
    minutes = Fraction(milliseconds, 60_000)
    for modality in (Modality.AUDIO_TRANSCRIBE, Modality.REALTIME):
        assert cost_of_medium(priced, modality, taken) == minutes * nanodollars * UNITS


def test_a_sum_of_events_is_what_their_tokens_cost() -> None:
    prices, total, count = table(input=0.1, output=0.3, cache_read=0.7), 0, 10_000
    for tokens in range(count):
        cost, _ = charge(prices, TokenUsage(tokens + 3, 7, 3))
        assert cost is not None
        total += cost
    tokens_in = count * (count - 1) // 2
    dollars = (tokens_in * Decimal("0.1") + count * (3 * Decimal("0.7") + 7 * Decimal("0.3"))) / 10**6
    assert Decimal(total).scaleb(-9) == dollars


@given(units=st.integers(0, 10**30))
def test_a_cost_is_rounded_to_the_nearest_nanodollar_half_up(units: int) -> None:
    rounded = Fraction(units, UNITS) - round_to_nanodollars(units)
    assert -Fraction(1, 2) <= rounded < Fraction(1, 2)


TOKENS = {"input": 1, "output": 10}
UNKNOWN = {
    "no counts": (TOKENS, NO_USAGE),
    "no output": (TOKENS, TokenUsage(5)),
    "no input": (TOKENS, TokenUsage(None, 5)),
    "output that is not sold": ({"input": 1}, TokenUsage(5, 1)),
    "input that is not sold": ({"output": 1}, TokenUsage(5, 1)),
    "more from the cache than there is": ({**TOKENS, "cache_read": 0.5}, TokenUsage(5, 1, 6)),
    "more read and written than there is": (
        {**TOKENS, "cache_read": 0.5, "cache_write": 2},
        TokenUsage(5, 1, 3, 3),
    ),
    "more reasoning than output": ({**TOKENS, "reasoning": 5}, TokenUsage(5, 1, reasoning=2)),
    "a free input, but not from the cache": ({"input": 0, "cache_read": 1}, TokenUsage(None, None, 4)),
}


@pytest.mark.parametrize(("prices", "usage"), UNKNOWN.values(), ids=UNKNOWN)
def test_what_is_unknown_has_no_cost(prices: dict[str, float], usage: TokenUsage) -> None:
    assert charge(table(**prices), usage) == (None, Unpriced.COUNT)


KNOWN = {
    "both counts": (TOKENS, TokenUsage(5, 1), 15_000),
    "zero": (TOKENS, TokenUsage(0, 0), 0),
    "embeddings": ({"input": 0.02}, TokenUsage(5), 100),
    "no output is no output": ({"input": 0.02}, TokenUsage(5, 0), 100),
    "free of charge": ({"input": 0, "output": 0}, NO_USAGE, 0),
    "free input, whatever it is": ({"input": 0, "output": 10}, TokenUsage(None, 1), 10_000),
    "the cache costs the same where nothing is said": (TOKENS, TokenUsage(5, 1, 3, 1), 15_000),
    "no price of its own needs no split": (TOKENS, TokenUsage(5, 1, 9, reasoning=7), 15_000),
    "cache reads": ({**TOKENS, "cache_read": 0.1}, TokenUsage(5, 1, 3), 12_300),
    "cache reads that are free": ({**TOKENS, "cache_read": 0}, TokenUsage(5, 1, 3), 12_000),
    "cache writes": ({**TOKENS, "cache_write": 1.25}, TokenUsage(5, 1, None, 4), 16_000),
    "a cache of which nothing is said": ({**TOKENS, "cache_read": 0.1}, TokenUsage(5, 1), 15_000),
    "reasoning": ({**TOKENS, "reasoning": 3}, TokenUsage(5, 10, reasoning=4), 77_000),
    "all of it reasoning": ({**TOKENS, "reasoning": 3}, TokenUsage(0, 4, reasoning=4), 12_000),
    "a fraction of a nanodollar": ({"input": 0.0005, "output": 0}, TokenUsage(1, 0), 1),
    "less than half of one": ({"input": 0.000499999, "output": 0}, TokenUsage(1, 0), 0),
}


@pytest.mark.parametrize(("prices", "usage", "nanodollars"), KNOWN.values(), ids=KNOWN)
def test_what_is_known_has_its_cost(prices: dict[str, float], usage: TokenUsage, nanodollars: int) -> None:
    assert charge(table(**prices), usage) == (nanodollars, None)


MEDIA: dict[str, Any] = {  # Any: settings, keywords and results of several shapes
    "images": (
        {"per_image": 0.04},
        Modality.IMAGE_GEN,
        {"usage": TokenUsage(billed=Billed(images=2))},
        80_000_000,
    ),
    "no image": ({"per_image": 0.04}, Modality.IMAGE_GEN, {"usage": TokenUsage(billed=Billed(images=0))}, 0),
    "images of unknown number": ({"per_image": 0.04}, Modality.IMAGE_GEN, {}, Unpriced.COUNT),
    "images and tokens": (
        {"per_image": 0.04, "input": 1},
        Modality.IMAGE_GEN,
        {"usage": TokenUsage(5, billed=Billed(images=1))},
        40_005_000,
    ),
    "images of a model that is sold by tokens": (
        TOKENS,
        Modality.IMAGE_GEN,
        {"usage": TokenUsage(5, 1)},
        15_000,
    ),
    "an answer in text needs no images": (
        {**TOKENS, "per_image": 1},
        TEXT,
        {"usage": TokenUsage(5, 1)},
        15_000,
    ),
    "text of a model that is sold by images": (
        {"per_image": 1},
        TEXT,
        {"usage": TokenUsage(5, 1)},
        Unpriced.PRICE,
    ),
    "speech": ({"per_million_characters": 15}, Modality.AUDIO_SPEECH, {"characters": 4096}, 61_440_000),
    "speech of unknown length": ({"per_million_characters": 15}, Modality.AUDIO_SPEECH, {}, Unpriced.COUNT),
    "a transcription": (
        {"per_minute": 0.006},
        Modality.AUDIO_TRANSCRIBE,
        {"usage": TokenUsage(billed=Billed(milliseconds=1500))},
        150_000,
    ),
    "a transcription of unknown length": (
        {"per_minute": 0.006},
        Modality.AUDIO_TRANSCRIBE,
        {},
        Unpriced.COUNT,
    ),
    "a session": ({"per_minute": 0.05}, Modality.REALTIME, {"session": SessionCounts(2.5)}, 125_000_000),
    "a session, as its event says": (
        {"per_minute": 0.001},
        Modality.REALTIME,
        {"session": SessionCounts(1 / 3)},
        333_000,
    ),
    "a session of unknown length": (
        {"per_minute": 0.05},
        Modality.REALTIME,
        {"session": SessionCounts()},
        Unpriced.COUNT,
    ),
    "a session and its tokens": (
        {"per_minute": 0.05, **TOKENS},
        Modality.REALTIME,
        {"session": SessionCounts(1.0), "usage": TokenUsage(5, 1)},
        50_015_000,
    ),
    "a session whose tokens are unknown": (
        TOKENS,
        Modality.REALTIME,
        {"session": SessionCounts(1.0)},
        Unpriced.COUNT,
    ),
    "a free minute": ({"per_minute": 0}, Modality.AUDIO_TRANSCRIBE, {}, 0),
}


@pytest.mark.parametrize(("prices", "modality", "taken", "found"), MEDIA.values(), ids=MEDIA)
def test_media_cost_what_is_known_of_them(
    prices: dict[str, float], modality: Modality, taken: dict[str, Any], found: int | Unpriced
) -> None:
    expected = (None, found) if isinstance(found, Unpriced) else (found, None)
    assert charge(table(**prices), modality=modality, **taken) == expected


def test_a_price_that_the_provider_names_comes_before_any_row() -> None:
    usage = TokenUsage(5, 1, billed=Billed(42))
    assert charge(table(**TOKENS), usage) == (42, None)
    assert charge(PriceTable([]), usage) == (42, None)


@pytest.mark.parametrize("outcome", [Outcome.CLIENT_ABORT, Outcome.UPSTREAM_ERROR, Outcome.REJECTED])
def test_what_did_not_arrive_completely_has_no_cost_and_is_not_counted(outcome: Outcome) -> None:
    usage = TokenUsage(5, 1, billed=Billed(42))
    assert charge(table(**TOKENS), usage, outcome=outcome) == (None, None)
    assert charge(PriceTable([]), usage, outcome=outcome) == (None, None)


@pytest.mark.parametrize("outcome", list(Outcome))
def test_a_session_is_charged_however_it_ended(outcome: Outcome) -> None:
    session = SessionCounts(1.0)
    assert charge(table(**TOKENS), TokenUsage(5, 1), Modality.REALTIME, outcome, session) == (15_000, None)


def test_what_asks_no_model_has_no_cost() -> None:
    prices = table(**TOKENS)
    for one in (labels(Modality.PLATFORM), labels(provider=None)):
        assert prices.charge(one, Outcome.OK, TokenUsage(5, 1), Measures()) == Charge()


def test_a_model_without_a_name_fits_no_row() -> None:
    unnamed = labels(upstream_model=None)
    found = table(**TOKENS).charge(unnamed, Outcome.OK, TokenUsage(5, 1), Measures())
    assert found == Charge(unpriced=Unpriced.PRICE)


def test_the_first_row_that_fits_counts() -> None:
    prices = PriceTable(
        [
            row("gpt-5-mini*", input=1),
            row("gpt-5*", input=2, provider="other"),
            row("gpt-5*", input=3),
            row("*", input=4),
        ]
    )
    found = [
        prices.row(*asked, 0.0)
        for asked in (
            ("main", "gpt-5-mini-2026"),
            ("other", "gpt-5"),
            ("main", "GPT-5"),
            ("main", "models/gpt-5"),
            ("main", "openai/gpt-5"),
        )
    ]
    assert [one and one.prices.input for one in found] == [
        1 * 10**9,
        2 * 10**9,
        3 * 10**9,
        3 * 10**9,
        4 * 10**9,
    ]
    assert PriceTable([row("gpt-5*", input=1, provider="other")]).row("main", "gpt-5", 0.0) is None


def test_labels_keep_their_row_until_another_table_asks() -> None:
    first, second = table(input=1, output=1), table(input=2, output=2)
    shared, usage = labels(), TokenUsage(1, 0)
    assert first.charge(shared, Outcome.OK, usage, Measures()) == Charge(1000)
    kept = shared.price
    assert first.charge(shared, Outcome.OK, usage, Measures()) == Charge(1000)
    assert shared.price is kept
    assert second.charge(shared, Outcome.OK, usage, Measures()) == Charge(2000)
    assert first.charge(shared, Outcome.OK, replace(usage, tokens_in=2), Measures()) == Charge(2000)
