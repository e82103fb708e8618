"""A thinking setting, as far as all families measure it alike.

Three vendors measure thinking in three ways: by name, in tokens, and by leaving it to the model.  A wish goes
over by name where the model takes names (a missing one to its neighbour), else in tokens.  What the model
does by itself is left unsaid, and so is everything where nothing was asked.  Each dialect's ``options`` says
it in the dialect's own words (``map_reasoning``).

Sources: contract 8.8; the vendors' references as named in :mod:`mgw.dialects.model_rows`.
"""

from __future__ import annotations

from enum import Enum, auto
from types import MappingProxyType
from typing import Final

from mgw.canonical.conversation import Reasoning
from mgw.nouns.model_row import ModelRow
from mgw.nouns.vocabulary import Effort

BUDGETS: Final = MappingProxyType(
    {
        Effort.NONE: 0,
        Effort.MINIMAL: 1024,
        Effort.LOW: 2048,
        Effort.MEDIUM: 8192,
        Effort.HIGH: 24_576,
        Effort.XHIGH: 32_768,
        Effort.MAX: 32_768,
    }
)
"""What an effort is in tokens."""
_NAMES_BY_BUDGET: Final = (
    (1024, Effort.MINIMAL),
    (4096, Effort.LOW),
    (16_384, Effort.MEDIUM),
    (28_672, Effort.HIGH),
)
_NONE: Final = Effort.NONE  # a member of an enumeration is looked up in Python's slow way each time
_ORDER: Final = MappingProxyType({effort: place for place, effort in enumerate(Effort)})


class Wish(Enum):
    """What a request asks for, whatever measure it uses."""

    NOTHING = auto()
    OFF = auto()
    OWN = auto()
    """The amount of thinking that the model thinks right."""
    SOME = auto()


def effort_of(budget: int) -> Effort | None:
    """Return the name of a number of tokens; ``None``, the model's own choice, for -1."""
    if budget < 0:
        return None
    if budget == 0:
        return Effort.NONE
    return next((effort for most, effort in _NAMES_BY_BUDGET if budget <= most), Effort.XHIGH)


def find_wish(reasoning: Reasoning) -> Wish:
    """Return what a request asks for."""
    if reasoning.effort is Effort.NONE or reasoning.budget == 0:
        return Wish.OFF
    if reasoning.effort is not None or (reasoning.budget is not None and reasoning.budget > 0):
        return Wish.SOME
    if reasoning.budget is not None or reasoning.adaptive:
        return Wish.OWN
    return Wish.NOTHING


def find_effort(reasoning: Reasoning) -> Effort | None:
    """Return how much is asked for, by name; ``None``: that is the model's choice."""
    if reasoning.effort is not None or reasoning.budget is None:
        return reasoning.effort
    return effort_of(reasoning.budget)


def choose_named(wanted: Effort | None, row: ModelRow) -> Effort | None:
    """Return the nearest effort that the model takes by name, of two as near the higher."""
    if wanted is None or not row.names:
        return None
    return min(row.names, key=lambda name: (abs(_ORDER[name] - _ORDER[wanted]), -_ORDER[name]))


def choose_budget(reasoning: Reasoning, row: ModelRow) -> int:
    """Return how many tokens are asked for, within the model's range.

    The model's own choice is what it thinks by itself; a model that does not gets a medium budget, and an
    adaptive one ``high``, the vendor's default once thinking is on.
    """
    if reasoning.budget is not None and reasoning.budget > 0 and not row.adaptive:
        wanted = reasoning.budget
    else:
        own = row.default if row.default not in {None, Effort.NONE} else None
        wanted = BUDGETS[find_effort(reasoning) or own or (Effort.HIGH if row.adaptive else Effort.MEDIUM)]
    if row.budget is None:
        return wanted
    least, most = row.budget
    return max(least, min(wanted, most))
