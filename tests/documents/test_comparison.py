"""The front page claims what the page on comparison shows, and what that cites of ours is there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest
from docutils import nodes
from docutils.core import publish_doctree

from tools.readme import SETTINGS, html

ROOT: Final = Path(__file__).resolve().parents[2]
README: Final = (ROOT / "README.rst").read_text(encoding="utf-8")
PAGE: Final = (ROOT / "docs" / "comparison.rst").read_text(encoding="utf-8")
TESTS: Final = re.findall(r"``(tests/[\w/]+\.py)``", PAGE)


def tables_of(text: str) -> list[tuple[str, list[list[str]]]]:
    """Return the tables of a page as texts, each with the title of its section."""
    tree = publish_doctree(text, settings_overrides=SETTINGS)
    found = []
    for table in tree.findall(nodes.table):
        section = table.parent
        title = section.next_node(nodes.title)
        rows = [
            [entry.astext().strip() for entry in row.findall(nodes.entry)] for row in table.findall(nodes.row)
        ]
        found.append((title.astext() if title is not None else "", rows))
    return found


def rows_of(table: nodes.table) -> list[nodes.row]:
    return list(table.findall(nodes.row))


def claims() -> dict[str, dict[str, str]]:
    """Return what the front page says of each gateway, row by row."""
    [(names, *rows)] = [rows for title, rows in tables_of(README) if title == "What sets it apart"][:1]
    return {row[0]: dict(zip(names[1:], row[1:], strict=True)) for row in rows}


def evidence() -> dict[str, dict[str, str]]:
    """Return the same of the page on comparison."""
    return {
        title: {gateway: word for gateway, word, _ in rows[1:]}
        for title, rows in tables_of(PAGE)
        if len(rows[0]) == 3 and rows[0][2] == "Evidence"
    }


def test_the_front_page_has_at_most_ten_rows_and_each_has_its_evidence() -> None:
    assert 5 <= len(claims()) <= 10
    assert claims() == evidence()


def test_every_cell_has_evidence() -> None:
    for title, rows in tables_of(PAGE):
        if rows[0][-1] == "Evidence":
            assert all(len(row[2]) > 30 for row in rows[1:]), title


@pytest.mark.parametrize("name", TESTS)
def test_a_test_that_the_comparison_names_is_there(name: str) -> None:
    assert (ROOT / name).is_file()


@pytest.mark.parametrize("name", re.findall(r"``(test_\w+)``", PAGE))
def test_a_function_that_the_comparison_names_is_there_or_is_theirs(name: str) -> None:
    texts = [(ROOT / test).read_text(encoding="utf-8") for test in TESTS]
    assert any(f"def {name}(" in text for text in texts)


@pytest.mark.parametrize("target", re.findall(r"``make (bench-\w+)``", README + PAGE))
def test_a_figure_has_its_command(target: str) -> None:
    assert f"\n{target}:" in (ROOT / "Makefile").read_text(encoding="utf-8")


def test_the_figures_of_the_front_page_are_those_of_the_pages() -> None:
    performance = (ROOT / "docs" / "performance.rst").read_text(encoding="utf-8")
    assert '"CPU, 1 kB, 32 connections, µs/request", "nginx", "16.6", "102.6"' in performance
    assert '"CPU, 1 kB, 4 connections, µs/request", "LiteLLM\'s proxy", "11,562.6", "120.0"' in performance
    assert "103 µs with everything on (nginx 17 µs)" in README
    assert "120 µs at 4 connections (LiteLLM 12 ms)" in README
    for figure in ("0 of 160 bodies changed", "0 of 4,414 fields lost"):
        assert figure in README
        assert figure in PAGE


def test_the_front_page_has_what_claude_code_needs_to_start() -> None:
    """Without a key it says "Not logged in" and sends nothing."""
    said = README.partition("Coding agents use")[2].partition("Install it")[0]
    assert set(re.findall(r"``(ANTHROPIC_\w+)=", said)) == {"ANTHROPIC_BASE_URL", "ANTHROPIC_AUTH_TOKEN"}


def test_the_readme_is_what_a_code_host_renders() -> None:
    """By docutils alone, without raw HTML and files from elsewhere; a warning is an error."""
    page = html(README)
    pictures = re.findall(r'<img[^>]*src="([^"]+)"', page)
    assert "docs/images/overview.svg" in pictures
    assert all((ROOT / picture).is_file() for picture in pictures)


def test_the_readme_opens_with_its_two_commands_and_the_picture() -> None:
    opening = README.partition("What sets it apart")[0]
    assert len(opening) < 1000
    assert all(words in opening for words in ("``make run``", "``make test``", "docs/images/overview.svg"))
