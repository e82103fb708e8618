"""Every block of the page on clients is run by a test, and it names the versions that are pinned."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Final

import pytest
from packaging.requirements import Requirement

from tests.agents.recipes import AGENTS, CONFIGURATION, ELSEWHERE, FILE, PAGE, PROGRAMS

ROOT: Final = Path(__file__).resolve().parents[2]
IN_AGENTS: Final = ROOT / "tests" / "agents"


def test_every_block_of_the_page_is_run() -> None:
    """Else give a new block a row in ``tests/agents/recipes.py``, or mend the place of one that has moved."""
    run = {*CONFIGURATION, *AGENTS, *ELSEWHERE, *(program.place for program in PROGRAMS)}
    assert set(PAGE) == run


def test_a_block_is_run_by_a_test_that_there_is() -> None:
    source = (IN_AGENTS / "test_recipes.py").read_text(encoding="utf-8")
    assert not [name for name in AGENTS.values() if f"def {name}(" not in source]
    assert not [
        path for path in ELSEWHERE.values() if path.startswith("tests/") and not (ROOT / path).is_file()
    ]


def test_programs_are_run_by_what_reads_their_language() -> None:
    languages = {"node": "javascript"}
    for program in PROGRAMS:
        assert PAGE[program.place].language == languages.get(program.interpreter, "python"), program.place


def pinned() -> dict[str, set[str]]:
    """Return the versions of everything that ``make test-agents`` installs or runs with, by name."""
    found: dict[str, set[str]] = {}
    package = json.loads((IN_AGENTS / "package.json").read_text(encoding="utf-8"))
    for name, version in package["dependencies"].items():
        found.setdefault(name, set()).add(version)
    for file in (
        IN_AGENTS / "requirements.txt",
        IN_AGENTS / "requirements-older.txt",
        ROOT / "constraints.txt",
    ):
        for line in file.read_text(encoding="utf-8").splitlines():
            if re.match(r"[\w.-]+(\[[\w,-]+\])?==", line):
                one = Requirement(line)
                found.setdefault(one.name, set()).add(str(one.specifier).removeprefix("=="))
    return found


NAMED: Final = {
    "Claude Code": "@anthropic-ai/claude-code",
    "Codex": "@openai/codex",
    "Gemini CLI": "@google/gemini-cli",
    "openai (Python)": "openai",
    "anthropic (Python)": "anthropic",
    "google-genai (Python)": "google-genai",
    "langchain-openai": "langchain-openai",
    "langchain-anthropic": "langchain-anthropic",
    "langchain-google-genai": "langchain-google-genai",
    "openai-agents": "openai-agents",
    "pydantic-ai-slim": "pydantic-ai-slim",
    "instructor": "instructor",
    "llama-index-llms-openai-like": "llama-index-llms-openai-like",
    "litellm": "litellm",
    "llm": "llm",
    "ai with @ai-sdk/openai": "@ai-sdk/openai",
    "ai with @ai-sdk/anthropic": "@ai-sdk/anthropic",
    "ai with @ai-sdk/google": "@ai-sdk/google",
}
"""What the table of tested versions calls the packages."""


@pytest.mark.parametrize("client", NAMED)
def test_the_page_names_a_version_that_is_tested(client: str) -> None:
    text = FILE.read_text(encoding="utf-8")
    [version] = re.findall(rf"^   \* - {re.escape(client)}\n     - (.+)$", text, re.MULTILINE)
    assert pinned()[NAMED[client]] & set(re.split(r", | with ", version)), version
