"""Start the simulator and the gateway, each in a process of its own."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tools.screenshots.scene import configuration

_SERVES: Final = re.compile(r"mgw serves (http://127\.0\.0\.1:\d+)")
_SECONDS: Final = 30.0


@contextmanager
def simulator() -> Iterator[str]:
    """Run the simulator until the end of the block; yield its address."""
    command = [
        sys.executable,
        "-m",
        "mgw_sim",
        "--listen",
        "127.0.0.1:0",
        "--announce-port",
        "--until-eof",
    ]
    with subprocess.Popen(  # noqa: S603  # our own simulator
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.stdin.close()
            process.wait(_SECONDS)


@contextmanager
def gateway(folder: Path, simulator_url: str) -> Iterator[str]:
    """Run the gateway in a folder until the end of the block; yield its address."""
    file = folder / "mgw.yaml"
    file.write_text(configuration(simulator_url, str(database_in(folder))), encoding="utf-8")
    log = folder / "mgw.log"
    program = Path(sys.executable).with_name("mgw")
    command = [str(program), "run", "-c", str(file), "--log-file", str(log)]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL, cwd=folder) as process:  # noqa: S603  # our own
        try:
            yield _address_in(log)
        finally:
            process.terminate()
            process.wait(_SECONDS)


def _address_in(log: Path) -> str:
    last = time.monotonic() + _SECONDS
    while time.monotonic() < last:
        found = _SERVES.search(log.read_text(encoding="utf-8")) if log.exists() else None
        if found is not None:
            return found[1]
        time.sleep(0.05)
    message = "the gateway did not start"
    raise RuntimeError(message)


def database_in(folder: Path) -> Path:
    """Return where the usage events are."""
    return folder / "usage.db"
