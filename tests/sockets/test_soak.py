"""A short soak: mixed exchanges, each with its own answer and one event, while the gateway reloads."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_every_exchange_of_a_mixed_load_has_its_own_answer_and_one_event() -> None:
    said = soak("--exchanges", "3000", "--slice", "1500", "--clients", "16")
    assert "no problems" in said


@pytest.mark.slow
def test_a_soak_by_time_reports_what_the_gateway_takes_and_compares_its_end_with_its_beginning() -> None:
    said = soak("--minutes", "0.06", "--report", "1", "--clients", "4")
    reports = [line for line in said.splitlines() if "probe p50" in line]
    assert len(reports) >= 2
    assert all(word in reports[0] for word in ("MiB", "files", "of a core", "reloads"))
    assert "at the end" in said
    assert " 0 lost" in said
    assert "no problems" in said


def soak(*options: str) -> str:
    command = [sys.executable, "-m", "tests.support.soak", *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
