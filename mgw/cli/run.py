"""``mgw run``: the gateway in the foreground."""

from __future__ import annotations

import argparse

from mgw.cli.arguments import add_file
from mgw.reactor.lean_start import import_when_used, without_collections


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    add_file(parser)
    parser.add_argument("--log-file", metavar="FILE", help="log to this file; SIGHUP reopens it")
    parser.add_argument("--demo", action="store_true", help=argparse.SUPPRESS)


def run(said: argparse.Namespace) -> int:
    """Run the gateway until a signal ends it; return the exit status."""
    with without_collections():
        import_when_used("http.cookiejar")  # which Twisted takes, and hardly any gateway looks into
        from mgw.cli.process import serve  # Twisted is slow to import

    demo = ["--demo"] if said.demo else []
    return serve(["-c", said.config, *demo], said.log_file)
