"""Random tokens, verified by us, by PyJWT and by the library of the signatures."""

from __future__ import annotations

import pytest

from tests.support.drawn_tokens import AFTER_SIGNATURE, draw_many


@pytest.mark.parametrize("seed", [1, 2])
def test_pyjwt_agrees_or_is_known_to_differ(seed: int) -> None:
    opinions, differences = draw_many(1_500, seed)
    assert set(opinions) >= {"valid", "malformed", "algorithm", "unknown_key", "signature", "not a token"}
    assert set(opinions) >= AFTER_SIGNATURE - {None}
    assert differences.total() < 200
