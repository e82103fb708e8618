"""What the command line of ``mgw`` takes where, as a tree of plain values.

Some metavars, such as ``FILE``, mean the name of a file; words to choose from are those that argparse knows,
or those that are listed here because a value may have several of them or any other.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from types import MappingProxyType
from typing import Final

from msgspec import Struct

from mgw.cli.example import shipped_names
from mgw.cli.parser import ALL, COMMANDS, build_parser
from mgw.cli.tail import KINDS
from mgw.cli.wrong_calls import commands_of
from mgw.usage.event import Outcome
from mgw.usage.usage_read import KEYS

_WORDS: Final = MappingProxyType(
    {
        ("mgw example", "name"): tuple(shipped_names()),
        ("mgw help", "topic"): tuple(command.name for command in COMMANDS),
        ("mgw tail", "kinds"): KINDS,
        ("mgw tail", "status"): (*Outcome, "4xx", "5xx"),
        ("mgw requests", "status"): (*Outcome, "4xx", "5xx"),
        ("mgw usage", "by"): tuple(KEYS),
    }
)
"""By the command and the argument: words beside those that argparse knows."""
_FILES: Final = frozenset({"FILE", "OLD", "NEW"})
"""Metavars of the names of files."""


class Value(Struct, frozen=True):
    """What stands in a place."""

    name: str
    """What ``--help`` calls it."""
    words: tuple[str, ...] = ()
    is_file: bool = False


class Option(Struct, frozen=True):
    """An option."""

    names: tuple[str, ...]
    does: str
    value: Value | None
    """``None``: it takes none."""


class Node(Struct, frozen=True):
    """A command, or ``mgw`` itself."""

    path: tuple[str, ...]
    does: str
    options: tuple[Option, ...]
    arguments: tuple[Value, ...]
    commands: tuple[Node, ...]

    def offered(self) -> list[Value]:
        """Return the first argument that can be completed, if there is one."""
        return [value for value in self.arguments if value.is_file or value.words][:1]

    def below(self) -> Iterator[Node]:
        """Yield it, and every command below it."""
        yield self
        for command in self.commands:
            yield from command.below()


def command_tree() -> Node:
    """Return the whole command line."""
    return _node((), "", build_parser(ALL))


def _node(path: tuple[str, ...], does: str, parser: argparse.ArgumentParser) -> Node:
    below = commands_of(parser)
    shown = [action for action in parser._actions if action.help != argparse.SUPPRESS]
    return Node(
        path,
        does,
        tuple(_option(parser, action) for action in shown if action.option_strings),
        tuple(_value(parser, action) for action in shown if not action.option_strings and not below),
        tuple(_node((*path, name), _help_of(parser, name), each) for name, each in below.items()),
    )


def _help_of(parser: argparse.ArgumentParser, name: str) -> str:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for choice in action._choices_actions:
                if choice.dest == name:
                    return choice.help or ""
    raise AssertionError(f"{name} has no help")


def _option(parser: argparse.ArgumentParser, action: argparse.Action) -> Option:
    does = (action.help or "").split(" (default: ")[0].split("; ")[0]
    return Option(tuple(action.option_strings), does, None if action.nargs == 0 else _value(parser, action))


def _value(parser: argparse.ArgumentParser, action: argparse.Action) -> Value:
    words = tuple(map(str, action.choices or ())) or _WORDS.get((parser.prog, action.dest), ())
    name = str(action.metavar or action.dest).upper()
    return Value(name, words, is_file=name in _FILES)
