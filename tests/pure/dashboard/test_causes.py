"""The page explains every word that the ``error`` of an event may be."""

from __future__ import annotations

import re

from mgw.config.dashboard import PAGES
from mgw.dialects.refusal import WORDS
from mgw.usage.event import Outcome

SCRIPT = (PAGES / "js" / "causes.js").read_text(encoding="utf-8")


def explained(name: str) -> set[str]:
    """Return the words of a table of the script."""
    table = re.search(rf"const {name} = {{\n(.*?)\n}};", SCRIPT, re.DOTALL)
    assert table is not None
    return set(re.findall(r"^  (\w+): ", table[1], re.MULTILINE))


def test_the_page_explains_every_error() -> None:
    assert explained("CAUSES") >= WORDS


def test_the_page_says_whose_side_every_outcome_was() -> None:
    assert explained("SIDES") == set(Outcome)
