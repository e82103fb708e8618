"""``mgw key add|rotate|revoke|list``: the key files in the directory of ``edge_auth.keys_dir``.

A new key is printed once and stored nowhere: its file has the digest.  Exit codes: 0, it worked; 1, it did
not; 2, it was called wrongly.
"""

from __future__ import annotations

import argparse
from functools import partial

from mgw.cli.arguments import add_file_option, add_format
from mgw.cli.output import FORMATS
from mgw.cli.subcommands import add_command, list_commands, run_action

run = list_commands


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the commands below ``mgw key``."""
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")

    def add(name: str, does: str, *shown: str) -> argparse.ArgumentParser:
        return add_command(commands, name, does, *shown, command=partial(_run_action, name))

    _describe_add(
        add(
            *("add", "make a key and its file, and print the key"),
            "mgw key add alice --group research --expires 90d",
            "mgw key add build --limit usd=50/month --limit in_flight=4 --tag team=ci",
            "mgw key add demo --dir /etc/mgw/keys.d --model 'claude/*' --expires 2027-03-31",
        )
    )
    _describe_rotate(
        add(
            *("rotate", "replace a key by a new one, and print the new one"),
            "mgw key rotate alice                # the old key stays valid for 24 hours",
            "mgw key rotate alice --overlap 0    # it is no longer valid",
        )
    )
    revoke = add(
        *("revoke", "disable a key, or remove its file"),
        "mgw key revoke alice",
        "mgw key revoke alice --delete",
    )
    _add_name(revoke)
    revoke.add_argument("--delete", action="store_true", help="remove the file, whatever is in it")
    listing = add(
        *("list", "list the keys with names, of the configuration and of files"),
        "mgw key list",
        "mgw key list --format json",
    )
    add_format(listing, FORMATS)
    for below in commands.choices.values():
        add_file_option(below)
        below.add_argument(
            "--dir", metavar="DIR", help="the directory of key files, in place of that of the configuration"
        )


def _run_action(name: str, said: argparse.Namespace) -> int:
    from mgw.cli import key_actions  # with it come the settings, which `mgw key --help` does without

    return run_action(key_actions.ACTIONS[name], said)


def _add_name(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="the name of the key: its file is NAME.yaml")


def _describe_add(add: argparse.ArgumentParser) -> None:
    _add_name(add)
    repeated = partial(add.add_argument, action="append", default=[])
    repeated("--group", metavar="GROUP", help="a group that the key is in; may be repeated")
    repeated("--model", metavar="PATTERN", help="a pattern for models that it may use; may be repeated")
    repeated(
        "--limit",
        metavar="LIMIT",
        help="a limit, as usd=50/month, tokens=200000/minute or in_flight=4; may be repeated",
    )
    repeated("--tag", metavar="NAME=TEXT", help="a tag of its usage events; may be repeated")
    add.add_argument(
        "--expires",
        metavar="WHEN",
        help="when it expires: after 90d or 12h, or at the end of a day as 2027-03-31 (default: never)",
    )


def _describe_rotate(rotate: argparse.ArgumentParser) -> None:
    _add_name(rotate)
    rotate.add_argument(
        "--overlap",
        metavar="TIME",
        default="24h",
        help="how long the old key stays valid, as 24h, 7d or 0 (default: %(default)s)",
    )
