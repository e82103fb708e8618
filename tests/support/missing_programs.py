"""Programs that are not installed, for which a run has skipped tests: it says so at its end."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from typing import Final

_REASON: Final = re.compile(r"(?:Skipped: )?(\S+) is not installed")
_NEEDED: Final = {"redis-server": "redis-server", "haproxy": "haproxy", "nginx": "nginx-light"}
"""Without these, promises of the gateway itself are not tested; ``.ci/run`` installs the packages."""


def say_what_is_missing(reasons: Iterable[str]) -> list[str]:
    """Return a line for each program that tests were skipped for, given the reason of each skipped test."""
    found = Counter(match[1] for reason in reasons if (match := _REASON.match(reason)) is not None)
    return [_line(program, found[program]) for program in _NEEDED if program in found]


def _line(program: str, count: int) -> str:
    tests = "1 test was" if count == 1 else f"{count} tests were"
    return f"{program} is not installed, so {tests} SKIPPED: apt install {_NEEDED[program]}"
