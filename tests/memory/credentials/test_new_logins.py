"""What a login gives is put into the store by the process that uses it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from twisted.internet.defer import CancelledError, Deferred, fail

from mgw.credentials.subscription.accounts import LOCK_TRY_SECONDS
from mgw.credentials.subscription.store import LOCK_SECONDS, StoredCredential, StoreError
from mgw.nouns.errors import GatewayError
from mgw.nouns.secret import Secret
from tests.support.deferreds import result_of
from tests.support.subscriptions import WALL, SubscriptionPlay

ENTRY = StoredCredential(profile="example", access_token=Secret("new"), created_at=WALL)


@pytest.fixture
def play(tmp_path: Path) -> SubscriptionPlay:
    return SubscriptionPlay(tmp_path)


def keep(play: SubscriptionPlay) -> Deferred[None]:
    return Deferred.fromCoroutine(play.accounts.keep("work", ENTRY))


def test_a_new_login_is_used_at_once_and_stands_in_the_store(play: SubscriptionPlay) -> None:
    play.put("other")
    play.put("work", is_lost=True)
    result_of(keep(play))
    assert play.accounts.fresh(play.login("work")) == ENTRY
    assert play.store.read()["work"] == ENTRY
    assert play.accounts.entry(play.login("other")) is not None


def test_a_new_login_waits_for_a_refresh_of_the_old_one(play: SubscriptionPlay) -> None:
    play.put("work")
    refresh = Deferred.fromCoroutine(play.accounts.refresh(play.login("work"), Secret("token-of-work")))
    keeping = keep(play)
    play.clock.advance(LOCK_TRY_SECONDS)
    assert not keeping.called
    play.hosts.newest().answer_token("of-the-old-one")
    assert result_of(refresh).access_token == Secret("of-the-old-one")
    play.clock.advance(LOCK_TRY_SECONDS)
    result_of(keeping)
    assert play.store.read()["work"] == ENTRY


def test_a_new_login_is_written_though_whoever_waited_for_it_has_left(play: SubscriptionPlay) -> None:
    lock = play.store.lock("work")
    keeping = keep(play)
    keeping.cancel()
    with pytest.raises(CancelledError):
        result_of(keeping)
    os.close(lock)
    play.clock.advance(LOCK_TRY_SECONDS)
    assert play.store.read()["work"] == ENTRY
    again = play.store.try_lock("work")
    assert again is not None, "it was let go"
    os.close(again)


def test_a_stop_waits_for_a_new_login_that_is_being_written(play: SubscriptionPlay) -> None:
    writing: Deferred[object] = Deferred()
    run = play.accounts.run
    play.accounts.run = lambda work: writing.addCallback(lambda _: work())
    keeping = keep(play)
    stopping = Deferred.fromCoroutine(play.accounts.stop())
    assert not stopping.called
    play.accounts.run = run
    writing.callback(None)
    result_of(keeping)
    result_of(stopping)
    assert play.store.read()["work"] == ENTRY


def test_a_new_login_that_cannot_be_kept_is_an_error_that_says_why(play: SubscriptionPlay) -> None:
    play.put("work")
    before = play.store.read()
    lock = play.store.lock("work")
    keeping = keep(play)
    play.clock.pump([LOCK_TRY_SECONDS] * int(LOCK_SECONDS / LOCK_TRY_SECONDS + 1))
    with pytest.raises(GatewayError, match="another process"):
        result_of(keeping)
    os.close(lock)
    play.store.path.parent.chmod(0o755)
    with pytest.raises(StoreError, match="chmod 700"):
        result_of(keep(play))
    play.store.path.parent.chmod(0o700)
    play.accounts.run = lambda _: fail(OSError("no thread"))
    with pytest.raises(OSError, match="no thread"):
        result_of(keep(play))
    assert play.store.read() == before
