"""Rows of prices: what they can state, and each mistake with its line and path."""

from __future__ import annotations

from datetime import date
from decimal import Decimal

import pytest

from mgw.config.load import parse, parse_prices
from mgw.config.prices import PARTS, PriceRowSettings, PriceSettings
from mgw.config.problems import ConfigError

WHOLE = """rows:
  - model: "GPT-*"
    provider: main
    input: 0.000000001
    output: 1000000
    valid_from: 2026-01-01
    valid_until: 2026-01-01
    tiers:
      - {above: 0, input: 1.5}
      - {above: 200000, cache_read_audio: 2}
    service_tiers:
      Flex: {output: 3, tiers: [{above: 5, cache_read: 4}]}
      batch: {}
    inference_geo: {us: 1.1001, eu: 100}
"""


def problems_of(row: str) -> list[str]:
    with pytest.raises(ConfigError) as refusal:
        parse_prices(f"rows:\n- {row}\n", "p.yaml", ("main",))
    return [str(problem).removeprefix("p.yaml:2: rows.0") for problem in refusal.value.problems]


def test_a_row_can_state_all_of_it() -> None:
    (row,) = parse_prices(WHOLE, "p.yaml", ("main",))
    assert (row.model, row.input, row.output) == ("gpt-*", Decimal("0.000000001"), Decimal(1_000_000))
    assert (row.valid_from, row.valid_until) == (date(2026, 1, 1), date(2026, 1, 1))
    assert [(tier.above, tier.input) for tier in row.tiers] == [(0, Decimal("1.5")), (200_000, None)]
    assert row.service_tiers["Flex"].output == 3
    assert row.service_tiers["Flex"].tiers[0].above == 5
    assert row.service_tiers["batch"].input is None
    assert row.inference_geo == {"us": Decimal("1.1001"), "eu": Decimal(100)}


def test_the_configuration_itself_takes_the_same_rows() -> None:
    rows = WHOLE.replace("\n", "\n  ")
    config = parse(f"providers: {{main: {{kind: openai}}}}\nprices:\n  {rows}\n", "mgw.yaml", {})
    assert config.prices is not None
    assert config.prices.rows == parse_prices(WHOLE, "p.yaml", ("main",))


ANY_PRICE = "a price in US dollars from 0 to 1000000, with at most 9 decimals"
FACTOR = "a number above 0, at most 100, with at most 4 decimals"
TOKENS = "a whole number of tokens, 0 or more"
PLACES_OF_ABOVE = "in rows.tiers or in rows.service_tiers.tiers"
MISTAKES = {
    "{model: a, input: 1, per_search: -1}": [f".per_search: expected {ANY_PRICE}, found the number -1"],
    "{model: a, input: 1, input_audio: 1.0000000001}": [
        f".input_audio: expected {ANY_PRICE}, found the number 1.0000000001"
    ],
    "{model: a, input: 1, valid_from: 2026-02-30}": [".valid_from: expected a date such as 2027-03-31"],
    "{model: a, input: 1, valid_from: 2026-W01-1}": [".valid_from: expected a date such as 2027-03-31"],
    "{model: a, input: 1, valid_until: 20260101}": [
        ".valid_until: expected a date such as 2027-03-31, found the number 20260101"
    ],
    "{model: a, input: 1, valid_from: 2026-01-02, valid_until: 2026-01-01}": [
        ".valid_until: earlier than valid_from, which is 2026-01-02"
    ],
    "{model: a, input: 1, tiers: [{input: 2}]}": [f".tiers.0.above: missing, expected {TOKENS}"],
    "{model: a, input: 1, tiers: [{above: 1}]}": [
        ".tiers.0: a tier without a price, expected at least one, such as input and output"
    ],
    "{model: a, input: 1, tiers: [{above: -1, input: 1}]}": [
        f".tiers.0.above: expected {TOKENS}, found the number -1"
    ],
    "{model: a, input: 1, tiers: [{above: true, input: 1}]}": [
        f".tiers.0.above: expected {TOKENS}, found true"
    ],
    "{model: a, input: 1, tiers: [{above: 5, input: 2}, {above: 5, input: 3}]}": [
        ".tiers.1.above: there are prices above 5 already"
    ],
    "{model: a, input: 1, tiers: [{above: 5, output_audio: 2}]}": [
        ".tiers.0.output_audio: requires the price of the other tokens: set output as well"
    ],
    "{model: a, input: 1, service_tiers: {b: {reasoning: 2, tiers: [{above: 1, output_image: 2}]}}}": [
        ".service_tiers.b.reasoning: requires the price of the other tokens: set output as well",
        ".service_tiers.b.tiers.0.output_image: requires the price of the other tokens: set output as well",
    ],
    "{model: a, input: 1, service_tiers: {Default: {input: 1}}}": [
        ".service_tiers.Default: these requests have the prices of the row itself: state them there"
    ],
    "{model: a, input: 1, service_tiers: {flex: {}, FLEX: {}}}": [
        ".service_tiers.FLEX: stated twice, in upper and in lower case"
    ],
    "{model: a, input: 1, service_tiers: {flex: {above: 3}}}": [
        f".service_tiers.flex.above: unknown key at this place: it belongs {PLACES_OF_ABOVE}"
    ],
    "{model: a, input: 1, inference_geo: {us: 0}}": [
        f".inference_geo.us: expected {FACTOR}, found the number 0"
    ],
    "{model: a, input: 1, inference_geo: {us: 1.00001}}": [
        f".inference_geo.us: expected {FACTOR}, found the number 1.00001"
    ],
    "{model: a, per_search: 1}": [": a row without a price, expected at least one, such as input and output"],
    "{model: a, valid_from: 2026-01-01}": [
        ": a row without a price, expected at least one, such as input and output"
    ],
    "{model: a, input: 1, provider: mian}": [
        ".provider: no provider is named 'mian', did you mean main? (known: main)"
    ],
}


@pytest.mark.parametrize(("row", "problems"), MISTAKES.items(), ids=MISTAKES)
def test_a_mistake_is_told_with_its_line_and_path(row: str, problems: list[str]) -> None:
    assert problems_of(row) == problems


@pytest.mark.parametrize(("part", "whole"), PARTS)
def test_a_price_of_a_part_requires_that_of_the_others(part: str, whole: str) -> None:
    other = "output" if whole == "input" else "input"
    assert problems_of(f"{{model: a, {other}: 1, {part}: 1}}") == [
        f".{part}: requires the price of the other tokens: set {whole} as well"
    ]
    assert parse_prices(f"rows: [{{model: a, {whole}: 1, {part}: 1}}]\n", "p.yaml", ())


def test_every_price_of_tokens_is_a_part_or_has_parts() -> None:
    of_tokens = {name for name in PriceSettings.model_fields if not name.startswith("per_")}
    assert of_tokens == {name for pair in PARTS for name in pair}
    assert PriceRowSettings.model_fields.keys() > PriceSettings.model_fields.keys()
