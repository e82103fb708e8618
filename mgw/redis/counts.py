"""Limits of keys and of sessions across hosts, counted in Redis.

What Redis admits is counted here too (:mod:`mgw.identity.shared_counts`): so when Redis returns after an
outage, it learns what is under way here by then, and what was used meanwhile (:mod:`mgw.redis.host_totals`).

A script that was sent on a connection that was lost may have been executed.  When Redis is back, this host
says what it holds under its next id, and learns which of the last ends were counted, and in which buckets the
last requests that began (:mod:`mgw.redis.unanswered`).  What was not counted is told again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from mgw.clients.limits import (
    LIMITS_BY_NAME,
    LimitReached,
    Limits,
    RowState,
    Taken,
    Warnings,
    share_of_limits,
    warnings_of,
)
from mgw.clients.local_counts import LocalCounts, LocalPermit, reached_of
from mgw.clients.window import Entry
from mgw.redis.away_minutes import AwayMinutes
from mgw.redis.host_parts import HostTotal, Part, host_total
from mgw.redis.host_totals import HostTotals, state_of_host
from mgw.redis.limit_rows import (
    AskedRow,
    RowChange,
    Ticket,
    added_rows,
    arguments_of,
    describe,
    end_in_ms,
    flight_keys,
    flights_at_end,
    held_key,
    is_possible,
    minutes_at_end,
    place_of,
    row_keys,
    rows_to_ask,
    state_in_redis,
    width_of,
)
from mgw.redis.link import GIVEN_UP, RedisLink
from mgw.redis.protocol import UNREADABLE, Argument, RedisError
from mgw.redis.replies import Begun, Executed, Sums, TotalRow
from mgw.redis.scripts import BEGIN, END, RESET, RETURN, STATE, TAKE_OVER
from mgw.redis.unanswered import Question, Resolved, ToldEnd, Unanswered


@dataclass(slots=True, eq=False)
class RedisTallies:
    """Asks Redis, which counts for all hosts (:class:`~mgw.identity.shared_counts.SharedTallies`)."""

    link: RedisLink
    local: LocalCounts
    """What is counted here at the same time."""
    totals: HostTotals
    """Those that :attr:`local` has."""
    keeps_refusals: bool = False
    _minutes: AwayMinutes = field(init=False)
    """What was used in rows of a minute that Redis does not have."""
    _unanswered: Unanswered = field(default_factory=Unanswered)
    _alone: dict[LocalPermit, None] = field(default_factory=dict)
    """The requests in progress that were admitted here alone, and that Redis does not know yet."""
    _begun: int = 0
    """The number of the last request that began in a bucket."""
    _answered: list[int] = field(default_factory=list)
    """The numbers of those whose answers have come since Redis was told of any."""
    _ended: int = 0
    """That of the last end."""
    _has_recalled: bool = False

    def __post_init__(self) -> None:
        self._minutes = AwayMinutes(self.local.clock)

    @property
    def _totals_key(self) -> str:
        return f"{self.link.prefix}totals"

    @property
    def parts(self) -> int:
        """How many hosts there were when that was last known."""
        return self.link.hosts

    def share(self, limits: Limits) -> Limits:
        """Return what this host may use alone; of periods, its totals know it."""
        parts = share_of_limits(limits, self.parts)
        return tuple(
            [row if row.limit.window.is_calendar else part for row, part in zip(limits, parts, strict=True)]
        )

    def begin(self, limits: Limits, held: Taken) -> Deferred[Ticket | LimitReached | None] | None:
        """Ask whether something may begin."""
        link = self.link
        if not link.is_up:
            return None
        plan, number = self.local.plan(limits), 0
        rows = rows_to_ask(link.prefix, plan, held, self.local.clock() if plan.periods else 0.0)
        answered = ""
        if plan.counts_requests:
            self._begun = number = self._begun + 1
            answered, self._answered = ",".join(map(str, self._answered)), []
        keys = [link.hosts_key, self._totals_key, self._begun_key(link.host)]
        keys += [key for row in rows for key in row.keys]
        arguments = [argument for row in rows for argument in row.arguments()]
        asked = link.run(BEGIN, keys, link.host, number, answered, *arguments)
        question = Question(link.host, number, rows)
        return asked.addCallbacks(self._on_begun, self._on_not_begun, (question,), {}, (question,))

    def begun_alone(self, permit: LocalPermit) -> None:
        """Remember a request until Redis knows of it."""
        if permit.plan.minutes or permit.plan.periods:
            self._alone[permit] = None
        self._count_alone(permit, 1)
        if self.link.is_up:  # it is back meanwhile
            self._push()

    def end(self, permit: LocalPermit, ticket: Ticket | None, taken: Taken) -> Deferred[Warnings] | None:
        """Tell of the end, or remember what it came to until Redis is back."""
        plan, prefix = permit.plan, self.link.prefix
        changes = minutes_at_end(prefix, permit, ticket, taken)
        is_alone = permit in self._alone
        if is_alone:
            self._forget_alone(permit, taken)
        totals = permit.totals if ticket is None else ticket.totals
        for row, total in zip(plan.periods, map(host_total, totals), strict=True):
            held = row.amount_of(permit.held) if row.holds else 0
            if held:
                self.totals.drop(total, held)
            keys = row_keys(prefix, row.allowance, total.period)
            amount = row.amount_of(taken)
            changes.append(RowChange(keys, "total", amount, held, "", total, row.allowance, row.shares))
        if not self.link.is_up:
            self._remember(changes, in_redis=not is_alone)
            return None
        return self._tell([*flights_at_end(prefix, plan), *changes])

    def add(self, permit: LocalPermit, taken: Taken) -> None:
        """Tell of a request that Redis has never counted, or remember it likewise."""
        changes = [change for change in added_rows(self.link.prefix, permit, taken) if change.amount]
        if not self.link.is_up:
            self._remember(changes, in_redis=False)
        elif changes:
            _ = self._tell(changes)

    def state(self) -> Deferred[list[RowState]] | None:
        """Return what is used of the rows longer than a minute."""
        if not self.link.is_up:
            return None
        totals = [total for total in self.local.totals() if isinstance(total, HostTotal)]

        def on_state(rows: list[TotalRow]) -> list[RowState]:
            states = {place_of(total): state_of_host(total) for total in totals}
            for row in rows:
                if row.name in LIMITS_BY_NAME:
                    known = states.get((row.holder, row.name, row.refuses, row.period))
                    state = state_in_redis(row, known)
                    states[row.holder, row.name, row.refuses, row.period] = state
            return list(states.values())

        def on_failure(failure: Failure) -> list[RowState]:
            failure.trap(RedisError)
            return list(map(state_of_host, totals))

        asked = self.link.run(STATE, [self.link.hosts_key, self._totals_key])
        return asked.addCallbacks(on_state, on_failure)

    def reset(self, holder: str, limit: str | None, amount: int) -> Deferred[bool] | None:
        """Set what is used of rows longer than a minute in their current period."""
        if not self.link.is_up:
            return None
        totals = self.local.totals_of(holder, limit)
        keys = [row_keys(self.link.prefix, total.row, total.period)[0] for total in totals]
        about = [argument for total in totals for argument in (end_in_ms(total.period), describe(total))]
        begins = f"{self.link.prefix}{holder}:"
        arguments = [holder, limit or "", amount, begins, *about]

        def on_failure(failure: Failure) -> bool:
            failure.trap(RedisError)
            return False

        asked = self.link.run(RESET, [self.link.hosts_key, self._totals_key, *keys], *arguments)
        return asked.addCallbacks(bool, on_failure)

    def went_down(self) -> None:
        """Redis is away from now on."""
        self._unanswered.lose(self.link.host, self.totals.holding, self.kept_keys())
        self._answered.clear()
        self.totals.parts.send_again()

    def came_up(self) -> None:
        """Say what is under way here, and what was used meanwhile, before anything else can begin."""
        self._return()
        self._push()

    def kept_keys(self) -> Iterator[str]:
        """Yield the keys of what is under way here."""
        for key, _ in self._under_way():
            yield key

    def _under_way(self) -> Iterator[tuple[str, int]]:
        """Yield how many requests are under way, and what they hold in rows of a minute."""
        prefix = self.link.prefix
        for tally in self.local.tallies:
            if tally.in_flight:
                yield flight_keys(prefix, tally.holder)[0], tally.in_flight
                for row, held in tally.minutes_held():
                    if held:
                        yield held_key(row_keys(prefix, row, None)), held

    # What begins

    def _on_begun(self, answer: Begun, question: Question) -> Ticket | LimitReached | None:
        rows = question.rows
        if not self.link.is_up or self.link.host != question.host:
            self._unanswered.add_question(question)
            return None  # this host has left meanwhile, and what it had there with it
        totals = [(row, row.total) for row in rows if row.total is not None]
        if answer.admitted >= 0 and len(answer.sums) == len(totals):
            if question.number and answer.admitted:
                self._answered.append(question.number)
            for (_, total), sums in zip(totals, answer.sums, strict=True):
                self.totals.learn(total, sums)
            if answer.admitted and len(answer.buckets) == len(rows):
                for row, total in totals:
                    if row.held:
                        self.totals.hold(total, row.held)
                pairs = zip(rows, answer.buckets, strict=True)
                buckets = tuple([bucket for row, bucket in pairs if row.kind in ("minute", "reserved")])
                return Ticket(buckets, tuple([total for _, total in totals]))
            asked = rows[answer.row] if answer.row < len(rows) else None
            if not answer.admitted and asked is not None and asked.most and is_possible(answer, asked):
                return self._reached(asked, answer.milliseconds / 1000)
        self._unanswered.add_question(question)
        self.link.fault(GIVEN_UP if answer.admitted < 0 else UNREADABLE)
        return None

    def _on_not_begun(self, failure: Failure, question: Question) -> None:
        failure.trap(RedisError)
        self._unanswered.add_question(question)

    def _reached(self, asked: AskedRow, seconds: float) -> LimitReached:
        row = asked.row
        assert row is not None, "it limits something"
        if asked.total is not None:
            return reached_of(row, asked.total, self.local.clock(), asked.total.known.used)
        return LimitReached(row.holder, row.limit, asked.most, seconds)

    def _count_alone(self, permit: LocalPermit, sign: int) -> None:
        """Remember that a request has begun here alone, or that it never counted."""
        for row, entry in zip(permit.plan.minutes, permit.entries, strict=True):
            if row.is_request and isinstance(entry, Entry):
                keys = row_keys(self.link.prefix, row.allowance, None)
                self._minutes.add(keys, width_of(row), sign, entry.began)

    def _forget_alone(self, permit: LocalPermit, taken: Taken) -> None:
        """Know the end of a request that Redis has never heard of."""
        del self._alone[permit]
        if not taken.requests:
            self._count_alone(permit, -1)
        self._release(permit)

    def _release(self, permit: LocalPermit) -> None:
        pairs = zip(permit.plan.periods, permit.totals, strict=True)
        self.totals.release(
            permit, [(host_total(total), row.amount_of(permit.held)) for row, total in pairs if row.holds]
        )

    # What ends

    def _tell(self, changes: list[RowChange]) -> Deferred[Warnings]:
        link = self.link
        self._ended += 1
        keys = [link.hosts_key, self._totals_key, self._end_key(link.host)]
        keys += [key for change in changes for key in change.keys]
        arguments = [argument for change in changes for argument in change.arguments()]
        told = ToldEnd(link.host, self._ended, changes)
        asked = link.run(END, keys, link.host, self._ended, *arguments)
        return asked.addCallbacks(self._on_ended, self._on_lost, (told,), {}, (told,))

    def _on_ended(self, sums: tuple[Sums, ...] | None, told: ToldEnd) -> Warnings:
        looked = [change for change in told.changes if change.total is not None or change.warned is not None]
        looked = [change for change in looked if change.total is not None or change.shares]
        if sums is None or len(sums) != len(looked):
            self._hold_again(told)
            self.link.fault(GIVEN_UP if sums is None else UNREADABLE)
            return ()
        warnings = Warnings()
        for change, found in zip(looked, sums, strict=True):
            total, row = change.total, change.warned
            if total is not None:
                self.totals.learn(total, found)
            if row is not None and found.warned > found.warned_before:
                warnings += warnings_of(row, change.shares, found.warned_before, found.warned)
        return warnings

    def _on_lost(self, failure: Failure, told: ToldEnd) -> Warnings:
        """See when Redis is back whether it has counted that."""
        failure.trap(RedisError)
        self._hold_again(told)
        for change in told.changes:
            if change.total is not None:
                change.total.away += max(0, change.amount - change.held)
        return ()

    def _hold_again(self, told: ToldEnd) -> None:
        """Hold what a request held until it is known whether its end was counted."""
        self._unanswered.add_end(told, self.local.clock())
        for change in told.changes:
            if change.total is not None and change.held:
                self.totals.hold(change.total, change.held)

    def _remember(self, changes: Sequence[RowChange], *, in_redis: bool) -> None:
        """Keep what Redis does not have.

        :param in_redis: whether what the request holds is held there.
        """
        now = self.local.clock()
        for change in changes:
            if change.total is None:
                self._remember_minute(change, now)
            elif change.amount or change.held:
                self.totals.parts.remember(change.total, change.amount, change.held if in_redis else 0)

    def _remember_minute(self, change: RowChange, at: float) -> None:
        if change.amount < 0 and change.bucket:
            self._unanswered.taken_back.append(change)
        else:
            self._minutes.add_again(change, at)

    # What Redis is told when it is back

    def _return(self) -> None:
        """Say what this host holds and has used, and learn what of the last requests was counted."""
        link, ids = self.link, self._unanswered.recent_ids()
        totals = list(self._unanswered.totals | self.totals.holding)
        flights = dict.fromkeys(self._unanswered.keys, 0) | dict(self._under_way())
        keys = [link.hosts_key, self._totals_key]
        keys += [key for host in ids for key in (self._end_key(host), self._begun_key(host))]
        keys += [row_keys(link.prefix, total.row, total.period)[0] for total in totals] + list(flights)
        arguments = list[Argument]([link.host, len(ids), len(totals), len(flights), *ids])
        for total in totals:
            arguments += [total.here, total.requests, end_in_ms(total.period), describe(total)]
        arguments += flights.values()
        parts = self.totals.parts.send()
        for part in parts:
            keys += self._keys_of(part)
            arguments += [len(part[1]), *arguments_of(part)]
        asked = link.run(RETURN, keys, *arguments)
        _ = asked.addCallbacks(self._on_returned, _trap, (ids, [name for name, _ in parts]))

    def _on_returned(self, executed: list[Executed], ids: list[str], parts: list[str]) -> None:
        if len(executed) != len(ids):
            self.link.fault(UNREADABLE)
            return
        for name in parts:
            self.totals.parts.forget(name)
        alone, self._alone = self._alone, {}
        for permit in alone:
            self._release(permit)
        for end in self._unanswered.resolve(dict(zip(ids, executed, strict=True))):
            self._tell_again(end)
        self._push()
        if not self._has_recalled:
            self._has_recalled = True
            kept = self.totals.file.state([], self.local.clock())
            if isinstance(kept, Deferred):
                _ = kept.addCallback(self._on_kept)

    def _tell_again(self, end: Resolved) -> None:
        """Tell of an end that was not counted, or of one that was that it holds nothing any more."""
        again = list[RowChange]()
        for change in end.told.changes:
            if change.total is None:
                if not end.is_executed:
                    self._remember_minute(change, end.at)
                continue
            if change.held:
                self.totals.drop(change.total, change.held)
            if not end.is_executed:
                again.append(change)
            elif change.held:
                again.append(RowChange(change.keys, "total", 0, change.held, "", change.total))
        if again:
            _ = self._tell(again)

    def _on_kept(self, rows: list[RowState]) -> None:
        self.totals.parts.recall(rows, self.totals.find, self._push)

    def _push(self) -> None:
        """Add what was used while Redis was away, as far as it was not sent."""
        link = self.link
        if not link.is_up:
            return
        for part in self.totals.parts.send():
            keys = [link.hosts_key, self._totals_key, *self._keys_of(part)]
            asked = link.run(TAKE_OVER, keys, link.host, *arguments_of(part))
            _ = asked.addCallbacks(self._on_taken_over, _trap, (part[0], list(part[1])))
        taken_back, self._unanswered.taken_back = self._unanswered.taken_back, []
        changes = [*taken_back, *self._minutes.take()]
        if changes:
            _ = self._tell(changes)

    def _on_taken_over(self, sums: tuple[Sums, ...] | None, name: str, totals: Sequence[HostTotal]) -> None:
        if sums is None or len(sums) != len(totals):
            self.link.fault(GIVEN_UP if sums is None else UNREADABLE)
            return
        self.totals.parts.forget(name)
        for total, found in zip(totals, sums, strict=True):
            self.totals.learn(total, found)

    def _keys_of(self, part: Part) -> list[str]:
        prefix = self.link.prefix
        totals = [row_keys(prefix, total.row, total.period)[0] for total in part[1]]
        return [f"{prefix}part:{part[0]}", *totals]

    def _end_key(self, host: str) -> str:
        return f"{self.link.prefix}last-end:{host}"

    def _begun_key(self, host: str) -> str:
        return f"{self.link.prefix}begun:{host}"


def _trap(failure: Failure) -> None:
    failure.trap(RedisError)
