"""What a configuration becomes."""

from __future__ import annotations

from twisted.internet.testing import MemoryReactorClock

from mgw.generation import build_generation
from mgw.vocabulary import Effort, Family, ForcedTools
from tests.support.configs import THREE_FAMILIES, config
from tests.support.token_endpoints import TokenHosts

ROWS = """
translation:
  models:
    - {match: "house-*", family: anthropic, budget: false, max_output: false, default: none, efforts: [low]}
    - {match: "gemini-2.5-pro*", family: gemini, budget: [5, 10]}
"""


def test_an_operators_rows_stand_before_the_shipped_ones_and_inherit_the_rest() -> None:
    models = build_generation(
        1, config(THREE_FAMILIES + ROWS), MemoryReactorClock(), 0, TokenHosts().sources
    ).models
    house = models.row("house-7", Family.ANTHROPIC)
    assert (house.budget, house.max_output, house.default) == (None, None, Effort.NONE)
    assert house.efforts == (Effort.LOW,)
    assert house.forced_tools is ForcedTools.NEVER
    pro = models.row("gemini-2.5-pro-preview", Family.GEMINI)
    assert (pro.budget, pro.off) == ((5, 10), False)
    assert models.row("house-7", Family.GEMINI).budget is None
