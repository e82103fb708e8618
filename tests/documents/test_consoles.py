"""What the pages say to type prints what they say: every block with ``$`` is run."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

import pytest

from tools.pages.consoles import Typed, Written, play, session_of

ROOT: Final = Path(__file__).resolve().parents[2]
PAGES: Final = {
    page.name: text
    for page in (*sorted(ROOT.glob("*.rst")), *sorted((ROOT / "docs").glob("*.rst")))
    if "\n    $ " in (text := page.read_text(encoding="utf-8"))
}
"""The pages with sessions, which are looked for where a test asks, not by all who collect."""


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
def test_what_a_page_says_to_type_prints_what_it_says(page: str) -> None:
    for tool in ("bash", "curl", "openssl"):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not there")
    steps = session_of(PAGES[page])
    assert steps
    for step, output in play(steps):
        assert step.fits(output), f"$ {step.command}\n{output}\n\nand not\n\n{step.output}"


def test_the_pages_for_newcomers_have_sessions() -> None:
    assert {"quickstart.rst", "tutorial.rst"} <= set(PAGES)


def test_a_session_has_its_commands_their_output_and_the_files_that_are_shown() -> None:
    page = (
        "Put this into ``a.yaml``::\n\n    b: 1\n\nThen::\n\n    $ one \\\n        two\n    x ... y\n"
        "    $ three\n\n"
        "Now add this to ``a.yaml``, at the end::\n\n    c: 2\n\nNothing::\n\n    make run\n"
    )
    assert session_of(page) == [
        Written("a.yaml", "b: 1\n", "w"),
        Typed("one \\\n    two", "x ... y\n"),
        Typed("three", ""),
        Written("a.yaml", "c: 2\n", "a"),
    ]


@pytest.mark.parametrize(
    ("said", "printed", "fits"),
    [
        ("a", "a", True),
        ("a", "b", False),
        ("a", "", False),
        ("", "a", False),
        ("a...z", "a\nb\nz", True),
        ("a...z", "a\nb", False),
        ("a.z", "abz", False),
    ],
)
def test_dots_stand_for_whatever_comes_there(said: str, printed: str, *, fits: bool) -> None:
    assert Typed("x", said).fits(printed) is fits
