"""What is said of a command line that is wrong: what there is in place of what was typed."""

from __future__ import annotations

import argparse
from collections.abc import Collection, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Final

from mgw.config.quoting import nearest_word

GUESSES: Final = MappingProxyType(
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
_ADDRESS: Final = frozenset({"address", "bind", "host", "listen", "port"})
_LONGEST: Final = 40
"""Characters of a word that is repeated."""


def wrong_command(parser: argparse.ArgumentParser, words: Sequence[str], *, help_of: bool) -> str | None:
    """Return what is wrong with the names of commands, in a line of its own; or ``None``.

    :param help_of: the words come from ``mgw help``.
    """
    early = _options_before_command(parser, words)
    if early is not None:
        return f"mgw: {early}"
    below, above = command_of(parser, words)
    known, rest = commands_of(below), words[len(above) :]
    if not known or not rest or rest[0].startswith("-"):
        return None
    called = ["mgw", "help"] if help_of else ["mgw"]
    unknown = " ".join([*above, rest[0]])
    return f"mgw: unknown command {unknown!r}; {_command_instead(rest[0], above, known, called)}"


def wrong_arguments(parser: argparse.ArgumentParser, words: Sequence[str], unknown: Sequence[str]) -> str:
    """Return what is wrong with arguments that argparse has left over, in a line of its own."""
    below, above = command_of(parser, words)
    called = " ".join(["mgw", *above])
    option = next((word for word in unknown if word.startswith("-")), None)
    if option is None:
        what = f"unexpected argument {unknown[0]!r}"
    else:
        option = option.partition("=")[0]
        what = f"unknown option {option if option.isprintable() else repr(option)}"
        hint = _option_instead(option, below, above)
        if hint is not None:
            return f"{called}: {what}{hint}"
    return f"{called}: {what}; its options: {' '.join(['mgw', 'help', *above])}"


def command_of(
    parser: argparse.ArgumentParser, words: Sequence[str]
) -> tuple[argparse.ArgumentParser, list[str]]:
    """Return the parser of the command that the words begin with, and its name."""
    above: list[str] = []
    for word in words:
        below = commands_of(parser).get(word)
        if below is None:
            break
        above.append(word)
        parser = below
    return parser, above


def commands_of(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """Return the commands that a parser knows, by name."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    return {}


def _options_before_command(parser: argparse.ArgumentParser, words: Sequence[str]) -> str | None:
    """Say that options follow the command, where they precede one."""
    known = commands_of(parser)
    if not words or not words[0].startswith("-") or words[0] in _options_of(parser):
        return None
    place = next((place for place, word in enumerate(words) if word in known), None)
    if place is None:
        return None
    turned = [words[place], *words[:place], *words[place + 1 :]]
    shown = " ".join(turned) if all(map(_is_harmless, turned)) else f"{words[place]} [OPTIONS]"
    return f"options follow the command: mgw {shown}"


def _is_harmless(word: str) -> bool:
    return len(word) <= _LONGEST and word.isprintable() and "=" not in word and " " not in word


def _command_instead(word: str, above: Sequence[str], known: Collection[str], called: Sequence[str]) -> str:
    guess = GUESSES.get(word.lower()) if not above else None
    if not above and (word.endswith((".yaml", ".yml")) or Path(word).is_file()):
        guess = f"run {word}"
    guess = guess or nearest_word(word, known)
    if guess is None:
        return f"the commands are {', '.join(known)}"
    return f"did you mean: {' '.join([*called, *above, guess])}"


def _option_instead(option: str, parser: argparse.ArgumentParser, above: Sequence[str]) -> str | None:
    known = [name for name in _options_of(parser) if name.startswith("--")]
    name = option.strip("-").replace("-", "_")
    if above == ["run"] and name in _ADDRESS:
        return "; the address is listen in the configuration file"
    if above == ["run"] and name in _settings():
        return f"; {name} is a setting in the configuration file"
    begun = (full for full in known if full.startswith(f"-{option}") and len(option) == len("-v"))
    found = nearest_word(option, known) or next(begun, None)
    return f"; did you mean {found}?" if found else None


def _options_of(parser: argparse.ArgumentParser) -> list[str]:
    return list(parser._option_string_actions)


def _settings() -> Collection[str]:
    from mgw.config.settings import Config  # which a command line without a mistake does without
    from mgw.config.settings_base import file_settings

    return file_settings(Config)
