"""The number of examples that laws are tried with."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.support.laws import THOROUGH, USUAL, examples

TESTS = Path(__file__).resolve().parents[2]


@pytest.fixture
def thorough() -> Iterator[None]:
    before = settings.get_current_profile_name()
    settings.load_profile("thorough")
    yield
    settings.load_profile(before)


def test_a_law_with_a_number_of_its_own_is_tried_as_many_times_more_when_it_is_to_be_thorough(
    thorough: None,
) -> None:
    assert settings().max_examples == THOROUGH
    assert examples(60).max_examples == 60 * THOROUGH // USUAL
    assert examples(USUAL).deadline is None


def test_no_law_says_how_many_examples_it_takes_in_every_profile() -> None:
    places = [path for path in TESTS.rglob("*.py") if "max_examples" in path.read_text(encoding="utf-8")]
    assert sorted(path.name for path in places) == ["drawn_signatures.py", "laws.py", "test_laws.py"]
