"""The commands behind the figures of the front page: nothing is lost, and what an open stream costs."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_no_byte_is_changed_within_an_api_and_no_field_is_lost_between_two() -> None:
    said = measured("bench.fidelity", "--quick")
    changed = re.findall(r"^(\w+) +(\d+) of \d+ +(\d+) of \d+ +(\d+) of \d+ +none$", said, re.MULTILINE)
    assert [row[1:] for row in changed] == [("0", "0", "0")] * 4
    [everything] = re.findall(r"^all +([\d,]+) +(\d+)$", said, re.MULTILINE)
    assert int(everything[0].replace(",", "")) > 400
    assert everything[1] == "0"


@pytest.mark.slow
def test_the_memory_of_open_streams_is_measured_passed_through_and_translated() -> None:
    for how in ("OpenAI client, passed through", "OpenAI client, translated for Gemini"):
        said = measured("bench.streams", "--open", "20", "--only", how)
        [kib] = re.findall(rf"^{how} +(-?[\d.]+)$", said, re.MULTILINE)
        assert float(kib) < 100


def measured(module: str, *options: str) -> str:
    command = [sys.executable, "-m", module, *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
