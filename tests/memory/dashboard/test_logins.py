"""The logins of a process in the dashboard: which there are, how many, and how they end early."""

from __future__ import annotations

from pathlib import Path

import pytest
from twisted.internet.defer import CancelledError
from twisted.logger import capturedLogs

from mgw.config.profile import CloakMode
from mgw.credentials.subscription.accounts import Login
from mgw.credentials.subscription.pool import AccountPool, Cooldowns
from mgw.credentials.subscription.source import SubscriptionSource
from mgw.dashboard.logins import KEPT_SECONDS, MAX_FLOWS
from mgw.nouns.errors import GatewayError, Reason
from tests.support.deferreds import refusal_of, result_of
from tests.support.logins import BOTH, CODE, DEVICE, PASTE, Json, LoginPlay
from tests.support.subscriptions import PROFILE, WALL, profile


@pytest.fixture
def play(tmp_path: Path) -> LoginPlay:
    return LoginPlay(tmp_path)


def test_one_flow_of_an_entry_is_pending_at_a_time(play: LoginPlay) -> None:
    first = play.post(flow="device")
    second = play.post(flow="pkce")
    play.hosts.newest().answer(CODE)
    assert result_of(first)[0] == 201
    status, seen = result_of(second)
    assert (status, seen["flow"]) == (200, "device")
    assert result_of(play.post()) == (200, seen)
    assert play.begin_paste("home")["state"] == "pending", "another entry has its own"


def test_who_leaves_before_the_endpoint_answers_leaves_the_flow_to_others(play: LoginPlay) -> None:
    first, second = play.post(), play.post()
    first.cancel()
    with pytest.raises(CancelledError):
        result_of(first)
    play.hosts.newest().answer(CODE)
    assert result_of(second)[1]["user_code"] == "UC-1"


def test_who_leaves_while_others_are_told_does_no_harm(play: LoginPlay) -> None:
    first, second = play.post(), play.post()
    for one, other in ((first, second), (second, first)):
        _ = one.addBoth(lambda _, other: other.cancel(), other)
    play.hosts.newest().answer(CODE)
    assert play.seen()["user_code"] == "UC-1"
    assert (first.called, second.called) == (True, True)


def test_a_cancelled_login_asks_no_more_and_says_so_until_it_is_forgotten(play: LoginPlay) -> None:
    play.begin_device()
    play.clock.advance(5)
    poll = play.hosts.newest()
    with capturedLogs() as events:
        play.cancel()
    assert not [event for event in events if "log_failure" in event]
    assert poll.connection.closing
    assert play.seen() == {
        "entry": "work",
        "flow": "device",
        "state": "cancelled",
        "message": "cancelled",
    }
    play.clock.advance(60)
    assert len(play.hosts.posts()) == 2
    play.cancel()
    with pytest.raises(GatewayError, match="no login to 'work' is in progress"):
        play.cancel()


def test_a_login_can_be_cancelled_while_an_endpoint_is_asked(play: LoginPlay) -> None:
    posted = play.post()
    play.cancel()
    assert result_of(posted)[1]["state"] == "cancelled"
    assert play.hosts.newest().connection.closing


def test_the_end_of_a_login_is_kept_for_a_while(play: LoginPlay) -> None:
    play.begin_device()
    play.cancel()
    play.clock.advance(KEPT_SECONDS - 1)
    assert play.state() == "cancelled"
    play.clock.advance(1)
    with pytest.raises(GatewayError, match="start one with POST") as refused:
        play.seen()
    assert refused.value.status == 404


def test_a_flow_that_follows_another_is_not_forgotten_with_it(play: LoginPlay) -> None:
    play.begin_device()
    play.cancel()
    play.clock.advance(KEPT_SECONDS - 1)
    play.begin_paste()
    play.clock.advance(2)
    assert play.state() == "pending"


def test_at_most_so_many_flows_are_kept_and_those_that_have_ended_make_room(tmp_path: Path) -> None:
    play = LoginPlay(tmp_path, names=tuple(f"n{number}" for number in range(MAX_FLOWS + 2)))
    for number in range(MAX_FLOWS):
        play.begin_paste(f"n{number}")
    one_more = f"n{MAX_FLOWS}"
    assert refusal_of(play.post(one_more, flow="pkce")).reason is Reason.OVERLOADED
    for name in ("n7", "n3"):
        play.cancel(name)
    play.begin_paste(one_more)
    with pytest.raises(GatewayError):
        play.seen("n7")
    assert play.state("n3") == "cancelled"


def test_an_entry_that_nobody_uses_is_unknown(play: LoginPlay) -> None:
    for refusal in (refusal_of(play.post("x")), refusal_of(play.post("x", code="c"))):
        assert refusal.status == 404
        assert "known: home, work" in refusal.message
    assert refusal_of(play.post("work", code="c")).status == 404, "no flow"


@pytest.mark.parametrize(
    ("text", "flow", "said"),
    [
        (PROFILE + PASTE, "device", r"supported: pkce\): set device.url"),
        (PROFILE + DEVICE, "pkce", r"supported: device\): set authorization.url"),
        (BOTH.replace("{port: 14555}", "{port: 0}"), "pkce", "set redirect.pasted_url or redirect.port"),
        (PROFILE, None, r"supported: none\): set device.url or authorization.url"),
    ],
)
def test_a_flow_that_the_profile_does_not_allow_is_refused(
    tmp_path: Path, text: str, flow: str | None, said: str
) -> None:
    play = LoginPlay(tmp_path, text=text)
    with pytest.raises(GatewayError, match=said) as refused:
        result_of(play.post(**({} if flow is None else {"flow": flow})))
    assert refused.value.status == 400


@pytest.mark.parametrize("body", [{"flow": "magic"}, {"flow": 1}, {"code": 1}, {"cod": "x"}])
def test_a_body_that_means_nothing_is_refused(play: LoginPlay, body: Json) -> None:
    assert refusal_of(play.post(**body)).reason is Reason.MALFORMED


def other_profile(play: LoginPlay, name: str, text: str) -> SubscriptionSource:
    """Return a provider that uses an entry with another profile."""
    logins = [Login("work", name, profile(text), play.hosts.client)]
    pool = AccountPool(["work"], Cooldowns(play.clock.seconds))
    return SubscriptionSource("q", play.accounts, logins, pool, False, CloakMode.AUTO)


def test_an_entry_with_several_profiles_is_left_to_the_command(play: LoginPlay) -> None:
    play.sources.append(other_profile(play, "another", BOTH))
    assert play.logins.list_entries()[1]["flows"] == []
    refusal = refusal_of(play.post(flow="device"))
    assert (refusal.status, "--profile" in refusal.message) == (400, True)


def test_a_reload_cancels_what_has_gone_or_changed_and_nothing_else(play: LoginPlay) -> None:
    home, work = play.begin_paste("home"), play.begin_device("work")
    play.sources = [play.source(["work", "home"])]
    play.logins.reloaded()
    assert (play.seen("home"), play.seen()) == (home, work), "with another order"
    play.sources = [play.source(["work"])]
    play.logins.reloaded()
    seen = play.seen("home")
    assert (seen["state"], seen["message"]) == ("cancelled", "canceled: the configuration has changed")
    assert play.state("work") == "pending"
    play.sources = [other_profile(play, "example", PROFILE + DEVICE)]
    play.logins.reloaded()
    assert play.state("work") == "cancelled"


def test_a_reload_cancels_logins_to_another_store_and_where_two_profiles_are_meant(play: LoginPlay) -> None:
    play.begin_paste("home")
    play.begin_paste("work")
    play.sources.append(other_profile(play, "another", BOTH))
    play.logins.reloaded()
    assert (play.state("home"), play.state("work")) == ("pending", "cancelled")
    play.accounts = play.another_process()
    play.sources = [play.source(play.names)]
    play.logins.reloaded()
    assert play.state("home") == "cancelled"


def test_a_stop_cancels_all_and_waits_for_nothing(tmp_path: Path) -> None:
    play = LoginPlay(tmp_path, names=("home", "work", "third"))
    play.begin_paste("work")
    play.cancel("work")
    play.begin_paste("home")
    posted = play.post("third")
    play.logins.stop()
    assert result_of(posted)[1]["state"] == "cancelled"
    assert play.state("home") == "cancelled"
    assert refusal_of(play.post("home")).reason is Reason.DRAINING
    play.sources[0].close()
    assert not play.clock.getDelayedCalls()


def test_the_list_says_which_entries_have_a_login_under_way(play: LoginPlay) -> None:
    def pending() -> list[str]:
        return [row["entry"] for row in play.logins.list_entries() if row.get("pending", False)]

    assert pending() == []
    play.begin_paste("work")
    assert pending() == ["work"]
    play.cancel("work")
    assert pending() == [], "it has ended, though its end can be looked at"


def test_the_entries_are_listed_with_what_can_be_done(play: LoginPlay) -> None:
    play.put("work")
    play.put("home", expires_at=WALL - 1, is_lost=True)
    listed = [
        (row["entry"], row["profile"], row["flows"], row["state"]) for row in play.logins.list_entries()
    ]
    flows = ["device", "pkce"]
    assert listed == [("home", "example", flows, "expired"), ("work", "example", flows, "signed_in")]
    play.put("home", expires_at=WALL - 1, is_lost=False)
    assert play.logins.list_entries()[0]["state"] == "signed_in", "its token is over, and can be refreshed"
    play.put("home", profile="another")
    assert play.logins.list_entries()[0]["state"] == "signed_out"
    play.store.path.write_bytes(b"damaged")
    play.accounts.load()
    play.accounts._entries = {}
    assert play.logins.list_entries()[0]["state"] == "unknown"
