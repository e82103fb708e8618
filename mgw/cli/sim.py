"""``mgw sim``: the simulated provider."""

from __future__ import annotations

import argparse
import sys


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command."""
    parser.add_argument(
        "-l",
        "--listen",
        metavar="HOST:PORT",
        default="127.0.0.1:8788",
        help="the address to listen on; port 0 picks a free port (default: %(default)s)",
    )
    parser.add_argument(
        "--aws",
        metavar="KEYID:SECRET[:TOKEN][@REGION]",
        action="append",
        default=[],
        help="a key of AWS; all requests must then be signed with one (may be repeated)",
    )


def run(said: argparse.Namespace) -> int:
    """Serve until a signal; return the exit status."""
    from twisted.python.usage import UsageError  # slow to import, as are the next two

    from mgw_sim.__main__ import main as simulate
    from mgw_sim.daemon import parse_listen

    try:
        parse_listen(said.listen)
    except UsageError as error:
        sys.stderr.write(f"mgw sim: {error}\n")
        return 2
    keys = [f"--aws={key}" for key in said.aws]
    return simulate(["--listen", said.listen, "--announce-port", *keys])
