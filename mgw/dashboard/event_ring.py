"""The latest events of the gateway, which many readers consume at their own pace.

Events are numbered from 1.  The ring holds the newest, and whoever has read up to some number asks for what
came behind it; what a reader has missed is not kept for it, so a slow one costs no memory.

Usage events come by the thousand and are seldom read: they are kept as the records that the exchanges left
behind, which hold neither bodies nor connections, and become text when the first reader wants them.  A record
with unusually long names becomes text at once, since text is bounded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Final

from msgspec import Struct
from msgspec.json import Encoder

from mgw.usage.event import SettledExchange
from mgw.usage.record import encode_settled
from mgw.wire.sse import escape_line_ends

MAX_EVENTS: Final = 1000
MAX_TEXT_BYTES: Final = 4 * 1024 * 1024
"""The most text that is held of all events; beyond it the oldest go."""
MAX_DROPPED_CHARS: Final = 1024
"""A record with more than this in the names of its dropped fields becomes text at once."""
_RELEASED_AT_ONCE: Final = 32
_ENCODER: Final = Encoder()


class EventKind(StrEnum):
    """What an event tells of."""

    USAGE = "usage"
    """An exchange has ended."""
    LOG = "log"
    """The process log has a new line."""
    HEALTH = "health"
    """A provider has begun to fail, or works again."""
    SESSION = "session"
    """A realtime session was opened or closed."""


ALL_KINDS: Final = frozenset(EventKind)


class _Text(Struct, frozen=True, gc=False):
    """An event as it is sent."""

    kind: EventKind
    data: bytes


class EventRing:
    """The events of a process.

    :param start: names this start of the process in the ids of events.
    """

    __slots__ = ("_first", "_max_bytes", "_next", "_slots", "_start", "_text_bytes")

    def __init__(
        self, start: str, max_events: int = MAX_EVENTS, max_text_bytes: int = MAX_TEXT_BYTES
    ) -> None:
        self._start = start
        self._max_bytes = max_text_bytes
        self._slots: list[SettledExchange | _Text | None] = [None] * max_events
        self._first = self._next = 1
        """The numbers of the oldest event that is held, and of the next that comes."""
        self._text_bytes = 0

    @property
    def last(self) -> int:
        """The number of the newest event; 0 before the first."""
        return self._next - 1

    @property
    def text_bytes(self) -> int:
        """How much text is held."""
        return self._text_bytes

    def add_rows(self, rows: Sequence[SettledExchange]) -> None:
        """Add the usage events of exchanges."""
        slots, size = self._slots, len(self._slots)
        at, count = self._next % size, len(rows)
        if at + count <= size and not self._text_bytes and not may_be_long(rows):  # as nearly always
            slots[at : at + count] = rows
            self._end_at(self._next + count)
            return
        for row in rows:
            number = self._next
            self._drop(number - size)
            slots[number % size] = row
            self._end_at(number + 1)
            if is_long(row):
                self._text_at(number)

    def add(self, kind: EventKind, value: Struct) -> None:
        """Add another event.

        :param value: what it says; its text is made now.
        """
        number = self._next
        self._drop(number - len(self._slots))
        self._end_at(number + 1)
        self._keep_text(number, kind, _ENCODER.encode(value))

    def release_rows(self) -> Iterator[None]:
        """Make text of all records: they refer to prices of the configuration that they ended under.

        Yields now and then, since there may be many; those that come meanwhile are left alone.
        """
        for number in range(self._first, self._next):
            if number >= self._first:  # the text of one may have pushed out another
                self._text_at(number)
            if number % _RELEASED_AT_ONCE == 0:
                yield

    def id_of(self, number: int) -> bytes:
        """Return the id of an event."""
        return f"{self._start}-{number}".encode()

    def number_of(self, event_id: str) -> int | None:
        """Return the number of an event by its id; ``None`` where this process has given no such id."""
        start, _, digits = event_id.rpartition("-")
        if start != self._start or not (digits.isascii() and digits.isdigit()) or len(digits) > 18:
            return None
        number = int(digits)
        return number if number <= self.last else None

    def has_all_behind(self, number: int) -> bool:
        """Whether everything that came behind an event is still held."""
        return number >= self._first - 1

    def read(self, behind: int, kinds: frozenset[EventKind], max_bytes: int) -> tuple[bytes, int]:
        """Return the text of events behind a number, and the number up to which it reaches.

        :param kinds: of other kinds there is nothing in the text.
        :param max_bytes: when there is so much, it is enough.
        """
        found: list[bytes] = []
        size, number = 0, max(behind, self._first - 1)
        while number < self._next - 1 and size < max_bytes:
            number += 1
            entry = self._slots[number % len(self._slots)]
            kind = entry.kind if isinstance(entry, _Text) else EventKind.USAGE
            if entry is not None and kind in kinds:
                data = entry.data if isinstance(entry, _Text) else self._text_at(number)
                found.append(data)
                size += len(data)
        return b"".join(found), number

    def _end_at(self, number: int) -> None:
        self._next = number
        self._first = max(self._first, number - len(self._slots))

    def _text_at(self, number: int) -> bytes:
        """Return the text of an event that is held, which is kept."""
        entry = self._slots[number % len(self._slots)]
        if isinstance(entry, SettledExchange):
            return self._keep_text(number, EventKind.USAGE, encode_settled(entry)[:-1])
        return b"" if entry is None else entry.data

    def _keep_text(self, number: int, kind: EventKind, json: bytes) -> bytes:
        data = b"id: %b\nevent: %b\ndata: %b\n\n" % (
            self.id_of(number),
            kind.value.encode(),
            escape_line_ends(json),
        )
        self._slots[number % len(self._slots)] = _Text(kind, data)
        self._text_bytes += len(data)
        while self._text_bytes > self._max_bytes and self._first < number:
            self._drop(self._first)
            self._first += 1
        return data

    def _drop(self, number: int) -> None:
        if number < self._first:
            return
        at = number % len(self._slots)
        entry, self._slots[at] = self._slots[at], None
        if isinstance(entry, _Text):
            self._text_bytes -= len(entry.data)


def may_be_long(rows: Sequence[SettledExchange]) -> bool:
    """Whether any of these records is worth a closer look (:func:`is_long`)."""
    # A list is made in half the time of a generator.
    return True in [row.labels.is_long or row.dropped_fields is not None for row in rows]


def is_long(row: SettledExchange) -> bool:
    """Whether a record has names that are so long that it becomes text at once."""
    dropped = row.dropped_fields
    return row.labels.is_long or (dropped is not None and sum(map(len, dropped)) > MAX_DROPPED_CHARS)
