"""How many workers there are to be, on machines and in control groups of every kind."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mgw.workers.worker_count import available_cpus, resolve_workers


@pytest.fixture(autouse=True)
def sixteen_cpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(16)))


def cpus(folder: Path, group: str, quotas: dict[str, str]) -> int:
    (folder / "own").write_text(group)
    for place, text in quotas.items():
        (folder / "groups" / place).mkdir(parents=True, exist_ok=True)
        (folder / "groups" / place / "cpu.max").write_text(text)
    return available_cpus(folder / "own", folder / "groups")


@pytest.mark.parametrize(
    ("group", "quotas", "count"),
    [
        ("0::/\n", {}, 16),
        ("0::/\n", {"": "max 100000\n"}, 16),
        ("0::/\n", {"": "200000 100000\n"}, 2),
        ("0::/\n", {"": "150000 100000\n"}, 2),
        ("0::/\n", {"": "1000 100000\n"}, 1),
        ("0::/\n", {"": "6400000 100000\n"}, 16),
        ("0::/\n", {"": "300000\n"}, 3),
        ("0::/a.slice/b.service\n", {"a.slice/b.service": "max 100000", "a.slice": "300000 100000"}, 3),
        ("0::/a.slice/b.service\n", {"a.slice/b.service": "400000 100000", "a.slice": "800000 100000"}, 4),
        ("0::/a\n", {"b": "100000 100000"}, 16),
        ("4:cpu:/a\n0::/b\n", {"a": "100000 100000", "b": "500000 100000"}, 5),
        ("4:cpu:/a\n", {"a": "100000 100000"}, 16),
        ("0::/\n", {"": "nonsense"}, 16),
        ("0::/\n", {"": "5 0"}, 16),
    ],
)
def test_the_smallest_quota_counts_rounded_up(
    tmp_path: Path, group: str, quotas: dict[str, str], count: int
) -> None:
    assert cpus(tmp_path, group, quotas) == count


def test_where_there_are_no_control_groups_the_cpus_count(tmp_path: Path) -> None:
    assert available_cpus(tmp_path / "none", tmp_path / "neither") == 16


def test_a_number_is_that_number_and_auto_the_cpus() -> None:
    assert resolve_workers(None) is None
    assert resolve_workers(200) == 200
    found = resolve_workers("auto")
    assert found is not None
    assert 1 <= found <= 16
