"""No body keeps the reactor from turning for long, whatever it looks like.

What is measured is the CPU time of the process between two turns, so that a busy machine fails no test.
``make bench-shapes`` measures many more shapes, at their full size.
"""

from __future__ import annotations

import gc
import gzip
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from time import process_time
from typing import Any

import pytest
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.interfaces import IReactorFromThreads
from twisted.python.failure import Failure
from zope.interface import implementer

from mgw.exchange.offload import MOST_WAITING, WorkThreads, run_inline
from mgw.nouns.errors import GatewayError, Reason
from mgw.usage.event import Outcome
from tests.support.pipelines import Pipeline, answered
from tests.support.raw_client import CHAT
from tests.support.repeated import MIB, repeated
from tests.support.translation import MESSAGES

MOST_MS = 250.0
SIZE = 8 * MIB


@implementer(IReactorFromThreads)
@dataclass
class Reactor:
    """Turns until what it watches is done, and notes the CPU time between two turns."""

    longest_ms: float = 0.0
    _calls: SimpleQueue[Callable[[], object]] = field(default_factory=SimpleQueue)
    _last: float = field(default_factory=process_time)

    # Any: Twisted's interface takes the arguments of whatever is called
    def callFromThread(self, callable: Callable[..., Any], *args: Any, **kw: Any) -> None:  # noqa: A002 its name
        self._calls.put(lambda: callable(*args, **kw))

    def begin(self) -> None:
        self.longest_ms, self._last = 0.0, process_time()

    def turn(self, seconds: float = 0.001) -> None:
        with suppress(Empty):
            self._calls.get(timeout=seconds)()
        now = process_time()
        self.longest_ms = max(self.longest_ms, (now - self._last) * 1000.0)
        self._last = now

    def turn_until(self, done: Callable[[], object]) -> None:
        began = process_time()
        while not done():
            assert process_time() - began < 60.0
            self.turn()


@contextmanager
def threads() -> Iterator[tuple[Reactor, WorkThreads]]:
    """Threads, in a process whose own objects the collector passes over, as those of the service."""
    reactor = Reactor()
    work = WorkThreads(reactor)
    gc.collect()
    gc.freeze()
    yield reactor, work
    work.stop()


def failures_of(served: Deferred[None]) -> list[BaseException]:
    """Return a list that has what the work failed with, once it has."""
    found: list[BaseException] = []

    def keep(failure: Failure) -> None:
        assert failure.value is not None
        found.append(failure.value)

    _ = served.addErrback(keep)
    return found


def are_refusals(failures: list[BaseException]) -> bool:
    return all(isinstance(failure, GatewayError) for failure in failures)


_USER = b'{"model":"%b","messages":[{"role":"user","content":"x"}]'
_CALLS = (
    b'{"role":"assistant","tool_calls":[{"id":"c%d","type":"function","function":{"name":"f",'
    b'"arguments":"{}"}}]},{"role":"tool","tool_call_id":"c%d","content":"a"},'
)
_END = b'{"role":"user","content":"x"}]}'
_BATCH = b'{"custom_id":"r%d","params":{"model":"claude-x","max_tokens":1,"messages":[]}},'

SHAPES = {
    "models": (CHAT, repeated(b'{<<"model":"fast",>>"a":0}', SIZE)),
    "nested models": (CHAT, repeated(b'{"a":[<<{"model":"x"},>>{}],"\\u006dodel":"fast"}', SIZE)),
    "surrogates": (CHAT, repeated(b'{"model":"fast","a":"<<\\ud800>>"}', SIZE)),
    "unknown keys": (CHAT, repeated((_USER % b"smart" + b'<<,"k%d":0>>}'), SIZE)),
    "arrays": (CHAT, repeated((_USER % b"smart" + b',"z":[<<[],>>[]]}'), SIZE)),
    "unknown keys of messages": (
        CHAT,
        repeated(
            (b'{"model":"smart","messages":[<<{"role":"user","content":"x","k%d":0},>>' + _END), 2 * MIB
        ),
    ),
    "tool loops": (CHAT, repeated((b'{"model":"smart","messages":[<<' + _CALLS + b">>" + _END), 3 * MIB)),
    "one text": (
        CHAT,
        repeated(b'{"model":"smart","messages":[{"role":"user","content":"<<ab>>"}]}', SIZE),
    ),
    "inputs": ("/v1/embeddings", repeated(b'{"model":"gem/m","input":[<<"a",>>"a"]}', SIZE)),
    "zeros of a batch": ("/v1/messages/batches", repeated(b'{"requests":[<<0,>>0]}', SIZE)),
    "requests of a batch": (
        "/v1/messages/batches",
        repeated((b'{"requests":[<<' + _BATCH + b">>{}]}"), 4 * MIB),
    ),
    "blocks": (
        MESSAGES,
        repeated(
            (
                b'{"model":"main/m","max_tokens":1,"messages":[{"role":"user",'
                b'"content":[<<{"type":"text","text":"%d"},>>{"type":"text",'
                b'"text":"x"}]}]}'
            ),
            2 * MIB,
        ),
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SHAPES)
def test_the_reactor_turns_while_a_body_is_understood(name: str) -> None:
    path, make = SHAPES[name]
    body = make()
    with threads() as (reactor, work):
        pipeline = Pipeline(offload=work.run)
        reactor.begin()
        _, served = pipeline.ask(path, body)
        failures = failures_of(served)
        reactor.turn_until(lambda: served.called or pipeline.endpoint.connections)
        assert are_refusals(failures)
        served.cancel()
    assert reactor.longest_ms < MOST_MS


ANSWERS = {
    "items": repeated((b'{"content":[<<{"type":"text","text":"a"},>>{"type":"text","text":"a"}]}'), 4 * MIB),
    "objects": repeated(b'{"content":[],"z":[<<{},>>0]}', SIZE),
    "arrays": repeated(b'{"content":[],"z":[<<[],>>0]}', SIZE),
    "one text": repeated(b'{"content":[{"type":"text","text":"<<ab>>"}]}', SIZE),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", ANSWERS)
def test_the_reactor_turns_while_an_answer_is_told(name: str) -> None:
    answer = answered(ANSWERS[name]())
    with threads() as (reactor, work):
        pipeline = Pipeline(offload=work.run)
        _, served = pipeline.ask(body=_USER % b"smart" + b"}")
        failures = failures_of(served)
        reactor.begin()
        for at in range(0, len(answer), 65536):
            pipeline.connection.send(answer[at : at + 65536])
            reactor.turn(0)
        reactor.turn_until(lambda: served.called)
    assert are_refusals(failures)
    assert reactor.longest_ms < MOST_MS


def test_a_coded_body_is_unfolded_aside() -> None:
    body = gzip.compress(repeated((_USER % b"smart" + b',"z":[<<[],>>0]}'), SIZE)())
    with threads() as (reactor, work):
        pipeline = Pipeline(offload=work.run)
        _, served = pipeline.ask(body=body, headers=[(b"Content-Encoding", b"gzip")])
        assert not served.called
        failures: list[Any] = []
        _ = served.addErrback(failures.append)
        reactor.turn_until(lambda: served.called)
    assert failures[0].value.reason is Reason.MALFORMED


def test_a_large_body_is_translated_as_a_small_one_is() -> None:
    texts = [b"word " * count for count in (1, 100_000)]
    sent = []
    for text in texts:
        with threads() as (reactor, work):
            pipeline = Pipeline(offload=work.run)
            pipeline.ask(
                body=b'{"model":"smart","seed":1,"messages":[{"role":"user","content":"%b"}]}' % text
            )
            reactor.turn_until(lambda pipeline=pipeline: pipeline.endpoint.connections)  # type: ignore[misc]  # of this turn
            sent.append(pipeline.received()[2].replace(text.rstrip(), b"T"))
    assert sent[0] == sent[1]


def test_a_client_that_leaves_while_its_body_is_understood_is_recorded_once() -> None:
    with threads() as (reactor, work):
        pipeline = Pipeline(offload=work.run)
        _, served = pipeline.ask(body=repeated((_USER % b"smart" + b',"z":"<<a>>"}'), SIZE)())
        _ = served.addErrback(lambda failure: failure.trap(CancelledError))
        served.cancel()
        assert pipeline.event().status is Outcome.CLIENT_ABORT
        waited: Deferred[int] = work.run(lambda: 1)
        reactor.turn_until(lambda: waited.called)
        assert not pipeline.endpoint.connections
    assert len(pipeline.events) == 1


def test_work_that_nobody_waits_for_any_more_is_not_begun() -> None:
    reactor = Reactor()
    work = WorkThreads(reactor)
    done: list[int] = []
    gates = [SimpleQueue[int](), SimpleQueue[int]()]
    blocked = [work.run(gate.get) for gate in gates]
    left = work.run(lambda: done.append(1))
    _ = left.addErrback(lambda failure: failure.trap(CancelledError))
    left.cancel()
    for gate in gates:
        gate.put(0)
    last = work.run(lambda: done.append(2))
    reactor.turn_until(lambda: last.called and all(one.called for one in blocked))
    work.stop()
    assert done == [2]


def test_more_work_than_may_wait_is_refused_as_overload() -> None:
    reactor = Reactor()
    work = WorkThreads(reactor)
    gate = SimpleQueue[int]()
    waiting = [work.run(gate.get) for _ in range(MOST_WAITING)]
    failures: list[Any] = []
    _ = work.run(gate.get).addErrback(failures.append)
    assert failures[0].value.reason is Reason.OVERLOADED
    assert failures[0].value.retry_after == 1.0
    for _ in waiting:
        gate.put(0)
    reactor.turn_until(lambda: all(one.called for one in waiting))
    again = work.run(lambda: 3)
    reactor.turn_until(lambda: again.called)
    work.stop()


@pytest.mark.parametrize("run", [run_inline, "threads"])
def test_a_refusal_holds_nothing_of_what_was_refused(run: Any) -> None:
    class Large(bytes):
        """A body that can be told from others."""

    def refuse() -> None:
        body = Large(b"x")
        raise GatewayError(Reason.MALFORMED, f"{len(body)}")

    reactor = Reactor()
    work = WorkThreads(reactor)
    failures: list[Any] = []
    waited = (work.run if run == "threads" else run)(refuse)
    _ = waited.addErrback(failures.append)
    reactor.turn_until(lambda: waited.called)
    work.stop()
    assert failures[0].value.__traceback__ is None


DEPTHS = (*range(180, 1100, 60), 1_000, 10_000, 200_000)
"""Python calls itself a thousand times at most, and what calls C counts there, too."""


def deep(depth: int, opening: bytes, closing: bytes, inner: bytes = b"0") -> bytes:
    return opening * depth + inner + closing * depth


@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize("model", [b"fast", b"smart", b"gem/m"])
def test_no_depth_of_nesting_is_a_bug(model: bytes, depth: int) -> None:
    schema = deep(depth, b'{"type":"object","properties":{"a":', b"}}", b"{}")
    tool = b'"tools":[{"type":"function","function":{"name":"f","parameters":%b}}]' % schema
    strict = b'"tools":[{"type":"function","function":{"name":"f","strict":true,"parameters":%b}}]' % schema
    form = b'"response_format":{"type":"json_schema","json_schema":{"name":"f","schema":%b}}' % schema
    values = b'"z":' + deep(depth, b"[", b"]")
    for more in (tool, strict, form, values):
        pipeline = Pipeline()
        _, served = pipeline.ask(body=_USER % model + b"," + more + b"}")
        failures = failures_of(served)
        assert pipeline.endpoint.connections or failures
        assert are_refusals(failures)


@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize("model", [b"main/m", b"gem/m"])
def test_no_depth_of_arguments_is_a_bug(model: bytes, depth: int) -> None:
    body = (
        b'{"model":"%b","max_tokens":1,"messages":[{"role":"assistant","content":'
        b'[{"type":"tool_use","id":"a","name":"f","input":{"a":%b}}]}]}'
    )
    pipeline = Pipeline()
    _, served = pipeline.ask(MESSAGES, body % (model, deep(depth, b'{"a":', b"}")))
    failures = failures_of(served)
    assert pipeline.endpoint.connections or failures
    assert are_refusals(failures)


@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize(
    "answer",
    [
        b'{"content":[{"type":"tool_use","id":"a","name":"f","input":{"a":%b}}],"stop_reason":"tool_use"}',
        b'{"content":[],"z":%b}',
        b'{"error":%b}',
    ],
)
@pytest.mark.parametrize("status", [b"200 OK", b"400 Bad Request"])
def test_no_depth_of_an_answer_is_a_bug(answer: bytes, depth: int, status: bytes) -> None:
    pipeline = Pipeline()
    _, served = pipeline.ask(body=_USER % b"smart" + b"}")
    failures = failures_of(served)
    pipeline.connection.send(answered(answer % deep(depth, b'{"a":', b"}"), status))
    assert served.called
    assert are_refusals(failures)
