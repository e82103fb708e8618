"""The command ``mgw``: everything that the gateway does, without twistd's options.

Exit codes: 0, done; 1, it failed, and standard error says why; 2, the command line is wrong; 130, Ctrl-C.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from typing import Final

from mgw.cli.arguments import TwoFilesError, settle_file
from mgw.cli.parser import build_parser
from mgw.cli.wrong_calls import wrong_arguments, wrong_command

_WRONG_CALL: Final = 2
_INTERRUPTED: Final = 130  # as a shell has it for SIGINT


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; return the exit status.

    :param arguments: those behind the command's name; ``None``: this process's own.
    """
    words = sys.argv[1:] if arguments is None else list(arguments)
    help_of = words[:1] == ["help"]
    if help_of:
        words = [*words[1:], "--help"]
    parser = build_parser("".join(words[:1]))
    wrong = wrong_command(parser, words, help_of=help_of)
    if wrong is not None:
        sys.stderr.write(f"{wrong}\n")
        return _WRONG_CALL
    said, unknown = parser.parse_known_args(words)
    if unknown:
        sys.stderr.write(f"{wrong_arguments(parser, words, unknown)}\n")
        return _WRONG_CALL
    command: Callable[[argparse.Namespace], int] | None = said.command
    if command is None:
        parser.print_help(sys.stderr)
        return _WRONG_CALL
    try:
        settle_file(said)
        return command(said)
    except TwoFilesError as error:
        sys.stderr.write(f"{said.parser.prog}: {error}\n")
        return _WRONG_CALL
    except KeyboardInterrupt:
        sys.stderr.write("\n")  # behind the ^C of the terminal
        return _INTERRUPTED
    except BrokenPipeError:  # `mgw example | head`
        sys.stderr.close()
        return 1


if __name__ == "__main__":
    sys.exit(main())
