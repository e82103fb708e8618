"""The laws of a token that is renewed: one request for all who wait, and none while it is good."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.task import Clock
from twisted.logger import capturedLogs

from mgw.credentials.provider import Credential, CredentialRefusal
from mgw.credentials.renewed_token import NEW_SECONDS, RENEW_SECONDS, RETRY_SECONDS, Renewal, RenewedToken
from mgw.credentials.state import CredentialState, State
from mgw.credentials.token_request import TokenRequestError, TokenResponse
from mgw.nouns.errors import GatewayError
from mgw.nouns.secret import Secret
from tests.support.deferreds import result_of

UNAUTHORIZED = CredentialRefusal(401)


@dataclass
class Endpoint:
    """Counts the requests for tokens; the test answers them."""

    clock: Clock = field(default_factory=Clock)
    asked: list[Deferred[TokenResponse]] = field(default_factory=list)

    async def fetch(self) -> TokenResponse:
        waiting: Deferred[TokenResponse] = Deferred()
        self.asked.append(waiting)
        return await waiting

    def give(self, token: str, seconds: float = 3600.0) -> None:
        self.asked[-1].callback(TokenResponse(Secret(token), seconds))

    def fail(self) -> None:
        self.asked[-1].errback(TokenRequestError("the token endpoint answered 500: try again later", 500))


@pytest.fixture
def endpoint() -> Endpoint:
    return Endpoint()


@pytest.fixture
def source(endpoint: Endpoint) -> RenewedToken:
    return RenewedToken(endpoint.fetch, "hash", endpoint.clock.seconds)


def obtain(source: RenewedToken) -> Deferred[Credential]:
    return Deferred.fromCoroutine(source.obtain(None))


def refused(source: RenewedToken, credential: Credential) -> Deferred[Credential | None]:
    return Deferred.fromCoroutine(source.refused(credential, UNAUTHORIZED))


def shown(credential: Credential | None) -> str | None:
    return None if credential is None else credential.value.reveal()


def held(source: RenewedToken, endpoint: Endpoint, token: str = "t1", seconds: float = 3600.0) -> Credential:
    """Have the source hold a token."""
    waiting = obtain(source)
    endpoint.give(token, seconds)
    return result_of(waiting)


def failures(waiting: list[Deferred[Any]]) -> list[GatewayError]:
    found: list[GatewayError] = []
    for waiter in waiting:
        with pytest.raises(GatewayError) as failure:
            result_of(waiter)
        found.append(failure.value)
    return found


def test_a_token_is_got_once_and_then_at_hand(source: RenewedToken, endpoint: Endpoint) -> None:
    assert source.ready(None) is None
    credential = held(source, endpoint)
    assert (credential.header, shown(credential), credential.key_hash) == (
        b"Authorization",
        "Bearer t1",
        "hash",
    )
    assert source.ready(None, "any-model") is credential
    assert result_of(source.obtain(None)) is credential
    assert len(endpoint.asked) == 1


def test_a_thousand_requests_without_a_token_make_one_request(
    source: RenewedToken, endpoint: Endpoint
) -> None:
    held(source, endpoint, seconds=100)
    endpoint.clock.advance(100)
    waiting = [obtain(source) for _ in range(1000)]
    assert len(endpoint.asked) == 2
    endpoint.give("t2")
    assert {shown(result_of(waiter)) for waiter in waiting} == {"Bearer t2"}
    assert len(endpoint.asked) == 2


def test_a_failure_goes_to_all_who_wait_and_is_not_kept(source: RenewedToken, endpoint: Endpoint) -> None:
    waiting: list[Deferred[Any]] = [obtain(source) for _ in range(1000)]
    endpoint.fail()
    found = failures(waiting)
    assert len(endpoint.asked) == 1
    assert len({id(error) for error in found}) == 1000, "an error that many raise keeps a traceback of each"
    assert shown(held(source, endpoint, "t2")) == "Bearer t2"
    assert len(endpoint.asked) == 2


def test_a_cancelled_waiter_leaves_the_others_waiting(source: RenewedToken, endpoint: Endpoint) -> None:
    first, second = obtain(source), obtain(source)
    first.cancel()
    with pytest.raises(CancelledError):
        result_of(first)
    endpoint.give("t1")
    assert shown(result_of(second)) == "Bearer t1"


def test_a_renewal_is_finished_though_everybody_left(source: RenewedToken, endpoint: Endpoint) -> None:
    waiting = [obtain(source) for _ in range(3)]
    for waiter in waiting:
        waiter.cancel()
        _ = waiter.addErrback(lambda failure: failure.trap(CancelledError))
    assert not endpoint.asked[0].called
    endpoint.give("t1")
    assert shown(source.ready(None)) == "Bearer t1"
    assert len(endpoint.asked) == 1


@pytest.mark.parametrize(
    ("life", "fresh"), [(3600, 3600 - RENEW_SECONDS), (61, 31), (60, 30), (50, 25), (2, 1), (1, 0.5)]
)
def test_a_token_is_renewed_30_seconds_before_its_end_or_in_the_middle_of_a_short_life(
    source: RenewedToken, endpoint: Endpoint, life: float, fresh: float
) -> None:
    credential = held(source, endpoint, seconds=life)
    endpoint.clock.advance(fresh - 0.25)
    assert source.ready(None) is credential
    endpoint.clock.advance(0.25)
    assert source.ready(None) is None
    assert result_of(source.obtain(None)) is credential, "it is still good"
    assert len(endpoint.asked) == 2
    endpoint.give("t2")
    assert shown(source.ready(None)) == "Bearer t2"


def test_a_life_is_counted_from_when_the_token_was_asked_for(
    source: RenewedToken, endpoint: Endpoint
) -> None:
    waiting = obtain(source)
    endpoint.clock.advance(15)
    endpoint.give("t1", 100)
    result_of(waiting)
    endpoint.clock.advance(54)
    assert source.ready(None) is not None
    endpoint.clock.advance(1)
    assert source.ready(None) is None


def test_nobody_waits_while_the_token_is_good_and_one_renewal_is_under_way(
    source: RenewedToken, endpoint: Endpoint
) -> None:
    credential = held(source, endpoint)
    endpoint.clock.advance(3600 - RENEW_SECONDS)
    for _ in range(1000):
        assert result_of(source.obtain(None)) is credential
    assert len(endpoint.asked) == 2


def test_an_endpoint_that_fails_in_the_last_seconds_fails_no_request(
    source: RenewedToken, endpoint: Endpoint
) -> None:
    credential = held(source, endpoint)
    endpoint.clock.advance(3600 - RENEW_SECONDS)
    assert result_of(source.obtain(None)) is credential
    endpoint.fail()
    for _ in range(100):
        assert result_of(source.obtain(None)) is credential
    assert len(endpoint.asked) == 2, "it is not asked again at once"
    endpoint.clock.advance(RETRY_SECONDS)
    assert result_of(source.obtain(None)) is credential
    assert len(endpoint.asked) == 3
    endpoint.fail()
    endpoint.clock.advance(RENEW_SECONDS - RETRY_SECONDS)
    expired = obtain(source)
    assert not expired.called
    endpoint.fail()
    assert failures([expired])


def test_the_log_says_once_a_minute_that_a_token_cannot_be_renewed(
    source: RenewedToken, endpoint: Endpoint
) -> None:
    source.renewal = Renewal(seconds=300)
    held(source, endpoint)
    endpoint.clock.advance(3300)
    with capturedLogs() as events:
        for _ in range(24):
            result_of(obtain(source))
            endpoint.fail()
            endpoint.clock.advance(RETRY_SECONDS)
    assert len(endpoint.asked) == 25
    assert [event["message"] for event in events] == ["the token endpoint answered 500: try again later"] * 2


def test_what_is_renewed_may_be_another_credential_with_other_refusals(endpoint: Endpoint) -> None:
    def signing(token: TokenResponse, key_hash: str) -> Credential:
        return Credential(b"", token.access_token, key_hash, added=token.further)

    def refuses(refusal: CredentialRefusal) -> bool:
        return refusal.body == b"expired"

    renewal = Renewal(signing, signs=True, seconds=300, statuses=frozenset({403}), refuses=refuses)
    source = RenewedToken(endpoint.fetch, "hash", endpoint.clock.seconds, renewal=renewal)
    waiting = obtain(source)
    endpoint.asked[-1].callback(TokenResponse(Secret("s1"), 3600.0, further=(Secret("k1"), Secret("canary"))))
    first = result_of(waiting)
    assert (source.signs, first.added) == (True, (Secret("k1"), Secret("canary")))
    assert source.secrets == (Secret("s1"), Secret("k1"), Secret("canary"))
    lent = result_of(Deferred.fromCoroutine(source.lend(None)))
    assert lent == TokenResponse(Secret("s1"), 3600.0, further=(Secret("k1"), Secret("canary")))
    assert (source.refusable(403), source.refusable(401)) == (True, False)
    assert result_of(source.refused(first, CredentialRefusal(403))) is None
    endpoint.clock.advance(3300)
    assert source.ready(None) is None
    another = Deferred.fromCoroutine(source.refused(first, CredentialRefusal(403, body=b"expired")))
    endpoint.asked[-1].callback(TokenResponse(Secret("s2"), 3600.0))
    assert shown(result_of(another)) == "s2"
    assert "canary" not in repr(source)


def test_a_refused_token_is_renewed_once_for_all_whom_it_was_refused(
    source: RenewedToken, endpoint: Endpoint
) -> None:
    credential = held(source, endpoint)
    assert source.refusable(401)
    assert not any(map(source.refusable, (400, 403, 429, 500)))
    waiting = [refused(source, credential) for _ in range(1000)]
    assert len(endpoint.asked) == 2
    endpoint.give("t2")
    assert {shown(result_of(waiter)) for waiter in waiting} == {"Bearer t2"}
    assert shown(result_of(refused(source, credential))) == "Bearer t2", "who comes late takes it"
    assert len(endpoint.asked) == 2


def test_a_provider_that_refuses_every_token_costs_one_renewal(
    source: RenewedToken, endpoint: Endpoint
) -> None:
    waiting = refused(source, held(source, endpoint))
    endpoint.clock.advance(1)
    endpoint.give("t2")
    second = result_of(waiting)
    assert second is not None
    for _ in range(1000):
        assert result_of(refused(source, second)) is None, "the client gets the 401"
    endpoint.clock.advance(NEW_SECONDS - 0.001)
    assert result_of(refused(source, second)) is None
    assert len(endpoint.asked) == 2
    endpoint.clock.advance(0.001)
    waiting = refused(source, second)
    assert len(endpoint.asked) == 3, "it is 10 s old"
    endpoint.give("t3")
    assert shown(result_of(waiting)) == "Bearer t3"


@pytest.mark.parametrize("others_leave", [False, True])
def test_a_renewal_that_the_end_of_the_token_began_counts_for_those_who_are_refused_meanwhile(
    source: RenewedToken, endpoint: Endpoint, *, others_leave: bool
) -> None:
    first = held(source, endpoint, seconds=100)
    endpoint.clock.advance(90)
    result_of(obtain(source))
    waiting = refused(source, first)
    if others_leave:
        waiting.cancel()
        _ = waiting.addErrback(lambda failure: failure.trap(CancelledError))
    endpoint.give("t2")
    second = source.ready(None)
    assert second is not None
    assert result_of(refused(source, second)) is None
    assert len(endpoint.asked) == 2


def test_a_token_that_came_of_time_is_renewed_when_it_is_refused(
    source: RenewedToken, endpoint: Endpoint
) -> None:
    waiting = refused(source, held(source, endpoint))
    endpoint.give("t2", 2)
    result_of(waiting)
    endpoint.clock.advance(2)
    third = obtain(source)
    endpoint.give("t3")
    waiting = refused(source, result_of(third))
    assert len(endpoint.asked) == 4
    endpoint.give("t4")
    assert shown(result_of(waiting)) == "Bearer t4"


def test_what_is_said_of_the_token_is_whether_it_is_good_and_until_when(
    source: RenewedToken, endpoint: Endpoint
) -> None:
    wall = 1_800_000_000.0
    endpoint.clock.advance(1000)
    assert (source.describe(wall).state, source.describe(wall).expires) == (State.UNKNOWN, None)
    waiting = obtain(source)
    endpoint.fail()
    failures([waiting])
    assert source.describe(wall).state is State.MISSING
    held(source, endpoint, seconds=100)
    endpoint.clock.advance(40)
    found = source.describe(wall)
    assert (found.state, found.key_hash, found.expires) == (State.READY, "hash", wall + 60)
    endpoint.clock.advance(60)
    found = source.describe(wall)
    assert (found.state, found.expires) == (State.EXPIRED, wall)


def test_if_the_forced_renewal_fails_there_is_no_other_credential(
    source: RenewedToken, endpoint: Endpoint
) -> None:
    credential = held(source, endpoint)
    waiting = refused(source, credential)
    endpoint.fail()
    assert result_of(waiting) is None


def test_an_endpoint_that_gives_the_refused_token_again_gives_no_other(
    source: RenewedToken, endpoint: Endpoint
) -> None:
    credential = held(source, endpoint)
    waiting = refused(source, credential)
    endpoint.give("t1")
    assert result_of(waiting) is None
    assert result_of(refused(source, credential)) is None
    assert len(endpoint.asked) == 2, "nor is it asked for each request"


def test_an_expired_token_is_no_answer_to_a_refusal(source: RenewedToken, endpoint: Endpoint) -> None:
    credential = held(source, endpoint, seconds=100)
    waiting = refused(source, credential)
    endpoint.give("t2", 100)
    result_of(waiting)
    endpoint.clock.advance(100)
    waiting = refused(source, credential)
    assert len(endpoint.asked) == 3
    endpoint.give("t3")
    assert shown(result_of(waiting)) == "Bearer t3"


def test_any_other_refusal_is_passed_on(source: RenewedToken, endpoint: Endpoint) -> None:
    credential = held(source, endpoint)
    assert result_of(source.refused(credential, CredentialRefusal(403))) is None
    assert len(endpoint.asked) == 1


def test_nothing_of_a_token_prints(source: RenewedToken, endpoint: Endpoint) -> None:
    held(source, endpoint, "canary-token")
    assert source.secrets == (Secret("canary-token"),)
    assert "canary" not in repr(source)


class Play:
    """Steps in any order, each checked."""

    def __init__(self) -> None:
        self.endpoint = Endpoint()
        self.source = RenewedToken(self.endpoint.fetch, "hash", self.endpoint.clock.seconds)
        self.waiting: list[Deferred[Any]] = []
        self.ends: dict[str, float] = {}
        self.asked_at: dict[int, float] = {}
        self.last: list[Credential] = []

    def check(self) -> None:
        """One request at most is under way."""
        assert sum(not asked.called for asked in self.endpoint.asked) <= 1
        self.asked_at.setdefault(len(self.endpoint.asked), self.endpoint.clock.seconds())

    def note(self, result: object) -> None:
        if isinstance(result, Credential):
            self.last.append(result)

    def good_for(self, credential: Credential) -> float:
        return self.ends[credential.key.reveal()] - self.endpoint.clock.seconds()

    def ask(self, _: int) -> None:
        at_hand = self.source.ready(None)
        assert at_hand is None or self.good_for(at_hand) > 0
        waiter = obtain(self.source)
        if waiter.called and isinstance(waiter.result, Credential):
            assert self.good_for(waiter.result) > 0
        self.waiting.append(waiter.addBoth(self.note))

    def leave(self, number: int) -> None:
        if number < len(self.waiting):
            self.waiting[number].cancel()

    def refuse(self, _: int) -> None:
        if self.last:
            self.waiting.append(refused(self.source, self.last[-1]).addBoth(self.note))

    def give(self, seconds: int) -> None:
        count = len(self.endpoint.asked)
        if count and not self.endpoint.asked[-1].called:
            self.ends[f"t{count}"] = self.asked_at[count] + seconds
            self.endpoint.give(f"t{count}", seconds)

    def fail(self, _: int) -> None:
        if self.endpoint.asked and not self.endpoint.asked[-1].called:
            self.endpoint.fail()

    def wait(self, seconds: int) -> None:
        self.endpoint.clock.advance(seconds)


STEPS = st.tuples(
    st.sampled_from(["ask", "ask", "leave", "give", "give", "fail", "refuse", "wait"]), st.integers(0, 99)
)


@given(steps=st.lists(STEPS, max_size=40))
def test_in_any_order_one_request_is_under_way_and_no_expired_token_is_given(
    steps: list[tuple[str, int]],
) -> None:
    play = Play()
    for step, number in steps:
        getattr(play, step)(number)
        play.check()
    play.give(99)
    assert all(waiter.called for waiter in play.waiting), "nobody is forgotten"


WALL = 1_800_000_000.0


def described(source: RenewedToken, endpoint: Endpoint) -> CredentialState:
    return source.describe(WALL + endpoint.clock.seconds())


def test_a_source_that_was_never_asked_says_that_it_does_not_know(
    source: RenewedToken, endpoint: Endpoint
) -> None:
    assert described(source, endpoint) == CredentialState(State.UNKNOWN, "hash")


def test_a_source_that_has_asked_in_vain_says_that_there_is_no_token(
    source: RenewedToken, endpoint: Endpoint
) -> None:
    waiting = obtain(source)
    assert described(source, endpoint) == CredentialState(State.UNKNOWN, "hash")
    endpoint.fail()
    with pytest.raises(TokenRequestError):
        result_of(waiting)
    assert described(source, endpoint) == CredentialState(State.MISSING, "hash")


def test_a_token_is_shown_with_its_end_before_and_after_it(source: RenewedToken, endpoint: Endpoint) -> None:
    endpoint.clock.advance(500)
    held(source, endpoint, seconds=3600.0)
    end = WALL + 500 + 3600
    assert described(source, endpoint) == CredentialState(State.READY, "hash", end)
    endpoint.clock.advance(3599)
    assert described(source, endpoint) == CredentialState(State.READY, "hash", end)
    endpoint.clock.advance(1)
    assert described(source, endpoint) == CredentialState(State.EXPIRED, "hash", end)
    endpoint.clock.advance(1000)
    assert described(source, endpoint) == CredentialState(State.EXPIRED, "hash", end)


def test_a_token_that_is_good_stays_shown_as_such_after_a_renewal_that_failed(
    source: RenewedToken, endpoint: Endpoint
) -> None:
    held(source, endpoint, seconds=3600.0)
    endpoint.clock.advance(3590)
    result_of(obtain(source))
    endpoint.fail()
    assert described(source, endpoint) == CredentialState(State.READY, "hash", WALL + 3600)
    endpoint.clock.advance(10)
    waiting = obtain(source)
    endpoint.give("t2", 60.0)
    result_of(waiting)
    assert described(source, endpoint) == CredentialState(State.READY, "hash", WALL + 3660)
