"""What comes in is served alike, however its bytes arrive and whatever is remembered of other requests."""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from tests.support.case_player import differences
from tests.support.drawn_cases import RETRYING, TEXT, draw_case
from tests.support.laws import examples


@examples(150)
@given(st.integers(0, 2**32), st.sampled_from([TEXT, RETRYING]))
def test_nobody_sees_how_a_request_came_or_what_is_remembered_of_others(seed: int, text: str) -> None:
    assert not differences(draw_case(Random(seed), text))
