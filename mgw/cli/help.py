"""``mgw help``: the words of it are turned into ``--help`` before they are parsed (:mod:`mgw.cli.main`)."""

from __future__ import annotations

import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    parser.add_argument("topic", metavar="COMMAND", nargs="*", help="a command, such as run or auth login")


def run(_: argparse.Namespace) -> int:
    """Never run."""
    raise AssertionError("main turns it into --help")
