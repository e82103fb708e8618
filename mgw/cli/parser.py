"""The command line of ``mgw`` as a tree of parsers: a row for each command.

What a command needs is imported once it is wanted, so that ``mgw --help`` does not wait for Twisted.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import Final, NamedTuple

import mgw
from mgw.cli.arguments import HelpFormatter, add_file, examples

ALL: Final = "*"
"""Describes every command in full, in place of one."""

_Run = Callable[[argparse.Namespace], int]
_Parts = tuple[Callable[[argparse.ArgumentParser], None], _Run]
"""What declares the arguments of a command, and what runs it and returns the exit status."""


class Command(NamedTuple):
    """A command."""

    name: str
    does: str
    load: Callable[[], _Parts]
    examples: tuple[str, ...] = ()


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
    parser.add_argument("-V", "--version", action="version", version=_version(), help=does)
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
            declare, run = command.load()
            below.set_defaults(command=run, parser=below)
            declare(below)
    return parser


def _version() -> str:
    return f"mgw {mgw.__version__}"


def _nothing(_: argparse.ArgumentParser) -> None:
    """Declare no arguments."""


def _load_run() -> _Parts:
    def declare(parser: argparse.ArgumentParser) -> None:
        add_file(parser)
        parser.add_argument("--log-file", metavar="FILE", help="log to this file; SIGHUP reopens it")
        parser.add_argument("--demo", action="store_true", help=argparse.SUPPRESS)

    def run(said: argparse.Namespace) -> int:
        from mgw.cli.process import serve

        demo = ["--demo"] if said.demo else []
        return serve(["-c", said.config, *demo], said.log_file)

    return declare, run


def _load_check() -> _Parts:
    def run(said: argparse.Namespace) -> int:
        from mgw.app.check import check, reader_of

        return check(reader_of(said.config), "mgw check")

    return add_file, run


def _load_reload() -> _Parts:
    from mgw.cli import reload

    return reload.add_arguments, reload.reload


def _load_sim() -> _Parts:
    from mgw.cli import sim

    return sim.add_arguments, sim.run


def _load_auth() -> _Parts:
    from mgw.cli import auth

    return auth.add_commands, auth.show_commands


def _load_routes() -> _Parts:
    from mgw.cli import routes

    return routes.add_arguments, routes.report


def _load_models() -> _Parts:
    from mgw.cli import models

    return models.add_arguments, models.report


def _load_usage() -> _Parts:
    from mgw.cli import usage

    return usage.add_arguments, usage.report


def _load_requests() -> _Parts:
    from mgw.cli import requests

    return requests.add_arguments, requests.report


def _load_tail() -> _Parts:
    from mgw.cli import tail

    return tail.add_arguments, tail.tail


def _load_schema() -> _Parts:
    def run(_: argparse.Namespace) -> int:
        from mgw.config.schema import schema_text

        sys.stdout.write(schema_text())
        return 0

    return _nothing, run


def _load_example() -> _Parts:
    from mgw.cli import example

    return example.add_arguments, example.run


def _load_completion() -> _Parts:
    from mgw.cli import completion

    return completion.add_arguments, completion.run


def _load_help() -> _Parts:
    def declare(parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "topic", metavar="COMMAND", nargs="*", help="a command, such as run or auth login"
        )

    def run(_: argparse.Namespace) -> int:
        raise AssertionError("main turns it into --help")

    return declare, run


def _load_version() -> _Parts:
    def run(_: argparse.Namespace) -> int:
        sys.stdout.write(f"{_version()}\n")
        return 0

    return _nothing, run


COMMANDS: Final = (
    Command(
        "run",
        "run the gateway in the foreground, logging to standard error",
        _load_run,
        (
            "mgw run                          # with /etc/mgw.yaml",
            "mgw run mgw.yaml",
            "mgw run mgw.yaml --log-file mgw.log",
        ),
    ),
    Command(
        "check",
        "check the configuration, and print where requests will go",
        _load_check,
        ("mgw check mgw.yaml", "mgw check mgw.yaml && mgw run mgw.yaml"),
    ),
    Command(
        "reload",
        "check the configuration of a running gateway, and reload it",
        _load_reload,
        (
            "mgw reload                       # the only gateway on this machine",
            "mgw reload mgw.yaml              # the one that uses this file",
            "mgw reload --pid 1234",
        ),
    ),
    Command(
        "sim",
        "run a simulated provider that needs no key",
        _load_sim,
        ("mgw sim", "mgw sim --listen 127.0.0.1:9000"),
    ),
    Command(
        "auth",
        "log in to subscription accounts, and manage them",
        _load_auth,
        ("mgw auth login work", "mgw auth status", "mgw help auth login"),
    ),
    Command(
        "routes",
        "list the routes that the gateway serves",
        _load_routes,
        (
            "mgw routes batches               # routes with this word in their path or name",
            "mgw routes --family anthropic",
            "mgw routes -c mgw.yaml           # without those that the configuration denies",
        ),
    ),
    Command(
        "models",
        "list the models that a configuration offers",
        _load_models,
        ("mgw models mgw.yaml", "mgw models --key team --format json"),
    ),
    Command(
        "usage",
        "add up the usage events in the SQLite file of hooks.sqlite",
        _load_usage,
        (
            "mgw usage --by client,day --since 7d",
            "mgw usage mgw.yaml --by model --format csv",
            "mgw usage --database usage.db",
        ),
    ),
    Command(
        "requests",
        "list completed requests, or find one by its id",
        _load_requests,
        (
            "mgw requests --status 5xx --since 24h",
            "mgw requests --request-id req_0123456789abcdef01234567",
            "mgw requests https://gateway.example.com --client team --json",
        ),
    ),
    Command(
        "tail",
        "print the events of a running gateway as they happen",
        _load_tail,
        (
            "mgw tail",
            "mgw tail --status 5xx --kinds usage,health",
            "mgw tail https://gateway.example.com --key-env GATEWAY_KEY --format json",
        ),
    ),
    Command("schema", "print a JSON schema of the configuration, for editors", _load_schema),
    Command(
        "example",
        "print a configuration with every setting, explained",
        _load_example,
        ("mgw example > mgw.yaml", "mgw example prometheus-alerts.yaml"),
    ),
    Command(
        "completion",
        "print the completion script for a shell",
        _load_completion,
        (
            "source <(mgw completion bash)    # in ~/.bashrc",
            "source <(mgw completion zsh)     # in ~/.zshrc, after compinit",
            "mgw completion fish > ~/.config/fish/completions/mgw.fish",
        ),
    ),
    Command("help", "show the options of a command, with examples", _load_help),
    Command("version", "print the version", _load_version),
)
