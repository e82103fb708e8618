"""Key limits and session slots across workers: the supervisor counts, and workers ask it.

A worker numbers what it asks for.  The channel keeps the order of what is said, so a worker that has waited
long enough says that it wants it no more, and nothing stays counted of which nobody will ever say the end.
From then on it counts by itself, each limit divided by the number of workers, until the other side answers
again: a process that hangs neither makes every request wait nor opens the gate.  What is counted in one way
is not known in the other, so within a minute of such a change a key may get up to what both allow.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Final, Protocol, TypeVar

from msgspec.structs import asdict
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.python.failure import Failure

from mgw.clients.limits import ClientCounts, LimitReached, Limits, LocalCounts, Permit
from mgw.realtime.sessions import Slots
from mgw.workers.channel import ChannelError, RequestSender
from mgw.workers.messages import (
    AcquirePermit,
    ChannelMessage,
    FreeSlot,
    PermitDenied,
    PermitGranted,
    Ping,
    ReleasePermit,
    SlotAnswer,
    TakeSlot,
)

T = TypeVar("T")

ANSWER_SECONDS: Final = 2.0
"""How long a worker waits for an answer."""


# The process that counts


@dataclass(slots=True, eq=False)
class _Held:
    """What a worker has asked for, from its question until it gives it back."""

    worker: Hashable
    number: int
    give_back: Callable[[int, bool], None] | None = None
    """Takes the tokens, and whether the request was refused; ``None``: whether the worker gets it is not
    known yet."""
    left: tuple[int, bool] | None = None
    """What it was given back with, before that was known."""

    def give(self, give_back: Callable[[int, bool], None]) -> None:
        """The worker has it from now on, unless it wants it no more."""
        self.give_back = give_back
        if self.left is not None:
            give_back(*self.left)

    def leave(self, tokens: int, *, refused: bool) -> None:
        """The worker wants it no more."""
        self.left = tokens, refused
        if self.give_back is not None:
            self.give_back(tokens, refused)


@dataclass(slots=True)
class SupervisorCounts:
    """Answers the questions of all workers, and remembers which of them has what.

    :param counts_of: finds what a key has used, by its name; ``None``: it has no limits, or is not known, as
        may be in the middle of a reload.
    """

    counts_of: Callable[[str], ClientCounts | None]
    slots: Slots
    clock: IReactorTime
    _held: dict[Hashable, dict[int, _Held]] = field(default_factory=dict)
    """What each worker holds, by the worker and by its own numbers."""

    def acquire_permit(
        self, worker: Hashable, question: AcquirePermit
    ) -> ChannelMessage | Deferred[ChannelMessage]:
        """Count a request of a worker, unless a limit stands against it."""
        counts = self.counts_of(question.client)
        if counts is None:
            return PermitGranted(question.permit)
        held = self._hold(worker, question.permit)
        found = counts.acquire(self.clock.seconds())
        if isinstance(found, Permit | LimitReached):
            return self._on_permit(held, counts, found)
        assert isinstance(found, Deferred), "counts of other processes answer with one"
        return self._answer_later(held, found, partial(self._on_permit, held, counts))

    def release_permit(self, worker: Hashable, message: ReleasePermit) -> None:
        """Count the end of a request; nothing happens where it was not counted."""
        held = self._held.get(worker, {}).pop(message.permit, None)
        if held is not None:
            held.leave(message.tokens, refused=message.refused)

    def take_slot(self, worker: Hashable, question: TakeSlot) -> ChannelMessage | Deferred[ChannelMessage]:
        """Give a session of a worker a slot, if there is one."""
        held, taken = self._hold(worker, question.slot), self.slots.take()
        if isinstance(taken, Deferred):
            return self._answer_later(held, taken, partial(self._on_slot, held))
        return self._on_slot(held, taken)

    def free_slot(self, worker: Hashable, message: FreeSlot) -> None:
        """Take a slot back; nothing happens where the worker does not have it."""
        held = self._held.get(worker, {}).pop(message.slot, None)
        if held is not None:
            held.leave(0, refused=False)

    def forget(self, worker: Hashable) -> None:
        """Take back all that a worker has, which is gone; its requests count as ended, without tokens."""
        for held in self._held.pop(worker, {}).values():
            held.leave(0, refused=False)

    def _hold(self, worker: Hashable, number: int) -> _Held:
        held = _Held(worker, number)
        self._held.setdefault(worker, {})[number] = held
        return held

    def _drop(self, held: _Held) -> None:
        """The worker gets nothing."""
        of_worker = self._held.get(held.worker, {})
        if of_worker.get(held.number) is held:
            del of_worker[held.number]

    def _on_permit(self, held: _Held, counts: ClientCounts, found: Permit | LimitReached) -> ChannelMessage:
        if isinstance(found, LimitReached):
            self._drop(held)
            return PermitDenied(found.limit, found.most, found.seconds)
        held.give(partial(self._release_late_permit, counts, found))
        return PermitGranted(held.number)

    def _release_late_permit(self, counts: ClientCounts, permit: Permit, tokens: int, refused: bool) -> None:  # noqa: FBT001  a callback
        counts.release(permit, self.clock.seconds(), tokens, refused=refused)

    def _on_slot(self, held: _Held, is_taken: bool) -> ChannelMessage:  # noqa: FBT001  a callback
        if is_taken:
            held.give(lambda _, __: self.slots.free())
        else:
            self._drop(held)
        return SlotAnswer(is_taken)

    def _answer_later(
        self, held: _Held, found: Deferred[T], answer_of: Callable[[T], ChannelMessage]
    ) -> Deferred[ChannelMessage]:
        answer: Deferred[ChannelMessage] = Deferred()  # of its own: the channel cancels it where it is lost

        def on_failure(failure: Failure) -> None:
            self._drop(held)
            answer.errback(failure)

        _ = found.addCallback(answer_of).addCallbacks(answer.callback, on_failure)
        return answer


# A worker


class SupervisorChannel(RequestSender, Protocol):
    """The channel to the supervisor."""

    def tell(self, message: ChannelMessage) -> None:
        """Say something that has no answer."""
        ...


@dataclass(slots=True)
class SupervisorClient:
    """Asks the supervisor, which counts for all workers.

    :param workers: how many there are; a reload sets it before it sets limits.
    """

    channel: SupervisorChannel
    clock: IReactorTime
    workers: int
    answers: bool = True
    """Whether it has answered when it was asked last; where not, it is tried without anybody waiting."""
    _number: int = 0
    _is_tried: bool = False

    def counts(self, name: str, limits: Limits) -> RemoteCounts:
        """Return the counts of a key, as a :class:`~mgw.clients.client.ClientRegistry` wants them."""
        return RemoteCounts(self, name, limits)

    def slots(self) -> RemoteSlots:
        """Return the slots of :class:`~mgw.realtime.sessions.Sessions`."""
        return RemoteSlots(self)

    def share_of(self, limit: int) -> int:
        """Return one worker's part of a limit."""
        return min(limit, max(1, limit // self.workers))

    def next_number(self) -> int:
        """Return a number that nothing else of this worker has."""
        self._number += 1
        return self._number

    async def ask(self, question: ChannelMessage, withdrawal: ChannelMessage) -> ChannelMessage | None:
        """Return the answer; ``None``: there is none in time.

        :param withdrawal: said in that case: nobody wants what was asked for.
        """
        try:
            answer = await self.channel.ask(question, ANSWER_SECONDS)
        except ChannelError:
            self.answers = False
            self.channel.tell(withdrawal)
            return None
        self.answers = True
        return answer

    def try_again(self) -> None:
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


class SupervisorPermit(Permit, eq=False):
    """A request that the other process has counted."""

    number: int


class RemoteCounts:
    """The counts of a key, which another process keeps."""

    __slots__ = ("_local", "_name", "_supervisor")

    def __init__(self, supervisor: SupervisorClient, name: str, limits: Limits) -> None:
        self._supervisor = supervisor
        self._name = name
        self._local = LocalCounts(self._share_of(limits))
        """Counts while there is no answer."""

    @property
    def refusals(self) -> Mapping[str, int]:
        """How many requests were not admitted here; the other process knows those that it did not admit."""
        return self._local.refusals

    def use(self, limits: Limits) -> None:
        """Obey other limits from now on, where there is no answer."""
        self._local.use(self._share_of(limits))

    def acquire(self, now: float) -> Permit | LimitReached | Deferred[Permit | LimitReached]:
        """Ask whether a request may begin."""
        if self._supervisor.answers:
            return Deferred.fromCoroutine(self._ask())
        self._supervisor.try_again()
        return self._local.acquire(now)

    async def _ask(self) -> Permit | LimitReached:
        supervisor, number = self._supervisor, self._supervisor.next_number()
        answer = await supervisor.ask(
            AcquirePermit(self._name, number), ReleasePermit(number, 0, refused=True)
        )
        if answer is None:
            return self._local.acquire(supervisor.clock.seconds())
        if isinstance(answer, PermitDenied):
            return LimitReached(answer.limit, answer.most, answer.seconds)
        return SupervisorPermit(number)

    def release(self, permit: Permit, now: float, tokens: int, *, refused: bool) -> None:
        """Say that a request has ended."""
        if isinstance(permit, SupervisorPermit):
            self._supervisor.channel.tell(ReleasePermit(permit.number, tokens, refused))
        else:
            self._local.release(permit, now, tokens, refused=refused)

    def _share_of(self, limits: Limits) -> Limits:
        shares = {
            name: None if limit is None else self._supervisor.share_of(limit)
            for name, limit in asdict(limits).items()
        }
        return Limits(**shares)


@dataclass(slots=True)
class RemoteSlots:
    """The slots of sessions, which another process gives out."""

    supervisor: SupervisorClient
    _share: int = 0
    """How many there may be of this worker while there is no answer."""
    _numbers: list[int] = field(default_factory=list)
    """The numbers that the other process knows."""
    _local: int = 0
    """How many it does not know."""

    def use(self, max_sessions: int) -> None:
        """Give out so many at most from now on, in all workers together."""
        self._share = self.supervisor.share_of(max_sessions)

    def take(self) -> bool | Deferred[bool]:
        """Ask for a slot."""
        if self.supervisor.answers:
            return Deferred.fromCoroutine(self._ask())
        self.supervisor.try_again()
        return self._take_here()

    async def _ask(self) -> bool:
        number = self.supervisor.next_number()
        answer = await self.supervisor.ask(TakeSlot(number), FreeSlot(number))
        if answer is None:
            return self._take_here()
        if not isinstance(answer, SlotAnswer) or not answer.is_taken:
            return False
        self._numbers.append(number)
        return True

    def _take_here(self) -> bool:
        is_free = len(self._numbers) + self._local < self._share
        self._local += is_free
        return is_free

    def free(self) -> None:
        """Give a slot back, no matter which; first of all one that the other process does not know."""
        if self._local:
            self._local -= 1
        else:
            self.supervisor.channel.tell(FreeSlot(self._numbers.pop()))
