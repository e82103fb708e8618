"""The number of workers for a value of ``workers``, given the CPUs available to this process.

These are the CPUs that it may run on, and no more than the quota of its control group pays for, or of one
around it (systemd's ``CPUQuota``, a container's limit).

Sources: sched_getaffinity(2), and "cpu.max" in the kernel's document on control groups, version 2.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from math import ceil
from pathlib import Path
from typing import Final, Literal

GROUPS: Final = Path("/sys/fs/cgroup")
OWN_GROUP: Final = Path("/proc/self/cgroup")


def resolve_workers(setting: int | Literal["auto"] | None) -> int | None:
    """Return the number of workers that a setting means; ``None``: one process without a supervisor."""
    return available_cpus() if setting == "auto" else setting


def available_cpus(own_group: Path = OWN_GROUP, groups: Path = GROUPS) -> int:
    """Return how many CPUs this process may use, at least 1.

    :param own_group: the file that names the control group of this process.
    :param groups: where control groups are mounted.
    """
    quotas = [quota for quota in map(_quota, _files(own_group, groups)) if quota is not None]
    return max(1, min([len(os.sched_getaffinity(0)), *quotas]))


def _files(own_group: Path, groups: Path) -> Iterator[Path]:
    """Yield where the quotas of the own control group and of all around it are."""
    try:
        lines = own_group.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return
    for line in lines:
        number, _, path = line.partition("::")  # version 2 is number 0, and names no controllers
        if number == "0":
            group = groups / path.strip("/")
            for place in (group, *group.parents):
                yield place / "cpu.max"
                if place == groups:
                    break


def _quota(file: Path) -> int | None:
    """Return the CPUs that a group may use, rounded up; ``None``: as many as there are."""
    try:
        quota, _, period = file.read_text(encoding="ascii").strip().partition(" ")
        return None if quota == "max" else ceil(int(quota) / int(period or 100_000))
    except (OSError, ValueError, ZeroDivisionError):
        return None
