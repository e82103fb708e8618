"""``mgw check``: find mistakes in a configuration, and show where requests will go."""

from __future__ import annotations

import argparse

from mgw.cli.arguments import add_file
from mgw.reactor.lean_start import without_collections


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    add_file(parser)


def run(said: argparse.Namespace) -> int:
    """Check a configuration; return the exit status."""
    with without_collections():
        from mgw.app.check import check, reader_of  # slow to import, and `mgw check --help` needs none of it

        return check(reader_of(said.config), "mgw check")
