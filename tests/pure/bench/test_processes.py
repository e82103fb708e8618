"""What a measurement says before it starts anything."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.processes import USUAL, gateway_command, need


def test_programs_that_are_missing_are_named_with_what_installs_them() -> None:
    with pytest.raises(SystemExit) as ended:
        need("sh", "mgw-no-such-load", "/usr/sbin/mgw-no-such-proxy")
    assert ended.value.code == (
        "missing: mgw-no-such-load, mgw-no-such-proxy; "
        "on Debian: apt install gcc nginx-light util-linux wrk (docs/performance.rst)"
    )


def test_programs_that_are_there_are_not_spoken_of() -> None:
    need("sh")


def test_a_gateway_of_another_checkout_reads_its_source_first(tmp_path: Path) -> None:
    filled = {**USUAL, "temp": str(tmp_path), "port": "1", "upstream_port": "2"}
    own = gateway_command(tmp_path, filled, ())
    other = gateway_command(tmp_path, {**filled, "tree": "/src/before"}, ())
    assert other == ["env", "PYTHONPATH=/src/before", *own]
