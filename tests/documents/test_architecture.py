"""The page on the architecture, and the drawings of states in the code, say what the code has."""

from __future__ import annotations

import re
from enum import EnumMeta
from importlib import import_module
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).resolve().parents[2]
PAGE: Final = (ROOT / "docs" / "architecture.rst").read_text(encoding="utf-8")

MACHINES: Final = {
    "mgw.http.body": "_Expected",
    "mgw.wire.json_array": "_State",
    "mgw.wire.multipart": "_State",
    "mgw.upstream.connection_request": "_State",
}


def test_every_enumeration_of_states_is_known_here() -> None:
    found = {
        path.relative_to(ROOT).with_suffix("").as_posix().replace("/", ".")
        for path in (ROOT / "mgw").rglob("*.py")
        if re.search(r"^class (_State|_Expected)\(Enum\)", path.read_text(encoding="utf-8"), re.MULTILINE)
    }
    assert found == set(MACHINES)


@pytest.mark.parametrize("name", MACHINES)
def test_a_drawing_of_states_has_every_state(name: str) -> None:
    module = import_module(name)
    states = getattr(module, MACHINES[name])
    assert isinstance(states, EnumMeta)
    words = set(re.findall(r"\w+", (module.__doc__ or "").lower()))
    assert not [state for state in states.__members__ if state.lower() not in words]


@pytest.mark.parametrize("name", sorted(set(re.findall(r"``(mgw/[\w/]+(?:\.py|/))``", PAGE))))
def test_the_page_names_files_that_exist(name: str) -> None:
    assert (ROOT / name).exists()


@pytest.mark.parametrize("name", sorted(set(re.findall(r"^``([A-Z]\w+)``", PAGE, re.MULTILINE))))
def test_the_page_names_types_that_exist(name: str) -> None:
    sources = (path.read_text(encoding="utf-8") for path in (ROOT / "mgw").rglob("*.py"))
    assert any(re.search(rf"^class {name}\b", source, re.MULTILINE) for source in sources)
