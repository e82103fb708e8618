"""What the catalog's models cost, looked up for a bounded time in each answer."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from mgw.config.prices import PriceRowSettings
from mgw.dashboard.profiles import MAX_COMPARISONS, ModelPrices
from mgw.usage.prices import PriceTable


def table(*rows: dict[str, Any]) -> PriceTable:  # Any: settings
    return PriceTable(PriceRowSettings.model_construct(**row) for row in rows)


def test_a_price_is_in_dollars_without_what_is_not_said() -> None:
    prices = ModelPrices()
    prices.begin(table({"model": "gpt-*", "input": Decimal("0.25"), "output": Decimal(2)}), 0.0)
    assert prices.price("main", "gpt-x") == {"input": 0.25, "output": 2.0}
    assert prices.price("main", "other") is None


def test_another_table_has_other_prices() -> None:
    prices = ModelPrices()
    prices.begin(table({"model": "*", "input": Decimal(1)}), 0.0)
    assert prices.price("main", "gpt-x") == {"input": 1.0}
    prices.begin(table({"model": "*", "input": Decimal(2)}), 0.0)
    assert prices.price("main", "gpt-x") == {"input": 2.0}
    prices.begin(None, 0.0)
    assert prices.price("main", "gpt-x") is None


def test_what_an_answer_has_no_time_for_is_in_a_later_one() -> None:
    rows = [{"model": f"never-{number}-*", "input": Decimal(1)} for number in range(999)]
    found = table(*rows, {"model": "*", "input": Decimal(3)})
    names = [f"model-{number}" for number in range(2 * MAX_COMPARISONS // len(found))]
    prices = ModelPrices()
    prices.begin(found, 0.0)
    first = [prices.price("main", name) is not None for name in names]
    assert first == [True] * (len(names) // 2) + [False] * (len(names) // 2)
    prices.begin(found, 0.0)
    assert all(prices.price("main", name) for name in names)
