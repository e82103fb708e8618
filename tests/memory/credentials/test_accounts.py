"""The accounts of a store, kept fresh."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from twisted.internet.defer import Deferred, fail

from mgw.credentials.subscription.accounts import (
    FIRST_PAUSE_SECONDS,
    LEAD_SECONDS,
    LOCK_TRY_SECONDS,
    MAX_PAUSE_SECONDS,
    STOP_SECONDS,
    TICK_SECONDS,
)
from mgw.credentials.subscription.registry import Subscriptions
from mgw.credentials.subscription.store import LOCK_SECONDS, StoredCredential
from mgw.nouns.errors import GatewayError, Reason
from mgw.nouns.secret import Secret
from tests.support.deferreds import result_of
from tests.support.subscriptions import SubscriptionPlay
from tests.support.usage import OnDemand

REFUSED = Secret("token-of-work")


@pytest.fixture
def play(tmp_path: Path) -> SubscriptionPlay:
    return SubscriptionPlay(tmp_path)


def stored(play: SubscriptionPlay, name: str = "work") -> StoredCredential:
    return play.store.read()[name]


def test_a_change_of_the_store_is_noticed_within_a_tick(play: SubscriptionPlay) -> None:
    login = play.login("work")
    play.accounts.watch([login])
    assert play.accounts.fresh(login) is None
    play.another_process().store.update(lambda entries: None)
    before = play.accounts
    play.accounts = play.another_process()
    play.put("work")
    play.clock.advance(TICK_SECONDS)
    found = before.fresh(login)
    assert found is not None
    assert found.access_token == Secret("token-of-work")


def test_an_entry_of_another_profile_is_nobodys(play: SubscriptionPlay) -> None:
    play.put("work", profile="other")
    assert play.accounts.entry(play.login("work")) is None


def test_a_token_is_refreshed_before_its_end_and_the_new_pair_is_stored(play: SubscriptionPlay) -> None:
    play.put("work")
    play.accounts.watch([play.login("work")])
    play.clock.advance(3600 - LEAD_SECONDS - 2 * TICK_SECONDS)
    assert not play.hosts.posts()
    play.clock.advance(TICK_SECONDS)
    play.clock.advance(TICK_SECONDS)
    (post,) = play.hosts.posts()
    assert post.form == {
        "grant_type": "refresh_token",
        "refresh_token": "refresh-of-work",
        "client_id": "the-client",
    }
    post.answer_token("newer", refresh_token="rotated", scope="a b")
    entry = stored(play)
    assert (entry.access_token, entry.refresh_token) == (Secret("newer"), Secret("rotated"))
    assert (entry.expires_at, entry.scopes) == (play.wall() + 3600, ("a", "b"))
    fresh = play.accounts.fresh(play.login("work"))
    assert fresh is not None
    assert fresh.access_token == Secret("newer")
    play.clock.advance(TICK_SECONDS)
    assert len(play.hosts.posts()) == 1


def test_chance_lets_a_refresh_begin_earlier(play: SubscriptionPlay) -> None:
    play.luck = 1.0
    play.put("work")
    play.accounts.watch([play.login("work")])
    play.clock.advance(3600 - 1.5 * LEAD_SECONDS)
    assert len(play.hosts.posts()) == 1


def test_a_token_without_a_known_end_is_not_refreshed(play: SubscriptionPlay) -> None:
    play.put("work", expires_at=None)
    play.accounts.watch([play.login("work")])
    play.clock.advance(10 * 86400)
    assert not play.hosts.posts()
    assert play.accounts.fresh(play.login("work")) is not None


def test_those_who_ask_at_the_same_time_share_one_refresh_that_ends_without_them(
    play: SubscriptionPlay,
) -> None:
    play.put("work")
    login = play.login("work")
    waiters = [
        Deferred.fromCoroutine(play.accounts.refresh(login, Secret("token-of-work"))) for _ in range(3)
    ]
    waiters[0].cancel()
    _ = waiters[0].addErrback(lambda _: None)
    (post,) = play.hosts.posts()
    post.answer_token("newer")
    assert [result_of(waiter).access_token for waiter in waiters[1:]] == [Secret("newer")] * 2
    assert stored(play).access_token == Secret("newer")


def test_what_another_process_refreshed_is_not_refreshed_again(play: SubscriptionPlay) -> None:
    play.put("work")
    login, old = play.login("work"), Secret("token-of-work")
    late = play.another_process()
    late.load()
    first = Deferred.fromCoroutine(play.accounts.refresh(login, old))
    play.hosts.newest().answer_token("newer", refresh_token="rotated")
    result_of(first)
    second = result_of(late.refresh(login, old))
    assert second.access_token == Secret("newer")
    assert len(play.hosts.posts()) == 1


def test_a_refresh_that_fails_is_said_in_the_entry_and_pauses_longer_each_time(
    play: SubscriptionPlay,
) -> None:
    play.put("work", expires_at=play.wall() + 1)
    login = play.login("work")
    play.accounts.watch([login])
    pauses, before = [], 0.0
    for turn in range(7):
        while len(play.hosts.posts()) == turn:
            play.clock.advance(TICK_SECONDS)
        pauses.append(play.clock.seconds() - before)
        before = play.clock.seconds()
        play.hosts.newest().answer({"error": "server_error"}, 500)
        assert not play.accounts.can_refresh(login)
    assert pauses[1:] == sorted(pauses[1:])
    assert FIRST_PAUSE_SECONDS <= pauses[1] <= FIRST_PAUSE_SECONDS + TICK_SECONDS
    assert MAX_PAUSE_SECONDS <= pauses[-1] <= MAX_PAUSE_SECONDS + TICK_SECONDS
    entry = stored(play)
    assert "500" in (entry.last_error or "")
    assert "canary" not in (entry.last_error or "")
    assert not entry.is_lost


def test_a_lost_refresh_token_is_not_tried_again_until_somebody_logs_in(play: SubscriptionPlay) -> None:
    play.put("work")
    login = play.login("work")
    refresh = Deferred.fromCoroutine(play.accounts.refresh(login, Secret("token-of-work")))
    play.hosts.newest().refuse("invalid_grant")
    with pytest.raises(GatewayError):
        result_of(refresh)
    assert stored(play).is_lost
    play.accounts.watch([login])
    play.clock.advance(7200)
    assert len(play.hosts.posts()) == 1
    assert not play.accounts.can_refresh(login)
    play.put("work", refresh_token=Secret("of-a-new-login"))
    assert play.accounts.can_refresh(login)


def test_tokens_that_cannot_be_written_are_used_and_written_later(play: SubscriptionPlay) -> None:
    play.put("work")
    login = play.login("work")
    play.accounts.watch([login])
    refresh = Deferred.fromCoroutine(play.accounts.refresh(login, Secret("token-of-work")))
    play.store.path.with_name("store.json.new").mkdir()  # in the place of the new file
    play.hosts.newest().answer_token("newer", refresh_token="rotated")
    assert result_of(refresh).access_token == Secret("newer")
    assert stored(play).access_token == Secret("token-of-work")
    assert play.accounts.problem is not None
    play.clock.advance(TICK_SECONDS)
    fresh = play.accounts.fresh(login)
    assert fresh is not None
    assert fresh.access_token == Secret("newer")
    play.store.path.with_name("store.json.new").rmdir()
    play.clock.advance(TICK_SECONDS)
    assert stored(play).refresh_token == Secret("rotated")
    assert play.accounts.problem is None


def refreshed_without_writing(play: SubscriptionPlay) -> Path:
    """Refresh an entry that cannot be written; return the directory that is in the way."""
    play.put("work")
    play.accounts.watch([play.login("work")])
    refresh = Deferred.fromCoroutine(play.accounts.refresh(play.login("work"), Secret("token-of-work")))
    obstacle = play.store.path.with_name("store.json.new")
    obstacle.mkdir()
    play.hosts.newest().answer_token("newer", refresh_token="rotated")
    assert result_of(refresh).access_token == Secret("newer")
    return obstacle


def test_a_login_is_not_overwritten_with_tokens_that_could_not_be_written_before_it(
    play: SubscriptionPlay,
) -> None:
    refreshed_without_writing(play).rmdir()
    play.put("work", "of-a-new-login", refresh_token=Secret("also-new"))
    play.clock.advance(TICK_SECONDS)
    assert stored(play).access_token == Secret("of-a-new-login")
    fresh = play.accounts.fresh(play.login("work"))
    assert fresh is not None
    assert fresh.access_token == Secret("of-a-new-login")


def test_a_logout_is_not_undone_by_tokens_that_could_not_be_written_before_it(play: SubscriptionPlay) -> None:
    refreshed_without_writing(play).rmdir()
    play.store.update(lambda entries: entries.clear())
    play.clock.advance(TICK_SECONDS)
    assert play.store.read() == {}
    assert play.accounts.fresh(play.login("work")) is None


def test_tokens_that_could_not_be_written_outlive_the_failure_of_a_process_without_them(
    play: SubscriptionPlay,
) -> None:
    obstacle = refreshed_without_writing(play)
    other = play.another_process()
    other.load()
    obstacle.rmdir()
    late = Deferred.fromCoroutine(other.refresh(play.login("work"), Secret("token-of-work")))
    play.hosts.newest().refuse("invalid_grant")
    with pytest.raises(GatewayError):
        result_of(late)
    assert stored(play).is_lost
    play.clock.advance(TICK_SECONDS)
    assert (stored(play).refresh_token, stored(play).is_lost) == (Secret("rotated"), False)


def test_tokens_that_could_not_be_written_outlive_the_disk_that_is_gone(play: SubscriptionPlay) -> None:
    refreshed_without_writing(play).rmdir()
    play.store.path.unlink()
    play.clock.advance(TICK_SECONDS)
    assert stored(play).refresh_token == Secret("rotated")


def test_tokens_that_could_not_be_written_are_written_though_nobody_watches_them(
    play: SubscriptionPlay,
) -> None:
    obstacle = refreshed_without_writing(play)
    play.accounts.unwatch(list(play.accounts._watched))
    play.clock.advance(TICK_SECONDS)
    obstacle.rmdir()
    play.clock.advance(TICK_SECONDS)
    assert stored(play).refresh_token == Secret("rotated")
    assert not play.clock.getDelayedCalls()


def test_tokens_that_could_not_be_written_are_tried_again_at_the_stop(play: SubscriptionPlay) -> None:
    refreshed_without_writing(play).rmdir()
    result_of(play.accounts.stop())
    assert stored(play).refresh_token == Secret("rotated")
    assert not play.clock.getDelayedCalls()


def test_where_the_system_gives_no_thread_the_source_has_failed(play: SubscriptionPlay) -> None:
    play.put("work")
    runs = play.accounts.run
    play.accounts.run = lambda work: fail(OSError("no thread"))
    with pytest.raises(GatewayError, match="no thread") as failed:
        result_of(play.accounts.refresh(play.login("work")))
    assert failed.value.reason is Reason.CREDENTIAL_SOURCE
    play.accounts.run = runs
    refresh = Deferred.fromCoroutine(play.accounts.refresh(play.login("work"), Secret("token-of-work")))
    play.accounts.run = lambda work: fail(OSError("no thread"))
    play.hosts.newest().answer_token("newer", refresh_token="rotated")
    assert result_of(refresh).access_token == Secret("newer"), "it is there, though not written"
    play.accounts.run = runs
    play.clock.advance(TICK_SECONDS)
    assert stored(play).refresh_token == Secret("rotated")


def test_a_refresh_waits_for_the_lock_of_its_entry_by_the_clock_and_holds_up_no_other(
    play: SubscriptionPlay,
) -> None:
    for name in ("work", "home"):
        play.put(name)
    with play.store.locked("work"):
        waiting = Deferred.fromCoroutine(play.accounts.refresh(play.login("work"), Secret("token-of-work")))
        assert not play.hosts.posts()
        other = Deferred.fromCoroutine(play.accounts.refresh(play.login("home"), Secret("token-of-home")))
        play.hosts.newest().answer_token("newer-at-home")
        assert result_of(other).access_token == Secret("newer-at-home")
    play.clock.advance(LOCK_TRY_SECONDS)
    play.hosts.newest().answer_token("newer")
    assert result_of(waiting).access_token == Secret("newer")


def test_a_lock_that_is_never_let_go_is_an_error(play: SubscriptionPlay) -> None:
    play.put("work")
    with play.store.locked("work"):
        waiting = Deferred.fromCoroutine(play.accounts.refresh(play.login("work"), Secret("token-of-work")))
        play.clock.pump([LOCK_TRY_SECONDS] * int(LOCK_SECONDS / LOCK_TRY_SECONDS))
        with pytest.raises(GatewayError, match="another process") as failed:
            result_of(waiting)
    assert failed.value.reason is Reason.CREDENTIAL_SOURCE


def test_a_stop_does_not_wait_for_another_process(play: SubscriptionPlay) -> None:
    play.put("work")
    with play.store.locked("work"):
        waiting = Deferred.fromCoroutine(play.accounts.refresh(play.login("work"), Secret("token-of-work")))
        stopped = Deferred.fromCoroutine(play.accounts.stop())
        play.clock.advance(LOCK_TRY_SECONDS)
        assert stopped.called
        with pytest.raises(GatewayError, match="stopping"):
            result_of(waiting)
    assert not play.clock.getDelayedCalls()


def test_a_stop_does_not_wait_for_ever(play: SubscriptionPlay) -> None:
    play.put("work")
    never: Deferred[int] = Deferred()
    play.accounts.run = lambda work: never  # type: ignore[assignment]  # one that never ends
    _ = Deferred.fromCoroutine(play.accounts.refresh(play.login("work"))).addErrback(lambda _: None)
    stopped = Deferred.fromCoroutine(play.accounts.stop())
    play.clock.advance(STOP_SECONDS - 1)
    assert not stopped.called
    play.clock.advance(1)
    assert stopped.called


@pytest.mark.parametrize("lifetime", [5, 0, -3600])
def test_a_token_that_lives_for_seconds_is_used_while_it_lives(play: SubscriptionPlay, lifetime: int) -> None:
    play.put("work", expires_at=play.wall())
    refresh = Deferred.fromCoroutine(play.accounts.refresh(play.login("work")))
    play.hosts.newest().answer_token("short", expires_in=lifetime)
    result_of(refresh)
    assert play.accounts.fresh(play.login("work")) is not None
    play.clock.advance(5)
    assert play.accounts.fresh(play.login("work")) is None


def test_who_was_refused_is_not_given_the_same_token_by_a_refresh_that_others_began(
    play: SubscriptionPlay,
) -> None:
    play.put("work")
    login = play.login("work")
    with play.store.locked("work"):
        waiting = [Deferred.fromCoroutine(play.accounts.refresh(login, old)) for old in (None, REFUSED)]
    play.clock.advance(LOCK_TRY_SECONDS)
    assert result_of(waiting[0]).access_token == REFUSED, "it was good for all that was known"
    (post,) = play.hosts.posts()
    post.answer_token("newer")
    assert result_of(waiting[1]).access_token == Secret("newer")


def test_a_store_that_is_open_to_others_gives_no_token_until_it_is_closed(play: SubscriptionPlay) -> None:
    play.put("work")
    login = play.login("work")
    os.chmod(play.store.path, 0o644)
    other = play.another_process()
    other.load()
    assert "chmod 600" in (other.problem or "")
    assert other.fresh(login) is None
    with pytest.raises(GatewayError) as failed:
        result_of(other.refresh(login))
    assert failed.value.reason is Reason.CREDENTIAL_SOURCE
    other.watch([login])
    os.chmod(play.store.path, 0o600)
    play.clock.advance(TICK_SECONDS)
    assert other.fresh(login) is not None
    assert other.problem is None


def test_what_nobody_watches_is_left_alone(play: SubscriptionPlay) -> None:
    play.put("work", expires_at=play.wall() + 1)
    logins = [play.login("work")]
    play.accounts.watch(logins)
    play.accounts.unwatch(logins)
    play.clock.advance(60)
    assert not play.hosts.posts()
    assert not play.clock.getDelayedCalls()


def test_a_stop_waits_for_the_refresh_that_has_begun(play: SubscriptionPlay) -> None:
    play.put("work")
    play.accounts.watch([play.login("work")])
    refresh = Deferred.fromCoroutine(play.accounts.refresh(play.login("work"), Secret("token-of-work")))
    stopped = Deferred.fromCoroutine(play.accounts.stop())
    assert not stopped.called
    play.hosts.newest().answer_token("newer")
    assert stopped.called
    result_of(refresh)


def test_what_an_account_is_called_is_found_in_the_response(play: SubscriptionPlay) -> None:
    play.text += "account: {label: [user, email], details: {account_id: [id_token, org, id], no: [x]}}\n"
    play.put("work")
    refresh = Deferred.fromCoroutine(play.accounts.refresh(play.login("work"), Secret("token-of-work")))
    claims = "eyJvcmciOnsiaWQiOiAxN319"  # {"org":{"id": 17}}
    play.hosts.newest().answer_token("newer", user={"email": "a@b.c"}, id_token=f"x.{claims}.y")
    entry = result_of(refresh)
    assert (entry.account, entry.details) == ("a@b.c", {"account_id": "17"})


def test_what_no_terminal_can_show_is_not_kept_of_a_response(play: SubscriptionPlay) -> None:
    play.text += "account: {label: [name], details: {id: [x]}}\n"
    play.put("work", scopes=("a",))
    refresh = Deferred.fromCoroutine(play.accounts.refresh(play.login("work"), Secret("token-of-work")))
    play.hosts.newest().answer_token("newer", name="\x1b[2J", x="1\r\nX-Injected: 1", scope="\x1b[2J b")
    entry = result_of(refresh)
    assert (entry.account, entry.details, entry.scopes) == (None, {}, ("b",))


def test_a_store_that_is_read_ahead_is_read_in_a_thread_and_then_known(play: SubscriptionPlay) -> None:
    play.put("a", "canary-token")
    disk = OnDemand()

    def run(work: Callable[[], Any]) -> Deferred[Any]:
        done: Deferred[Any] = Deferred()
        disk.run(work, done.callback)
        return done

    known = Subscriptions(play.clock, play.wall, run, play.random)
    reading = Deferred.fromCoroutine(known.read_ahead(str(play.store.path)))
    assert not reading.called
    disk.go_on()
    result_of(reading)
    play.store.path.unlink()
    assert Secret("canary-token") in known.accounts(str(play.store.path)).secrets(), "it is not read again"
    result_of(known.read_ahead(str(play.store.path)))
    assert not disk.waiting
