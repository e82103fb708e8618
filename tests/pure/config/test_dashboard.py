"""Where the dashboard is on: with its optional package and its pages, unless the operator says otherwise."""

from __future__ import annotations

from pathlib import Path

import pytest

from mgw.config import dashboard
from mgw.config.load import parse
from mgw.config.problems import ConfigError
from tests.support.configs import THREE_FAMILIES

ON = THREE_FAMILIES + "dashboard: {enabled: true}\n"
OFF = THREE_FAMILIES + "dashboard: {enabled: false}\n"


@pytest.fixture(params=["package", "pages"])
def incomplete(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """Take away a part of the installation; return the word that a message has to have."""
    if request.param == "package":
        monkeypatch.setattr(dashboard, "NEEDED_PACKAGE", "a_package_that_nobody_has")
        return "pip install 'mgw-gateway[dashboard]'"
    monkeypatch.setattr(dashboard, "PAGES", tmp_path / "static")
    return "this build of mgw has no dashboard"


def is_on(text: str) -> bool | None:
    return parse(text, "mgw.yaml", {}).dashboard.enabled


def test_it_is_on_where_all_of_it_is_there() -> None:
    assert is_on(THREE_FAMILIES)
    assert is_on(ON)
    assert not is_on(OFF)


def test_without_a_part_of_it_it_is_off(incomplete: str) -> None:
    assert incomplete
    assert is_on(THREE_FAMILIES) is False
    assert is_on(OFF) is False


def test_without_a_part_of_it_it_cannot_be_wanted(incomplete: str) -> None:
    with pytest.raises(ConfigError) as refused:
        parse(ON, "mgw.yaml", {})
    (problem,) = str(refused.value).splitlines()
    assert problem.startswith("mgw.yaml:")
    assert "dashboard.enabled" in problem
    assert incomplete in problem
