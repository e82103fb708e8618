"""The texts that the page on troubleshooting explains are those that the code utters."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

import pytest
from docutils import nodes
from docutils.core import publish_doctree

ROOT: Final = Path(__file__).resolve().parents[2]
PAGE: Final = ROOT / "docs" / "troubleshooting.rst"
WORDS: Final = re.compile(r"[a-z_0-9]+")
"""A term of one word is a value of ``error=`` or a status, not a text."""


def literals() -> Iterator[str]:
    """Every text of the code, with ``…`` where it has a value put in."""
    for file in (ROOT / "mgw").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value
            elif isinstance(node, ast.Constant) and isinstance(node.value, bytes):
                yield node.value.decode("latin-1")
            elif isinstance(node, ast.JoinedStr):
                parts = (part.value if isinstance(part, ast.Constant) else "…" for part in node.values)
                yield "".join(map(str, parts))


@cache
def uttered() -> str:
    """All of it; read where a test asks, not by all who collect."""
    return "\n".join(set(literals()))


def quoted() -> Iterator[str]:
    """The texts that the page explains: the terms, and texts of several words in their explanations."""
    document = publish_doctree(PAGE.read_text(encoding="utf-8"))
    for item in document.findall(nodes.definition_list_item):
        for literal in item.findall(nodes.literal):
            text = literal.astext()
            is_term = isinstance(literal.parent, nodes.term)
            if not WORDS.fullmatch(text) and (is_term or text.startswith("provider …")):
                yield text


QUOTED: Final = sorted(set(quoted()))


MISTAKES: Final = (ROOT / "tests" / "golden" / "configuration-mistakes.txt").read_text(encoding="utf-8")
"""What the loader says, put together; another test compares it with the loader."""


@pytest.mark.parametrize("text", QUOTED)
def test_a_text_of_the_page_is_one_of_the_code(text: str) -> None:
    pieces = [
        piece for part in text.split("…") for piece in re.split(r"(?<=provider) |(?<=not YAML:) ", part)
    ]
    wanted = [piece.strip() for piece in pieces if len(piece.strip()) > 3]
    assert wanted
    for piece in wanted:
        assert piece in uttered() or piece in MISTAKES, piece


def test_the_page_explains_a_good_many() -> None:
    assert len(QUOTED) >= 45


CAUSES: Final = (
    "refused_connection dns tls connect_timeout first_byte_timeout idle_timeout reset not_http truncated "
    "unreadable credential upstream_4xx upstream_5xx upstream_error_event client_timeout client_abort limit"
)


def test_the_page_explains_each_word_of_error() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert not [word for word in CAUSES.split() if f"``{word}``" not in page]
