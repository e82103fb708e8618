"""LiteLLM's price list: each price that a row can state is stated, exactly, and the others are named."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal
from fractions import Fraction
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mgw.canonical.reply import TokenUsage, UsageParts
from mgw.nouns.vocabulary import Modality
from mgw.usage.price_import.entry import PricedModel
from mgw.usage.price_import.json_document import PriceListError, read_document
from mgw.usage.price_import.litellm import read_models
from mgw.usage.price_row import Quantities
from mgw.usage.prices import PriceTable
from tests.support.price_lists import Number, litellm_model, rows_of, stated

SOUND = {"input_cost_per_second": Number("1e-4"), "output_cost_per_second": Number("1e-4")}
SEARCH = {f"search_context_size_{size}": Number("0.01") for size in ("low", "medium", "high")}
TOKENS = {"input_cost_per_token": Number("1.5e-06"), "output_cost_per_token": Number("6E-6")}


def row_of(entry: PricedModel) -> dict[str, object]:
    (row,) = rows_of([entry])
    found = stated(row)
    del found["model"]
    return found


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        (TOKENS, {"input": "1.5", "output": "6"}),
        (TOKENS | {"cache_read_input_token_cost": Number("1.5e-7")}, {"cache_read": "0.15"}),
        (TOKENS | {"cache_creation_input_token_cost": Number("2e-6")}, {"cache_write": "2"}),
        (TOKENS | {"cache_creation_input_token_cost_above_1hr": Number("3e-6")}, {"cache_write_1h": "3"}),
        (TOKENS | {"cache_creation_input_token_cost_above_12hr": Number("3e-6")}, {"cache_write_12h": "3"}),
        (TOKENS | {"output_cost_per_reasoning_token": Number("7e-6")}, {"reasoning": "7"}),
        (TOKENS | {"output_cost_per_reasoning_token": Number("0.000006")}, {}),
        (TOKENS | {"input_cost_per_audio_token": Number("3e-5")}, {"input_audio": "30"}),
        (TOKENS | {"output_cost_per_audio_token": Number("3e-5")}, {"output_audio": "30"}),
        (TOKENS | {"cache_read_input_audio_token_cost": Number("3e-5")}, {"cache_read_audio": "30"}),
        (TOKENS | {"input_cost_per_image_token": Number("3e-5")}, {"input_image": "30"}),
        (TOKENS | {"output_cost_per_image_token": Number("3e-5")}, {"output_image": "30"}),
        (TOKENS | {"cache_read_input_image_token_cost": Number("3e-5")}, {"cache_read_image": "30"}),
        (TOKENS | {"input_cost_per_token": "1.5e-06"}, {}),
        (TOKENS | {"search_context_cost_per_query": SEARCH}, {"per_search": "0.01"}),
        (
            TOKENS | {"provider_specific_entry": {"us": Number("1.1"), "flag_of": 1}},
            {"inference_geo": {"us": "1.1"}},
        ),
        (
            TOKENS | {"input_cost_per_token_above_200k_tokens": Number("3e-6")},
            {"tiers": ({"above": "200000", "input": "3"},)},
        ),
        (
            TOKENS
            | {"input_cost_per_token_flex": Number("1e-6"), "output_cost_per_token_batches": Number("3e-6")},
            {"service_tiers": {"flex": {"input": "1"}, "batch": {"output": "3"}}},
        ),
        (
            TOKENS | {"provider_specific_entry": {"fast": 2}},
            {"service_tiers": {"fast": {"input": "3", "output": "12"}}},
        ),
    ],
)
def test_a_price_has_its_place(facts: Mapping[str, object], expected: Mapping[str, object]) -> None:
    entry = litellm_model(facts)
    assert row_of(entry) == {"input": "1.5", "output": "6", **expected}
    assert not entry.unplaced


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ({"mode": "image_generation", "output_cost_per_image": Number("0.04")}, {"per_image": "0.04"}),
        ({"mode": "image_generation", "input_cost_per_image": Number("0.04")}, {"per_image": "0.04"}),
        ({"mode": "audio_transcription", **SOUND}, {"per_minute": "0.006"}),
        ({"mode": "audio_transcription", **SOUND, "output_cost_per_second": 0}, {"per_minute": "0.006"}),
        ({"mode": "realtime", "input_cost_per_second": Number("0.01")}, {"per_minute": "0.6"}),
        (
            {"mode": "audio_speech", "input_cost_per_character": Number("15e-6")},
            {"per_million_characters": "15"},
        ),
        ({"mode": "image_generation", "output_cost_per_image_token": Number("4e-5")}, {"output": "40"}),
        ({"mode": "audio_transcription", "input_cost_per_audio_token": Number("4e-5")}, {"input": "40"}),
    ],
)
def test_media_have_their_units(facts: Mapping[str, object], expected: Mapping[str, object]) -> None:
    entry = litellm_model(facts)
    assert row_of(entry) == expected
    assert not entry.unplaced


@pytest.mark.parametrize(
    ("facts", "unplaced"),
    [
        (
            {"google_maps_grounding_cost_per_query": Number("0.025")},
            "google_maps_grounding_cost_per_query 0.025",
        ),
        ({"off_peak_pricing": {"input_cost_per_token": Number("1e-9")}}, "off_peak_pricing"),
        ({"fedramp_uplift_multiplier": Number("1.1")}, "fedramp_uplift_multiplier 1.1"),
        ({"input_cost_per_image": Number("0.001")}, "input_cost_per_image 0.001"),
        (
            {"cache_creation_input_audio_token_cost": Number("1e-6")},
            "cache_creation_input_audio_token_cost 0.000001",
        ),
        (
            {"search_context_cost_per_query": SEARCH | {"search_context_size_high": Number("0.02")}},
            "search_context_size_high 0.02",
        ),
        ({"cache_read_input_token_cost": Number("-1e-6")}, "cache_read -1"),
        ({"cache_read_input_token_cost": Number("2")}, "cache_read 2000000"),
        (
            {"cache_read_input_token_cost": Number("1.0000000000000001e-07")},
            "cache_read 0.10000000000000001 (rounded)",
        ),
        ({"input_cost_per_token_cache_hit": Number("1e-7")}, "input_cost_per_token_cache_hit 1E-7"),
        ({"mode": "realtime", **SOUND}, "output_cost_per_second 0.0001"),
        ({"provider_specific_entry": {"eu": Number("1.12345")}}, "inference_geo eu 1.12345"),
    ],
)
def test_what_has_no_place_is_named(facts: Mapping[str, object], unplaced: str) -> None:
    entry = litellm_model({**TOKENS, **facts})
    assert unplaced in entry.unplaced
    assert row_of(entry)["input"] == "1.5"


@pytest.mark.parametrize(
    "facts",
    [
        {"input_cost_per_image_above_128k_tokens": 0},
        {"input_dbu_cost_per_token": Number("1e-5")},
        {"regional_endpoint_uplift_multiplier": Number("1.0")},
        {"cache_read_input_token_cost": Number("1e-7"), "input_cost_per_token_cache_hit": Number("1E-7")},
        {"max_input_tokens": 128000, "supports_vision": True, "source": "https://example.com/costs"},
        {"input_cost_per_token_flex": None},
    ],
)
def test_what_costs_nothing_more_needs_no_place(facts: Mapping[str, object]) -> None:
    assert not litellm_model({**TOKENS, **facts}).unplaced


def test_a_part_without_its_whole_has_no_place() -> None:
    entry = litellm_model(
        {"output_cost_per_token": Number("1e-6"), "cache_read_input_token_cost": Number("1e-7")}
    )
    assert row_of(entry) == {"output": "1"}
    assert entry.unplaced == ["cache_read 0.1"]


def test_from_a_number_is_above_one_less_for_xai() -> None:
    facts = TOKENS | {"input_cost_per_token_above_128k_tokens": Number("3e-6")}
    assert row_of(litellm_model(facts, provider="xai"))["tiers"] == ({"above": "127999", "input": "3"},)


def test_a_table_by_ranges_becomes_tiers() -> None:
    ranges = [
        {
            "range": [0, Number("32000.0")],
            "input_cost_per_token": Number("1e-6"),
            "output_cost_per_token": Number("2e-6"),
        },
        {"range": [Number("32000.0"), 128000], "input_cost_per_token": Number("3e-6")},
    ]
    ranges[0]["cache_read_input_token_cost"] = Number("1e-7")
    entry = litellm_model({"tiered_pricing": ranges})
    assert row_of(entry) == {
        "input": "1",
        "output": "2",
        "cache_read": "0.1",
        "tiers": ({"above": "32000", "input": "3", "cache_read": "3"},),
    }
    assert not entry.unplaced


@pytest.mark.parametrize(
    "table",
    [
        [{"range": [5, 9], "input_cost_per_token": 1}],
        [{"range": [0, 9], "input_cost_per_query": 1}],
        [{"range": [0, 9], "output_cost_per_token": 1}],
        [{"range": [0, 9], "input_cost_per_token": 0}, {"range": [10, 20], "input_cost_per_token": 0}],
        [{"input_cost_per_token": 1}],
        [1],
        {},
    ],
)
def test_another_table_is_named(table: object) -> None:
    entry = litellm_model(TOKENS | {"tiered_pricing": table})
    assert entry.unplaced == (["tiered_pricing"] if table else [])


@pytest.mark.parametrize(
    ("key", "provider", "model"),
    [
        ("xai/grok", "xai", "grok"),
        ("vertex_ai/claude", "vertex_ai-anthropic_models", "claude"),
        ("fireworks_ai/accounts/f/models/m", "fireworks_ai", "accounts/f/models/m"),
        ("openrouter/xai/grok", "openrouter", "xai/grok"),
        ("low/dall-e", "openai", "low/dall-e"),
        ("xai/", "xai", "xai/"),
        ("gpt", "openai", "gpt"),
    ],
)
def test_the_provider_before_a_model_is_dropped(key: str, provider: str, model: str) -> None:
    assert litellm_model(TOKENS, key, provider).model == model


def test_an_alias_has_the_prices_of_its_model_and_the_example_is_no_model() -> None:
    content = b"""{"latest": {"alias_of": "m"}, "lost": {"alias_of": "nothing"},
        "sample_spec": {"litellm_provider": "openai", "input_cost_per_token": 1},
        "m": {"litellm_provider": "openai", "input_cost_per_token": 1e-6}}"""
    found = read_models(read_document(content))
    assert [(entry.model, entry.provider, entry.usual.prices["input"]) for entry in found] == [
        ("latest", "openai", Decimal(1)),
        ("m", "openai", Decimal(1)),
    ]


def test_a_list_of_another_shape_is_refused() -> None:
    with pytest.raises(PriceListError, match="not LiteLLM's price list: 'm' is not an object"):
        read_models({"m": []})


KINDS = {
    "input": "input_cost_per_token",
    "output": "output_cost_per_token",
    "cache_read": "cache_read_input_token_cost",
    "cache_write": "cache_creation_input_token_cost",
    "cache_write_1h": "cache_creation_input_token_cost_above_1hr",
    "cache_write_12h": "cache_creation_input_token_cost_above_12hr",
    "reasoning": "output_cost_per_reasoning_token",
    "audio": "input_cost_per_audio_token",
    "output_audio": "output_cost_per_audio_token",
    "cached_audio": "cache_read_input_audio_token_cost",
    "image": "input_cost_per_image_token",
    "output_image": "output_cost_per_image_token",
    "cached_image": "cache_read_input_image_token_cost",
}
ELSE = {
    "cache_read": ("cache_read", "input"),
    "cache_write": ("cache_write", "input"),
    "cache_write_1h": ("cache_write_1h", "cache_write", "input"),
    "cache_write_12h": ("cache_write_12h", "cache_write", "input"),
    "reasoning": ("reasoning", "output"),
    "audio": ("audio", "input"),
    "image": ("image", "input"),
    "cached_audio": ("cached_audio", "cache_read", "audio", "input"),
    "cached_image": ("cached_image", "cache_read", "image", "input"),
    "output_audio": ("output_audio", "output"),
    "output_image": ("output_image", "output"),
}
SUFFIXES = {"flex": "_flex", "priority": "_priority", "batch": "_batches"}
THRESHOLDS = (128, 200)
PRICE = st.decimals(0, 1000, places=9).map(lambda price: Number(price.scaleb(-6)))
COUNT = st.integers(0, 1000)
MUCH = st.sampled_from([0, 100_000, 127_000, 128_000, 150_000, 199_000, 200_000, 10**6])


class Drawn(NamedTuple):
    """An entry and an answer."""

    facts: dict[str, Number]
    counts: dict[str, int]
    service: str | None
    """As the answer tells it."""


@st.composite
def drawn(draw: st.DrawFn) -> Drawn:
    facts: dict[str, Number] = {}
    services = ("", *(SUFFIXES[name] for name in draw(st.sets(st.sampled_from([*SUFFIXES])))))
    thresholds = draw(st.lists(st.sampled_from(THRESHOLDS), unique=True))
    for suffix in services:
        for above in ("", *(f"_above_{number}k_tokens" for number in thresholds)):
            if above and suffix and not draw(st.booleans()):
                continue
            kinds = draw(st.sets(st.sampled_from([*KINDS]))) | {"input", "output"}
            for kind in sorted(kinds):
                if not (kind == "reasoning" and above):
                    facts[f"{KINDS[kind]}{above}{suffix}"] = draw(PRICE)
    counts = {kind: draw(COUNT) for kind in KINDS}
    counts["input"] += draw(MUCH)
    known = [name for name, suffix in SUFFIXES.items() if suffix in services]
    return Drawn(facts, counts, draw(st.sampled_from([None, *known])))


def stated_prices(facts: Mapping[str, Number], kind: str, tokens_in: int, suffix: str) -> Iterator[str]:
    """Yield what an entry says of a kind of tokens, the most special first."""
    passed = [
        f"_above_{number}k_tokens" for number in sorted(THRESHOLDS, reverse=True) if tokens_in > number * 1000
    ]
    for above, service in [(above, service) for above in (*passed, "") for service in (suffix, "")]:
        found = facts.get(f"{KINDS[kind]}{above}{service}")
        if found is not None:
            yield found


def price_of(facts: Mapping[str, Number], kind: str, tokens_in: int, suffix: str) -> Fraction:
    if kind == "reasoning":
        own = facts.get(f"{KINDS[kind]}{suffix}")
        if own is None or (not suffix and Decimal(own) == Decimal(facts[KINDS["output"]])):
            kind = "output"
    for name in ELSE.get(kind, (kind,)):
        for price in stated_prices(facts, name, tokens_in, suffix):
            return Fraction(Decimal(price))
    raise AssertionError(kind)


def usage_of(counts: Mapping[str, int], service: str | None) -> TokenUsage:
    read = counts["cache_read"] + counts["cached_audio"] + counts["cached_image"]
    written = counts["cache_write"] + counts["cache_write_1h"] + counts["cache_write_12h"]
    parts = UsageParts(
        cache_write_1h=counts["cache_write_1h"],
        cache_write_12h=counts["cache_write_12h"],
        audio_in=counts["audio"] + counts["cached_audio"],
        image_in=counts["image"] + counts["cached_image"],
        cached_audio=counts["cached_audio"],
        cached_image=counts["cached_image"],
        audio_out=counts["output_audio"],
        image_out=counts["output_image"],
    )
    tokens_out = sum(counts[kind] for kind in ("output", "reasoning", "output_audio", "output_image"))
    tokens_in = counts["input"] + counts["audio"] + counts["image"] + read + written
    reasoning = counts["reasoning"]
    return TokenUsage(tokens_in, tokens_out, read, written, reasoning, parts=parts, service_tier=service)


@given(drawn())
def test_an_answer_costs_what_the_entry_says(case: Drawn) -> None:
    facts, counts, service = case
    usage = usage_of(counts, service)
    suffix = SUFFIXES[service] if service else ""
    assert usage.tokens_in is not None
    thresholds = [
        number * 1000 for number in THRESHOLDS if f"{KINDS['input']}_above_{number}k_tokens" in facts
    ]
    has_own = any("k_tokens" in name and name.endswith(suffix) for name in facts) if suffix else True
    expected: int | None = None
    if has_own or usage.tokens_in <= min(thresholds, default=usage.tokens_in):
        cost = sum(price_of(facts, kind, usage.tokens_in, suffix) * count for kind, count in counts.items())
        expected = (cost * 10**9 + Fraction(1, 2)).__floor__()
    table = PriceTable(rows_of([litellm_model(facts)]))
    assert table.estimate("any", "m", Modality.TEXT, Quantities(usage), 0.0) == expected
