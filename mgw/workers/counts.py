"""Limits of keys and of sessions across workers: the supervisor counts, and workers ask it.

A worker numbers what it asks for.  The channel keeps the order of what is said, so a worker that has waited
long enough says that it wants it no more, and nothing stays counted of which nobody will ever say the end.
From then on it counts by itself, each limit divided by the number of workers, until the other side answers
again (:mod:`mgw.identity.shared_counts`).  It says what the requests that it has admitted by itself came to
when they end: what was spent counts, whoever has admitted it.  Once the channel is lost, nobody can be told
any more, and nothing begins.

With each question come the limits that it is about.  So it does not matter whether the supervisor knows the
holder: in the middle of a reload it may know other clients than the worker that asks.
"""

from __future__ import annotations

from collections.abc import Awaitable, Hashable
from dataclasses import dataclass, field
from typing import Final, Protocol

from twisted.internet.defer import Deferred, fail
from twisted.logger import Logger
from twisted.python.failure import Failure

from mgw.clients.limits import NOTHING, Counts, LimitReached, Limits, Permit, Taken, Warnings, share_of_limits
from mgw.clients.local_counts import LocalPermit
from mgw.nouns.errors import GatewayError, Reason
from mgw.reactor.shield import shielded
from mgw.workers.channel import ChannelError, RequestSender
from mgw.workers.messages import (
    AcquirePermit,
    AddTaken,
    ChannelMessage,
    Failed,
    LimitWarnings,
    PermitDenied,
    PermitGranted,
    Ping,
    ReleasePermit,
)

_log: Final = Logger()
ANSWER_SECONDS: Final = 2.0
"""How long a worker waits for an answer."""


# The process that counts


@dataclass(slots=True, eq=False)
class _Held:
    """What a worker has asked for, from its question until it gives it back."""

    worker: Hashable
    number: int
    held: Taken
    """What its rows count until it ends."""
    permit: Permit | None = None
    """``None``: whether the worker gets it is not known yet."""
    left: Taken | None = None
    """What it was given back with, before that was known."""


@dataclass(slots=True)
class SupervisorCounts:
    """Answers the questions of all workers, and remembers which of them has what."""

    counts: Counts
    """What counts for all of them."""
    _held: dict[Hashable, dict[int, _Held]] = field(default_factory=dict)
    """What each worker holds, by the worker and by its own numbers."""

    def acquire_permit(
        self, worker: Hashable, question: AcquirePermit
    ) -> ChannelMessage | Deferred[ChannelMessage]:
        """Count what begins in a worker, unless a limit stands against it."""
        if not question.limits:
            return Failed("the question does not say which limits there are")
        held = _Held(worker, question.permit, question.held)
        self._held.setdefault(worker, {})[question.permit] = held
        found = self.counts.begin(question.limits, question.held)
        if isinstance(found, Permit | LimitReached):
            return self._on_found(found, held)
        assert isinstance(found, Deferred), "counts of other processes answer with one"
        return self._answer_later(held, found)

    def release_permit(
        self, worker: Hashable, message: ReleasePermit
    ) -> ChannelMessage | Deferred[ChannelMessage]:
        """Count the end of it, and answer with its warnings; nothing happens where it was not counted."""
        held = self._held.get(worker, {}).pop(message.permit, None)
        warnings = () if held is None else self._leave(held, message.taken)
        if isinstance(warnings, Deferred):  # the channel cancels its answer where it is lost
            return shielded(warnings.addCallback(LimitWarnings))
        assert isinstance(warnings, tuple), "counts of other processes answer with a Deferred"
        return LimitWarnings(warnings)

    def add_taken(self, message: AddTaken) -> None:
        """Count what a worker has admitted alone."""
        self.counts.add(message.limits, message.taken)

    def forget(self, worker: Hashable) -> None:
        """Take back all that a worker has, which is gone; what its requests hold counts in full.

        A request that it was not permitted yet has not gone out, and never counts.
        """
        requests = tokens = nanodollars = 0
        for held in self._held.pop(worker, {}).values():
            lost = NOTHING if held.permit is None else held.held
            _ = self._leave(held, lost)
            requests += bool(lost.tokens or lost.nanodollars)
            tokens, nanodollars = tokens + lost.tokens, nanodollars + lost.nanodollars
        if requests:
            _log.warn(
                "{requests} requests of a worker that is gone count in full with what they held: "
                "{tokens} tokens, {nanodollars} nanodollars",
                requests=requests,
                tokens=tokens,
                nanodollars=nanodollars,
            )

    def _leave(self, held: _Held, taken: Taken) -> Warnings | Awaitable[Warnings]:
        """The worker wants it no more."""
        held.left = taken
        return () if held.permit is None else self.counts.end(held.permit, taken)

    def _drop(self, held: _Held) -> None:
        """The worker gets nothing."""
        of_worker = self._held.get(held.worker, {})
        if of_worker.get(held.number) is held:
            del of_worker[held.number]

    def _on_found(self, found: Permit | LimitReached, held: _Held) -> ChannelMessage:
        if isinstance(found, LimitReached):
            self._drop(held)
            return PermitDenied(found)
        held.permit = found
        if held.left is not None:
            _ = self.counts.end(found, held.left)
        return PermitGranted(held.number)

    def _answer_later(self, held: _Held, found: Deferred[Permit | LimitReached]) -> Deferred[ChannelMessage]:
        def on_failure(failure: Failure) -> Failure:
            self._drop(held)
            return failure

        answer = found.addCallback(self._on_found, held).addErrback(on_failure)
        return shielded(answer)  # the channel cancels it where it is lost


# A worker


class SupervisorChannel(RequestSender, Protocol):
    """The channel to the supervisor."""

    @property
    def is_open(self) -> bool:
        """Whether anything that is said now may still arrive."""
        ...

    def tell(self, message: ChannelMessage) -> None:
        """Say something that has no answer."""
        ...


@dataclass(slots=True)
class SupervisorTallies:
    """Asks the supervisor, which counts for all workers (:class:`~mgw.identity.shared_counts.SharedTallies`).

    A ticket is the worker's number for what it has asked for.
    """

    channel: SupervisorChannel
    parts: int
    """How many workers there are; a reload says so before it states limits."""
    answers: bool = True
    """Whether it has answered when it was asked last; where not, it is tried without anybody waiting."""
    keeps_refusals: bool = True
    _number: int = 0
    _is_tried: bool = False

    def share(self, limits: Limits) -> Limits:
        """Return what this worker may use alone."""
        return share_of_limits(limits, self.parts)

    def begin(self, limits: Limits, held: Taken) -> Deferred[int | LimitReached | None] | None:
        """Ask whether something may begin; fails with :class:`GatewayError` where the supervisor is gone."""
        if not self.channel.is_open:
            return fail(_supervisor_gone())
        if not self.answers:
            self._try_again()
            return None
        self._number += 1
        return Deferred.fromCoroutine(self._ask(AcquirePermit(limits, held, self._number)))

    def begun_alone(self, permit: LocalPermit) -> None:
        """Say nothing: what it came to is said at its end."""

    def end(self, permit: LocalPermit, ticket: int | None, taken: Taken) -> Deferred[Warnings] | None:
        """Say that it has ended, and what it came to; ask where there may be warnings."""
        if ticket is None:
            self.add(permit, taken)
        elif permit.plan.may_warn and self.answers:
            return Deferred.fromCoroutine(self._release(ReleasePermit(ticket, taken)))
        else:
            self.channel.tell(ReleasePermit(ticket, taken))
        return None

    def add(self, permit: LocalPermit, taken: Taken) -> None:
        """Say what a request came to that was admitted here alone; a slot of a session leaves nothing."""
        if permit.plan.counts_time:
            self.channel.tell(AddTaken(permit.plan.limits, taken))

    def state(self) -> None:
        """Return nothing: the supervisor's process answers operators."""

    def reset(self, holder: str, limit: str | None, amount: int) -> None:
        """Set nothing, likewise."""

    async def _ask(self, question: AcquirePermit) -> int | LimitReached | None:
        try:
            answer = await self.channel.ask(question, ANSWER_SECONDS)
        except ChannelError:
            if not self.channel.is_open:
                raise _supervisor_gone() from None
            self.answers = False
            self.channel.tell(ReleasePermit(question.permit, NOTHING))  # nobody wants it any more
            return None
        self.answers = True
        if isinstance(answer, PermitDenied):
            return answer.reached
        return question.permit if isinstance(answer, PermitGranted) else None

    async def _release(self, message: ReleasePermit) -> Warnings:
        try:
            answer = await self.channel.ask(message, ANSWER_SECONDS)
        except ChannelError:
            return ()
        return answer.warnings if isinstance(answer, LimitWarnings) else ()

    def _try_again(self) -> None:
        """See whether it answers by now."""
        if not self._is_tried:
            self._is_tried = True
            _ = self.channel.ask(Ping(), ANSWER_SECONDS).addCallbacks(self._on_pong, self._on_no_pong)

    def _on_pong(self, _: ChannelMessage) -> None:
        self._is_tried = False
        self.answers = True

    def _on_no_pong(self, failure: Failure) -> None:
        failure.trap(ChannelError)
        self._is_tried = False


def _supervisor_gone() -> GatewayError:
    """Return the refusal of what nobody would ever count: this worker is about to end."""
    message = "the gateway is shutting down; try another instance"
    return GatewayError(Reason.DRAINING, message, retry_after=1.0)
