"""Arguments that several commands take, and how their ``--help`` is laid out."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from mgw.config.location import DEFAULT_FILE


class TwoFilesError(Exception):
    """A command was given two configuration files; the text names both."""


class HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """Keeps the lines of descriptions and examples as they are, and lists commands plainly."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=28)

    def _format_action(self, action: argparse.Action) -> str:
        """List commands without the line that stands for all of them."""
        if isinstance(action, argparse._SubParsersAction):
            return "".join(map(self._format_action, action._choices_actions))
        return super()._format_action(action)


def examples(*lines: str) -> str:
    """Return the part of a command's help that shows how it is called."""
    return "\n".join(["examples:", *(f"  {line}" for line in lines)])


def add_file(parser: argparse.ArgumentParser, does: str = "the configuration file") -> None:
    """Let a command take a configuration file: as its argument, or as ``-c FILE``."""
    parser.add_argument(
        "config_argument", metavar="FILE", nargs="?", help=f"{does} (default: {DEFAULT_FILE})"
    )
    parser.add_argument("-c", "--config", metavar="FILE", help="the configuration file, as an option")
    parser.set_defaults(default_file=DEFAULT_FILE)


def add_file_option(parser: argparse.ArgumentParser) -> None:
    """Let a command that has other arguments take a configuration file as ``-c FILE``."""
    does = f"the configuration file (default: {DEFAULT_FILE})"
    parser.add_argument("-c", "--config", metavar="FILE", help=does)
    parser.set_defaults(default_file=DEFAULT_FILE)


def utf8_text(text: str) -> str:
    """Take a value that is looked for among texts: no other can be found."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise argparse.ArgumentTypeError("expected text in UTF-8") from None
    return text


def add_format(parser: argparse.ArgumentParser, forms: Sequence[str]) -> None:
    """Let a command print in several formats, of which the first is the default."""
    parser.add_argument(
        "--format", choices=forms, default=forms[0], help="the output format (default: %(default)s)"
    )
    parser.add_argument(
        "--json", dest="format", action="store_const", const="json", help="short for --format json"
    )


def settle_file(said: argparse.Namespace) -> None:
    """Put the configuration file into ``config``: the one that the command line names, or the default.

    :raises TwoFilesError: it names two.
    """
    option: str | None = getattr(said, "config", None)
    argument: str | None = getattr(said, "config_argument", None)
    if option is not None and argument is not None and Path(option).absolute() != Path(argument).absolute():
        raise TwoFilesError(f"two configuration files, {argument} and -c {option}: name only one")
    stated = argument if option is None else option
    said.names_file = stated is not None
    said.config = getattr(said, "default_file", None) if stated is None else stated
