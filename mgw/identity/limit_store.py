"""The totals of calendar periods in an SQLite file: what counts against a month outlives a process.

A request that begins waits for the commit of what it counts; all that have come meanwhile are in one
transaction, with the ends of others (:mod:`mgw.identity.limit_file`).  The event loop never waits for it.
While the file cannot be used, or is slow, counting goes on in memory from what was known, and what is to be
written waits.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from sqlite3 import Connection
from typing import Final, TypeVar
from weakref import WeakValueDictionary

from twisted.internet.defer import Deferred, succeed
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger

from mgw.clients.calendar_window import (
    Change,
    Changes,
    Reset,
    Total,
    add_changes,
    state_of,
    total_without_room,
)
from mgw.clients.limits import Allowance, RowState
from mgw.clients.period import Period
from mgw.config.file_faults import shown_path
from mgw.identity.limit_file import Increase, LimitBatch, LimitFile, Written, open_file
from mgw.reactor.daemon_threads import SerialRunner
from mgw.reactor.rate_limited_log import RateLimitedLog

COMMIT_SECONDS: Final = 2.0
"""How long a request waits for a commit; from then on counting goes on in memory."""
GATHER_SECONDS: Final = 0.05
"""How long the ends of requests wait for others, or for one that begins, to be written with them."""
RETRY_SECONDS: Final = 1.0
CLOSE_SECONDS: Final = 1.0
"""How long the process waits at its end for what is not written yet."""
_SHOWN: Final = 20

T = TypeVar("T")
_log: Final = Logger()


@dataclass(slots=True, eq=False, repr=False)
class _Asked:
    """A request that begins, whose totals the file decides."""

    changes: Changes
    answer: Deferred[Total | None]
    admitted: bool | None = None
    """Whether it was admitted in memory; ``None``: the file decides."""

    @property
    def holds(self) -> bool:
        """Whether it holds anything until its end."""
        return any(change.held for change in self.changes)


@dataclass(slots=True, eq=False, repr=False)
class LimitStore:
    """Keeps the totals of periods (:class:`~mgw.clients.calendar_window.TotalStore`).

    Nothing is opened before somebody has a limit of a period.

    :param runner: writes, in order and in a thread.
    """

    path: str
    runner: SerialRunner
    clock: IReactorTime
    connect: Callable[[str], Connection] = open_file
    """Opens the file."""
    keeps_parts: bool = False
    """Whether others are told of what is counted here: parts of totals are theirs."""
    is_up: bool = True
    """Whether what is counted is in the file when a request goes on."""
    _totals: WeakValueDictionary[tuple[str, str, bool, str], Total] = field(
        default_factory=WeakValueDictionary
    )
    """Those that a window, a request in progress or a write has, by their places in the file."""
    _sums: dict[Total, Increase] = field(default_factory=dict)
    """What is not being written yet."""
    _asked: list[_Asked] = field(default_factory=list)
    """Likewise."""
    _requests: int = 0
    """How many requests of this process hold something."""
    _leaving: LimitBatch | None = None
    """What is being written."""
    _leaving_asked: list[_Asked] = field(default_factory=list)
    _file: LimitFile = field(init=False)
    _is_busy: bool = False
    """Whether the thread works, or is not to be asked again yet."""
    _is_opened: bool = False
    _gathering: IDelayedCall | None = None
    _limit: IDelayedCall | None = None
    _retry: IDelayedCall | None = None
    _closed: Deferred[None] | None = None
    """Fires when everything is written, once that is waited for."""
    _reports: RateLimitedLog = field(init=False)

    def __post_init__(self) -> None:
        self._file = LimitFile(self.path, self.connect, keeps_parts=self.keeps_parts)
        self._reports = RateLimitedLog(self.clock)

    def start(self) -> None:
        """Count in full what processes held that are gone, where there is a file."""
        if not self._is_opened and os.path.exists(self.path):
            self._begin_to_write()

    def find(self, row: Allowance, period: Period) -> Total:
        """Return the total of a period: 0 until the file was read."""
        place = row.holder, row.limit.name, row.refuses, period.name
        total = self._totals.get(place)
        if total is None:
            self._totals[place] = total = Total(row, period)
        return total

    def begin(self, changes: Changes, then: Callable[[Total | None], T]) -> T | Deferred[T]:
        """Count a request that begins, if all totals have room: with the next commit, or in memory."""
        if not self.is_up or self._closed is not None:
            full = total_without_room(changes)
            if full is None:
                self._count(changes)
            return then(full)
        asked = _Asked(changes, Deferred())
        self._asked.append(asked)
        self._write()
        return asked.answer.addCallback(then)

    def settle(self, changes: Changes) -> None:
        """Count the end of a request."""
        add_changes(changes)
        self._wait_for(changes)
        held = sum(change.held for change in changes)
        if held:
            self._requests += 1 if held > 0 else -1
        if not self._is_busy and self._gathering is None:
            self._gathering = self.clock.callLater(GATHER_SECONDS, self._gathered)

    def state(self, totals: Sequence[Total], now: float) -> Deferred[list[RowState]]:
        """Return the state of these totals, and of others of periods that are not over."""
        if not totals and not self._is_opened and not os.path.exists(self.path):
            return succeed([])  # nobody has such a limit
        if not self._is_opened:
            self._begin_to_write()  # what processes that are gone held counts
        return self._ask(partial(self._file.state, totals, now), lambda: list(map(state_of, totals)))

    def reset(self, totals: Sequence[Total], reset: Reset) -> Deferred[bool]:
        """Set what is used in the file; what waits to be written is added to that."""

        def on_reset(found: bool) -> bool:  # noqa: FBT001  what was asked for
            for total in totals:
                waiting = self._sums.get(total, Increase())
                total.used, total.warned, total.resets = reset.amount + waiting.used, 0, total.resets + 1
            return found

        return self._ask(partial(self._file.reset, totals, reset), lambda: False).addCallback(on_reset)

    def release_lock(self) -> None:
        """Let others find this process gone, as they do when it was killed."""
        self._file.release_lock()

    def close(self) -> Deferred[None]:
        """Write what waits, within a second, and close the file."""
        self._closed = closed = Deferred[None]()
        if not self._is_opened:
            if not self._sums:
                closed.callback(None)  # nobody has such a limit
                return closed
            self._write()
        elif self._gathering is not None:
            self._write()
        limit = self.clock.callLater(CLOSE_SECONDS, closed.callback, None)

        def on_closed(_: None) -> None:
            for timer in (limit, self._retry, self._gathering, self._limit):
                if timer is not None and timer.active():
                    timer.cancel()
            self.runner.stop()
            lost = len({*self._sums, *(self._leaving.sums if self._leaving is not None else ())})
            if lost:
                _log.error(
                    "{path}: what was added to {count} totals of limits could not be written",
                    path=shown_path(self.path),
                    count=lost,
                )

        self._finish()
        return closed.addCallback(on_closed)

    # What is counted in memory

    def _count(self, changes: Changes) -> None:
        """Count a request that begins in memory, and write it when that is possible."""
        add_changes(changes)
        self._wait_for(changes)
        self._requests += any(change.held for change in changes)

    def _wait_for(self, changes: Changes, sign: int = 1) -> None:
        sums = self._sums
        for change in changes:
            waiting = sums.get(change.total)
            if waiting is None:
                sums[change.total] = waiting = Increase()
            waiting.used += sign * change.used
            waiting.held += sign * change.held

    def _decide(self, asked: list[_Asked]) -> list[tuple[_Asked, Total | None]]:
        """Decide in memory on requests that wait for the file."""
        decided = []
        for each in asked:
            full = total_without_room(each.changes)
            each.admitted = full is None
            if full is None:
                add_changes(each.changes)
                self._requests += each.holds
            decided.append((each, full))
        return decided

    # What is written

    def _gathered(self) -> None:
        self._gathering = None
        self._write()

    def _write(self) -> None:
        if not self._is_busy and (self._sums or self._asked):
            self._begin_to_write()

    def _begin_to_write(self) -> None:
        if self._gathering is not None:
            self._gathering.cancel()
            self._gathering = None
        self._is_busy = self._is_opened = True
        self._leaving_asked, self._asked = self._asked, []
        changes = [asked.changes for asked in self._leaving_asked]
        self._leaving, self._sums = LimitBatch(self._sums, changes, self._requests), {}
        self._limit = self.clock.callLater(COMMIT_SECONDS, self._on_late)
        work = partial(self._file.write, self._leaving, self.clock.seconds())
        try:
            self.runner.run(work, self._on_written)
        except OSError as error:
            self._on_written(error)

    def _on_late(self) -> None:
        """A commit takes too long: nobody waits for it any more."""
        self._down(f"a commit takes longer than {COMMIT_SECONDS:g} s")
        waiting, self._asked = self._asked, []
        decided = self._decide([*self._leaving_asked, *waiting])
        for asked in waiting:
            if asked.admitted:
                self._wait_for(asked.changes)
        for asked, full in decided:
            asked.answer.callback(full)

    def _on_written(self, result: Written | Exception) -> None:
        if self._limit is not None and self._limit.active():
            self._limit.cancel()
        if self._closed is not None and self._closed.called:
            return  # nobody has waited for it
        batch, self._leaving = self._leaving, None
        asked, self._leaving_asked = self._leaving_asked, []
        assert batch is not None, "it was written"
        if isinstance(result, Exception):
            self._on_failure(batch, asked, result)
            return
        answers = list[tuple[_Asked, Total | None]]()
        for each, full in zip(asked, result.full, strict=True):
            if each.admitted is None:
                self._requests += full is None and each.holds
                answers.append((each, full))
            elif each.admitted is not (full is None):  # memory has decided otherwise meanwhile
                self._wait_for(each.changes, 1 if each.admitted else -1)
        self._learn(result)
        self.is_up, self._is_busy = True, False
        for each, full in answers:
            each.answer.callback(full)
        self._write()
        self._finish()

    def _on_failure(self, batch: LimitBatch, asked: list[_Asked], error: Exception) -> None:
        self._down(str(error))
        for total, added in batch.sums.items():
            self._wait_for([Change(total, added.used, added.held)])
        waiting, self._asked = self._asked, []
        open_questions = [each for each in (*asked, *waiting) if each.admitted is None]
        decided = self._decide(open_questions)
        for each in (*asked, *waiting):
            if each.admitted:
                self._wait_for(each.changes)
        self._retry = self.clock.callLater(RETRY_SECONDS, self._try_again)
        for each, full in decided:
            each.answer.callback(full)

    def _learn(self, written: Written) -> None:
        """Know totals as they are in the file, with what is not written yet."""
        nothing = Increase()
        for total, found in written.totals.items():
            waiting = self._sums.get(total, nothing)
            total.used, total.held = max(0, found.used + waiting.used), found.held + waiting.held
            is_reset = found.resets != total.resets
            total.warned = found.warned if is_reset else max(total.warned, found.warned)
            total.resets = found.resets
        if written.is_replaced:
            _log.warn(
                "{path} was deleted or replaced: what this process has counted is in the new file",
                path=shown_path(self.path),
            )
        left = written.left
        if left is not None:
            amounts = [f"{holder} {name} {amount}" for holder, name, amount in left.amounts[:_SHOWN]]
            _log.warn(
                "{requests} requests of processes that are gone count in full with what they held: {amounts}",
                requests=left.requests,
                amounts=", ".join(amounts) + (" and others" if len(left.amounts) > _SHOWN else ""),
            )

    def _try_again(self) -> None:
        self._begin_to_write()  # also where there is nothing: to see whether it can be used

    def _finish(self) -> None:
        """Close the file where that is waited for and nothing is left to be written."""
        closed = self._closed
        if closed is not None and not self._is_busy and not closed.called:
            self._is_busy = True
            self.runner.run(self._file.close, lambda _: None if closed.called else closed.callback(None))

    def _ask(self, work: Callable[[], T], instead: Callable[[], T]) -> Deferred[T]:
        """Have the thread do something, or do something else where it cannot."""
        answer: Deferred[T] = Deferred()
        self._is_opened = True

        def on_answer(found: T | Exception) -> None:
            if isinstance(found, Exception):
                self._report(str(found))
            answer.callback(instead() if isinstance(found, Exception) else found)

        try:
            self.runner.run(work, on_answer)
        except OSError as error:
            on_answer(error)
        return answer

    def _down(self, reason: str) -> None:
        self.is_up = False
        self._report(reason)

    def _report(self, reason: str) -> None:
        if self._reports.is_due():
            _log.error(
                "{path} cannot be used ({reason}): limits of periods are counted in memory until it can",
                path=shown_path(self.path),
                reason=reason,
            )
