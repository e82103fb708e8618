"""What is made of the answers about known vulnerabilities."""

from __future__ import annotations

import pytest

from tools.audit import pinned, unknown, vulnerabilities

SAFE = {"name": "twisted", "version": "26.10.0", "vulns": []}
SKIPPED = {"name": "treq", "skip_reason": "not found"}


def test_a_report_of_pip_becomes_a_list_without_the_gateway() -> None:
    names = {"twisted": "26.10.0", "mgw-gateway": "0.4.0", "attrs": "26.1"}
    report = {"install": [{"metadata": {"name": name, "version": text}} for name, text in names.items()]}
    assert pinned(report) == "attrs==26.1\ntwisted==26.10.0\n"


@pytest.mark.parametrize(
    ("versions", "mended"), [(["26.11"], "26.11"), (["1.2", "2.1"], "1.2 and 2.1"), ([], "no version yet")]
)
def test_a_vulnerability_is_named_with_the_version_that_mends_it(versions: list[str], mended: str) -> None:
    found = {"id": "PYSEC-1", "fix_versions": versions}
    bad = {"name": "pyyaml", "version": "6.0", "vulns": [found]}
    assert vulnerabilities({"dependencies": [SAFE, bad, SKIPPED]}) == [
        f"pyyaml 6.0 has PYSEC-1, mended in {mended}"
    ]


def test_no_answer_is_not_taken_for_a_good_one() -> None:
    [said] = unknown({"dependencies": [SAFE, SKIPPED]})
    assert said.startswith("no answer about 1 of 2 libraries (treq): ")


def test_many_without_an_answer_are_not_all_named() -> None:
    names = "abcdefg"
    [said] = unknown({"dependencies": [{"name": name, "skip_reason": "not found"} for name in names]})
    assert "7 of 7 libraries (a, b, c, d, e, …)" in said


def test_answers_about_all_are_no_problem() -> None:
    answer = {"dependencies": [SAFE]}
    assert not [*unknown(answer), *vulnerabilities(answer)]
