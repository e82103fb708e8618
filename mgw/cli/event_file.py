"""The SQLite file of ``hooks.sqlite``, for commands that read it: where it is, and how it is opened.

Nothing is written to it, and the gateway may run meanwhile.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from mgw.config.load import read_text
from mgw.config.location import AS_WHOM, describe_unreadable
from mgw.config.problems import ConfigError, Report
from mgw.config.yaml_document import read
from mgw.reactor.regular_file import open_regular_file, read_up_to
from mgw.usage.usage_sums import columns_of
from mgw.usage.usage_table import TABLE

_SQLITE: Final = b"SQLite format 3"
"""What each of its files begins with."""
_BUSY_SECONDS: Final = 10


class EventFileError(Exception):
    """There is nothing to read; the text says why."""


class NoEventFileError(EventFileError):
    """The configuration has no ``hooks.sqlite``."""


def configured_file(file: str, command: str) -> Path:
    """Return the SQLite file that a configuration names; no other setting is looked at.

    :param command: that reads it, such as ``mgw usage``.
    :raises EventFileError: there is none.
    """
    report = Report(file)
    try:
        with open_regular_file(file) as opened:
            if read_up_to(opened, len(_SQLITE)) == _SQLITE:
                raise EventFileError(f"{file} is an SQLite file; to read it: {command} --database {file}")
        value: Any = read(read_text(file), report).value  # Any: YAML
        report.raise_if_any()
    except OSError as error:
        raise EventFileError(describe_unreadable(file, error, command)) from None
    except ConfigError as error:
        raise EventFileError(str(error)) from None
    for key in ("hooks", "sqlite", "path"):
        value = value.get(key) if isinstance(value, dict) else None
    if not isinstance(value, str):
        raise NoEventFileError(
            f"{file} has no hooks.sqlite.path, so its gateway keeps no usage events in SQLite; to read "
            f"another file: {command} --database FILE"
        )
    return Path(value)


@contextmanager
def open_events(path: Path, *, is_named: bool) -> Iterator[tuple[sqlite3.Connection, frozenset[str]]]:
    """Open the file; lend the connection, and the columns of its table: none where there is no table yet.

    :param is_named: whether the command line names the file itself, which then has to have the table.
    :raises EventFileError: it cannot be read, now or within the ``with`` block.
    """
    _check_file(path)
    uri = f"file:{quote(str(path.absolute()))}?mode=ro"
    try:
        with closing(sqlite3.connect(uri, uri=True, timeout=_BUSY_SECONDS)) as connection:
            known = columns_of(connection, TABLE)
            if not known and is_named:
                raise EventFileError(f"{path} has no table {TABLE}: it does not come from hooks.sqlite")
            yield connection, known
    except sqlite3.Error as error:
        raise EventFileError(f"{path}: {error}") from None


def _check_file(path: Path) -> None:
    try:
        exists, is_file = path.exists(), path.is_file()
    except OSError as error:
        raise EventFileError(f"{path}: {error.strerror}; {AS_WHOM}") from None
    if not exists:
        raise EventFileError(f"{path} does not exist yet; a gateway with hooks.sqlite creates it")
    if not is_file:
        raise EventFileError(f"{path} is not a file")
