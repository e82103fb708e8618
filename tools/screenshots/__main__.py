"""Take the pictures of the dashboard: ``python -m tools.screenshots FOLDER`` (``make screenshots``)."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from mgw.usage.usage_table import TABLE
from tools.screenshots import png
from tools.screenshots.history import write_history
from tools.screenshots.processes import database_in, gateway, simulator
from tools.screenshots.scene import ASKS, DASHBOARD_KEY, VOICES
from tools.screenshots.traffic import once, sessions, traffic

ROOT: Final = Path(__file__).resolve().parents[2]
PICTURES: Final = ("dashboard.png", "dashboard-requests.png")
_SEED: Final = 7
_WAIT: Final = 60.0


def take(folder: Path, *, requests: int = 60_000, seconds: int = 62, clients: int = 10) -> None:
    """Put the pictures into a folder.

    :param requests: how many the last day had.
    :param seconds: how long there is traffic before the first picture, which shows the last minute.
    :param clients: how many send requests at a time.
    """
    with TemporaryDirectory(prefix="mgw-screenshots-") as name, simulator() as provider:
        place = Path(name)
        with gateway(place, provider) as url:
            once(url)
            _wait_for_events(database_in(place), len(ASKS) + len(VOICES))
            write_history(database_in(place), time.time(), requests, _SEED)
            with sessions(url), traffic(url, clients, _SEED):
                _drive(url, folder, seconds)
    for picture in PICTURES:
        file = folder / picture
        file.write_bytes(png.reduce(file.read_bytes()))


def _wait_for_events(database: Path, count: int) -> None:
    last = time.monotonic() + _WAIT
    while time.monotonic() < last:
        if database.exists():
            connection = sqlite3.connect(database)
            [found] = connection.execute(f"SELECT count(*) FROM {TABLE}").fetchone()  # noqa: S608 (a name of ours)
            connection.close()
            if found >= count:
                return
        time.sleep(0.1)
    message = f"{database} does not have {count} events"
    raise RuntimeError(message)


def _drive(url: str, folder: Path, seconds: int) -> None:
    """Lead a browser to the dashboard, with the driver and the scenario of ``tests/browser``."""
    chromium = os.environ.get("MGW_CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        message = "neither chromium nor google-chrome is installed"
        raise RuntimeError(message)
    environ = {
        **os.environ,
        "MGW_BROWSER": os.environ.get("MGW_BROWSER", str(ROOT / ".browser")),
        "MGW_CHROMIUM": chromium,
        "MGW_DASHBOARD_KEY": DASHBOARD_KEY,
        "MGW_PICTURES": str(folder),
        "MGW_SECONDS": str(seconds),
    }
    command = ["node", str(ROOT / "tests/browser/run.mjs"), "screenshots", url]
    subprocess.run(command, env=environ, check=True)  # noqa: S603  # our own scenario


def main(arguments: Sequence[str]) -> None:
    """Take them, into ``docs/images`` unless another folder is named."""
    take(Path(arguments[0]) if arguments else ROOT / "docs/images")


if __name__ == "__main__":
    main(sys.argv[1:])
