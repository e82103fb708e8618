"""The open sessions of one gateway: slots, and what all of them need."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from twisted.internet.defer import Deferred, fail

from mgw.nouns.errors import GatewayError, Reason
from mgw.realtime.sessions import SessionFacts, Sessions


class Session:
    """Has a slot."""

    def shut_down(self) -> None:
        raise AssertionError("nobody ends it")

    def facts(self) -> SessionFacts:
        raise AssertionError("nobody asks it")


class Threads:
    """Keeps what it is to do."""

    def __init__(self) -> None:
        self.waiting: list[Deferred[Any]] = []  # Any: of whatever the work returns

    def __call__(self, work: Callable[[], Any], /) -> Deferred[Any]:
        self.waiting.append(Deferred())
        return self.waiting[-1]


def prepared(sessions: Sessions, offload: Any, done: list[object]) -> Deferred[None]:  # Any: an Offload
    deferred = Deferred.fromCoroutine(sessions.prepare(offload))
    _ = deferred.addBoth(done.append)
    return deferred


def test_however_many_come_first_there_is_one_import() -> None:
    sessions, threads, done = Sessions(1), Threads(), list[object]()
    for _ in range(100):
        _ = prepared(sessions, threads, done)
    assert (len(threads.waiting), done) == (1, [])
    threads.waiting[0].callback(None)
    assert done == [None] * 100
    _ = prepared(sessions, threads, done)
    assert (len(threads.waiting), len(done)) == (1, 101)


def test_who_leaves_while_it_is_imported_leaves_alone() -> None:
    sessions, threads, first, second = Sessions(1), Threads(), list[object](), list[object]()
    leaving = prepared(sessions, threads, first)
    _ = prepared(sessions, threads, second)
    leaving.cancel()
    assert len(first) == 1
    threads.waiting[0].callback(None)
    assert second == [None]


def test_an_import_that_failed_is_tried_again() -> None:
    sessions, threads, done = Sessions(1), Threads(), list[object]()
    error = GatewayError(Reason.OVERLOADED, "busy")
    _ = prepared(sessions, lambda _: fail(error), done)
    assert len(done) == 1
    _ = prepared(sessions, threads, done)
    threads.waiting[0].callback(None)
    assert done[1:] == [None]


def test_a_slot_is_free_when_its_session_frees_it() -> None:
    sessions, one, other = Sessions(1), Session(), Session()
    sessions.take_slot(one)
    with pytest.raises(GatewayError) as refused:
        sessions.take_slot(other)
    assert (refused.value.reason, refused.value.retry_after) == (Reason.TOO_MANY_SESSIONS, 1.0)
    sessions.free_slot(other)  # which has none
    assert sessions.count == 1
    sessions.free_slot(one)
    sessions.take_slot(other)
    assert sessions.count == 1
