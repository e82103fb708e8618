"""The command line of ``mgw`` as a tree of parsers: a row for each command.

What a command needs is imported once it is wanted, so that ``mgw --help`` does not wait for Twisted.
"""

from __future__ import annotations

import argparse
from importlib import import_module
from typing import Any, Final, NamedTuple, Protocol, cast

from mgw.cli.arguments import HelpFormatter, examples
from mgw.cli.version import version_text

ALL: Final = "*"
"""Describes every command in full, in place of one."""


class CommandModule(Protocol):
    """What the module of a command has."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the arguments of the command."""
        ...

    def run(self, said: argparse.Namespace) -> int:
        """Run the command; return the exit status."""
        ...


class Command(NamedTuple):
    """A command."""

    name: str
    does: str
    module: str
    """The module with the two functions of :class:`CommandModule`; it is imported when it is needed."""
    examples: tuple[str, ...] = ()

    def load(self) -> CommandModule:
        """Import the command's module."""
        found: Any = import_module(self.module)  # Any: a module; a test looks for its two functions
        return cast(CommandModule, found)


def build_parser(wanted: str) -> argparse.ArgumentParser:
    """Describe the command line.

    :param wanted: the command that is described in full, or :data:`ALL`; of others there is only the name.
    """
    parser = argparse.ArgumentParser(
        prog="mgw",
        description="A gateway between clients and providers of language models.",
        epilog=examples(
            "mgw example > mgw.yaml   # a configuration with every setting, explained",
            "mgw check mgw.yaml       # find mistakes, and see where requests will go",
            "mgw run mgw.yaml",
            "mgw help COMMAND         # the options of a command, with examples",
        ),
        formatter_class=HelpFormatter,
    )
    does = "print the version and exit"
    parser.add_argument("-V", "--version", action="version", version=version_text(), help=does)
    parser.set_defaults(command=None)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    for command in COMMANDS:
        below = commands.add_parser(
            command.name,
            help=command.does,
            description=f"{command.does[0].upper()}{command.does[1:]}.",
            epilog=examples(*command.examples) if command.examples else None,
            formatter_class=HelpFormatter,
        )
        if wanted in (command.name, ALL):
            module = command.load()
            below.set_defaults(command=module.run, parser=below)
            module.add_arguments(below)
    return parser


COMMANDS: Final = (
    Command(
        "run",
        "run the gateway in the foreground, logging to standard error",
        "mgw.cli.run",
        (
            "mgw run                          # with /etc/mgw.yaml",
            "mgw run mgw.yaml",
            "mgw run mgw.yaml --log-file mgw.log",
        ),
    ),
    Command(
        "check",
        "check the configuration, and print where requests will go",
        "mgw.cli.check",
        ("mgw check mgw.yaml", "mgw check mgw.yaml && mgw run mgw.yaml"),
    ),
    Command(
        "reload",
        "check the configuration of a running gateway, and reload it",
        "mgw.cli.reload",
        (
            "mgw reload                       # the only gateway on this machine",
            "mgw reload mgw.yaml              # the one that uses this file",
            "mgw reload --pid 1234",
        ),
    ),
    Command(
        "sim",
        "run a simulated provider that needs no key",
        "mgw.cli.sim",
        ("mgw sim", "mgw sim --listen 127.0.0.1:9000"),
    ),
    Command(
        "auth",
        "log in to subscription accounts, and manage them",
        "mgw.cli.auth",
        ("mgw auth login work", "mgw auth status", "mgw help auth login"),
    ),
    Command(
        "key",
        "make, replace and revoke gateway keys while the gateway runs",
        "mgw.cli.key",
        ("mgw key add alice --expires 90d", "mgw key revoke alice", "mgw help key add"),
    ),
    Command(
        "budget",
        "show what is used of limits longer than a minute, and reset it",
        "mgw.cli.budget",
        ("mgw budget show", "mgw budget reset alice --limit usd_per_month", "mgw help budget reset"),
    ),
    Command(
        "routes",
        "list the routes that the gateway serves",
        "mgw.cli.routes",
        (
            "mgw routes batches               # routes with this word in their path or name",
            "mgw routes --family anthropic",
            "mgw routes -c mgw.yaml           # without those that the configuration denies",
        ),
    ),
    Command(
        "models",
        "list the models that a configuration offers",
        "mgw.cli.models",
        ("mgw models mgw.yaml", "mgw models --key team --format json"),
    ),
    Command(
        "usage",
        "add up the usage events in the SQLite file of hooks.sqlite",
        "mgw.cli.usage",
        (
            "mgw usage --by client,day --since 7d",
            "mgw usage mgw.yaml --by model --format csv",
            "mgw usage --database usage.db",
        ),
    ),
    Command(
        "requests",
        "list completed requests, or find one by its id",
        "mgw.cli.requests",
        (
            "mgw requests --status 5xx --since 24h",
            "mgw requests --request-id req_0123456789abcdef01234567",
            "mgw requests https://gateway.example.com --client team --json",
        ),
    ),
    Command(
        "tail",
        "print the events of a running gateway as they happen",
        "mgw.cli.tail",
        (
            "mgw tail",
            "mgw tail --status 5xx --kinds usage,health",
            "mgw tail https://gateway.example.com --key-env GATEWAY_KEY --format json",
        ),
    ),
    Command(
        "prices",
        "make a file of prices from a price list of others, and compare two",
        "mgw.cli.prices",
        (
            "mgw prices import --from litellm list.json --provider openai > new.yaml",
            "mgw prices diff prices.yaml new.yaml",
        ),
    ),
    Command("schema", "print a JSON schema of the configuration, for editors", "mgw.cli.schema"),
    Command(
        "example",
        "print a configuration with every setting, explained",
        "mgw.cli.example",
        ("mgw example > mgw.yaml", "mgw example prometheus-alerts.yaml"),
    ),
    Command(
        "completion",
        "print the completion script for a shell",
        "mgw.cli.completion",
        (
            "source <(mgw completion bash)    # in ~/.bashrc",
            "source <(mgw completion zsh)     # in ~/.zshrc, after compinit",
            "mgw completion fish > ~/.config/fish/completions/mgw.fish",
        ),
    ),
    Command("help", "show the options of a command, with examples", "mgw.cli.help"),
    Command("version", "print the version", "mgw.cli.version"),
)
