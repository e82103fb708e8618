"""``mgw example``: the files that come with the gateway."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import mgw


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    parser.add_argument(
        "name",
        metavar="NAME",
        nargs="?",
        default="mgw.yaml",
        help="another file that comes with the gateway, such as prometheus-alerts.yaml; an unknown name "
        "lists them all (default: %(default)s)",
    )


def run(said: argparse.Namespace) -> int:
    """Print a file; return the exit status."""
    files = _files()
    if said.name in files:
        sys.stdout.write(files[said.name].read_text(encoding="utf-8"))
        return 0
    names = ", ".join(sorted(files))
    sys.stderr.write(
        f"mgw example: no such file: {said.name}; the files are {names}\n"
        if files
        else "mgw example: the example files are not installed\n"
    )
    return 2 if files else 1


def shipped_names() -> list[str]:
    """Return the names that the command takes."""
    return sorted(_files())


def _files() -> dict[str, Path]:
    return {file.name: file for file in [*shipped_files("*.*"), *shipped_files("deployment/*.*")]}


def shipped_files(pattern: str) -> list[Path]:
    """Return files of ``etc``: of the package where it is installed, else of the sources beside it."""
    package = Path(mgw.__file__).parent
    return [*(package / "etc").glob(pattern)] or [*(package.parent / "etc").glob(pattern)]
