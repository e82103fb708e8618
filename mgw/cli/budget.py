"""``mgw budget show|reset``: what is used of limits that last longer than a minute.

Both work beside a running gateway.  Exit codes: 0, it worked; 1, it did not; 2, it was called wrongly.
"""

from __future__ import annotations

import argparse
from functools import partial

from mgw.cli.arguments import add_file_option, add_format
from mgw.cli.output import FORMATS
from mgw.cli.subcommands import add_command, list_commands, run_action

run = list_commands


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the commands below ``mgw budget``."""
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")

    def add(name: str, does: str, *shown: str) -> argparse.ArgumentParser:
        below = add_command(commands, name, does, *shown, command=partial(_run_action, name))
        add_file_option(below)
        return below

    show = add(
        *("show", "print limits longer than a minute, and what is used of them"),
        "mgw budget show",
        "mgw budget show --holder 'group:*'",
        "mgw budget show -c mgw.yaml --format json",
    )
    show.add_argument(
        "--holder", metavar="PATTERN", help="only rows of these holders, such as alice or 'group:*'"
    )
    add_format(show, FORMATS)
    reset = add(
        *("reset", "set what is used of a limit in its current period"),
        "mgw budget reset alice",
        "mgw budget reset group:research --limit usd_per_month --to 100",
    )
    reset.add_argument("holder", metavar="HOLDER", help="the holder of the rows, as mgw budget show names it")
    reset.add_argument("--limit", metavar="NAME", help="the name of the row (default: all of the holder)")
    reset.add_argument(
        "--to",
        metavar="N",
        default="0",
        help="what is then used, in the unit of the row (default: %(default)s)",
    )


def _run_action(name: str, said: argparse.Namespace) -> int:
    from mgw.cli import budget_actions  # with it come the settings, which `mgw budget --help` does without

    return run_action(budget_actions.ACTIONS[name], said)
