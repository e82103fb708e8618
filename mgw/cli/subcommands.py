"""Commands with commands below them, such as ``mgw key add``: how they are described, and how they end.

Exit codes: 0, it worked; 1, it did not; 2, it was called wrongly.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import Any, Final

from mgw.cli.arguments import HelpFormatter, examples
from mgw.config.file_faults import shown_path

FAILED: Final = 1
WRONG_CALL: Final = 2
Action = Callable[[argparse.Namespace], int]


class CallError(Exception):
    """The command cannot do what it was told; the text says why."""


class FailedError(Exception):
    """The command did not work; the text says why."""


def list_commands(said: argparse.Namespace) -> int:
    """Print the commands below one that was called alone; return the exit status."""
    parser: argparse.ArgumentParser = said.parser
    parser.print_help(sys.stderr)
    return WRONG_CALL


def add_command(
    commands: Any,  # Any: argparse has no public name for it
    name: str,
    does: str,
    *shown: str,
    command: Action,
) -> argparse.ArgumentParser:
    """Describe a command below another.

    :param does: what it does, as a sentence without its capital and its full stop.
    :param shown: examples.
    :param command: runs it.
    """
    below: argparse.ArgumentParser = commands.add_parser(
        name,
        help=does,
        description=f"{does[0].upper()}{does[1:]}.",
        epilog=examples(*shown),
        formatter_class=HelpFormatter,
    )
    below.set_defaults(command=command, parser=below)
    return below


def run_action(action: Action, said: argparse.Namespace) -> int:
    """Run a command, and say what went wrong; return the exit status."""
    try:
        return action(said)
    except CallError as error:
        return tell(said, str(error), WRONG_CALL)
    except FailedError as error:
        return tell(said, str(error), FAILED)
    except OSError as error:
        where = "" if error.filename is None else f"{shown_path(str(error.filename))}: "
        return tell(said, f"{where}{error.strerror or error}", FAILED)


def tell(said: argparse.Namespace, problem: str, status: int) -> int:
    """Print the lines of a problem under the name of the command; return the status."""
    for line in problem.splitlines():
        sys.stderr.write(f"{said.parser.prog}: {line}\n")
    return status
