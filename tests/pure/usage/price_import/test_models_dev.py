"""The list of models.dev: its costs are those of a row, and what a row does not know is named."""

from __future__ import annotations

import pytest

from mgw.usage.price_import.json_document import PriceListError, read_document
from mgw.usage.price_import.models_dev import read_models
from tests.support.price_lists import Number, Written, models_dev_model, rows_of, stated

TWO = {"input": Number("0.3"), "output": Number("2.50")}
ALL = {
    **TWO,
    **{
        name: Number("0.1")
        for name in ("reasoning", "cache_read", "cache_write", "input_audio", "output_audio")
    },
}


def tier(size: object, kind: str = "context", **prices: object) -> dict[str, object]:
    return {**prices, "tier": {"type": kind, "size": size}}


@pytest.mark.parametrize(
    ("cost", "expected"),
    [
        (TWO, {"input": "0.3", "output": "2.5"}),
        (ALL, {name: str(price).rstrip("0") for name, price in ALL.items()}),
        (
            {**TWO, "tiers": [tier(200000, input=Number("0.6")), tier(32000, output=Number("3"))]},
            {
                "input": "0.3",
                "output": "2.5",
                "tiers": ({"above": "32000", "output": "3"}, {"above": "200000", "input": "0.6"}),
            },
        ),
        (
            {**TWO, "context_over_200k": {"input": Number("0.6"), "cache_read": Number("0.06")}},
            {
                "input": "0.3",
                "output": "2.5",
                "tiers": ({"above": "200000", "input": "0.6", "cache_read": "0.06"},),
            },
        ),
        (
            {**TWO, "tiers": [tier(272000, input=1)], "context_over_200k": {"input": 2}},
            {"input": "0.3", "output": "2.5", "tiers": ({"above": "272000", "input": "1"},)},
        ),
    ],
)
def test_a_cost_is_a_row(cost: Written, expected: dict[str, object]) -> None:
    entry = models_dev_model(cost)
    (row,) = rows_of([entry])
    assert stated(row) == {"model": "m", **expected}
    assert not entry.unplaced


@pytest.mark.parametrize(
    ("cost", "unplaced"),
    [
        ({"output_video": 3}, "output_video 3"),
        ({"tiers": [tier(1000, kind="requests", input=1)]}, "tiers of another kind"),
        ({"tiers": [tier(Number("0.5"), input=1)]}, "tiers of another kind"),
        ({"tiers": {"input": 1}}, "tiers of another kind"),
        ({"tiers": [tier(1000, output_video=1)]}, "above 1000 output_video 1"),
        ({"context_over_200k": 3}, "context_over_200k 3"),
        ({"cache_read": "cheap"}, "cache_read"),
    ],
)
def test_what_has_no_place_is_named(cost: Written, unplaced: str) -> None:
    assert models_dev_model({**TWO, **cost}).unplaced == [unplaced]


def test_a_model_without_a_cost_is_left_out() -> None:
    assert not read_models({"openai": {"models": {"m": {"name": "M"}}}})


def test_a_list_of_another_shape_is_refused() -> None:
    with pytest.raises(PriceListError, match=r"not the api.json of models.dev: 'm' has no models"):
        read_models(read_document(b'{"m": {"litellm_provider": "openai"}}'))
