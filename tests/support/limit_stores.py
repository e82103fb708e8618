"""A store of totals whose process can be killed."""

from __future__ import annotations

from twisted.internet.task import Clock

from mgw.identity.limit_store import GATHER_SECONDS, LimitStore
from tests.support.usage import AtOnce


class MortalStore:
    """The store of one process after another, with one file; its thread works at once."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.clock = Clock()
        self.store: LimitStore | None = None

    def open(self, now: float) -> LimitStore:
        """Begin in another process."""
        self.clock = Clock()
        self.clock.advance(now)
        self.store = LimitStore(self.path, AtOnce(), self.clock, keeps_parts=True)
        return self.store

    def write(self) -> None:
        """Have the store write what has ended."""
        self.clock.advance(GATHER_SECONDS)

    def kill(self) -> None:
        """Kill the process: its lock is free, and nothing else is done."""
        assert self.store is not None, "it runs"
        self.store.release_lock()
