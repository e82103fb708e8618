"""A configuration file that cannot be read: the line names it, the reason, and what to do next."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mgw.config.load import read_text
from mgw.config.location import DEFAULT_FILE, describe_unreadable


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, which is the current one."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def said_of(file: str, command: str = "mgw run") -> str:
    try:
        read_text(file)
    except OSError as error:
        return describe_unreadable(file, error, command)
    raise AssertionError(f"{file} can be read")


needs_no_default = pytest.mark.skipif(Path(DEFAULT_FILE).exists(), reason=f"{DEFAULT_FILE} exists here")


@needs_no_default
def test_without_the_usual_file_that_of_the_current_folder_is_named(folder: Path) -> None:
    (folder / "mgw.yaml").touch()
    (folder / "other.yaml").touch()
    assert said_of(DEFAULT_FILE) == (
        "configuration file not found: /etc/mgw.yaml; did you mean: mgw run mgw.yaml"
    )
    assert said_of(DEFAULT_FILE, "-c").endswith("; did you mean: -c mgw.yaml")


@needs_no_default
def test_without_any_file_the_way_to_a_first_one_is_shown() -> None:
    assert said_of(DEFAULT_FILE) == (
        "configuration file not found: /etc/mgw.yaml; to create one: mgw example > mgw.yaml"
    )


def test_a_misspelled_file_leads_to_its_neighbour(folder: Path) -> None:
    (folder / "gateway.yaml").touch()
    (folder / "gateway.txt").touch()
    assert said_of("gatway.yml").endswith("gatway.yml; did you mean: mgw run gateway.yaml")
    assert said_of(f"{folder}/gatway.yml").endswith("; did you mean: mgw run gateway.yaml")


def test_a_neighbour_in_another_folder_is_named_with_its_folder(folder: Path) -> None:
    (folder / "conf").mkdir()
    (folder / "conf/gateway.yaml").touch()
    assert said_of("conf/gatewya.yaml").endswith(f"; did you mean: mgw run {folder}/conf/gateway.yaml")


def test_a_folder_that_does_not_exist_is_named() -> None:
    assert said_of("no/mgw.yaml").startswith(
        "configuration file not found: no/mgw.yaml (folder no does not exist)"
    )


def test_a_folder_is_not_a_file(folder: Path) -> None:
    assert said_of(str(folder)) == f"configuration file {folder} cannot be read: Is a directory"


def test_a_file_of_others_says_who_may_read_it(monkeypatch: pytest.MonkeyPatch) -> None:
    refused = PermissionError(13, "Permission denied")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert describe_unreadable("/etc/mgw.yaml", refused, "mgw check") == (
        "configuration file /etc/mgw.yaml cannot be read: Permission denied; run the command as root, or as "
        "the user of the gateway"
    )
