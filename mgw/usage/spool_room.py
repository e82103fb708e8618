"""Disk space for undelivered usage events, across all sinks (``spool.max_bytes``)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol


class Stored(Protocol):
    """Whoever has batches on disk."""

    @property
    def oldest_stored(self) -> str | None:
        """The key of the oldest batch that may go; keys sort by time."""
        ...

    def drop_oldest_stored(self) -> None:
        """Drop it, count its events, and release its room."""
        ...


@dataclass(slots=True, eq=False, repr=False)
class SpoolRoom:
    """How much is used, and who gives way."""

    max_bytes: int
    used: int = 0
    outboxes: list[Stored] = field(default_factory=list)

    def reserve(self, size: int) -> bool:
        """Take room, from the oldest batches if need be; ``False`` if there is not that much at all."""
        if size > self.max_bytes:
            return False
        self.used += size
        if self._make_room():
            return True
        self.used -= size
        return False

    def add(self, size: int) -> None:
        """Count what is there already; the oldest batches go if it is too much."""
        self.used += size
        self._make_room()

    def release(self, size: int) -> None:
        """Give room back."""
        self.used -= size

    def _make_room(self) -> bool:
        while self.used > self.max_bytes:
            oldest = [(key, outbox) for outbox in self.outboxes if (key := outbox.oldest_stored) is not None]
            if not oldest:
                return False
            min(oldest, key=lambda entry: entry[0])[1].drop_oldest_stored()
        return True
