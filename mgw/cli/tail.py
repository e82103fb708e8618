"""``mgw tail``: live events of a running gateway in a terminal."""

from __future__ import annotations

import argparse
import os
import select
import sys
from json import loads
from typing import Final

from mgw.cli.arguments import add_format
from mgw.cli.event_source import EventSource, TailError
from mgw.cli.gateway_address import (
    DEFAULT_URL,
    OptionError,
    add_gateway,
    address_of,
    certificate_of,
    headers_of,
)
from mgw.cli.tail_lines import EventRenderer, Filters

KINDS: Final = ("usage", "log", "health", "session")
_WRONG_CALL: Final = 2


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command."""
    parser.description = (
        "Print the events of a running gateway as they happen. If the gateway is down,\n"
        "wait for it; after a restart, continue with the next event. Ctrl-C stops."
    )
    parser.add_argument(
        "address", metavar="URL", nargs="?", help=f"the gateway's address (default: {DEFAULT_URL})"
    )
    add_gateway(parser)
    parser.add_argument(
        "--kinds",
        type=_kinds,
        default="usage",
        help=f"one or more of {', '.join(KINDS)}, separated by commas (default: %(default)s)",
    )
    for name in ("client", "model", "provider"):
        parser.add_argument(
            f"--{name}", metavar="PATTERN", help=f"only events of this {name}; * and ? match any characters"
        )
    parser.add_argument(
        "--status", help="only events with this status: a word such as upstream_error, or 429, or 5xx"
    )
    add_format(parser, ("line", "json"))


def _kinds(text: str) -> str:
    for name in text.split(","):
        if name not in KINDS:
            raise argparse.ArgumentTypeError(
                f"unknown kind {name!r}; expected one or more of {', '.join(KINDS)}"
            )
    return text


def run(said: argparse.Namespace) -> int:
    """Print events until somebody interrupts it; return the exit status."""
    filters = Filters(said.client, said.model, said.provider, said.status)
    colours = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    renderer = EventRenderer(filters, as_json=said.format == "json", colours=colours)
    try:
        address = address_of(_stated(said.address, said.url))
        headers = headers_of(said.key_env, os.environ)
        certificate = certificate_of(said.client_cert, said.client_key, address)
        greets = sys.stderr.isatty()
        source = EventSource(address, headers, said.kinds, _say, certificate=certificate, greets=greets)
        for kind, data in source.events(_check_output):
            text = _render(renderer, kind, data)
            if text:
                sys.stdout.write(text)
                sys.stdout.flush()
    except OptionError as error:
        _say(str(error))
        return _WRONG_CALL
    except TailError as error:
        _say(str(error))
        return 1
    except KeyboardInterrupt:
        return 0
    except BrokenPipeError:  # `mgw tail | head`: what is left to be written at the exit goes nowhere
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return 0


def _say(text: str) -> None:
    sys.stderr.write(f"mgw tail: {text}\n")


def _render(renderer: EventRenderer, kind: str, data: str) -> str:
    try:
        return renderer.render(kind, loads(data), data)
    except (ValueError, OverflowError, RecursionError):  # no JSON, or numbers without end
        raise TailError("received something that is not an event: it is not an mgw gateway") from None


def _stated(argument: str | None, option: str | None) -> str:
    """Return the address that the command line names, or the default."""
    if argument is not None and option is not None and argument != option:
        raise OptionError("two addresses: name only one")
    url = argument or option or DEFAULT_URL
    if url.endswith((".yaml", ".yml")):
        raise OptionError(f"expected the gateway's address, not a file: mgw tail {DEFAULT_URL}")
    return url


def _check_output() -> None:
    """Notice that nobody reads any more, which is otherwise seen at the next event alone.

    :raises BrokenPipeError: the other end of a pipe is closed.
    """
    poll = select.poll()
    poll.register(sys.stdout.fileno(), 0)  # errors are always told
    if any(found & select.POLLERR for _, found in poll.poll(0)):
        raise BrokenPipeError
