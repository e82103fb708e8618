"""The installation that drives a browser, and what it is led to: a stub of the API, or a gateway.

``make test-browser`` installs the driver, in the versions of ``package.json``, into ``.browser``; the
variable ``MGW_BROWSER`` names another folder, ``MGW_CHROMIUM`` another browser.  ``MGW_SCREENSHOTS`` names a
folder for pictures of what the scenarios see.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import pytest

from tests.browser.stub import start_stub

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 240.0


class Run(Protocol):
    """Run a scenario with an address and further variables."""

    def __call__(self, name: str, url: str, **variables: str) -> None: ...


@pytest.fixture(scope="session")
def environ() -> dict[str, str]:
    """The variables of a scenario."""
    chromium = os.environ.get("MGW_CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        pytest.skip("neither chromium nor google-chrome is installed")
    if shutil.which("node") is None:
        pytest.skip("node is not installed")
    folder = Path(os.environ.get("MGW_BROWSER", ROOT / ".browser"))
    if not (folder / "node_modules").is_dir():
        pytest.skip(f"no driver is installed in {folder}: `make test-browser` does it, and needs npm")
    return {**os.environ, "MGW_BROWSER": str(folder), "MGW_CHROMIUM": chromium}


@pytest.fixture
def run(environ: dict[str, str]) -> Run:
    """Run a scenario with an address; what it says is the failure's reason."""

    def scenario(name: str, url: str, **variables: str) -> None:
        command = ["node", str(Path(__file__).parent / "run.mjs"), name, url]
        ended = subprocess.run(
            command,
            env={**environ, **variables},
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        assert ended.returncode == 0, f"{ended.stdout}\n{ended.stderr}"

    return scenario


@pytest.fixture
def stub(environ: dict[str, str]) -> Iterator[str]:
    """The address of a stub."""
    with start_stub() as url:
        yield url
