"""What is stored of undelivered events survives a kill at any system call, and a full disk."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest

from tests.support.crashing_spool import STEPS, states

ROOT: Final = Path(__file__).parents[3]
SCRIPT: Final = "tests.support.crashing_spool"


def run(*arguments: str, before: tuple[str, ...] = ()) -> list[Any]:
    """Run the script; return what it found at each moment of the kill."""
    done = subprocess.run(
        [*before, sys.executable, "-m", SCRIPT, *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


EACH_CALL: Final = pytest.mark.parametrize("stride", [5, pytest.param(1, marks=pytest.mark.slow)])
"""A kill at every fifth moment, or at each."""


@EACH_CALL
def test_a_kill_at_any_call_loses_no_batch_that_was_stored_and_leaves_none_in_part(stride: int) -> None:
    found, expected = run("store", str(stride)), states()
    assert len(found) > 50 / stride
    for each in found:
        done = each["done"]
        allowed = expected[done : done + 2]
        assert each["found"] in allowed, f"killed at stop {each['stop']}, in step {done} of {len(STEPS)}"


@EACH_CALL
@pytest.mark.parametrize("scenario", ["take over", "move", "import", "rescue"])
def test_a_kill_at_any_call_of_a_take_over_loses_no_batch_and_doubles_none(
    scenario: str, stride: int
) -> None:
    found = run(scenario, str(stride))
    assert len(found) > 50 / stride
    for each in found:
        assert each["found"] == states()[-1], f"killed at stop {each['stop']}"


def on_a_small_disk(scenario: str, folder: Path) -> Any:
    """Play a scenario on a disk of its own, which needs a namespace of its own."""
    namespace = ("unshare", "--map-root-user", "--mount")
    try:
        subprocess.run([*namespace, "/bin/mount", "-t", "tmpfs", "tmpfs", folder], check=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("no file system can be mounted here")
    (found,) = run(scenario, str(folder), before=namespace)
    return found


@pytest.mark.parametrize("scenario", ["full", "crowded"])
def test_on_a_full_disk_what_is_stored_stays_and_what_is_removed_makes_room(
    scenario: str, tmp_path: Path
) -> None:
    found = on_a_small_disk(scenario, tmp_path)
    assert found["stored"] >= 4
    assert found["before"]
    assert list(found["found"]) == found["after"]
    assert all(numbers == list(range(500, 700)) for numbers in found["found"].values())
