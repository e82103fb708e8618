"""What a measurement says before it starts anything."""

from __future__ import annotations

import pytest

from bench.processes import need


def test_programs_that_are_missing_are_named_with_what_installs_them() -> None:
    with pytest.raises(SystemExit) as ended:
        need("sh", "mgw-no-such-load", "/usr/sbin/mgw-no-such-proxy")
    assert ended.value.code == (
        "missing: mgw-no-such-load, mgw-no-such-proxy; "
        "on Debian: apt install gcc nginx-light util-linux wrk (docs/performance.rst)"
    )


def test_programs_that_are_there_are_not_spoken_of() -> None:
    need("sh")
