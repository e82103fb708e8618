"""The bill of materials is held to what is installed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tools.release_parts import PartsMissing, compare, missing_parts

BILL = {
    "components": [
        {"name": "Twisted", "version": "26.10.0"},
        {"name": "prometheus_client", "version": "0.26.0"},
    ]
}


def test_names_are_compared_as_pip_compares_them() -> None:
    assert missing_parts(BILL, "twisted==26.10.0\nprometheus-client==0.26.0\n") == []


@pytest.mark.parametrize("line", ["treq==26.7.0", "twisted==26.11.0"])
def test_a_library_that_is_left_out_or_has_another_version_is_named(line: str) -> None:
    assert missing_parts(BILL, f"twisted==26.10.0\n{line}\n") == [line]


def test_a_bill_that_leaves_something_out_is_refused(tmp_path: Path) -> None:
    bill, requirements = tmp_path / "mgw.cdx.json", tmp_path / "requirements.txt"
    bill.write_text(json.dumps(BILL), encoding="utf-8")
    requirements.write_text("twisted==26.10.0\n", encoding="utf-8")
    assert compare(bill, requirements) == 2
    requirements.write_text("attrs==26.1\n", encoding="utf-8")
    with pytest.raises(PartsMissing, match=r"mgw\.cdx\.json leaves out attrs==26\.1"):
        compare(bill, requirements)
