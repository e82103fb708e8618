"""The literal blocks of a page, each known by its section and its place there."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from docutils import nodes
from docutils.core import publish_doctree

ROOT: Final = Path(__file__).resolve().parents[2]

Place = tuple[str, int]
"""The title of the innermost section, and the block's number there, from 1."""


@dataclass(frozen=True)
class PageBlock:
    """A literal block."""

    place: Place
    language: str
    """Of ``.. code::``; empty for a block behind ``::``."""
    text: str
    is_commented: bool
    """Whether a comment follows that says why it is not run with the other pages."""


def blocks_of(page: Path) -> dict[Place, PageBlock]:
    """Return all literal blocks of a page, in order."""
    document = publish_doctree(page.read_text(encoding="utf-8"), settings_overrides={"report_level": 5})
    seen: Counter[str] = Counter()
    found = {}
    for block in document.findall(nodes.literal_block):
        title = _title_above(block)
        seen[title] += 1
        place = (title, seen[title])
        languages = [name for name in block["classes"] if name != "code"]
        behind = block.next_node(descend=False, siblings=True)
        is_commented = isinstance(behind, nodes.comment) and behind.astext().startswith("not run: ")
        found[place] = PageBlock(place, "".join(languages), block.astext(), is_commented)
    return found


def _title_above(node: nodes.Node) -> str:
    parent = node.parent
    while parent is not None and not isinstance(parent, nodes.section | nodes.document):
        parent = parent.parent
    if parent is None:
        return ""
    title = next((child for child in parent.children if isinstance(child, nodes.title)), None)
    return "" if title is None else title.astext()
