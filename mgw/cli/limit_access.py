"""Reach what is counted against limits, beside a running gateway: in its file, or in Redis."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass
from random import random
from typing import Any, Final, Protocol, TypeVar

from twisted.internet.defer import Deferred
from twisted.internet.defer import TimeoutError as NoAnswerError
from twisted.python.failure import Failure

from mgw.cli.subcommands import FailedError
from mgw.clients.calendar_window import PART_MARK, NoStore, Reset, Total
from mgw.clients.limit_report import current_period
from mgw.clients.limits import Allowance, Counts, RowState
from mgw.config.settings import Config
from mgw.identity.limit_file import LimitFile

CONNECT_SECONDS: Final = 5.0
"""How long Redis may take until it answers."""
_READER: Final = "mgw budget"
T = TypeVar("T")


class NoAccessError(FailedError):
    """What is counted cannot be reached; the text says why."""


class LimitAccess(Protocol):
    """What is counted against rows longer than a minute."""

    async def states(self) -> Sequence[RowState]:
        """Return the rows of which something is known."""
        ...

    async def reset(self, holder: str, limit: str, amount: int) -> bool:
        """Set what is used of a row in its current period; return whether there is such a row."""
        ...


Work = Callable[[LimitAccess], Coroutine[Any, Any, T]]  # Any: what is sent into coroutines


def use_limits(config: Config, rows: Sequence[Allowance], now: float, work: Work[T]) -> T:
    """Return what work does with the limits of a configuration.

    :param rows: those of the configuration.
    :raises NoAccessError: they cannot be reached.
    :raises OSError: the file cannot be used.
    """
    if config.fleet.redis is not None:
        return _use_redis(config, rows, work)
    file = _InFile(config.limit_store, rows, now)
    try:
        return _result_of(Deferred.fromCoroutine(work(file)))
    except sqlite3.Error as error:
        raise NoAccessError(f"limit_store: {error}") from None
    finally:
        file.close()


@dataclass(slots=True)
class _InFile:
    """Those of one host, whose file others may use at the same time."""

    path: str
    rows: Sequence[Allowance]
    now: float
    _file: LimitFile | None = None

    async def states(self) -> Sequence[RowState]:
        """Return the rows in the file; without a file nobody has used anything."""
        if not os.path.exists(self.path):
            return []
        return [state for state in self._opened().state([], self.now) if PART_MARK not in state.period]

    async def reset(self, holder: str, limit: str, amount: int) -> bool:
        """Set what is used in the file.

        :raises NoAccessError: there is none: whoever makes it owns it, which should be the gateway.
        """
        if not os.path.exists(self.path):
            raise NoAccessError(f"nothing was counted yet: there is no file {self.path}")
        totals = [
            Total(row, current_period(row, self.now, {}))
            for row in self.rows
            if (row.holder, row.limit.name) == (holder, limit)
        ]
        return self._opened().reset(totals, Reset(holder, limit, amount, self.now))

    def close(self) -> None:
        """Let go of the file."""
        if self._file is not None:
            self._file.close()

    def _opened(self) -> LimitFile:
        if self._file is None:
            self._file = LimitFile(self.path)
        return self._file


@dataclass(slots=True)
class _InRedis:
    """Those of all hosts."""

    counts: Counts

    async def states(self) -> Sequence[RowState]:
        return await _awaited(self.counts.state())

    async def reset(self, holder: str, limit: str, amount: int) -> bool:
        return await _awaited(self.counts.reset(holder, limit, amount))


async def _awaited(found: T | Awaitable[T]) -> T:
    return await found if isinstance(found, Deferred) else found  # type: ignore[return-value]  # else no Deferred


def _use_redis(config: Config, rows: Sequence[Allowance], work: Work[T]) -> T:
    from twisted.internet import reactor as default_reactor  # which a file does without

    from mgw.redis.hosts import open_fleet  # likewise

    reactor: Any = default_reactor  # Any: a reactor has no one type

    async def run() -> T:
        fleet = open_fleet(config, reactor, random, lambda *_: None, NoStore(), is_host=False)
        try:
            fleet.counts.use(_READER, tuple(rows))
            if not fleet.link.is_up:
                up: Deferred[None] = Deferred()
                fleet.link.on_up.append(lambda: None if up.called else up.callback(None))
                await up.addTimeout(CONNECT_SECONDS, reactor)
            return await work(_InRedis(fleet.counts))
        except NoAnswerError:
            raise NoAccessError(f"fleet.redis: Redis does not answer within {CONNECT_SECONDS:g} s") from None
        finally:
            await fleet.stop()

    running: list[Deferred[T]] = []

    def begin() -> None:
        running.append(Deferred.fromCoroutine(run()))
        _ = running[0].addBoth(_pass_on, reactor)

    reactor.callWhenRunning(begin)
    reactor.run()
    return _result_of(running[0])


def _pass_on(result: Any, reactor: Any) -> Any:  # Any: whatever came of it
    reactor.callLater(0, reactor.stop)
    return result


def _result_of(done: Deferred[T]) -> T:
    """Return what a Deferred has fired with, or raise it."""
    found: list[T] = []
    failures: list[Failure] = []
    _ = done.addCallbacks(found.append, failures.append)
    for failure in failures:
        failure.raiseException()
    return found[0]
