"""Tiers, service tiers, parts, places and days: which prices apply to a request, and what it comes to."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace

from mgw.canonical.reply import Billed, TokenUsage, UsageParts
from mgw.config.prices import PARTS, PriceRowSettings
from mgw.nouns.vocabulary import Modality
from mgw.usage.event import Outcome, SessionCounts
from mgw.usage.labels import ExchangeLabels
from mgw.usage.price_row import Quantities, Unpriced
from mgw.usage.prices import Charge, PriceTable
from tests.support.prices import Measures

Json = dict[str, Any]  # Any: JSON
DAY: Final = 86_400
NANO: Final = 10**9


def table(*rows: Json) -> PriceTable:
    return PriceTable([PriceRowSettings.model_validate({"model": "*", **row}) for row in rows])


def charged(
    prices: PriceTable, usage: TokenUsage, modality: Modality = Modality.TEXT, wall: float = 0.0
) -> Charge:
    labels = ExchangeLabels("openai", "chat", "main", "fast", "gpt-5", modality.value, "http", None)
    return prices.charge(labels, Outcome.OK, usage, Measures(wall))


# A straightforward model of the rules, with fractions: each token is put where it belongs, then priced.

TIERS_OF_ROW: Final = (None, "default", "standard", "auto", "ON_DEMAND", "unspecified")
SERVED: Final = {
    "flex": "flex",
    "PRIORITY": "priority",
    "ON_DEMAND_FLEX": "flex",
    "ON_DEMAND_PRIORITY": "priority",
}
TOKEN_PRICES: Final = ("input", "output", *(part for part, _ in PARTS))


class Counts:
    """How many tokens there are of each kind, by the price that is asked for first."""

    def __init__(self, counts: dict[str, int]) -> None:
        self.counts = counts

    def __repr__(self) -> str:
        return f"Counts({self.counts})"

    @property
    def usage(self) -> TokenUsage:
        c = self.counts
        cached = c["cache_read"] + c["cache_read_audio"] + c["cache_read_image"]
        written = c["cache_write"] + c["cache_write_1h"] + c["cache_write_12h"]
        audio, image = c["input_audio"] + c["cache_read_audio"], c["input_image"] + c["cache_read_image"]
        tokens_in = c["input"] + c["input_audio"] + c["input_image"] + cached + written
        tokens_out = c["output"] + c["reasoning"] + c["output_audio"] + c["output_image"]
        parts = UsageParts(
            c["cache_write_1h"],
            c["cache_write_12h"],
            audio,
            image,
            c["cache_read_audio"],
            c["cache_read_image"],
            c["output_audio"],
            c["output_image"],
            c["searches"],
            "us",
        )
        return TokenUsage(tokens_in, tokens_out, cached, written, c["reasoning"], parts=parts)


ELSE: Final = {
    "cache_read": ["input"],
    "cache_write": ["input"],
    "cache_write_1h": ["cache_write", "input"],
    "cache_write_12h": ["cache_write", "input"],
    "input_audio": ["input"],
    "input_image": ["input"],
    "cache_read_audio": ["cache_read", "input_audio", "input"],
    "cache_read_image": ["cache_read", "input_image", "input"],
    "reasoning": ["output"],
    "output_audio": ["output"],
    "output_image": ["output"],
}


def prices_for(row: Json, tokens_in: int, served: str | None) -> tuple[Json, str] | None:
    """Return the prices that apply and their name; ``None``: there are none."""
    scopes, steps = [row], row.get("tiers", [])
    names: list[str] = []
    services = row.get("service_tiers")
    if services and served not in TIERS_OF_ROW:
        name = SERVED.get(served or "", "")
        if name not in services:
            return None
        scopes, names = [services[name], row], [name]
        if not services[name].get("tiers") and any(tokens_in > step["above"] for step in steps):
            return None
        steps = services[name].get("tiers", [])
    passed = [step for step in steps if tokens_in > step["above"]]
    if passed:
        highest = max(passed, key=lambda step: step["above"])
        scopes, names = [highest, *scopes], [*names, f"above {highest['above']}"]
    merged: Json = {}
    for scope in reversed(scopes):
        merged |= {name: scope[name] for name in (*TOKEN_PRICES, "per_search") if name in scope}
    return merged, " ".join(names)


def model_of(row: Json, counts: Counts, served: str | None) -> Charge:
    usage = counts.usage
    assert usage.tokens_in is not None
    found = prices_for(row, usage.tokens_in, served)
    if found is None:
        return Charge(unpriced=Unpriced.TIER)
    prices, name = found
    factor = Fraction(str(row.get("inference_geo", {}).get("us", 1)))
    total = Fraction(str(prices.get("per_search", 0))) * NANO * counts.counts["searches"]
    for kind in TOKEN_PRICES:
        asked = [kind, *ELSE.get(kind, [])]
        price = next(prices[one] for one in asked if one in prices)
        total += Fraction(Decimal(repr(price))) * counts.counts[kind] * 1000 * factor
    return Charge((total + Fraction(1, 2)).__floor__(), None, name or None)


DOLLARS = st.decimals(0, 1000, places=9).map(float) | st.sampled_from([0, 1, 2.5])
SMALL = st.integers(0, 60)
COUNTS = st.fixed_dictionaries(dict.fromkeys((*TOKEN_PRICES, "searches"), SMALL)).map(Counts)
SOME_PRICES = st.fixed_dictionaries({}, optional=dict.fromkeys((*TOKEN_PRICES, "per_search"), DOLLARS))
STEPS = st.lists(
    st.builds(lambda above, prices: {**prices, "above": above}, st.integers(0, 600), SOME_PRICES),
    max_size=3,
    unique_by=lambda step: step["above"],
)
SERVICES = st.dictionaries(
    st.sampled_from(["flex", "priority"]),
    st.builds(lambda prices, tiers: {**prices, "tiers": tiers}, SOME_PRICES, STEPS),
)
ROWS = st.builds(
    lambda prices, more, tiers, services, place: {
        **prices,
        **more,
        "tiers": tiers,
        "service_tiers": services,
        "inference_geo": place,
    },
    SOME_PRICES,
    st.fixed_dictionaries({"input": DOLLARS, "output": DOLLARS}),
    STEPS,
    SERVICES,
    st.sampled_from([{}, {"us": 1.1}, {"us": 0.9999}, {"eu": 2}]),
)


@given(row=ROWS, counts=COUNTS, served=st.sampled_from([*TIERS_OF_ROW, *SERVED, "batch"]))
def test_a_request_costs_what_its_tokens_cost_one_by_one(
    row: Json, counts: Counts, served: str | None
) -> None:
    assert charged(table(row), replace(counts.usage, service_tier=served)) == model_of(row, counts, served)


ROW: Final[Json] = {
    "input": 2,
    "output": 10,
    "cache_read": 0.2,
    "tiers": [{"above": 200, "input": 4}, {"above": 1000, "input": 6, "output": 20}],
    "service_tiers": {
        "flex": {"input": 1},
        "priority": {"input": 3, "output": 12, "tiers": [{"above": 300, "output": 30}]},
        "batch": {},
    },
}
CHOSEN: Final[dict[str, tuple[int, str | None, Charge]]] = {
    "at the number": (200, None, Charge(200 * 2_000, None, None)),
    "above it": (201, None, Charge(201 * 4_000, None, "above 200")),
    "above both": (1001, None, Charge(1001 * 6_000, None, "above 1000")),
    "a service tier": (100, "flex", Charge(100 * 1_000, None, "flex")),
    "whatever its case": (100, "FLEX", Charge(100 * 1_000, None, "flex")),
    "one of Vertex": (100, "ON_DEMAND_FLEX", Charge(100 * 1_000, None, "flex")),
    "one that is priced like the row": (100, "batch", Charge(100 * 2_000, None, "batch")),
    "one with numbers of its own": (301, "priority", Charge(301 * 3_000, None, "priority above 300")),
    "one with numbers of its own, below them": (250, "priority", Charge(250 * 3_000, None, "priority")),
    "one without, at the row's number": (200, "flex", Charge(200 * 1_000, None, "flex")),
    "one without, above the row's number": (201, "flex", Charge(unpriced=Unpriced.TIER)),
    "one that is not there": (100, "fast", Charge(unpriced=Unpriced.TIER)),
    "provisioned": (100, "PROVISIONED_THROUGHPUT", Charge(unpriced=Unpriced.TIER)),
    "none by name": (100, "TRAFFIC_TYPE_UNSPECIFIED", Charge(200_000)),
}


@pytest.mark.parametrize(("tokens", "served", "found"), CHOSEN.values(), ids=CHOSEN)
def test_the_prices_of_a_tier_apply_to_the_whole_request(
    tokens: int, served: str | None, found: Charge
) -> None:
    assert charged(table(ROW), TokenUsage(tokens, 0, service_tier=served)) == found


def test_what_a_tier_does_not_state_is_the_rows() -> None:
    usage = TokenUsage(301, 10, 100, service_tier="priority")
    cost = 201 * 3_000 + 100 * 200 + 10 * 30_000
    assert charged(table(ROW), usage) == Charge(cost, None, "priority above 300")


def test_a_row_without_service_tiers_prices_them_all() -> None:
    row = {key: value for key, value in ROW.items() if key != "service_tiers"}
    assert charged(table(row), TokenUsage(100, 0, service_tier="fast")) == Charge(200_000)
    assert charged(table(row), TokenUsage(201, 0, service_tier="fast")) == Charge(804_000, None, "above 200")


def test_an_input_of_unknown_length_has_no_tier() -> None:
    assert charged(table(ROW), TokenUsage(None, 0)) == Charge(unpriced=Unpriced.COUNT)


PLAIN: Final[Json] = {"input": 1, "output": 1}
TOO_LARGE: Final[dict[str, tuple[Json, TokenUsage]]] = {
    "an hour's writes": (
        {"cache_write_1h": 2},
        TokenUsage(9, 0, cache_write=3, parts=UsageParts(cache_write_1h=4)),
    ),
    "writes of both": (
        {"cache_write_1h": 2, "cache_write_12h": 3},
        TokenUsage(9, 0, cache_write=3, parts=UsageParts(2, 2)),
    ),
    "audio": ({"input_audio": 2}, TokenUsage(9, 0, parts=UsageParts(audio_in=10))),
    "cached audio of what was cached": (
        {"cache_read_audio": 2},
        TokenUsage(9, 0, 3, parts=UsageParts(audio_in=9, cached_audio=4)),
    ),
    "cached audio of the audio": (
        {"input_audio": 3, "cache_read": 2},
        TokenUsage(9, 0, 6, parts=UsageParts(audio_in=4, cached_audio=5)),
    ),
    "audio and what was cached, of which nobody says that it is audio": (
        {"input_audio": 3, "cache_read": 2},
        TokenUsage(9, 0, 6, parts=UsageParts(audio_in=4)),
    ),
    "images": ({"input_image": 2}, TokenUsage(9, 0, parts=UsageParts(image_in=10))),
    "audio of the output": ({"output_audio": 2}, TokenUsage(0, 9, parts=UsageParts(audio_out=10))),
    "images and reasoning": (
        {"output_image": 2, "reasoning": 3},
        TokenUsage(0, 9, reasoning=5, parts=UsageParts(image_out=5)),
    ),
}


@pytest.mark.parametrize(("prices", "usage"), TOO_LARGE.values(), ids=TOO_LARGE)
def test_a_part_that_is_larger_than_its_whole_has_no_cost(prices: Json, usage: TokenUsage) -> None:
    assert charged(table({**PLAIN, **prices}), usage) == Charge(unpriced=Unpriced.COUNT)


@pytest.mark.parametrize("usage", [usage for _, usage in TOO_LARGE.values()], ids=TOO_LARGE)
def test_a_part_without_a_price_of_its_own_is_not_looked_at(usage: TokenUsage) -> None:
    assert charged(table(PLAIN), usage).nanodollars == 9_000


def test_cached_tokens_of_unknown_kind_are_text() -> None:
    row = {**PLAIN, "input": 2, "input_audio": 20, "cache_read": 0.5, "cache_read_audio": 5}
    usage = TokenUsage(100, 0, 30, parts=UsageParts(audio_in=40))
    assert charged(table(row), usage) == Charge(30 * 500 + 40 * 20_000 + 30 * 2_000)


def test_a_place_has_a_factor_for_tokens_alone() -> None:
    row = {**PLAIN, "per_search": 0.01, "inference_geo": {"us": 1.1}}
    parts = UsageParts(searches=2, inference_geo="us")
    assert charged(table(row), TokenUsage(100, 50, parts=parts)) == Charge(165_000 + 20_000_000)
    elsewhere = UsageParts(searches=2, inference_geo="global")
    assert charged(table(row), TokenUsage(100, 50, parts=elsewhere)) == Charge(150_000 + 20_000_000)


def test_images_have_the_price_of_their_service_tier() -> None:
    row = {"per_image": 0.04, "service_tiers": {"flex": {"per_image": 0.02}}}
    usage = TokenUsage(billed=Billed(images=3), service_tier="flex")
    assert charged(table(row), usage, Modality.IMAGE_GEN) == Charge(60_000_000, None, "flex")


DATED: Final = (
    {"input": 1, "valid_until": "2026-03-31"},
    {"input": 2, "valid_from": "2026-04-01", "valid_until": "2026-04-30"},
    {"input": 3, "valid_from": "2026-04-30", "valid_until": "2026-06-30"},
    {"input": 5, "valid_from": "2026-09-01"},
    {"input": 4, "valid_from": "2026-08-01"},
)
DAYS: Final = {
    "2026-03-31T23:59:59": 1,
    "2026-04-01T00:00:00": 2,
    "2026-04-30T23:59:59": 2,
    "2026-05-01T00:00:00": 3,
    "2026-06-30T12:00:00": 3,
    "2026-07-01T00:00:00": None,
    "2026-08-31T23:59:59": 4,
    "2026-09-01T00:00:00": 5,
    "1969-12-31T23:59:59": 1,
}


def unix(moment: str) -> float:
    return datetime.fromisoformat(moment).replace(tzinfo=UTC).timestamp()


@pytest.mark.parametrize(("moment", "price"), DAYS.items())
def test_a_row_is_for_requests_of_its_days(moment: str, price: int | None) -> None:
    expected = Charge(unpriced=Unpriced.PRICE) if price is None else Charge(price * 1_000)
    assert charged(table(*DATED), TokenUsage(1), wall=unix(moment)) == expected


@given(st.lists(st.sampled_from(sorted(DAYS)), min_size=2, max_size=8))
@example(["2026-08-31T23:59:59", "2026-09-01T00:00:00"])
@example(["2026-04-30T23:59:59", "2026-05-01T00:00:00", "2026-04-30T23:59:59"])
def test_labels_ask_again_on_days_on_which_another_row_fits(moments: list[str]) -> None:
    prices = table(*DATED)
    labels = ExchangeLabels("openai", "chat", "main", "fast", "gpt-5", "text", "http", None)
    for moment in moments:
        found = prices.charge(labels, Outcome.OK, TokenUsage(1), Measures(unix(moment)))
        price = DAYS[moment]
        assert found.nanodollars == (None if price is None else price * 1_000)


def test_labels_keep_their_row_through_its_days() -> None:
    prices = table(*DATED)
    labels = ExchangeLabels("openai", "chat", "main", "fast", "gpt-5", "text", "http", None)
    prices.charge(labels, Outcome.OK, TokenUsage(1), Measures(unix("2026-05-01T00:00:00")))
    kept = labels.price
    prices.charge(labels, Outcome.OK, TokenUsage(1), Measures(unix("2026-06-30T23:59:59")))
    assert labels.price is kept


NAMES = st.text("ab-/.", min_size=1, max_size=5)
PATTERNS = st.lists(
    st.sampled_from(["*", "?", "[ab]", "[!a]", "[", "]", "a", "b", "-"]), min_size=1, max_size=5
)
MATCHES = NAMES | PATTERNS.map("".join)


@given(
    matches=st.lists(st.tuples(MATCHES, st.sampled_from([None, "main", "other"])), max_size=12),
    model=NAMES | MATCHES,
)
def test_the_index_finds_what_a_look_at_every_row_finds(
    matches: list[tuple[str, str | None]], model: str
) -> None:
    rows = [
        PriceRowSettings.model_construct(model=match, provider=provider, input=Decimal(place))
        for place, (match, provider) in enumerate(matches)
    ]
    prices = PriceTable(rows)
    assert prices.row("main", model, 0.0) == next(
        (row for row in prices.rows if row.fits("main", model.lower())), None
    )


def test_a_hold_is_priced_at_input_and_output() -> None:
    prices = table({**ROW, "model": "gpt-5*"}, {"model": "image", "per_image": 1})
    assert prices.hold("main", "gpt-5", 1_000_000, 100, 0.0) == 2 * NANO + 1_000_000
    assert prices.hold("main", "gpt-4", 1, 1, 0.0) is None
    assert prices.hold("main", "image", 1, 1, 0.0) is None
    assert table({"input": 0.0005}).hold("main", "m", 1, 1, 0.0) == 1


def test_an_estimate_has_the_tier_of_its_length() -> None:
    prices = table(ROW)
    taken = Quantities(TokenUsage(201, 10))
    assert prices.estimate("main", "m", Modality.TEXT, taken, 0.0) == 201 * 4_000 + 10 * 10_000
    assert table({"per_image": 1}).estimate("main", "m", Modality.TEXT, taken, 0.0) is None


def test_a_model_has_a_price_for_what_its_row_prices() -> None:
    prices = table({"model": "a", "input": 1, "valid_until": "2026-01-01"}, {"model": "b", "per_image": 1})
    assert prices.has_price("main", "a", Modality.TEXT, 0.0)
    assert not prices.has_price("main", "a", Modality.TEXT, unix("2026-01-02T00:00:00"))
    assert not prices.has_price("main", "b", Modality.TEXT, 0.0)
    assert prices.has_price("main", "b", Modality.IMAGE_GEN, 0.0)


def test_each_response_of_a_session_has_its_own_tier() -> None:
    prices = table({**ROW, "per_minute": 0.06})
    bill = prices.open_bill("main", "gpt-5", 0.0)
    assert bill is not None
    for usage in (
        TokenUsage(150, 0),
        TokenUsage(150, 0),
        TokenUsage(201, 0),
        TokenUsage(100, 0, service_tier="flex"),
    ):
        bill.add(usage)
    labels = ExchangeLabels("openai", "realtime_ws", "main", "m", "gpt-5", "realtime", "websocket", None)
    measured = Measures(0.0, SessionCounts(0.5), None, bill)
    cost = 300 * 2_000 + 201 * 4_000 + 100 * 1_000 + 30_000_000
    charge = prices.charge(labels, Outcome.OK, TokenUsage(601, 0), measured)
    assert charge == Charge(cost, None, "above 200, flex")
    bill.add(TokenUsage(100, 0, service_tier="fast"))
    charge = prices.charge(labels, Outcome.OK, TokenUsage(701, 0), measured)
    assert charge == Charge(unpriced=Unpriced.TIER)
