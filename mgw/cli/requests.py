"""``mgw requests``: completed requests, newest first, from an SQLite file or from a running gateway."""

from __future__ import annotations

import argparse
import os
import re
import shutil
import sys
from collections.abc import Mapping
from itertools import islice
from json import dumps
from pathlib import Path
from typing import Any, Final

from mgw.cli.arguments import add_file, add_format, utf8_text
from mgw.cli.event_file import EventFileError, NoEventFileError, configured_file, open_events
from mgw.cli.gateway_address import (
    DEFAULT_URL,
    OptionError,
    add_gateway,
    address_of,
    certificate_of,
    headers_of,
)
from mgw.cli.gateway_query import GatewayQuery, QueryError, UnreachableError
from mgw.cli.moments import add_times
from mgw.cli.output import FORMATS, write_rows
from mgw.cli.request_lines import NARROWEST, render_details, render_table
from mgw.usage.event_search import FILTERS, STATUS_HINT, EventSearch, encode_event, find_events, is_status
from mgw.usage.usage_table import COLUMNS

Event = Mapping[str, Any]  # Any: JSON
PATH: Final = "/v1/dashboard/requests"
DEFAULT_LIMIT: Final = 50
PAGE: Final = 500
"""The largest page that a gateway answers with."""
_HOST_AND_PORT: Final = re.compile(r"(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9.-]+):[0-9]{1,5}/?")
_HELP: Final = {
    "client": "only requests of this client: the name of its gateway key",
    "provider": "only requests to this provider",
    "model": "only requests for this model, as the client named it",
    "route": "only requests on this route, such as chat; see mgw routes",
    "error": "only requests that failed with this error, such as first_byte_timeout",
    "key": "only requests with this key of the provider: the event's key_hash",
    "request_id": "all fields of this request",
    "upstream_request_id": "all fields of the request with this id of the provider",
}
_WRONG_CALL: Final = 2


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    parser.description = (
        "Print completed requests, newest first: from the SQLite file of hooks.sqlite, or\n"
        "from a running gateway."
    )
    add_file(parser, "the configuration file with hooks.sqlite.path, or a gateway's address")
    parser.add_argument("--database", metavar="FILE", help="an SQLite file, instead of a configuration")
    add_gateway(parser)
    add_times(parser)
    parser.add_argument("--status", type=_status, help=f"only requests with this status: {STATUS_HINT}")
    for name in FILTERS:
        option, metavar = f"--{name.replace('_', '-')}", "ID" if name.endswith("_id") else "NAME"
        parser.add_argument(option, metavar=metavar, type=utf8_text, help=_HELP[name])
    parser.add_argument(
        "--limit",
        metavar="NUMBER",
        type=_limit,
        default=DEFAULT_LIMIT,
        help="at most so many requests (default: %(default)s)",
    )
    add_format(parser, FORMATS)


def run(said: argparse.Namespace) -> int:
    """Print the requests; return the exit status."""
    try:
        events = _find(said)
    except OptionError as error:
        sys.stderr.write(f"mgw requests: {error}\n")
        return _WRONG_CALL
    except (EventFileError, QueryError) as error:
        sys.stderr.write(f"mgw requests: {error}\n")
        return 1
    if not events and said.format == "table":
        sys.stderr.write("no such requests\n" if _is_narrowed(said) else "no requests yet\n")
    else:
        sys.stdout.write(_render(events, said))
    return 0


def _status(text: str) -> str:
    if not is_status(text):
        raise argparse.ArgumentTypeError(f"unknown status {text!r}; expected {STATUS_HINT}")
    return text


def _limit(text: str) -> int:
    if text.isascii() and text.isdigit() and len(text) < 10 and int(text) > 0:
        return int(text)
    raise argparse.ArgumentTypeError(f"expected a whole number above 0, found {text!r}")


def _find(said: argparse.Namespace) -> list[Event]:
    """Return the requests from wherever the command line says.

    :raises OptionError: it says two places, or an address that is none.
    :raises EventFileError: the file cannot be read.
    :raises QueryError: the gateway does not answer.
    """
    url = said.url or (said.config if said.names_file and _is_address(said.config) else None)
    named = [said.database, url, said.config if said.names_file and url != said.config else None]
    if sum(place is not None for place in named) > 1:
        raise OptionError("a configuration file, --database and a gateway's address: name only one")
    if url is not None:
        return _ask(url, said)
    if said.database is None and not said.names_file and not Path(said.config).exists():
        return _ask_here(f"{said.config} does not exist", said)
    try:
        path = Path(said.database) if said.database else configured_file(said.config, "mgw requests")
    except NoEventFileError:
        return _ask_here(f"{said.config} has no hooks.sqlite.path", said)
    return _read(path, said)


def _is_address(text: str) -> bool:
    return "://" in text or (_HOST_AND_PORT.fullmatch(text) is not None and not Path(text).exists())


def _read(path: Path, said: argparse.Namespace) -> list[Event]:
    exact = [(column, getattr(said, name)) for name, column in FILTERS.items()]
    search = EventSearch(
        since=said.since,
        until=said.until,
        status=said.status,
        exact=tuple((column, value) for column, value in exact if value is not None),
        limit=said.limit,
    )
    with open_events(path, is_named=said.database is not None) as (connection, _):
        return list(find_events(connection, search))


def _ask_here(why: str, said: argparse.Namespace) -> list[Event]:
    """Ask the gateway on this machine, since there is no file."""
    try:
        return _ask(DEFAULT_URL, said)
    except UnreachableError as error:
        raise QueryError(
            f"{why}, and no gateway can be asked instead: {error}; to ask another one: mgw requests URL"
        ) from None


def _ask(url: str, said: argparse.Namespace) -> list[Event]:
    address = address_of(url)
    certificate = certificate_of(said.client_cert, said.client_key, address)
    gateway = GatewayQuery(address, headers_of(said.key_env, os.environ), certificate)
    names = ("since", "until", "status", *FILTERS)
    asked = {name: value for name in names if (value := getattr(said, name)) is not None}
    found: list[Event] = []
    cursor: dict[str, str] = {}
    while True:
        limit = str(min(PAGE, said.limit - len(found)))
        answer = gateway.ask(PATH, {**asked, "limit": limit, **cursor})
        rows = answer.get("requests")
        if not isinstance(rows, list) or "in_progress" not in answer:
            raise QueryError(f"{gateway.shown} is an mgw gateway of a version without this list")
        found += islice((row for row in rows if isinstance(row, dict)), said.limit - len(found))
        if len(found) >= said.limit or not rows or not isinstance(answer.get("next"), str):
            return found
        cursor = {"cursor": answer["next"]}


def _is_narrowed(said: argparse.Namespace) -> bool:
    return any(getattr(said, name) is not None for name in ("since", "until", "status", *FILTERS))


def _render(events: list[Event], said: argparse.Namespace) -> str:
    if said.format == "json":
        return "".join(f"{_line(event)}\n" for event in events)
    if said.format == "csv":
        return write_rows(
            "csv", tuple(COLUMNS), [[_cell(event.get(name)) for name in COLUMNS] for event in events]
        )
    if said.request_id is not None or said.upstream_request_id is not None:
        return "\n".join(map(render_details, events))
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else NARROWEST
    return render_table(events, max(width, NARROWEST))


def _line(event: Event) -> str:
    text = encode_event(event).decode()
    return text if text.isprintable() else dumps(event)


def _cell(value: Any) -> Any:  # Any: JSON
    return dumps(value) if isinstance(value, list) else value
