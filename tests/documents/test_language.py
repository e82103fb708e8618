"""The texts that users read have none of the habits of language that a program can find."""

from __future__ import annotations

from typing import Final

import pytest

from tools.pages.language import HABITS, ROOT, Finding, Habit, findings

PLACES: Final = (
    "*.rst",
    "docs/**/*.rst",
    "etc/**/*.yaml",
    "etc/**/*.json",
    "etc/**/*.conf",
    "etc/**/*.cfg",
    "mgw/dashboard/static/**/*.html",
    "mgw/dashboard/static/**/*.js",
    "mgw/**/*.py",
    "mgw_sim/**/*.py",
)
"""Pages, examples, the dashboard, and the modules: their strings are messages, help and descriptions."""
IMITATIONS: Final = frozenset({"mgw_sim/model.py"})
"""Files with sentences of a simulated model and its users, which are not the project's."""


def names() -> list[str]:
    paths = {path.relative_to(ROOT) for place in PLACES for path in ROOT.glob(place)}
    return sorted(str(path) for path in paths if not {"vendor", "node_modules"} & set(path.parts))


@pytest.mark.parametrize("name", [name for name in names() if name not in IMITATIONS])
def test_a_text_has_none_of_the_habits(name: str) -> None:
    found = findings(name, (ROOT / name).read_text(encoding="utf-8"))
    assert not found, "\n".join(f"{name}:{finding}" for finding in found)


def test_the_walk_finds_pages_examples_the_dashboard_and_modules() -> None:
    expected = {
        "docs/contract.rst",
    }
    expected |= {"mgw/dashboard/static/index.html", "mgw/dashboard/static/js/main.js", "mgw/cli/main.py"}
    expected |= IMITATIONS
    assert set(names()) >= expected


@pytest.mark.parametrize("habit", HABITS, ids=lambda habit: habit.example)
def test_a_pattern_finds_its_example_and_says_what_is_better(habit: Habit) -> None:
    assert habit.better in {finding.better for finding in findings("a.rst", habit.example)}


@pytest.mark.parametrize(
    "text",
    [
        "There is no such path, and that is no longer needed.",
        "It works on its own; the client retries automatically.",
        "The length of the body of a request.",
        "Clients authenticate with a gateway key from ``edge_auth.keys``.",
        "``this wants whose told`` is code",
    ],
)
def test_plain_english_is_left_alone(text: str) -> None:
    assert findings("a.rst", text) == []


def found_in(name: str, text: str) -> list[tuple[int, str]]:
    return [(finding.line, finding.found) for finding in findings(name, text)]


def test_an_expression_is_found_across_a_line_break() -> None:
    assert found_in("a.rst", "Here.\n\nRequests under\nway.\n") == [(3, "under way")]
    assert found_in("a.yaml", "# Requests under\n# way.\na: 1\n") == [(1, "under way")]


def test_items_of_lists_and_cells_are_texts_of_their_own() -> None:
    assert found_in("a.rst", "- one\n- it wants two\n") == [(2, "wants")]
    assert found_in("a.rst", "=====  =====\nunder  way\n=====  =====\n") == []


def test_literal_blocks_are_code() -> None:
    page = (
        "It is so::\n\n    a: wants\n\n    b: wants\n\nIt wants.\n\n.. code:: yaml\n\n    a: wants\n\nwants\n"
    )
    assert found_in("a.rst", page) == [(7, "wants"), (13, "wants")]


def test_strings_of_modules_are_messages_but_docstrings_and_names_are_not() -> None:
    module = '"""It wants."""\nA = 1\n"""It wants."""\nB = f"{A} wants " "a key"\nC = "wants"\n# wants\n'
    assert found_in("a.py", module) == [(4, "wants")]


def test_strings_of_scripts_are_texts_but_comments_and_code_are_not() -> None:
    script = (
        "/* it wants */ const told = \"it wants 1\"; // it wants\nh(`under ${told} way`, 'a // told b');\n"
    )
    assert found_in("a.js", script) == [(1, "wants"), (2, "told")]


def test_strings_of_documents_are_texts() -> None:
    assert found_in("a.json", '{"whose key": ["one", {"b": "it wants"}]}') == [(1, "wants")]


def test_a_finding_is_a_line_to_read() -> None:
    finding = Finding(3, "wants", "requires", "it wants a key")
    assert str(finding) == "3: 'wants', better: requires: …it wants a key…"
