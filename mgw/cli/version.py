"""``mgw version``."""

from __future__ import annotations

import argparse
import sys

import mgw


def add_arguments(_: argparse.ArgumentParser) -> None:
    """Declare no arguments."""


def run(_: argparse.Namespace) -> int:
    """Print the version; return the exit status."""
    sys.stdout.write(f"{version_text()}\n")
    return 0


def version_text() -> str:
    """Return the version as ``mgw --version`` prints it."""
    return f"mgw {mgw.__version__}"
