"""What tests of bodies start from."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.bodies import Uploader


@pytest.fixture
def uploader(tmp_path: Path) -> Uploader:
    """A client with a spool in a directory of its own."""
    return Uploader(str(tmp_path))
