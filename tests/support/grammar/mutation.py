"""Breaking one rule of a legal text, to see whether a checker notices."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from _pytest.mark.structures import ParameterSet

Mutation = tuple[str, str, str]
"""What is replaced, by what, and what the checker says of it."""


def mutated(text: str, old: str, new: str) -> bytes:
    """Return ``text`` with the first ``old`` replaced; there must be one."""
    assert old in text, f"{old!r} is not in the text"
    return text.replace(old, new, 1).encode()


def named(mutations: list[Mutation]) -> list[ParameterSet]:
    """Return the mutations as parameters of a test, each named by what the checker says."""
    return [pytest.param(*mutation, id=mutation[2]) for mutation in mutations]
