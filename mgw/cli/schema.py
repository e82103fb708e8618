"""``mgw schema``: the JSON schema of the configuration."""

from __future__ import annotations

import argparse
import sys


def add_arguments(_: argparse.ArgumentParser) -> None:
    """Declare no arguments."""


def run(_: argparse.Namespace) -> int:
    """Print the schema; return the exit status."""
    from mgw.config.schema import schema_text  # slow to import, and `mgw schema --help` does without

    sys.stdout.write(schema_text())
    return 0
