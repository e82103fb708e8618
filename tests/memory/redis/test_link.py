"""The link of a host to a Redis that answers what it likes, and what the host tells one that answers well."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.defer import Deferred
from twisted.internet.testing import MemoryReactorClock
from twisted.logger import LogEvent, LogLevel, capturedLogs

from mgw.clients.calendar_window import NoStore
from mgw.clients.limits import ONE_REQUEST, LimitReached, Limits, Permit, Taken, limits_of
from mgw.identity.shared_counts import SharedCounts
from mgw.realtime.sessions import SESSIONS as SESSIONS_HOLDER
from mgw.redis import link as redis_link
from mgw.redis.hosts import Fleet, open_fleet
from mgw.redis.limit_rows import Ticket
from mgw.redis.link import ANSWER_SECONDS, HEARTBEAT_SECONDS, MAX_RETRY_SECONDS
from mgw.redis.scripts import BEGIN, END, HEARTBEAT, RETURN
from tests.support.configs import config
from tests.support.counting import HOLDER, limits
from tests.support.fake_redis import Command, FakeRedis, usual

SETTINGS: Final = """
providers: {a: {kind: openai}}
fleet: {redis: {url: 'redis://127.0.0.1:1/1'}}
realtime: {max_sessions: 9}
"""
THREE_HUNDRED: Final = limits(max_in_flight=300)
FLIGHT: Final = b"mgw:alice:under-way"
SESSIONS: Final = b"mgw:realtime/sessions:under-way"


@dataclass
class Host:
    """One host, and the Redis that it is connected to."""

    redis: FakeRedis = field(default_factory=FakeRedis)
    reactor: MemoryReactorClock = field(default_factory=MemoryReactorClock)
    limits: Limits = THREE_HUNDRED
    is_host: bool = True
    fleet: Fleet = field(init=False)
    counts: SharedCounts[Ticket] = field(init=False)
    slots: list[Permit] = field(default_factory=list)
    found: list[Permit | LimitReached] = field(default_factory=list)
    heard: list[Any] = field(default_factory=list)

    def __post_init__(self) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(redis_link, "dialler_of", lambda *_: self.redis)
            self.fleet = open_fleet(
                config(SETTINGS),
                self.reactor,
                lambda: 1.0,
                lambda *rest: self.heard.append(rest),
                NoStore(),
                is_host=self.is_host,
            )
        self.counts = self.fleet.counts
        self.counts.use(HOLDER, self.limits)
        self.redis.deliver()

    def acquire(self) -> Any:  # Any: a Deferred, or what it would fire with
        begun = self.counts.begin(self.limits, ONE_REQUEST)
        if isinstance(begun, Deferred):
            return begun.addCallback(self.found.append)
        self.found.append(begun)
        return None

    def release(self, tokens: int = 0) -> None:
        permit = next(permit for permit in self.found if isinstance(permit, Permit))
        self.found.remove(permit)
        self.counts.end(permit, Taken(tokens=tokens))

    def wait(self, seconds: float) -> None:
        """Let time pass, and what Redis answers meanwhile arrive."""
        until = self.reactor.seconds() + seconds
        while (now := self.reactor.seconds()) < until:
            due = min([until, *(call.getTime() for call in self.reactor.getDelayedCalls())])
            self.reactor.advance(max(0.0, due - now))
            self.redis.deliver()

    def ask_slot(self) -> Any:  # Any: as above
        taken = self.counts.begin(limits_of(SESSIONS_HOLDER, {"max_sessions": 9}), ONE_REQUEST)
        if isinstance(taken, Deferred):
            return taken.addCallback(self.keep)
        return self.keep(taken)

    def keep(self, found: Permit | LimitReached) -> bool:
        if isinstance(found, Permit):
            self.slots.append(found)
        return isinstance(found, Permit)

    def take(self) -> bool:
        before = len(self.slots)
        self.ask_slot()
        self.redis.deliver()
        return len(self.slots) > before

    def free(self) -> None:
        self.counts.end(self.slots.pop(), Taken())

    def lose(self) -> None:
        """Let Redis die."""
        self.redis.accepts = False
        for connection in self.redis.connections:
            connection.disconnecting = True
            connection.protocol.connectionLost()

    def return_after(self, seconds: float) -> None:
        """Let Redis be there again, and the host learn it."""
        self.wait(seconds)
        self.redis.accepts = True
        self.redis.commands.clear()
        self.wait(MAX_RETRY_SECONDS)
        assert self.fleet.link.is_up


def warnings(events: Sequence[LogEvent]) -> list[str]:
    return [event["log_format"].format(**event) for event in events if event["log_level"] is LogLevel.warn]


def test_who_only_asks_is_no_host() -> None:
    host = Host(is_host=False)
    assert host.fleet.link.is_up
    host.wait(60)
    assert not host.redis.sent(b"EVALSHA", HEARTBEAT.digest.encode())
    assert not host.redis.sent(b"PUBLISH")
    assert host.fleet.link.is_up


def test_a_host_that_registers_leaves_nothing_without_an_end() -> None:
    host = Host()
    host.acquire()
    host.redis.deliver()
    host.lose()
    host.return_after(1)
    (command,) = host.redis.sent(b"EVALSHA", RETURN.digest.encode())
    count = int(command[2])
    assert (command[2 + count], command[-1]) == (FLIGHT, b"1")


def test_a_host_that_returns_speaks_only_of_holders_with_something_in_progress() -> None:
    host = Host()
    host.acquire()
    host.redis.deliver()
    for number in range(500):
        host.counts.use(f"idle{number}", limits_of(f"idle{number}", {"max_in_flight": 3}))
    host.lose()
    host.return_after(1)
    assert len(host.redis.commands) < 50
    (command,) = host.redis.sent(b"EVALSHA", RETURN.digest.encode())
    assert not any(word.startswith(b"mgw:idle") for word in command)


def test_a_slot_that_is_taken_is_kept_for_as_long_as_the_session_lasts() -> None:
    host = Host()
    assert list(host.fleet.link.kept_keys()) == []
    assert host.take()
    assert list(host.fleet.link.kept_keys()) == [SESSIONS.decode()]
    host.redis.commands.clear()
    host.wait(HEARTBEAT_SECONDS)
    (beat,) = host.redis.sent(b"EVALSHA", HEARTBEAT.digest.encode())
    assert beat[4:5] == [SESSIONS], "its script prolongs the life of each key"
    host.free()
    assert list(host.fleet.link.kept_keys()) == []


def test_a_slot_that_was_given_back_is_there_when_redis_is_not() -> None:
    host = Host()
    for _ in range(5):
        assert host.take()
        host.free()
    assert not host.slots
    host.lose()
    assert [host.take() for _ in range(4)] == [True, True, True, False], (
        "three of nine, as there are three hosts"
    )
    host.free()
    assert host.take()


@pytest.mark.parametrize(
    ("before", "after", "age"), [(0.0, 50.0, 50), (0.0, 61.0, None), (100.0, 5.0, 5)], ids=repr
)
def test_redis_is_told_of_the_tokens_of_the_last_minute_when_they_were_used(
    before: float, after: float, age: int | None
) -> None:
    host = Host(limits=limits(tokens_per_minute=1000))
    host.acquire()
    host.redis.deliver()
    host.lose()
    host.wait(before)
    host.release(tokens=7)
    host.return_after(after)
    told = [sent[-8] for sent in host.redis.sent(b"EVALSHA", END.digest.encode()) if b"aged" in sent]
    if age is None:
        assert not told
    else:
        ((milliseconds, tokens),) = [each.split(b":") for each in told]
        assert tokens == b"7"
        assert 1000 * age - 100 <= int(milliseconds) <= 1000 * (age + MAX_RETRY_SECONDS)


def hostile(position: int, data: bytes) -> FakeRedis:
    """Return a Redis that answers well but for one command, and everything of that kind behind it."""

    def answer(command: Command) -> bytes:
        seen.append(command)
        return data if len(seen) > position else usual(command)

    seen: list[Command] = []
    return FakeRedis(answer)


HUGE: Final = [
    b"*1000000000\r\n",
    b"%1000000000\r\n",
    b"$1000000000\r\n",
    b">1000000000\r\n",
    b"*1\r\n" * 100,
]
SHAPES: Final = [
    *(
        b"_\r\n",
        b"$-1\r\n",
        b"*-1\r\n",
        b"*0\r\n",
        b">0\r\n",
        b":1\r\n",
        b":-1\r\n",
        b"#t\r\n",
        b",nan\r\n",
        b"+OK\r\n",
    ),
    *(
        b"-ERR no\r\n",
        b"-WRONGTYPE no\r\n",
        b"-NOSCRIPT no\r\n",
        b"(1" + b"0" * 5000 + b"\r\n",
        b"$0\r\n\r\n",
        b"\x00" * 9,
    ),
    *(
        b"*3\r\n:0\r\n$13\r\nmax_in_flight\r\n:99999999\r\n",
        b"*3\r\n:0\r\n$3\r\nfoo\r\n:10\r\n",
        b"*3\r\n:0\r\n_\r\n:10\r\n",
    ),
    *(
        b"*3\r\n:1\r\n:1\r\n:1\r\n",
        b"*3\r\n:7\r\n$0\r\n\r\n:0\r\n",
        b"*2\r\n:1\r\n:1\r\n",
        b"*2\r\n:1\r\n:999999999\r\n",
        b"*2\r\n_\r\n_\r\n",
    ),
    *(
        b"%1\r\n*0\r\n:1\r\n",
        b"~1\r\n*0\r\n",
        b"*3\r\n:1\r\n-ERR no\r\n:0\r\n",
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b">1\r\n:1\r\n",
    ),
    *(
        b">3\r\n$7\r\nmessage\r\n$1\r\nx\r\n:1\r\n",
        b">3\r\n$7\r\nmessage\r\n$8\r\nmgw:news\r\n$2\r\n\xff\xff\r\n",
        b"*1\r\n$4\r\nmgw:",
    ),
    *HUGE,
]


@pytest.mark.parametrize(
    "data", [*HUGE, b"_\r\n", b"*2\r\n:1\r\n:1\r\n", b"*3\r\n:0\r\n_\r\n:10\r\n"], ids=repr
)
def test_an_unreadable_decision_is_decided_alone_and_said_once(data: bytes) -> None:
    begin = BEGIN.digest.encode()
    redis = FakeRedis(lambda command: data if command[1:2] == [begin] else usual(command))
    with capturedLogs() as events:
        host = Host(redis)
        assert host.fleet.link.is_up
        for _ in range(20):
            host.acquire()
            host.redis.deliver()
            host.wait(0.5)
    assert [isinstance(permit, Permit) for permit in host.found] == [True] * 20
    assert len(warnings(events)) == 1
    assert "Redis is unavailable (its reply cannot be read)" in warnings(events)[0]
    assert not [event for event in events if event["log_level"] > LogLevel.warn]


@given(
    position=st.integers(0, 14),
    data=st.one_of(
        st.sampled_from(SHAPES), st.binary(max_size=30), st.text("*$:%>_-+013\r\n").map(str.encode)
    ),
    steps=st.lists(st.sampled_from(["begin", "end", "take", "free", "rest", "wait", "beat"]), max_size=12),
)
def test_whatever_redis_says_nothing_breaks_and_no_request_is_refused_for_it(
    position: int, data: bytes, steps: list[str]
) -> None:
    with capturedLogs() as events:
        host = Host(hostile(position, data))
        waiting: list[Any] = []
        for step in steps:
            if step == "begin":
                waiting.append(host.acquire())
            elif step == "end" and any(isinstance(permit, Permit) for permit in host.found):
                host.release(3)
            elif step == "take":
                waiting.append(host.ask_slot())
            elif step == "free" and host.slots:
                host.free()
            elif step == "rest":
                host.fleet.cooldowns.tell("store", "a", None, 10.0)
            else:
                host.wait(HEARTBEAT_SECONDS if step == "beat" else 0.1)
            host.redis.deliver()
        host.reactor.advance(ANSWER_SECONDS)
        assert all(not isinstance(one, Deferred) or one.called for one in waiting), "nobody waits longer"
        host.redis.answer = usual
        host.redis.waiting.clear()
        host.wait(3 * MAX_RETRY_SECONDS)
        assert host.fleet.link.is_up, "it comes back"
    assert all(isinstance(permit, Permit) for permit in host.found), "three hundred were allowed"
    assert len(warnings(events)) <= 1
    assert not [event for event in events if event["log_level"] > LogLevel.warn], "no traceback"


@pytest.mark.parametrize("data", SHAPES, ids=lambda data: repr(data[:24]))
def test_each_shape_is_survived_in_place_of_each_reply_and_between_them(data: bytes) -> None:
    with capturedLogs() as events:
        for position in range(13):
            host = Host(hostile(position, data))
            host.acquire()
            host.redis.deliver()
            host.wait(HEARTBEAT_SECONDS)
            host.redis.answer = usual
            host.wait(3 * MAX_RETRY_SECONDS)
            assert host.fleet.link.is_up
        for _ in range(2):
            host.redis.connections[-1].protocol.dataReceived(data)
            host.acquire()
            host.redis.deliver()
            host.wait(3 * MAX_RETRY_SECONDS)
        assert host.fleet.link.is_up
        assert all(isinstance(permit, Permit) for permit in host.found)
    assert not [event for event in events if event["log_level"] > LogLevel.warn], "no traceback"


def test_a_redis_that_answers_the_handshake_and_nothing_else_is_asked_ever_less_often() -> None:
    begin = BEGIN.digest.encode()
    host = Host(FakeRedis(lambda command: b"_\r\n" if command[1:2] == [begin] else usual(command)))
    for _ in range(100):
        host.acquire()
        host.wait(0.1)
    assert 3 <= len(host.redis.connections) <= 10


def test_a_flood_of_hosts_that_join_is_one_question_after_the_other() -> None:
    host = Host()
    host.redis.commands.clear()
    joined = b">3\r\n$7\r\nmessage\r\n$3\r\nmgw\r\n$6\r\njoined\r\n"
    host.redis.connections[-1].protocol.dataReceived(joined * 10_000)
    assert len(host.redis.commands) == 1
    host.redis.deliver()
    assert len(host.redis.commands) == 2, "what joined behind the first question counts too"
    host.redis.connections[-1].protocol.dataReceived(joined)
    host.redis.deliver()
    assert len(host.redis.commands) == 3
    assert host.fleet.link.hosts == 3


def test_hosts_are_counted_on_the_next_connection_too_if_one_is_lost_before_the_answer() -> None:
    host = Host()
    joined = b">3\r\n$7\r\nmessage\r\n$3\r\nmgw\r\n$6\r\njoined\r\n"
    host.redis.connections[-1].protocol.dataReceived(joined * 2)
    host.lose()
    host.return_after(1)
    host.redis.commands.clear()
    host.wait(HEARTBEAT_SECONDS)
    assert len(host.redis.sent(b"EVALSHA", HEARTBEAT.digest.encode())) == 1
