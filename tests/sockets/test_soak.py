"""A short soak: mixed exchanges, each with its own answer and one event, while the gateway reloads."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_every_exchange_of_a_mixed_load_has_its_own_answer_and_one_event() -> None:
    sizes = ["--exchanges", "3000", "--slice", "1500", "--clients", "16"]
    command = [sys.executable, "-m", "bench.soak", *sizes]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "no problems" in done.stdout
