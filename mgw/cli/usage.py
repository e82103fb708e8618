"""``mgw usage``: totals of the events in an SQLite file (``hooks.sqlite``)."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from mgw.cli.arguments import add_file, add_format, utf8_text
from mgw.cli.event_file import EventFileError, configured_file, open_events
from mgw.cli.moments import add_times
from mgw.cli.output import FORMATS, Cell, SumsTable, write_sums
from mgw.usage.event import Outcome
from mgw.usage.usage_read import (
    FILTERS,
    KEYS,
    NAMES,
    NO_SUMS,
    Row,
    UsageRange,
    UsageReader,
    add_rows,
    key_of,
    open_period,
    read_sums,
    shown_row,
)
from mgw.usage.usage_table import TABLE

TITLES: Final = MappingProxyType(
    {
        **{name: name for name in ("requests", "failed", "rejected", "tokens_in", "tokens_out")},
        **{name: name for name in ("session_minutes", "cost_usd", "unpriced", "uncounted")},
        "latency_ms_p50": "p50_ms",
        "latency_ms_p95": "p95_ms",
        "ttft_ms_p50": "ttft_p50",
    }
)
"""The columns of a table, and their titles: as many as fit into 120 characters."""
QUIET: Final = ("rejected", "unpriced", "uncounted")
"""The columns that a table leaves out where all are 0."""
_WORDS: Final = MappingProxyType(
    {"key": "`key_hash`, the hash of the provider's key", "status": f"status: {', '.join(Outcome)}"}
)
_DECIMALS: Final = MappingProxyType({name: 0 for name in TITLES if "_ms_" in name} | {"cost_usd": 6})


class _Found(NamedTuple):
    rows: list[list[Cell]]
    totals: Sequence[Cell]
    last: str | None
    """The time of the last event, if it was not among those asked for."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    add_file(parser, "the configuration file with hooks.sqlite.path")
    parser.add_argument("--database", metavar="FILE", help="an SQLite file, instead of a configuration")
    parser.add_argument(
        "--by",
        metavar="COLUMNS",
        type=_groups,
        default="model",
        help=f"one or more of {', '.join(KEYS)} and tag:NAME, separated by commas (default: %(default)s)",
    )
    add_times(parser)
    for name in FILTERS:
        parser.add_argument(
            f"--{name}",
            metavar="HASH" if name == "key" else "NAME",
            type=utf8_text,
            choices=tuple(map(str, Outcome)) if name == "status" else None,
            help=f"only events with this {_WORDS.get(name, name)}",
        )
    add_format(parser, FORMATS)


def run(said: argparse.Namespace) -> int:
    """Print the sums; return the exit status."""
    if said.database and said.names_file:
        sys.stderr.write("mgw usage: a configuration file and --database: name only one\n")
        return 2
    try:
        path = Path(said.database) if said.database else configured_file(said.config, "mgw usage")
        found = _query(path, said)
    except EventFileError as error:
        sys.stderr.write(f"mgw usage: {error}\n")
        return 1
    if not found.rows and said.format == "table":
        since = f" in this period; the last one is from {found.last}" if found.last else f" yet in {path}"
        sys.stderr.write(f"no usage events{since}\n")
    else:
        table = SumsTable(found.totals, TITLES, QUIET, _DECIMALS)
        sys.stdout.write(write_sums(said.format, (*said.by, *NAMES), found.rows, len(said.by), table))
    return 0


def _groups(text: str) -> tuple[str, ...]:
    groups = tuple(dict.fromkeys(filter(None, utf8_text(text).split(","))))
    for name in groups:
        if key_of(name) is None:
            raise argparse.ArgumentTypeError(
                f"unknown column {name!r}; expected one or more of {', '.join(KEYS)} and tag:NAME"
            )
    return groups


def _query(path: Path, said: argparse.Namespace) -> _Found:
    """Read the file.

    :raises EventFileError: it cannot be read.
    """
    with open_events(path, is_named=bool(said.database)) as (connection, known):
        if not known:
            return _Found([], [], None)
        filters = {name: value for name in FILTERS if (value := getattr(said, name)) is not None}
        connection.execute("BEGIN")  # all that follows sees the same events
        reader = open_period(connection, UsageRange(said.since, said.until, filters=filters))
        sums = read_sums(reader, lambda reader: _sums(reader, said.by))
        if sums:
            shown = [[*keys, *shown_row(row)] for keys, row in sorted(sums.items(), key=_order)]
            whole = _sums(reader, ()) if "group" in said.by else sums  # there, an event may count twice
            return _Found(shown, shown_row(add_rows(whole.values())), None)
        ((last,),) = connection.execute(f"SELECT max(time) FROM {TABLE}")  # noqa: S608 (a constant)
        return _Found([], [], last)


def _sums(reader: UsageReader, by: Sequence[str]) -> dict[tuple[Any, ...], Row]:
    """Return the sums of the report by their keys; Any: what SQLite has."""
    found: dict[tuple[Any, ...], Row] = {} if by else {(): list(NO_SUMS)}
    for _, keys, row in reader.rows([key for name in by if (key := key_of(name)) is not None]):
        before = found.get(keys)
        found[keys] = row if before is None else add_rows([before, row])
    return found


def _order(item: tuple[tuple[Any, ...], Row]) -> list[tuple[bool, str]]:
    """What has no key comes first, as SQLite orders it."""
    return [(key is not None, str(key)) for key in item[0]]
