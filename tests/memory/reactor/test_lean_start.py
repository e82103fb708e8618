"""A module that is imported when something first looks into it."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

import pytest

from mgw.reactor.lean_start import import_when_used


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    folder = tmp_path / "lean_start_sample"
    folder.mkdir()
    (folder / "__init__.py").touch()
    (folder / "rare.py").write_text("from lean_start_sample import costly\nNAME = 'rare'\n")
    (folder / "costly.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("", ".rare", ".costly"):
        monkeypatch.delitem(sys.modules, folder.name + name, raising=False)
    return folder.name


def test_a_module_is_imported_when_something_looks_into_it(package: str) -> None:
    import_when_used(f"{package}.rare")
    rare = import_module(package).rare  # as ``from package import rare`` takes it
    assert f"{package}.costly" not in sys.modules
    assert rare.NAME == "rare"
    assert f"{package}.costly" in sys.modules


def test_what_is_there_stays(package: str) -> None:
    rare = import_module(f"{package}.rare")
    import_when_used(f"{package}.rare")
    assert import_module(f"{package}.rare") is rare


def test_what_does_not_exist_is_missed_where_it_is_imported(package: str) -> None:
    import_when_used(f"{package}.missing")
    with pytest.raises(ModuleNotFoundError):
        import_module(f"{package}.missing")
