"""A run of the tests says at its end which programs it lacked."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import balancers
from tests.support.missing_programs import say_what_is_missing

ROOT = Path(__file__).resolve().parents[3]


def test_each_program_that_the_promises_need_is_named_with_its_package() -> None:
    reasons = [
        "Skipped: redis-server is not installed (apt install redis-server)",
        "Skipped: nginx is not installed",
        "Skipped: nginx is not installed",
        "Skipped: promtool is not installed",
        "Skipped: TCP_INFO is Linux's",
    ]
    assert say_what_is_missing(reasons) == [
        "redis-server is not installed, so 1 test was SKIPPED: apt install redis-server",
        "nginx is not installed, so 2 tests were SKIPPED: apt install nginx-light",
    ]


def test_nothing_is_said_where_nothing_is_missing() -> None:
    assert say_what_is_missing(["Skipped: TCP_INFO is Linux's"]) == []


@pytest.mark.parametrize("program", ["haproxy", "nginx"])
def test_a_balancer_that_is_not_there_is_among_them(program: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda *_, **__: None)
    with pytest.raises(pytest.skip.Exception) as skipped:
        balancers.program_or_skip(program)
    [line] = say_what_is_missing([str(skipped.value)])
    assert line.startswith(f"{program} is not installed, so 1 test was SKIPPED")


def test_a_run_without_redis_ends_with_its_name(tmp_path: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-n", "0", "tests/sockets/test_redis_fleet.py"],
        cwd=ROOT,
        env={**os.environ, "PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert "= NOT TESTED =" in run.stdout
    assert "\nredis-server is not installed, so " in run.stdout
