"""What a host has sent to Redis without getting an answer, until Redis says what of it was executed.

On one connection Redis executes scripts in their order, and nothing comes late under an id that is gone.  So
of ends it keeps the number of the last one.  Of what began it keeps the buckets, since a request whose answer
was lost is decided anew by this host: what Redis has counted for it is taken back.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from msgspec import Struct

from mgw.redis.host_parts import HostTotal
from mgw.redis.limit_rows import AskedRow, RowChange, held_key
from mgw.redis.replies import Executed

_RECENT: Final = 100
"""How many ids are asked about: the last ones, and so many with something that nobody knows about."""
_NOTHING: Final = Executed(0, {})


class Question(Struct, frozen=True, eq=False):
    """A request that begins, as Redis was asked for it."""

    host: str
    """The id of this host on that connection."""
    number: int
    """0: it is counted in no bucket."""
    rows: Sequence[AskedRow]


class ToldEnd(Struct, frozen=True, eq=False):
    """The end of a request, or more that is to be added, as Redis was told of it."""

    host: str
    number: int
    changes: Sequence[RowChange]


class Resolved(Struct, frozen=True, eq=False):
    """An end of which Redis has said whether it was counted."""

    at: float
    """When it was told."""
    told: ToldEnd
    is_executed: bool


@dataclass(slots=True, eq=False)
class Unanswered:
    """What nobody knows about, by the ids of this host."""

    totals: set[HostTotal] = field(default_factory=set)
    """Those in which this host may hold something under one of these ids."""
    keys: set[str] = field(default_factory=set)
    """Those of what is under way, likewise."""
    taken_back: list[RowChange] = field(default_factory=list)
    """What Redis has counted and is to be told that it does not count."""
    _ids: list[str] = field(default_factory=list)
    _questions: dict[str, dict[int, Question]] = field(default_factory=dict)
    _ends: dict[str, list[tuple[float, ToldEnd]]] = field(default_factory=dict)

    def lose(self, host: str, totals: Iterable[HostTotal], keys: Iterable[str]) -> None:
        """Know that an id is gone, and what it may hold."""
        self._ids.append(host)
        if len(self._ids) > _RECENT:
            unsure = [each for each in self._ids[:-_RECENT] if each in self._ends or each in self._questions]
            self._ids = unsure[:_RECENT] + self._ids[-_RECENT:]
        self.totals.update(totals)
        self.keys.update(keys)

    def recent_ids(self) -> list[str]:
        """Return the ids that Redis is to be asked about."""
        return list(self._ids)

    def add_question(self, question: Question) -> None:
        """Know a request for which there was no answer."""
        for row in question.rows:
            if row.total is not None:
                self.totals.add(row.total)
            elif row.kind == "none":
                self.keys.add(row.keys[0])
            elif row.kind == "reserved":
                self.keys.add(held_key(row.keys))
        if question.number:
            self._questions.setdefault(question.host, {})[question.number] = question

    def add_end(self, told: ToldEnd, at: float) -> None:
        """Know an end for which there was no answer."""
        for change in told.changes:
            if change.total is not None:
                self.totals.add(change.total)
            elif change.kind == "none":
                self.keys.add(change.keys[0])
            elif change.held:
                self.keys.add(held_key(change.keys))
        self._ends.setdefault(told.host, []).append((at, told))

    def resolve(self, executed: Mapping[str, Executed]) -> Iterator[Resolved]:
        """Know what was executed, and yield the ends."""
        ends, self._ends = self._ends, {}
        questions, self._questions = self._questions, {}
        for host, numbered in questions.items():
            for number, buckets in executed.get(host, _NOTHING).begun.items():
                if number in numbered:
                    self._take_back(numbered[number], buckets)
        self._ids.clear()
        self.totals, self.keys = set(), set()
        for host, told in ends.items():
            last = executed.get(host, _NOTHING).last_end
            for at, end in told:
                yield Resolved(at, end, end.number <= last)

    def _take_back(self, question: Question, buckets: Sequence[str]) -> None:
        for row, bucket in zip(question.rows, buckets, strict=False):
            if bucket:
                change = RowChange(row.keys, "added", -row.held, bucket=bucket)
                self.taken_back.append(change)
