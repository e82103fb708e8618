"""Tokens on behalf of callers: whose token is exchanged, how often, and until when."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.internet.testing import MemoryReactorClock
from twisted.logger import capturedLogs

from mgw.credentials import credentials_of, on_behalf
from mgw.credentials.on_behalf import OnBehalfOf
from mgw.credentials.provider import CallerToken, Credential, CredentialProvider, CredentialRefusal
from mgw.credentials.renewed_token import NEW_SECONDS, RENEW_SECONDS, RenewedToken
from mgw.credentials.state import CredentialState, State
from mgw.credentials.token_request import ERROR_HINTS, TokenRequestError, TokenResponse
from mgw.generation import Generation, build_generation
from mgw.nouns.errors import GatewayError, Reason
from mgw.nouns.secret import Secret, key_hash
from mgw.ops.provider_metrics import ObtainsTokens
from tests.support.configs import config
from tests.support.deferreds import result_of
from tests.support.token_endpoints import TOKEN_URL, WALL, TokenHosts

EDGE = (
    "edge_auth: {enabled: true, jwt: [{name: corp, issuer: 'https://login.example.com', audience: mgw, "
    "rules: [{}]}]}\n"
)
EXCHANGE = "grant: token_exchange, subject_token: client, client_id: me, client_secret: canary-secret"
ASSERTION = "grant: jwt_bearer, assertion: client, client_id: me, client_secret: canary-secret"
UNAUTHORIZED = CredentialRefusal(401)


@pytest.fixture
def hosts() -> TokenHosts:
    return TokenHosts()


def text_of(oauth: str, more: str = "") -> str:
    entry = f"kind: openai_compat, base_url: 'http://h/v1', auth: oauth2, oauth: {{token_url: '{TOKEN_URL}', "
    return f"{EDGE}providers:\n  p: {{{entry}{oauth}}}}}\n{more}"


def source(hosts: TokenHosts, oauth: str = EXCHANGE) -> OnBehalfOf:
    found = credentials_of(config(text_of(oauth)).providers["p"], hosts.sources)
    assert isinstance(found, OnBehalfOf)
    return found


def caller(name: str = "ann", seconds: float = 3600.0, skew: float = 0.0) -> CallerToken:
    """Return the token of a caller that is valid for so long from the start of the clock, skew included."""
    until = WALL + seconds
    return CallerToken(Secret(f"canary-token-of-{name}"), until, expires=until - skew)


def obtain(found: CredentialProvider) -> Deferred[Credential]:
    return Deferred.fromCoroutine(found.obtain(None))


def refused(found: CredentialProvider, credential: Credential) -> Deferred[Credential | None]:
    return Deferred.fromCoroutine(found.refused(credential, UNAUTHORIZED))


def held(hosts: TokenHosts, found: CredentialProvider, token: str = "t1", **more: object) -> Credential:
    """Have the source of a caller hold a token."""
    waiting = obtain(found)
    hosts.newest().answer_token(token, **more)
    return result_of(waiting)


def failure(waiting: Deferred[Any]) -> GatewayError:
    with pytest.raises(GatewayError) as found:
        result_of(waiting)
    return found.value


FORMS = {
    EXCHANGE: {
        "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
        "subject_token": "canary-token-of-ann",
        "subject_token_type": "urn:ietf:params:oauth:token-type:jwt",
        "client_id": "me",
        "client_secret": "canary-secret",
    },
    f"{ASSERTION}, scopes: 'api://x/.default', extra: {{requested_token_use: on_behalf_of}}": {
        "grant_type": "urn:ietf:params:oauth:grant-type:jwt-bearer",
        "assertion": "canary-token-of-ann",
        "scope": "api://x/.default",
        "requested_token_use": "on_behalf_of",
        "client_id": "me",
        "client_secret": "canary-secret",
    },
}


@pytest.mark.parametrize(("oauth", "form"), FORMS.items(), ids=["exchange", "assertion"])
def test_the_callers_token_is_exchanged(hosts: TokenHosts, oauth: str, form: dict[str, str]) -> None:
    ann = source(hosts, oauth).for_caller(caller())
    assert ann.ready(None) is None
    credential = held(hosts, ann)
    assert hosts.newest().form == form
    assert (credential.header, credential.value.reveal()) == (b"Authorization", "Bearer t1")
    assert credential.key_hash == key_hash("me")
    assert ann.ready(None) is credential


def test_each_caller_has_a_token_and_one_exchange_for_it_at_a_time(hosts: TokenHosts) -> None:
    found = source(hosts)
    ann = [obtain(found.for_caller(caller("ann"))) for _ in range(500)]
    bob = [obtain(found.for_caller(caller("bob"))) for _ in range(500)]
    ann += [obtain(found.for_caller(caller("ann"))) for _ in range(500)]
    first, second = hosts.posts()
    assert first.form["subject_token"] == "canary-token-of-ann"
    assert second.form["subject_token"] == "canary-token-of-bob"
    second.answer_token("b1")
    first.answer_token("a1")
    assert {result_of(one).key.reveal() for one in ann} == {"a1"}
    assert {result_of(one).key.reveal() for one in bob} == {"b1"}
    assert found.for_caller(caller("ann")).ready(None) is result_of(obtain(found.for_caller(caller("ann"))))
    assert len(hosts.posts()) == 2


def test_a_caller_without_a_token_is_told_to_send_one(hosts: TokenHosts) -> None:
    found = source(hosts)
    none = found.for_caller(None)
    assert none.ready(None) is None
    assert not none.refusable(401)
    assert result_of(refused(none, Credential(b"", Secret(""), ""))) is None
    error = failure(obtain(none))
    assert (error.reason, error.reason.status) == (Reason.NO_PROVIDER_KEY, 401)
    assert "a token of an identity provider" in error.message
    assert hosts.posts() == []


def test_a_token_is_renewed_by_the_request_that_comes_30_seconds_before_its_end(hosts: TokenHosts) -> None:
    ann = source(hosts).for_caller(caller(seconds=86400))
    first = held(hosts, ann)
    hosts.clock.advance(3600 - RENEW_SECONDS - 1)
    assert ann.ready(None) is first
    hosts.clock.advance(1)
    assert ann.ready(None) is None
    assert result_of(obtain(ann)) is first
    hosts.newest().answer_token("t2")
    renewed = ann.ready(None)
    assert renewed is not None
    assert (renewed.key.reveal(), len(hosts.posts())) == ("t2", 2)


SKEW = 30


@given(own=st.integers(1, 200), callers=st.integers(1, 200), pauses=st.lists(st.integers(1, 40), max_size=12))
def test_nothing_is_kept_beyond_the_callers_exp_nor_exchanged_beyond_its_skew(
    own: int, callers: int, pauses: list[int]
) -> None:
    hosts = TokenHosts()
    ann = source(hosts).for_caller(caller(seconds=callers + SKEW, skew=SKEW))
    got: dict[str, float] = {}
    for pause in pauses:
        now, asked = hosts.clock.seconds(), len(hosts.posts())
        waiting = obtain(ann)
        if len(hosts.posts()) > asked:
            assert now < callers + SKEW, "a token that has ended is not exchanged"
            if now < callers:
                assert all(now >= end - RENEW_SECONDS for end in got.values()), "a good one is kept"
            hosts.newest().answer_token(f"t{now}", expires_in=own)
            got[f"t{now}"] = now + own
        if now >= callers:
            assert ann.ready(None) is None
        if now >= callers + SKEW:
            assert failure(waiting).reason is Reason.NO_PROVIDER_KEY
        elif now >= callers:
            assert result_of(waiting).key.reveal() == f"t{now}", "none that was kept beyond the caller's exp"
        else:
            assert now < got[result_of(waiting).key.reveal()]
        hosts.clock.advance(pause)
    if own >= 2 * callers + 2 * RENEW_SECONDS:
        assert sum(end - own < callers for end in got.values()) <= 1, "what outlives exp is not renewed"


def test_a_caller_is_remembered_while_its_token_opens_the_gateway(hosts: TokenHosts) -> None:
    found = source(hosts)
    ann = found.for_caller(caller(seconds=90, skew=SKEW))
    hosts.clock.advance(60)
    _ = found.for_caller(caller("bob"))
    assert found.for_caller(caller(seconds=90, skew=SKEW)) is ann


def test_a_wall_clock_that_was_set_back_gives_a_new_caller_no_more_time(hosts: TokenHosts) -> None:
    found = source(hosts)
    found.wall = lambda: WALL - 3600
    token = caller(seconds=60)
    ann = found.for_caller(CallerToken(token.value, token.until, hosts.clock.seconds() + 60))
    held(hosts, ann)
    hosts.clock.advance(60)
    assert ann.ready(None) is None
    assert failure(obtain(ann)).reason is Reason.NO_PROVIDER_KEY
    assert len(hosts.posts()) == 1


def test_a_wall_clock_that_is_set_back_revives_nothing(hosts: TokenHosts) -> None:
    found = source(hosts)
    ann = found.for_caller(caller(seconds=60))
    held(hosts, ann)
    hosts.clock.advance(60)
    found.wall = lambda: WALL
    assert failure(obtain(found.for_caller(caller(seconds=60)))).reason is Reason.NO_PROVIDER_KEY
    assert len(hosts.posts()) == 1


def test_a_token_that_is_valid_for_longer_after_a_reload_is_exchanged_again(hosts: TokenHosts) -> None:
    found = source(hosts)
    held(hosts, found.for_caller(caller(seconds=60)))
    hosts.clock.advance(61)
    assert held(hosts, found.for_caller(caller(seconds=90)), "t2").key.reveal() == "t2"
    assert len(found) == 1


def test_a_401_leads_to_one_exchange_and_is_then_passed_on(hosts: TokenHosts) -> None:
    found = source(hosts)
    ann, bob = found.for_caller(caller("ann")), found.for_caller(caller("bob"))
    first, others = held(hosts, ann), held(hosts, bob, "b1")
    assert ann.refusable(401)
    assert not ann.refusable(403)
    waiting = [refused(ann, first) for _ in range(100)]
    assert len(hosts.posts()) == 3
    hosts.newest().answer_token("t2")
    found_others = [result_of(one) for one in waiting]
    second = found_others[0]
    assert second is not None
    assert all(one is second for one in found_others)
    hosts.clock.advance(NEW_SECONDS - 1)
    assert result_of(refused(ann, second)) is None
    assert len(hosts.posts()) == 3
    assert bob.ready(None) is others


def test_a_401_is_passed_on_where_no_exchange_succeeds(hosts: TokenHosts) -> None:
    ann = source(hosts).for_caller(caller())
    waiting = refused(ann, held(hosts, ann))
    hosts.newest().refuse()
    assert result_of(waiting) is None


REFUSALS = {
    EXCHANGE: {"invalid_request", "invalid_grant", "invalid_token"},
    ASSERTION: {"invalid_grant", "invalid_token"},
}
OF_USERS = {"interaction_required", "login_required", "consent_required"}


@pytest.mark.parametrize("status", [400, 401, 403])
@pytest.mark.parametrize("code", sorted(ERROR_HINTS))
@pytest.mark.parametrize("oauth", REFUSALS, ids=["exchange", "assertion"])
def test_a_callers_token_that_is_refused_is_a_401(
    hosts: TokenHosts, oauth: str, code: str, status: int
) -> None:
    found = source(hosts, oauth)
    waiting = [obtain(found.for_caller(caller())) for _ in range(2)]
    with capturedLogs() as logged:
        hosts.newest().refuse(code, status)
        errors = [failure(one) for one in waiting]
    is_callers = code in REFUSALS[oauth] | OF_USERS
    assert {error.reason.status for error in errors} == {401 if is_callers else 502}
    assert {error.code for error in errors} == {None if is_callers else "credential_source_failed"}
    assert errors[0] is not errors[1], "an error that many raise keeps a traceback of each"
    for error in errors:
        assert f"answered {status} {code}" in error.message
        assert error.detail == "http://idp.example"
        assert "canary" not in error.message + str(logged)
    assert (found.failures, len(logged)) == (1, int(is_callers))
    assert isinstance(found, ObtainsTokens), "failures are counted in mgw_token_refresh_failures_total"
    assert held(hosts, found.for_caller(caller()), "t2").key.reveal() == "t2", "a refusal is not kept"


def test_refusals_and_failures_are_logged_once_a_minute_for_all_callers(hosts: TokenHosts) -> None:
    found = source(hosts)
    sources = [found.for_caller(caller(str(number), 86400)) for number in range(50)]
    for one in sources:
        held(hosts, one, expires_in=120)
    hosts.clock.advance(95)
    with capturedLogs() as logged:
        for number, one in enumerate(sources):
            waiting = obtain(one)
            hosts.newest().answer({}, 500) if number % 2 else hosts.newest().refuse()
            assert result_of(waiting).key.reveal() == "t1", "it is good until it ends"
        assert len(logged) == 1
        hosts.clock.advance(20)
        waiting = obtain(found.for_caller(caller("new")))
        hosts.newest().refuse()
        assert failure(waiting).reason is Reason.NO_PROVIDER_KEY
        assert len(logged) == 1
        hosts.clock.advance(41)
        waiting = obtain(found.for_caller(caller("new")))
        hosts.newest().refuse()
        assert failure(waiting).reason is Reason.NO_PROVIDER_KEY
        assert len(logged) == 2
    assert "canary" not in str(logged)


def test_an_endpoint_that_fails_is_a_502_for_those_who_wait(hosts: TokenHosts) -> None:
    ann = source(hosts).for_caller(caller())
    waiting = obtain(ann)
    hosts.newest().answer(b"<html>", 500)
    error = failure(waiting)
    assert (error.reason, error.code) == (Reason.CREDENTIAL_SOURCE, "credential_source_failed")


@dataclass
class Exchanges:
    """An endpoint that the test answers, and the callers of a provider."""

    clock: Clock = field(default_factory=Clock)
    asked: list[tuple[str, Deferred[TokenResponse]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        seconds = self.clock.seconds
        self.callers = OnBehalfOf(self.exchange, "hash", frozenset(), seconds, lambda: WALL + seconds())

    async def exchange(self, token: Secret) -> TokenResponse:
        waiting: Deferred[TokenResponse] = Deferred()
        self.asked.append((token.reveal(), waiting))
        return await waiting

    def source(self, name: str, seconds: float = 3600.0) -> RenewedToken:
        found = self.callers.for_caller(caller(name, seconds))
        assert isinstance(found, RenewedToken)
        return found

    def give(self, token: str, at: int = -1) -> None:
        self.asked[at][1].callback(TokenResponse(Secret(token), 3600.0))


def remember(exchanges: Exchanges, count: int) -> None:
    for number in range(count):
        exchanges.source(str(number))


def test_exactly_so_many_callers_are_remembered() -> None:
    exchanges = Exchanges()
    first = exchanges.source("first")
    remember(exchanges, on_behalf.MAX_CALLERS - 1)
    assert len(exchanges.callers) == on_behalf.MAX_CALLERS
    assert exchanges.source("first") is first
    exchanges.source("one more")
    assert len(exchanges.callers) == on_behalf.MAX_CALLERS
    assert exchanges.source("first") is first, "the one that was used least recently goes"
    second = exchanges.source("1")
    remember(exchanges, 2)
    assert exchanges.source("1") is second


def test_a_forgotten_source_goes_on_and_shares_its_exchange(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(on_behalf, "MAX_CALLERS", 2)
    exchanges = Exchanges()
    before = exchanges.source("ann")
    waiting = obtain(before)
    remember(exchanges, 2)
    after = exchanges.source("ann")
    assert after is not before
    waiting_too = obtain(after)
    assert len(exchanges.asked) == 1
    exchanges.give("a1")
    first = result_of(waiting)
    assert first.key.reveal() == result_of(waiting_too).key.reveal() == "a1"
    again = refused(before, first)
    exchanges.give("a2")
    another = result_of(again)
    assert another is not None
    assert another.key.reveal() == "a2"


def test_callers_whose_tokens_have_ended_make_room() -> None:
    exchanges = Exchanges()
    for number in range(50):
        exchanges.source(f"old {number}", 60)
    exchanges.source("ann")
    exchanges.clock.advance(60)
    exchanges.source("bob")
    assert len(exchanges.callers) == 2


def test_nothing_shows_a_token(hosts: TokenHosts) -> None:
    found = source(hosts)
    ann = found.for_caller(caller())
    credential = held(hosts, ann, "canary-exchanged")
    shown = [repr(one) for one in (found, ann, credential, caller(), vars(type(found)))]
    shown += [repr(list(found._callers.values())), repr(hosts.sources.recent)]
    assert "canary" not in "".join(shown)
    known = {secret.reveal() for secret in hosts.sources.secrets()}
    assert {"canary-exchanged", "canary-token-of-ann", "canary-secret"} <= known


def test_a_token_that_was_replaced_long_after_others_came_is_still_hidden(hosts: TokenHosts) -> None:
    found = source(hosts)
    ann = found.for_caller(caller(seconds=86400))
    first = held(hosts, ann, "canary-first")
    for number in range(400):
        held(hosts, found.for_caller(caller(str(number))), f"another-{number}")
    assert "canary-first" not in {secret.reveal() for secret in hosts.sources.secrets()}
    waiting = refused(ann, first)
    hosts.newest().answer_token("canary-second")
    assert result_of(waiting) is not None
    known = {secret.reveal() for secret in hosts.sources.secrets()}
    assert {"canary-first", "canary-second"} <= known


def test_ten_thousand_callers_do_not_lengthen_the_list_of_what_is_hidden(hosts: TokenHosts) -> None:
    found = source(hosts)
    before = len(hosts.sources.secrets())
    for number in range(2000):
        hosts.sources.recent.note(Secret(f"canary-{number}"))
        found.for_caller(caller(str(number)))
    assert len(hosts.sources.secrets()) <= before + 512


def built(hosts: TokenHosts, text: str) -> Generation:
    return build_generation(1, config(text), MemoryReactorClock(), 0, hosts.sources)


def test_tokens_outlive_a_reload_that_leaves_the_provider_as_it_is(hosts: TokenHosts) -> None:
    old = built(hosts, text_of(EXCHANGE))
    credential = held(hosts, old.credentials_for("p", caller()))
    new = built(hosts, text_of(EXCHANGE, "  q: {kind: openai, api_key: sk-canary}\n"))
    old.retire()
    assert new.credentials_for("p", caller()).ready(None) is credential
    other = built(hosts, text_of(f"{EXCHANGE}, audience: another"))
    new.retire()
    assert other.credentials_for("p", caller()).ready(None) is None
    kept = other.credentials["p"]
    assert isinstance(kept, OnBehalfOf)
    assert len(kept) == 1
    other.retire()
    assert (len(kept), len(hosts.sources)) == (0, 0)
    known = {secret.reveal() for secret in hosts.sources.secrets()}
    assert "canary-secret" in known, "requests that began with it may still be in progress"


def test_a_source_that_was_closed_lets_its_exchange_come_to_an_end(hosts: TokenHosts) -> None:
    generation = built(hosts, text_of(EXCHANGE))
    waiting = obtain(generation.credentials_for("p", caller()))
    generation.retire()
    hosts.newest().answer_token("t1")
    assert result_of(waiting).key.reveal() == "t1"


def test_only_such_providers_have_sources_of_callers(hosts: TokenHosts) -> None:
    text = text_of(EXCHANGE, "  q: {kind: openai, api_key: sk-canary}\n")
    generation = built(hosts, text)
    assert generation.is_on_behalf
    assert generation.credentials_for("q", caller()) is generation.credentials["q"]
    assert generation.credentials_for("p", None) is generation.credentials["p"]
    plain = built(hosts, "providers: {q: {kind: openai, api_key: sk-canary}}")
    assert not plain.is_on_behalf


def test_two_providers_with_the_same_settings_share_the_callers_tokens(hosts: TokenHosts) -> None:
    line = text_of(EXCHANGE).splitlines()[-1]
    generation = built(hosts, text_of(EXCHANGE, line.replace("  p: ", "  q: ")))
    assert generation.credentials["p"] is generation.credentials["q"]


def test_a_dashboard_sees_no_state_of_one_caller(hosts: TokenHosts) -> None:
    found = source(hosts)
    held(hosts, found.for_caller(caller()))
    assert found.describe(WALL) == CredentialState(State.UNKNOWN, key_hash("me"))


def test_a_refusal_of_the_endpoint_has_its_reason_when_it_is_copied() -> None:
    error = TokenRequestError("no", 400, "invalid_grant", Reason.NO_PROVIDER_KEY)
    again = error.copy()
    assert (again.reason, again.code, again.response_status) == (Reason.NO_PROVIDER_KEY, None, 400)
