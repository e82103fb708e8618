"""The command ``mgw``: everything that the gateway does, without twistd's options.

Exit codes: 0, done; 1, it failed, and standard error says why; 2, the command line is wrong; 130, Ctrl-C.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Collection, Sequence
from difflib import get_close_matches
from pathlib import Path
from types import MappingProxyType
from typing import Final

from mgw.cli.arguments import TwoFilesError, settle_file
from mgw.cli.parser import build_parser

_WRONG_CALL: Final = 2
_INTERRUPTED: Final = 130  # as a shell has it for SIGINT
_GUESSES: Final = MappingProxyType(
    {
        **dict.fromkeys(("serve", "server", "start", "up"), "run"),
        **dict.fromkeys(("validate", "verify", "test", "lint"), "check"),
        **dict.fromkeys(("logs", "events", "watch"), "tail"),
        **dict.fromkeys(("config", "init"), "example"),
        "simulate": "sim",
        "stats": "usage",
        "login": "auth login",
        "logout": "auth logout",
    }
)
"""What other programs call our commands."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; return the exit status.

    :param arguments: those behind the command's name; ``None``: this process's own.
    """
    words = sys.argv[1:] if arguments is None else list(arguments)
    if words[:1] == ["help"]:
        words = [*words[1:], "--help"]
    parser = build_parser("".join(words[:1]))
    unknown = unknown_command(parser, words)
    if unknown is not None:
        sys.stderr.write(f"mgw: {unknown}\n")
        return _WRONG_CALL
    said = parser.parse_args(words)
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


def unknown_command(parser: argparse.ArgumentParser, words: Sequence[str]) -> str | None:
    """Return what is wrong with the names of commands, with the nearest one that there is; or ``None``."""
    above: list[str] = []
    for word in words:
        known = commands_of(parser)
        if not known or word.startswith("-"):
            return None
        if word not in known:
            return f"unknown command {' '.join([*above, word])!r}; {_instead(word, above, known)}"
        above.append(word)
        parser = known[word]
    return None


def commands_of(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """Return the commands that a parser knows, by name."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    return {}


def _instead(word: str, above: Sequence[str], known: Collection[str]) -> str:
    close = get_close_matches(word[:40].lower(), known, n=1)
    guess = _GUESSES.get(word.lower()) if not above else None
    if not above and (word.endswith((".yaml", ".yml")) or Path(word).is_file()):
        guess = f"run {word}"
    if guess is None and close:
        guess = close[0]
    if guess is None:
        return f"the commands are {', '.join(known)}"
    return f"did you mean: {' '.join(['mgw', *above, guess])}"


if __name__ == "__main__":
    sys.exit(main())
