"""The dashboard is on unless the operator says otherwise or a part of it is not installed."""

from __future__ import annotations

from pathlib import Path

import pytest

from mgw.app.check import warnings
from mgw.config import dashboard
from mgw.config.dashboard import DashboardSettings
from mgw.config.load import parse
from mgw.config.problems import ConfigError
from mgw.config.schema import schema_text
from mgw.config.settings import Config
from tests.support.configs import THREE_FAMILIES

ON = THREE_FAMILIES + "dashboard: {enabled: true}\n"
OFF = THREE_FAMILIES + "dashboard: {enabled: false}\n"


@pytest.fixture(params=["package", "pages"])
def incomplete(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """Take away a part of the installation; return the word that a message has to have."""
    if request.param == "package":
        monkeypatch.setattr(dashboard, "NEEDED_PACKAGE", "a_package_that_nobody_has")
        return "it needs the package a_package_that_nobody_has (pip install a_package_that_nobody_has)"
    monkeypatch.setattr(dashboard, "PAGES", tmp_path / "static")
    return "this build has no pages for it; install mgw-gateway from its wheel or source archive"


def warnings_of(config: Config) -> list[str]:
    return [warning for warning in warnings(config) if "dashboard" in warning]


def settled(text: str) -> DashboardSettings:
    return parse(text, "mgw.yaml", {}).dashboard


def test_it_is_on_unless_it_is_turned_off() -> None:
    assert settled(THREE_FAMILIES).is_served
    assert settled(ON).is_served
    assert settled(ON).why_off is None
    assert not settled(OFF).is_served
    assert settled(OFF).why_off == "the dashboard is off: to turn it on, set dashboard.enabled to true"


@pytest.mark.parametrize("text", [THREE_FAMILIES, ON], ids=["by default", "stated"])
def test_without_a_part_of_it_the_gateway_starts_and_says_so(incomplete: str, text: str) -> None:
    config = parse(text, "mgw.yaml", {})
    assert not config.dashboard.is_served
    reason = f"the dashboard is not installed: {incomplete}"
    assert config.dashboard.why_off == reason
    assert warnings_of(config) == [f"{reason}; the gateway runs without it"]


def test_nothing_is_missing_where_it_is_turned_off(incomplete: str) -> None:
    assert incomplete
    config = parse(OFF, "mgw.yaml", {})
    assert config.dashboard.why_off == dashboard.OFF
    assert warnings_of(config) == []


def test_what_is_missing_is_no_setting() -> None:
    with pytest.raises(ConfigError, match=r"dashboard\.missing: unknown key"):
        parse(THREE_FAMILIES + "dashboard: {missing: all of it}\n", "mgw.yaml", {})
    assert '"missing"' not in schema_text()
