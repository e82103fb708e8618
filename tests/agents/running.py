"""Run a program as on a new machine: an empty home, few variables, and a certain end."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Desk:
    """Where an agent works: ``home`` holds its settings, ``work`` is its current folder."""

    home: Path
    work: Path


@dataclass(frozen=True, slots=True)
class Finished:
    """What a program left behind."""

    status: int
    stdout: str
    stderr: str

    def __str__(self) -> str:
        return f"status {self.status}\n--- stdout\n{self.stdout}\n--- stderr\n{self.stderr}"


def desk(folder: Path) -> Desk:
    """Make the two folders below ``folder``."""
    made = Desk(folder / "home", folder / "work")
    made.home.mkdir()
    made.work.mkdir()
    return made


def run(command: Sequence[str], at: Desk, environ: Mapping[str, str], seconds: float = SECONDS) -> Finished:
    """Run a program to its end; all that it started is killed when it is over, or too slow.

    Raises: AssertionError when it takes longer than ``seconds``.
    """
    process = subprocess.Popen(
        list(command),
        cwd=at.work,
        env={**_few_variables(at), **environ},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        text=True,
    )
    try:
        stdout, stderr = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        _kill_group(process)
        stdout, stderr = process.communicate()
        left = Finished(process.returncode, stdout, stderr)
        raise AssertionError(f"not at its end after {seconds} s: {left}") from None
    finally:
        _kill_group(process)
    return Finished(process.returncode, stdout, stderr)


def _kill_group(process: subprocess.Popen[str]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def node() -> str:
    """Return the path of Node.js."""
    found = shutil.which("node")
    assert found is not None, "node is missing"
    return found


def _few_variables(at: Desk) -> dict[str, str]:
    """Return what every program needs; no key and no setting of whoever runs the tests."""
    return {
        "HOME": str(at.home),
        "LANG": "C.UTF-8",
        "PATH": os.pathsep.join([str(Path(node()).parent), "/usr/local/bin", "/usr/bin", "/bin"]),
        "TERM": "xterm-256color",
    }
