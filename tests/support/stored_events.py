"""What is stored of undelivered events: read from outside, without a lock, while a gateway may run."""

from __future__ import annotations

import sqlite3
from contextlib import closing, suppress
from pathlib import Path

from mgw.reactor.daemon_threads import SerialRunner
from mgw.usage.sinks import EventSpool
from mgw.usage.spool_files import SpoolFiles
from mgw.usage.spool_room import SpoolRoom
from tests.support.usage import AtOnce

MIB = 1024 * 1024


def spool_in(folder: Path, max_bytes: int = MIB, runner: SerialRunner | None = None) -> EventSpool:
    """Return the spool of a gateway in memory."""
    return EventSpool(SpoolFiles(str(folder)), runner or AtOnce(), SpoolRoom(max_bytes))


def stored_batches(folder: Path, sink: str = "test") -> list[list[bytes]]:
    """Return the lines of each batch of a sink, the oldest batch first."""
    found: dict[str, list[bytes]] = {}
    for file in folder.glob("events/outbox*.db"):
        for key, lines in _rows(file, sink):
            found.setdefault(key, []).extend(lines.splitlines(keepends=True))
    return [found[key] for key in sorted(found)]


def _rows(file: Path, sink: str) -> list[tuple[str, bytes]]:
    """Return the rows of a file; none while they are being written, since a kill would undo that."""
    uri, journal = f"file:{file}?immutable=1", Path(f"{file}-journal")
    with closing(sqlite3.connect(uri, uri=True)) as connection, suppress(sqlite3.Error):  # half written
        rows = connection.execute("SELECT key, lines FROM batches WHERE sink = ? ORDER BY start", (sink,))
        found = rows.fetchall()
        if not journal.exists() or not any(journal.read_bytes()[:8]):
            return found
    return []


def stored_lines(folder: Path, sink: str = "test") -> list[bytes]:
    """Return the lines of all batches of a sink, the oldest first."""
    return [line for batch in stored_batches(folder, sink) for line in batch]
