"""The pictures of the documents can be taken again (``make screenshots``)."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from tools.screenshots.__main__ import PICTURES, take


def test_the_scenario_of_the_pictures_runs(
    environ: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With few requests and without a minute of traffic: it is about the steps, not about the looks."""
    for name in ("MGW_BROWSER", "MGW_CHROMIUM"):
        monkeypatch.setenv(name, environ[name])
    take(tmp_path, requests=500, seconds=6, clients=6)
    for name in PICTURES:
        data = (tmp_path / name).read_bytes()
        width, height, _, kind = struct.unpack_from(">IIBB", data, 16)
        assert (width, kind) == ({"dashboard.png": 2480}.get(name, 2880), 3)
        assert 1200 < height < 2400
        assert len(data) < 250_000
