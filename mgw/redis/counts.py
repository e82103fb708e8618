"""Key limits and session slots across hosts, counted in Redis.

What Redis admits is counted here too, against no limit: so while Redis is away, this host knows what it has
used, and keeps to its share of each limit.  When Redis returns, it learns what is under way here by then.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from msgspec.structs import asdict
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from mgw.clients.limits import LimitReached, Limits, LocalCounts, LocalPermit, Permit
from mgw.redis.link import GIVEN_UP, RedisLink
from mgw.redis.protocol import UNREADABLE, RedisError
from mgw.redis.replies import Begun
from mgw.redis.scripts import BEGIN, COARSE_MS, END, FINE_LIMIT, FINE_MS

_UNBOUNDED: Final = 2**53
_MAX_AWAY_SECONDS: Final = 60.0
"""What was used longer ago counts in no window."""


def share_of_limits(limits: Limits, hosts: int) -> Limits:
    """Return one host's part of some limits, each at least 1."""
    parts = {
        name: None if limit is None else max(1, limit // hosts) for name, limit in asdict(limits).items()
    }
    return Limits(**parts)


def _unbounded(limits: Limits) -> Limits:
    """Return limits on the same things that nobody reaches."""
    return Limits(**{name: limit and _UNBOUNDED for name, limit in asdict(limits).items()})


class _SharedPermit(Permit, eq=False):
    """A request that Redis has counted, or while it was away this host alone."""

    local: LocalPermit
    bucket: str
    """The name of Redis' window of requests; empty: there is none."""


@dataclass(slots=True)
class _Tally:
    """What Redis counts of one limit, or of several."""

    link: RedisLink
    name: str

    @property
    def flight_key(self) -> str:
        return f"{self.link.prefix}{self.name}:under-way"

    def keys(self) -> list[str]:
        start = f"{self.link.prefix}{self.name}"
        windows = [f"{start}:{of}:{part}" for of in ("requests", "tokens") for part in ("order", "amounts")]
        return [self.link.hosts_key, self.flight_key, *windows]

    def acquire(self, limits: Limits) -> Deferred[Begun]:
        requests = limits.requests_per_minute or 0
        most = (limits.max_in_flight or 0, requests, limits.tokens_per_minute or 0)
        width = FINE_MS if requests <= FINE_LIMIT else COARSE_MS
        return self.link.run(BEGIN, self.keys(), self.link.host, *most, width)

    def end(self, limits: Limits, bucket: str, tokens: int, *, was_under_way: bool = True) -> None:
        limit = limits.tokens_per_minute or 0
        arguments = (self.link.host, bucket, tokens, limit, COARSE_MS, int(was_under_way))
        _ = self.link.run(END, self.keys(), *arguments).addErrback(_trap)

    def register(self, count: int) -> None:
        """Say how many are under way here, under an id that is new to Redis."""
        if count:
            self.link.tell("HSET", self.flight_key, self.link.host, count)
            self.link.tell("PEXPIRE", self.flight_key, 60_000)


def _trap(failure: Failure) -> None:
    failure.trap(RedisError)


@dataclass(slots=True, eq=False)
class RedisCounts:
    """How much of its limits one client has used, on all hosts."""

    link: RedisLink
    clock: Callable[[], float]
    """Seconds of the process's clock, as :meth:`acquire` is given them."""
    _limits: Limits
    _tally: _Tally
    _local: LocalCounts
    _refusals: dict[str, int] = field(default_factory=dict)
    _tokens_away: int = 0
    """The tokens used while Redis was away."""
    _away_since: float = 0.0

    @classmethod
    def of_client(cls, link: RedisLink, clock: Callable[[], float], name: str, limits: Limits) -> RedisCounts:
        """Return the counts of a client, by the name of its key."""
        found = cls(link, clock, limits, _Tally(link, f"key:{name}"), LocalCounts(limits))
        found.use(limits)
        return found

    @property
    def in_flight(self) -> int:
        """How many requests are under way on this host."""
        return self._local.in_flight

    @property
    def refusals(self) -> Mapping[str, int]:
        """How many requests of this host were not admitted, by the setting that stood against them."""
        return self._refusals

    @property
    def flight_key(self) -> str:
        """The key of what is under way."""
        return self._tally.flight_key

    def use(self, limits: Limits) -> None:
        """Obey other limits from now on; what was counted stays."""
        self._limits = limits
        for name, limit in asdict(limits).items():
            if limit is not None:
                self._refusals.setdefault(name, 0)
        self.keep_to_share()

    def acquire(self, now: float) -> Permit | LimitReached | Deferred[Permit | LimitReached]:
        """Count a request that begins, or say what stands against it longest."""
        if not self.link.is_up:
            return self._begin_alone(now)
        return self._tally.acquire(self._limits).addCallbacks(
            lambda answer: self._begun(now, answer), lambda failure: self._not_asked(now, failure)
        )

    def release(self, permit: Permit, now: float, tokens: int, *, refused: bool) -> None:
        """Count the end of a request, and the tokens that it took."""
        assert isinstance(permit, _SharedPermit), "it was counted here"
        self._local.release(permit.local, now, tokens, refused=refused)
        bucket = permit.bucket if refused else ""
        if self.link.is_up:
            self._tally.end(self._limits, bucket, tokens)
        elif self._limits.tokens_per_minute is not None:
            self._tokens_away += tokens

    def went_down(self) -> None:
        """Keep to this host's share from now on."""
        self._away_since = self.clock()
        self.keep_to_share()

    def came_up(self) -> None:
        """Say what is under way here, and what was used meanwhile."""
        self._tally.register(self._local.in_flight)
        tokens, self._tokens_away = self._tokens_away, 0
        if tokens and self.clock() - self._away_since < _MAX_AWAY_SECONDS:
            self._tally.end(self._limits, "", tokens, was_under_way=False)
        self.keep_to_share()

    def keep_to_share(self) -> None:
        """Bound what Redis does not: nothing while it is up, else this host's part of each limit."""
        is_up = self.link.is_up
        self._local.use(_unbounded(self._limits) if is_up else share_of_limits(self._limits, self.link.hosts))

    def _begun(self, now: float, answer: Begun) -> Permit | LimitReached:
        if not self.link.is_up:
            return self._begin_alone(now)  # this host has left meanwhile, and what it had there with it
        if answer.admitted == 1:
            local = self._local.acquire(now)
            assert isinstance(local, LocalPermit), "nothing stands against it while Redis counts"
            return _SharedPermit(local, answer.text)
        limit = asdict(self._limits).get(answer.text)
        if answer.admitted == 0 and limit is not None:
            self._refusals[answer.text] = self._refusals.get(answer.text, 0) + 1
            return LimitReached(answer.text, limit, answer.milliseconds / 1000)
        self.link.fault(UNREADABLE if answer.admitted == 0 else GIVEN_UP)
        return self._begin_alone(now)

    def _not_asked(self, now: float, failure: Failure) -> Permit | LimitReached:
        failure.trap(RedisError)
        return self._begin_alone(now)

    def _begin_alone(self, now: float) -> Permit | LimitReached:
        found = self._local.acquire(now)
        if isinstance(found, LimitReached):
            self._refusals[found.limit] += 1
            return LimitReached(found.limit, getattr(self._limits, found.limit) or 0, found.seconds)
        return _SharedPermit(found, "")


@dataclass(slots=True, eq=False)
class RedisSlots:
    """The slots of realtime sessions on all hosts."""

    link: RedisLink
    max_sessions: int = 0
    taken: int = 0
    """The slots taken by sessions of this host."""

    @property
    def _tally(self) -> _Tally:
        return _Tally(self.link, "sessions")

    @property
    def flight_key(self) -> str:
        """The key of what is under way."""
        return self._tally.flight_key

    def use(self, max_sessions: int) -> None:
        """Give out so many at most from now on; those that are taken stay so."""
        self.max_sessions = max_sessions

    def take(self) -> bool | Deferred[bool]:
        """Take a slot, and say whether there was one."""
        if not self.link.is_up:
            return self._take_alone()
        limits = Limits(max_in_flight=self.max_sessions)
        return self._tally.acquire(limits).addCallbacks(self._answered, self._not_asked)

    def free(self) -> None:
        """Give a slot back."""
        self.taken -= 1
        if self.link.is_up:
            self._tally.end(Limits(), "", 0)

    def went_down(self) -> None:
        """Nothing: what is taken here is known."""

    def came_up(self) -> None:
        """Say how many are taken here."""
        self._tally.register(self.taken)

    def _answered(self, answer: Begun) -> bool:
        if not self.link.is_up:
            return self._take_alone()  # this host has left meanwhile, and what it had there with it
        is_decided = answer.admitted == 1 or (answer.admitted == 0 and answer.text == "max_in_flight")
        if not is_decided:
            self.link.fault(UNREADABLE if answer.admitted == 0 else GIVEN_UP)
            return self._take_alone()
        self.taken += answer.admitted
        return answer.admitted == 1

    def _not_asked(self, failure: Failure) -> bool:
        failure.trap(RedisError)
        return self._take_alone()

    def _take_alone(self) -> bool:
        if self.taken >= max(1, self.max_sessions // self.link.hosts):
            return False
        self.taken += 1
        return True
