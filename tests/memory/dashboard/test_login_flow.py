"""One login in the dashboard: what its user sees, and what becomes of it."""

from __future__ import annotations

import json
import os
from base64 import urlsafe_b64encode
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from twisted.internet.defer import Deferred
from twisted.logger import LogEvent, capturedLogs, formatEvent

from mgw.credentials.subscription.accounts import LOCK_TRY_SECONDS
from mgw.dashboard.login_flow import CODE_SECONDS
from mgw.nouns.errors import Reason
from mgw.nouns.secret import Secret
from tests.support.deferreds import refusal_of, result_of
from tests.support.logins import BOTH, LoginPlay, asked_of

CANARIES = ("canary-device-code", "canary-access", "canary-refresh", "canary-code")


@pytest.fixture
def play(tmp_path: Path) -> LoginPlay:
    return LoginPlay(tmp_path)


def test_a_device_login_shows_its_code_and_is_in_use_when_somebody_has_approved(play: LoginPlay) -> None:
    assert play.begin_device() == {
        "entry": "work",
        "flow": "device",
        "state": "pending",
        "message": "open the page on any device and enter the code",
        "user_code": "UC-1",
        "verification_uri": "http://idp.example/activate",
        "verification_uri_complete": "http://idp.example/activate?code=UC-1",
        "expires": "2027-01-15T08:01:00.000Z",
    }
    play.clock.advance(5)
    play.hosts.newest().refuse("authorization_pending")
    assert play.state() == "pending"
    assert not play.sources[0].has_usable
    play.clock.advance(5)
    play.grant()
    ended = {"entry": "work", "flow": "device", "state": "complete", "message": "logged in as alice@x"}
    assert play.seen() == ended
    credential = play.sources[0].ready(None)
    assert credential is not None, "without a look at the file"
    assert credential.account == "work"
    assert play.store.read()["work"].refresh_token == Secret("canary-refresh")


def test_the_polls_are_as_far_apart_as_the_provider_wants(play: LoginPlay) -> None:
    play.begin_device()
    for seconds, error in [(5, "authorization_pending"), (5, "slow_down"), (10, "slow_down"), (15, "")]:
        before = len(play.hosts.posts())
        play.clock.advance(seconds - 0.1)
        assert len(play.hosts.posts()) == before
        play.clock.advance(0.1)
        assert len(play.hosts.posts()) == before + 1
        if error:
            play.hosts.newest().refuse(error)
    play.grant()
    assert play.state() == "complete"


@pytest.mark.parametrize(
    ("error", "state"),
    [("access_denied", "failed"), ("invalid_client", "failed"), ("expired_token", "expired")],
)
def test_what_the_provider_refuses_ends_a_device_login(play: LoginPlay, error: str, state: str) -> None:
    play.put("work")
    before = play.store.read()
    play.begin_device()
    play.clock.advance(5)
    play.hosts.newest().refuse(error)
    seen = play.seen()
    assert seen["state"] == state
    assert seen["message"]
    assert "user_code" not in seen
    play.clock.advance(30)
    assert len(play.hosts.posts()) == 2
    assert play.store.read() == before


def test_a_device_login_ends_when_its_code_does(play: LoginPlay) -> None:
    play.begin_device(expires_in=3)
    play.clock.advance(2.9)
    assert play.state() == "pending"
    play.clock.advance(0.1)
    assert play.state() == "expired"
    assert len(play.hosts.posts()) == 1


def test_an_endpoint_that_gives_no_code_is_said(play: LoginPlay) -> None:
    posted = play.post()
    play.hosts.newest().answer(b"<html>", 404)
    status, seen = result_of(posted)
    assert (status, seen["state"]) == (201, "failed")
    assert "device endpoint of profile 'example'" in seen["message"]
    assert "404" in seen["message"]


def test_a_browser_login_is_asked_for_with_a_challenge_and_exchanges_its_code(play: LoginPlay) -> None:
    seen = play.begin_paste()
    asked = asked_of(seen)
    assert (seen["wants_code"], seen["expires"]) == (True, "2027-01-15T08:10:00.000Z")
    assert asked["redirect_uri"] == "http://127.0.0.1:14555/callback"
    assert asked["redirect_uri"] in seen["message"], "where nobody answers"
    pasted = play.paste(seen, code="canary-code")
    assert not pasted.called
    assert {"wants_code", "authorization_url", "expires"}.isdisjoint(play.seen())
    form = play.hosts.newest().form
    assert (form["code"], form["redirect_uri"]) == ("canary-code", asked["redirect_uri"])
    challenge = urlsafe_b64encode(sha256(form["code_verifier"].encode()).digest()).rstrip(b"=").decode()
    assert (asked["code_challenge"], asked["code_challenge_method"]) == (challenge, "S256")
    play.grant()
    status, seen = result_of(pasted)
    assert (status, seen["state"]) == (200, "complete")
    assert play.sources[0].ready(None) is not None


@pytest.mark.parametrize("text", ["{code}", "{code}#{state}", " {redirect_uri}?code={code}&state={state}\n"])
def test_a_code_is_taken_in_each_shape_that_a_browser_shows(play: LoginPlay, text: str) -> None:
    asked = asked_of(play.begin_paste())
    pasted = play.post(code=text.format(code="canary-code", **asked))
    assert play.hosts.newest().form["code"] == "canary-code"
    play.grant()
    assert result_of(pasted)[1]["state"] == "complete"


@pytest.mark.parametrize(
    "text", ["", "two words", "c#another-state", "http://127.0.0.1:14555/callback?code=c&state=another"]
)
def test_what_is_no_answer_to_this_login_is_refused_and_the_login_goes_on(play: LoginPlay, text: str) -> None:
    seen = play.begin_paste()
    refusal = refusal_of(play.post(code=text))
    assert (refusal.reason, refusal.param) == (Reason.MALFORMED, "code")
    assert play.seen() == seen
    assert not play.hosts.posts()


def test_a_user_who_refuses_on_the_page_of_the_provider_ends_the_login(play: LoginPlay) -> None:
    seen = play.begin_paste()
    _, seen = result_of(play.paste(seen, error="access_denied"))
    assert seen == {
        "entry": "work",
        "flow": "pkce",
        "state": "failed",
        "message": "the login was refused (access_denied)",
    }
    refusal = refusal_of(play.post(code="late"))
    assert "its state is failed" in refusal.message


def test_a_code_that_the_provider_does_not_take_ends_the_login(play: LoginPlay) -> None:
    pasted = play.paste(play.begin_paste(), code="canary-code")
    play.hosts.newest().refuse("invalid_grant")
    _, seen = result_of(pasted)
    assert seen["state"] == "failed"
    assert "invalid_grant" in seen["message"]
    assert play.begin_paste()["state"] == "pending", "somebody can begin again"


def test_nobody_waits_for_a_code_for_ever(play: LoginPlay) -> None:
    play.begin_paste()
    play.clock.advance(CODE_SECONDS - 1)
    assert play.state() == "pending"
    play.clock.advance(1)
    assert play.state() == "expired"


def test_a_code_that_a_profile_shows_on_a_page_of_its_own_is_asked_for(tmp_path: Path) -> None:
    text = BOTH.replace("{port: 14555}", '{pasted_url: "https://vendor.example/code"}')
    seen = LoginPlay(tmp_path, text=text).begin_paste()
    assert asked_of(seen)["redirect_uri"] == "https://vendor.example/code"
    assert "the code that it shows" in seen["message"]


def test_tokens_that_have_come_are_written_though_somebody_cancels(play: LoginPlay) -> None:
    play.begin_device()
    lock = play.store.lock("work")
    play.clock.advance(5)
    play.grant()
    play.cancel()
    play.logins.stop()
    assert play.state() == "pending"
    os.close(lock)
    play.sources[0].close()
    play.clock.advance(LOCK_TRY_SECONDS)
    assert play.state() == "complete"
    assert play.store.read()["work"].access_token == Secret("canary-access")
    assert not play.clock.getDelayedCalls()


def test_a_store_that_cannot_be_written_fails_the_login_and_says_what_to_do(play: LoginPlay) -> None:
    play.put("work")
    play.store.path.parent.chmod(0o755)
    play.begin_device()
    play.clock.advance(5)
    play.grant()
    seen = play.seen()
    assert seen["state"] == "failed"
    assert "chmod 700" in seen["message"]


def test_no_answer_log_line_or_repr_holds_a_token_or_a_code(play: LoginPlay) -> None:
    said: list[str] = []

    def note(seen: object) -> None:
        flows = play.logins._flows
        said.extend((json.dumps(seen), repr(play.logins), repr(flows), str(flows)))

    with capturedLogs() as events:
        note(play.begin_device())
        assert "UC-1" not in "".join(said[1:])
        play.clock.advance(5)
        play.grant()
        note(play.seen())
        seen = play.begin_paste("home")
        asked = asked_of(seen)
        note({**seen, "authorization_url": ""})
        pasted = play.post("home", code=f"canary-code#{asked['state']}")
        verifier = play.hosts.newest().form["code_verifier"]
        note(play.seen("home"))
        play.grant()
        note(result_of(pasted)[1])
        note(play.logins.list_entries())
    said += [_text_of(event) for event in events]
    for secret in (*CANARIES, verifier, asked["state"]):
        assert not [text for text in said if secret in text]
    assert any("dashboard login to home finished: complete" in text for text in said)
    logged = "".join(_text_of(event) for event in events)
    assert "UC-1" not in logged


def _text_of(event: LogEvent) -> str:
    return f"{formatEvent(event)} {event!r}"


def test_a_bug_fails_the_login_and_is_logged(play: LoginPlay) -> None:
    def break_down(work: object) -> Deferred[Any]:
        raise RuntimeError("canary")

    play.begin_device()
    play.accounts.run = break_down
    with capturedLogs() as events:
        play.clock.advance(5)
        play.grant()
    assert play.seen()["state"] == "failed"
    assert "canary" not in play.seen()["message"]
    assert any("log_failure" in event for event in events)
