"""A module is changed in many small ways, and what its tests do not notice is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.mutate import Trial, draw, mirrored_tests, run

MODULE = "mgw/wire/small.py"
SOURCE = "def is_long(text):\n    return len(text) > 3\n"
GOOD = (("abc", False), ("abcd", True))
"""A limit, and one more."""
SLACK = (("a", False), ("abcdefgh", True))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in ("mgw/wire", "tests/pure/wire"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / MODULE).write_text(SOURCE)
    return tmp_path


def trial(root: Path, cases: tuple[tuple[str, bool], ...], *, seed: int = 0, minutes: float = 5.0) -> Trial:
    test = root / "tests/pure/wire/test_small.py"
    # By its path: the tests of this module run with the gateway's own `mgw` imported.
    test.write_text(
        "from runpy import run_path\n\n\n"
        "def test_what_is_long():\n"
        f"    is_long = run_path({MODULE!r})['is_long']\n"
        f"    assert all(is_long(text) is expected for text, expected in {cases!r})\n"
    )
    return Trial(root, MODULE, [["tests/pure/wire/test_small.py"]], count=10, seed=seed, minutes=minutes)


@pytest.mark.slow
def test_tests_that_hold_a_limit_from_both_sides_notice_every_change(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(trial(root, GOOD)) == 0
    assert capsys.readouterr().out == f"{MODULE}: 0 of 4 mutations live on\n"
    assert (root / MODULE).read_text() == SOURCE


@pytest.mark.slow
def test_what_lives_on_is_named_with_its_line(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(trial(root, SLACK)) == 1
    lines = capsys.readouterr().out.splitlines()
    assert f"{MODULE}:2: len(text) > 3 -> len(text) >= 3" in lines
    assert "    return len(text) > 3" in lines
    assert lines[-1] == f"{MODULE}: 3 of 4 mutations live on"


def test_tests_that_fail_without_a_change_say_nothing_about_one(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(trial(root, (("abc", True),))) == 2
    assert capsys.readouterr().out == f"the tests of {MODULE} fail without any change\n"


def test_no_change_is_tried_when_the_time_is_up(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(trial(root, GOOD, minutes=0.0)) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"{MODULE}: the time is up",
        f"{MODULE}: 0 of 0 mutations live on",
    ]


def test_a_seed_draws_the_same_mutations_every_time() -> None:
    def drawn(count: int, seed: int) -> list[str]:
        return [mutation.after for mutation in draw(SOURCE, count, seed)]

    assert drawn(2, 5) == drawn(2, 5) == drawn(3, 5)[:2]
    assert sorted(drawn(9, 1)) == sorted(drawn(9, 2)), "all that there are, and no more"


def test_the_tests_of_a_module_are_those_with_its_name_then_its_package(root: Path) -> None:
    for name in ("pure/wire/test_small.py", "pure/wire/test_small_laws.py", "pure/wire/test_other.py"):
        (root / "tests" / name).touch()
    named = ["tests/pure/wire/test_small.py", "tests/pure/wire/test_small_laws.py"]
    assert mirrored_tests(root, MODULE) == [named, ["tests/pure/wire"]]
    assert mirrored_tests(root, "mgw/wire/nameless.py") == [["tests/pure/wire"]]
    assert mirrored_tests(root, "mgw/other/small.py") == []
    (root / "tests/pure/test_check.py").touch()
    assert mirrored_tests(root, "mgw/check.py") == [["tests/pure/test_check.py"]]
