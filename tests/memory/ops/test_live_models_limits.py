"""How much a live list may hold: so much, and one more."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from mgw.ops.live_models import MAX_MODELS, MAX_OBJECTS, MAX_TEXT, MAX_VALUES
from mgw.ops.probes import MAX_RESPONSE_BYTES
from tests.support.live_models import ONE, LiveModelsHarness, ids

Page = dict[str, Any]  # Any: JSON


def listed(page: Page | bytes) -> list[str] | None:
    """The models of a provider that answers this; ``None``: it counts as failed."""
    harness = LiveModelsHarness(ONE)
    asked = harness.ask()
    harness.respond("main", page)
    found = ids(asked)["main"]
    return None if harness.failures else found


def page_of_models(count: int) -> Page:
    return {"data": [{"id": f"m{number}"} for number in range(count)]}


def page_of_objects(count: int) -> Page:
    return {"data": [{"id": "m", "x": [{}] * (count - 2)}]}  # the page, and the model


def page_of_values(count: int) -> Page:
    """Counted are objects, arrays, and what stands behind a comma."""
    return {"data": [{"id": "m", "x": [0] * (count - 4)}]}


def page_of_bytes(size: int) -> bytes:
    page = json.dumps({"data": [{"id": "m", "x": ""}]}).encode()
    return page[:-4] + b"x" * (size - len(page)) + page[-4:]


@pytest.mark.parametrize(
    ("make", "most"),
    [
        (page_of_models, MAX_MODELS),
        (page_of_objects, MAX_OBJECTS),
        (page_of_values, MAX_VALUES),
        (page_of_bytes, MAX_RESPONSE_BYTES),
    ],
    ids=["models", "objects", "values", "bytes"],
)
def test_a_list_may_hold_so_much(make: Callable[[int], Page | bytes], most: int) -> None:
    assert listed(make(most))
    assert listed(make(most + 1)) is None


def test_a_name_may_be_so_long() -> None:
    short, long = "s" * MAX_TEXT, "l" * (MAX_TEXT + 1)
    assert listed({"data": [{"id": long}, {"id": short}]}) == [short]
