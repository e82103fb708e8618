"""The libraries of the tests, the linters and the release tools are pinned, so that a clone stays green."""

from __future__ import annotations

import importlib.metadata
import json
import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from mgw import DISTRIBUTION

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENTS = [
    pytest.param(
        "constraints.txt", ["$(VENV)/run.stamp", "$(VENV)/dev.stamp", ".venv-release/install.stamp"], id="dev"
    ),
    pytest.param("bench/constraints.txt", [".venv-bench/install.stamp"], id="bench"),
    pytest.param("bench/constraints-rivals.txt", [".venv-rivals/install.stamp"], id="rivals"),
    pytest.param("tests/agents/constraints.txt", [".agents/install.stamp"], id="agents"),
    pytest.param("tests/agents/constraints-older.txt", [".agents/install.stamp"], id="agents, older"),
]

OF_NPM = [
    pytest.param("bench/portkey", ".portkey/install.stamp", id="portkey"),
    pytest.param("tests/agents", ".agents/install.stamp", id="agents"),
    pytest.param("tests/browser", ".browser/install.stamp", id="browser"),
]


def pins(file: str) -> dict[str, Version]:
    """The version of each library for this Python; two for one Python are an error."""
    found: dict[str, Version] = {}
    for line in (ROOT / file).read_text(encoding="utf-8").splitlines():
        if not line or line.lstrip().startswith("#"):
            continue
        pin = Requirement(line)
        if pin.marker is None or pin.marker.evaluate():
            assert pin.name not in found, line
            [only] = pin.specifier
            assert only.operator == "==", line
            found[canonicalize_name(pin.name)] = Version(only.version)
    return found


def wanted(extras: set[str]) -> list[Requirement]:
    """What ``setup.py`` asks for, with these extras and with what the build needs."""
    said = importlib.metadata.requires(DISTRIBUTION) or []
    built = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["build-system"]["requires"]
    return [*applicable(said, extras), *map(Requirement, built)]


def applicable(said: list[str], extras: set[str]) -> list[Requirement]:
    found = (Requirement(text) for text in said)
    environments = [{"extra": extra} for extra in extras | {""}]
    return [one for one in found if one.marker is None or any(map(one.marker.evaluate, environments))]


def reached(start: list[Requirement]) -> set[str]:
    """Names of all libraries that these lead to, as far as they are installed here."""
    names: set[str] = set()
    left = start
    while left:
        wanted = left.pop()
        name = canonicalize_name(wanted.name)
        if name in names:
            continue
        names.add(name)
        try:
            said = importlib.metadata.requires(name) or []
        except importlib.metadata.PackageNotFoundError:
            continue
        left += applicable(said, set(wanted.extras))
    return names


def test_every_library_that_the_tests_lead_to_has_one_version() -> None:
    names = reached(wanted({"dev", "release"}))
    assert len(names) > 60
    assert not names - set(pins("constraints.txt"))


@pytest.mark.parametrize(
    ("file", "extras"), [("constraints.txt", {"dev", "release"}), ("bench/constraints.txt", {"bench"})]
)
def test_the_pinned_versions_are_among_those_that_are_allowed(file: str, extras: set[str]) -> None:
    pinned = pins(file)
    asked = (
        wanted(extras)
        if file == "constraints.txt"
        else applicable(importlib.metadata.requires(DISTRIBUTION) or [], extras)
    )
    for one in asked:
        assert one.specifier.contains(pinned[canonicalize_name(one.name)]), one


@pytest.mark.parametrize("suffix", ["", "-older"])
def test_the_sdks_of_agents_are_pinned_as_they_are_asked_for(suffix: str) -> None:
    pinned = pins(f"tests/agents/constraints{suffix}.txt")
    requirements = (ROOT / f"tests/agents/requirements{suffix}.txt").read_text(encoding="utf-8")
    for line in requirements.splitlines():
        one = Requirement(line)
        assert one.specifier.contains(pinned[canonicalize_name(one.name)]), line


@pytest.mark.parametrize(("folder", "stamp"), OF_NPM)
def test_the_packages_of_npm_are_locked_as_they_are_asked_for(folder: str, stamp: str) -> None:
    asked, lock = (
        json.loads((ROOT / folder / name).read_text(encoding="utf-8"))
        for name in ("package.json", "package-lock.json")
    )
    locked = lock["packages"]
    assert locked[""]["dependencies"] == asked["dependencies"]
    for name, version in {**asked["dependencies"], **asked.get("overrides", {})}.items():
        found = [one["version"] for path, one in locked.items() if path.endswith(f"node_modules/{name}")]
        assert found == [version], name
    rule = re.search(
        rf"^{re.escape(stamp)}: (.+)$", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert rule
    assert {f"{folder}/package.json", f"{folder}/package-lock.json"} <= {*rule[1].split()}


@pytest.mark.parametrize(("file", "stamps"), ENVIRONMENTS)
def test_an_environment_is_installed_anew_when_its_pins_change(file: str, stamps: list[str]) -> None:
    rules = dict(
        re.findall(r"^(\S+\.stamp): (.+)$", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    )
    for stamp in stamps:
        assert file in rules[stamp].split(), stamp


@pytest.mark.parametrize(("file", "stamps"), ENVIRONMENTS)
def test_the_file_names_the_command_that_makes_it(file: str, stamps: list[str]) -> None:
    assert "#    make pins\n" in (ROOT / file).read_text(encoding="utf-8")
    assert "\npins:" in (ROOT / "Makefile").read_text(encoding="utf-8")


def test_a_variable_of_the_makefile_is_set_in_one_place() -> None:
    names = re.findall(r"^([A-Z_]+) *[:?+]?=", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(names) == sorted(set(names)), "the later one would also answer for the earlier"
