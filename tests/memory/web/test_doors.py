"""Requests for text are served alike with Klein and without it, and whether or not their heads are known."""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from tests.support.door_cases import RETRYING, TEXT, draw_case
from tests.support.door_play import differences
from tests.support.laws import examples


@examples(150)
@given(st.integers(0, 2**32), st.sampled_from([TEXT, RETRYING]))
def test_whatever_comes_in_is_served_alike_through_both_doors(seed: int, text: str) -> None:
    assert not differences(draw_case(Random(seed), text))
