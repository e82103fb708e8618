"""Logins: what is asked for, and what must come back."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from hashlib import sha256
from pathlib import Path
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
from twisted.internet.defer import Deferred

from mgw.credentials.subscription.login import (
    AuthorizationRequest,
    DeviceLogin,
    LoginError,
    LoginExpiredError,
    RedirectWaiter,
)
from mgw.credentials.subscription.store import StoredCredential
from mgw.credentials.subscription.token_exchange import DeviceCode, ProfileEndpoints
from mgw.credentials.token_request import TokenRequestError
from mgw.nouns.secret import Secret
from tests.support.deferreds import result_of
from tests.support.subscriptions import PROFILE, WALL, SubscriptionPlay, profile

LOGIN = PROFILE + (
    "scopes: [a, b]\n"
    'authorization: {url: "http://idp.example/authorize", parameters: {prompt: login}}\n'
    'device: {url: "http://idp.example/device"}\n'
    'revocation: {url: "http://idp.example/revoke"}\n'
)
HERE = "http://127.0.0.1:1234/callback"


def request(text: str = LOGIN) -> AuthorizationRequest:
    return AuthorizationRequest(profile(text), HERE)


def asked(one: AuthorizationRequest) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(urlsplit(one.url).query).items()}


def test_each_login_has_a_state_and_a_challenge_of_its_own() -> None:
    first, second = request(), request()
    fields = asked(first)
    assert fields | {"state": "", "code_challenge": ""} == {
        "response_type": "code",
        "client_id": "the-client",
        "redirect_uri": HERE,
        "scope": "a b",
        "prompt": "login",
        "code_challenge_method": "S256",
        "state": "",
        "code_challenge": "",
    }
    verifier = first.grant(Secret("c"))["code_verifier"]
    assert isinstance(verifier, Secret)
    digest = sha256(verifier.reveal().encode()).digest()
    assert fields["code_challenge"] == urlsafe_b64encode(digest).rstrip(b"=").decode()
    assert asked(second)["state"] != fields["state"]
    assert fields["state"] not in repr(first)


def test_only_the_answer_to_this_login_is_taken() -> None:
    one = request()
    state = asked(one)["state"]
    assert one.code_in(urlencode({"code": "c-1", "state": state})) == Secret("c-1")
    for query in (
        "code=c-1",
        "code=c-1&state=",
        "code=c-1&state=other",
        f"state={state}",
        f"code=&state={state}",
    ):
        with pytest.raises(LoginError):
            one.code_in(query)
    with pytest.raises(LoginError, match="access_denied"):
        one.code_in(f"error=access_denied&state={state}")


def test_what_is_pasted_may_be_the_address_or_the_code() -> None:
    one = request()
    state = asked(one)["state"]
    for text in (f" {HERE}?code=c-1&state={state}\n", f"c-1#{state}", "c-1\n"):
        assert one.pasted_code(text) == Secret("c-1")
    for text in (f"{HERE}?code=c-1&state=x", "c-1#x", "", "two words", "é"):
        with pytest.raises(LoginError):
            one.pasted_code(text)


def test_the_state_goes_with_the_code_where_the_vendor_wants_it() -> None:
    one = request(LOGIN.replace('/token"}', '/token", sends_state: true}'))
    assert one.grant(Secret("c"))["state"] == asked(one)["state"]


def test_the_page_of_a_login_takes_one_answer() -> None:
    one = request()
    waiter = RedirectWaiter(one, "/callback")
    answer = urlencode({"code": "c-1", "state": asked(one)["state"]}).encode()
    assert waiter.on_request(b"GET", b"/other", answer)[0] == 404
    assert waiter.on_request(b"POST", b"/callback", answer)[0] == 404
    assert waiter.on_request(b"GET", b"/callback", b"code=x&state=y")[0] == 400
    assert not waiter.code.called
    assert waiter.on_request(b"GET", b"/callback", answer)[0] == 200
    assert waiter.on_request(b"GET", b"/callback", b"code=x&state=y")[0] == 200
    assert result_of(waiter.code) == Secret("c-1")


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"error": "access_denied", "error_description": "canary"}, "access_denied"),
        ({"error": "access_denied", "code": "canary"}, "access_denied"),
        ({"error": "\x1b[2Jcanary"}, "unknown reason"),
        ({"code": "can ary"}, "no code"),
        ({"code": "canary" * 1000}, "no code"),
    ],
)
def test_a_redirect_without_a_code_ends_the_login_and_repeats_nothing(
    fields: dict[str, str], said: str
) -> None:
    one = request()
    waiter = RedirectWaiter(one, "/callback")
    answer = urlencode({"state": asked(one)["state"], **fields}).encode()
    foreign = urlencode({"state": "another", **fields}).encode()
    assert waiter.on_request(b"GET", b"/callback", foreign)[0] == 400, "any page may send a browser here"
    assert not waiter.code.called
    status, page = waiter.on_request(b"GET", b"/callback", answer)
    assert (status, "canary" in page) == (200, False)
    with pytest.raises(LoginError, match=said) as failed:
        result_of(waiter.code)
    assert "canary" not in str(failed.value)


def test_a_redirect_after_the_login_was_given_up_does_no_harm() -> None:
    one = request()
    waiter = RedirectWaiter(one, "/callback")
    _ = waiter.code.addErrback(lambda _: None)
    waiter.code.cancel()
    answer = urlencode({"code": "late", "state": asked(one)["state"]}).encode()
    assert waiter.on_request(b"GET", b"/callback", answer)[0] == 200


class DevicePlay(SubscriptionPlay):
    """A login with a code for another device."""

    def begin(self, expires_in: float = 60, interval: float = 4) -> Deferred[StoredCredential]:
        self.shown: list[DeviceCode] = []
        endpoints = ProfileEndpoints(self.hosts.client, "example", profile(LOGIN))
        device = DeviceLogin(endpoints, self.clock, self.wall, self.shown.append)
        login = Deferred.fromCoroutine(device.run())
        said = {
            "device_code": "dc",
            "user_code": "UC",
            "verification_uri": "http://p",
            "expires_in": expires_in,
            "interval": interval,
        }
        self.hosts.newest().answer(said)
        return login

    def polls(self) -> int:
        return len(self.hosts.posts()) - 1


@pytest.fixture
def play(tmp_path: Path) -> DevicePlay:
    return DevicePlay(tmp_path)


def test_a_device_is_polled_as_often_as_the_endpoint_allows(play: DevicePlay) -> None:
    login = play.begin()
    assert play.shown == [DeviceCode(Secret("dc"), "UC", "http://p", None, 60.0, 4.0)]
    assert "UC" not in repr(play.shown)
    play.clock.advance(3.9)
    assert play.polls() == 0
    play.clock.advance(0.1)
    post = play.hosts.newest()
    assert post.form == {
        "grant_type": "urn:ietf:params:oauth:grant-type:device_code",
        "device_code": "dc",
        "client_id": "the-client",
    }
    post.refuse("authorization_pending")
    play.clock.advance(4)
    play.hosts.newest().refuse("slow_down")
    play.clock.advance(8.9)
    assert play.polls() == 2
    play.clock.advance(0.1)
    play.hosts.newest().answer_token("t", refresh_token="r", scope="a")
    entry = result_of(login)
    assert (entry.access_token, entry.refresh_token, entry.scopes) == (Secret("t"), Secret("r"), ("a",))
    assert entry.created_at == WALL + 17


def test_an_endpoint_that_does_not_answer_is_asked_less_often(play: DevicePlay) -> None:
    login = play.begin()
    play.clock.advance(4)
    play.hosts.newest().connection.close()
    play.clock.advance(7.9)
    assert play.polls() == 1
    play.clock.advance(0.1)
    play.hosts.newest().answer_token("t")
    assert result_of(login).access_token == Secret("t")


def test_a_device_that_nobody_approves_or_somebody_refuses_is_no_login(play: DevicePlay) -> None:
    login = play.begin()
    for _ in range(15):
        play.clock.advance(4)
        play.hosts.newest().refuse("authorization_pending")
    with pytest.raises(LoginError, match="in time"):
        result_of(login)
    login = play.begin()
    play.clock.advance(4)
    play.hosts.newest().refuse("access_denied")
    with pytest.raises(LoginError, match="refused"):
        result_of(login)


@pytest.mark.parametrize(
    ("expires_in", "interval", "polls"), [(3, 5, 0), (12, 5, 2), (0, 5, 0), (10, 1800, 0), (1e300, 1e300, 1)]
)
def test_a_device_login_ends_with_its_code_and_never_asks_sooner_than_it_may(
    play: DevicePlay, expires_in: float, interval: float, polls: int
) -> None:
    login = play.begin(expires_in=expires_in, interval=interval)
    seconds = min(expires_in, 1800.0)
    for second in range(int(seconds)):
        assert not login.called, second
        play.clock.advance(1)
        if play.polls() and not play.hosts.newest().connection.over:
            play.hosts.newest().refuse("authorization_pending")
    with pytest.raises(LoginExpiredError):
        result_of(login)
    assert play.polls() == polls
    assert not play.clock.getDelayedCalls()


def test_a_device_code_that_the_provider_says_has_expired_is_told_from_one_that_was_refused(
    play: DevicePlay,
) -> None:
    login = play.begin()
    play.clock.advance(4)
    play.hosts.newest().refuse("expired_token")
    with pytest.raises(LoginExpiredError):
        result_of(login)


def test_an_endpoint_that_is_asked_too_often_is_asked_less_often(play: DevicePlay) -> None:
    login = play.begin()
    play.clock.advance(4)
    play.hosts.newest().answer(b"slower", 429)
    play.clock.advance(7.9)
    assert play.polls() == 1
    play.clock.advance(0.1)
    play.hosts.newest().answer_token("t")
    assert result_of(login).access_token == Secret("t")


@pytest.mark.parametrize(
    "body",
    [
        b"<html>",
        {"device_code": "x"},
        {"user_code": "x", "verification_uri": 1},
        {"device_code": "x", "user_code": "y", "verification_uri": "javascript:alert(1)"},
    ],
)
def test_what_is_no_device_endpoint_is_said(play: DevicePlay, body: object) -> None:
    endpoints = ProfileEndpoints(play.hosts.client, "example", profile(LOGIN))
    asking = Deferred.fromCoroutine(endpoints.ask_for_device_code())
    play.hosts.newest().answer(body)
    with pytest.raises(TokenRequestError, match="check its URL"):
        result_of(asking)


def test_the_refresh_token_is_given_back(play: DevicePlay) -> None:
    play.put("a")
    endpoints = ProfileEndpoints(play.hosts.client, "example", profile(LOGIN))
    revoking = Deferred.fromCoroutine(endpoints.revoke(play.store.read()["a"]))
    form = play.hosts.newest().form
    assert (form["token"], form["token_type_hint"]) == ("refresh-of-a", "refresh_token")
    play.hosts.newest().answer(b"", 503)
    with pytest.raises(TokenRequestError, match="503"):
        result_of(revoking)
