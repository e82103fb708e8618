"""What a usage sink's receiver is posted, and what is made of each end that this may have."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import pytest
from treq.testing import HasHeaders, RequestSequence, RequestTraversalAgent, StringStubbingResource
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.error import ConnectionRefusedError as Refused
from twisted.internet.task import Clock

from mgw.reactor.treq_arguments import ExactURL
from mgw.upstream.agent import client_over
from mgw.usage.outbox import Result, Verdict
from mgw.usage.receiver import MAX_RESPONSE_BYTES, Answer, Receiver
from tests.support.deferreds import result_of
from tests.support.token_endpoints import TokenHosts

ORIGIN = "http://receiver.example"
URL = ExactURL(f"{ORIGIN}/in?x=canary")
HEADERS = ((b"Content-Type", b"a/b"), (b"X-Own", b"canary"))
SECONDS = 10.0


def posted(hosts: TokenHosts, body: bytes = b"[]") -> Deferred[Answer | Result]:
    receiver = hosts.receiver(SECONDS)
    return Deferred.fromCoroutine(
        receiver.post(URL, ((b"Content-Type", b"a/b"), (b"X-Own", b"canary")), body)
    )


def test_a_body_is_posted_with_its_headers_and_the_answer_comes_back() -> None:
    failures: list[str] = []
    sequence: Any = RequestSequence(  # type: ignore[no-untyped-call]  # treq.testing has no types
        [
            (
                (
                    b"post",
                    f"{ORIGIN}/in",
                    {b"x": [b"canary"]},
                    HasHeaders({"Content-Type": ["a/b"], "X-Own": ["canary"], "Content-Length": ["2"]}),  # type: ignore[no-untyped-call]  # as above
                    b"[]",
                ),
                (202, {b"X-A": b"b"}, b"taken"),
            )
        ],
        failures.append,
    )
    agent = RequestTraversalAgent(StringStubbingResource(sequence))  # type: ignore[no-untyped-call]  # as above
    receiver = Receiver(client_over(agent), lambda: None, Clock(), SECONDS)
    with sequence.consume(pytest.fail):
        done = Deferred.fromCoroutine(receiver.post(URL, HEADERS, b"[]"))
    assert not failures
    assert result_of(done) == Answer(202, b"taken")


@pytest.mark.parametrize("more", [0, 1])
def test_so_much_of_an_answer_is_read(more: int) -> None:
    hosts = TokenHosts()
    done = posted(hosts)
    hosts.newest(ORIGIN).answer(b"x" * (MAX_RESPONSE_BYTES + more), 400)
    assert result_of(done) == Answer(400, None if more else b"x" * MAX_RESPONSE_BYTES)


@pytest.mark.parametrize("sent", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n"])
def test_the_time_is_that_of_the_whole_answer(sent: bytes) -> None:
    hosts = TokenHosts()
    done = posted(hosts)
    connection = hosts.newest(ORIGIN).connection
    connection.send(sent)
    for _ in range(9):
        hosts.clock.advance(1)
        connection.send(b"x" if sent else b"")
    assert not done.called
    hosts.clock.advance(1)
    assert result_of(done) == Result(Verdict.RETRY, "no answer within 10 s")
    assert connection.aborted


@pytest.mark.parametrize("moment", [SECONDS - 1, SECONDS])
def test_whoever_cancels_is_not_told_of_a_time_limit(moment: float) -> None:
    hosts, begun = TokenHosts(), list[Deferred[Answer | Result]]()

    def stop() -> None:
        begun[0].cancel()

    hosts.clock.callLater(moment, stop)  # before the request's own limit has its turn
    begun.append(done := posted(hosts))
    hosts.clock.advance(moment)
    with pytest.raises(CancelledError):
        result_of(done)
    assert hosts.newest(ORIGIN).connection.aborted
    assert not hosts.clock.getDelayedCalls()


def test_a_receiver_that_cannot_be_reached_is_tried_again() -> None:
    hosts = TokenHosts()
    hosts.endpoint(ORIGIN).refusal = Refused()
    assert result_of(posted(hosts)) == Result(Verdict.RETRY, "failed (refused_connection)")


class Batch(bytes):
    """The body of a request, which can be found."""


def answers(hosts: TokenHosts) -> None:
    hosts.newest(ORIGIN).answer(b"{}")


def answers_too_much(hosts: TokenHosts) -> None:
    hosts.newest(ORIGIN).answer(b"x" * (MAX_RESPONSE_BYTES + 1))


def breaks_off(hosts: TokenHosts) -> None:
    connection = hosts.newest(ORIGIN).connection
    connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nx")
    connection.reset()


def says_garbage(hosts: TokenHosts) -> None:
    hosts.newest(ORIGIN).connection.send(b"garbage\r\n\r\n")


def is_silent(hosts: TokenHosts) -> None:
    hosts.clock.advance(SECONDS)


@pytest.mark.parametrize("end", [answers, answers_too_much, breaks_off, says_garbage, is_silent])
def test_no_batch_waits_for_the_garbage_collector(end: Callable[[TokenHosts], None]) -> None:
    hosts = TokenHosts()
    gc.collect()
    gc.disable()
    try:
        done = posted(hosts, Batch(b"[]"))
        end(hosts)
        result_of(done)
        del done
        assert not [held for held in gc.get_objects() if type(held) is Batch]
    finally:
        gc.enable()
