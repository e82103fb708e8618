"""The grid: every dialect has the same files, with the same names in them, and keeps what it alone knows."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Final

import pytest

from mgw.dialects import dialect_of
from mgw.nouns.vocabulary import DialectName

ROOT: Final = Path(__file__).parents[3]
FOLDERS: Final = ("anthropic", "gemini", "openai", "responses")
GRID: Final = {
    *("request", "turns", "blocks", "tools", "options", "media", "schema"),
    *("reply", "stream_reader", "stream_writer", "usage", "errors", "catalog"),
    *("count", "embedding", "speech"),
}
"""The files of a dialect, as far as it has content for them."""
BESIDE: Final = {
    "candidates": "what an answer's choice, candidate or output holds, whole and as it streams",
    "thoughts": "thoughts and signatures",
    "stream_events": "what the events of passing streams mean",
    "messages": "a request's messages, where they do not fit into turns",
    "calls": "the calls of an answer, where they do not fit into candidates",
}
"""Files that several dialects have beside the grid's, by the same names."""
ALONE: Final = {
    ("anthropic", "cache_control"),
    ("gemini", "proto_json"),
    ("openai", "extra_chunk"),
    ("responses", "stream_items"),
}
"""Files that one dialect has; ``docs/architecture.rst`` says why."""
SAME: Final = {
    "request": {"parse_request", "render_request"},
    "reply": {"parse_reply", "render_reply"},
    "usage": {"render_usage"},
    "thoughts": {"find_tagged"},
    "stream_events": {"find_error", "ended_choices", "says_nothing"},
    "catalog": {"render_list", "render_entry"},
    "count": {"render_reply"},
    "media": {"render_media"},
    "turns": {"render_turns"},
}
"""What modules of these names define in every dialect that has one."""
TABLES: Final = {
    "mgw/nouns/vocabulary.py": "spellings of families in configurations",
}
"""Where mappings by the name of a dialect or a family may stand."""


def modules_of(folder: str) -> set[str]:
    files = (ROOT / "mgw/dialects" / folder).glob("*.py")
    return {file.stem for file in files if file.stem != "__init__"}


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_dialect_has_the_files_of_the_others(folder: str) -> None:
    own = {name for dialect, name in ALONE if dialect == folder}
    assert modules_of(folder) - GRID - BESIDE.keys() == own


@pytest.mark.parametrize("name", BESIDE)
def test_a_file_beside_the_grid_is_shared(name: str) -> None:
    assert sum(name in modules_of(folder) for folder in FOLDERS) > 1


def test_files_that_one_dialect_has_are_explained() -> None:
    page = (ROOT / "docs/architecture.rst").read_text(encoding="utf-8")
    for _, name in ALONE:
        assert f"``{name}``" in page.partition("Appendix: modules")[0]


@pytest.mark.parametrize("folder", FOLDERS)
def test_the_same_job_has_the_same_name(folder: str) -> None:
    for name in SAME.keys() & modules_of(folder):
        module = import_module(f"mgw.dialects.{folder}.{name}")
        assert {job for job in SAME[name] if not hasattr(module, job)} == set(), name


def keys_by_name(tree: ast.AST) -> Iterator[str]:
    """Yield the names by which mappings are keyed: members of ``DialectName`` and ``Family``, and in sets."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Dict):
            yield from _members(node.keys, "DialectName", "Family")
        elif isinstance(node, ast.Set):  # the other families that a route serves are a column of its row
            yield from _members(node.elts, "DialectName")


def _members(keys: Iterable[ast.expr | None], *enumerations: str) -> Iterator[str]:
    for key in keys:
        spelled = "" if key is None else ast.unparse(key)
        if spelled.partition(".")[0] in enumerations and isinstance(key, ast.Attribute):
            yield spelled


def test_nothing_that_a_dialect_knows_stands_in_a_table_by_its_name() -> None:
    found = {
        str(file.relative_to(ROOT)): keys
        for file in (ROOT / "mgw").rglob("*.py")
        if (keys := [*keys_by_name(ast.parse(file.read_text(encoding="utf-8")))])
    }
    assert found.keys() <= TABLES.keys(), found


def test_a_dialect_is_registered_by_its_name() -> None:
    assert [dialect_of(name).name for name in DialectName] == [*DialectName]
