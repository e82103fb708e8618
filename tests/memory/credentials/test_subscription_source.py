"""The credentials of a provider whose accounts are subscriptions."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from twisted.internet.defer import Deferred

from mgw.config.profile import CloakMode
from mgw.credentials.provider import Credential, CredentialRefusal
from mgw.credentials.subscription.source import REFUSED_COOLDOWN_SECONDS, SubscriptionSource
from mgw.credentials.subscription.store import NEW_SECONDS
from mgw.exchange.upstream_headers import secrets_sent
from mgw.nouns.errors import GatewayError, Reason
from mgw.nouns.secret import Secret, key_hash
from mgw.wire.headers import RawHeaders
from tests.support.configs import config
from tests.support.deferreds import result_of
from tests.support.laws import examples
from tests.support.subscriptions import PROFILE, SubscriptionPlay

LIMITED = [(b"Retry-After", b"30")]


@pytest.fixture
def play(tmp_path: Path) -> SubscriptionPlay:
    play = SubscriptionPlay(tmp_path)
    for name in ("a", "b"):
        play.put(name)
    return play


def account(credential: Credential | None) -> str | None:
    return None if credential is None else credential.account


def refusal(
    status: int = 429,
    headers: RawHeaders | None = None,
    model: str | None = "m",
    *,
    attempts: int = 1,
    body: bytes = b"",
) -> CredentialRefusal:
    return CredentialRefusal(status, headers or [], model, body, attempts=attempts)


def asked(source: SubscriptionSource, model: str | None = "m") -> Credential:
    found = source.ready(None, model)
    assert found is not None
    return found


def test_a_token_travels_as_a_bearer_token_and_is_named_by_its_entry(play: SubscriptionPlay) -> None:
    credential = asked(play.source(["a"]))
    assert (credential.header, credential.value) == (b"Authorization", Secret("Bearer token-of-a"))
    assert (credential.key_hash, credential.account) == (key_hash("a"), "a")
    assert "token-of-a" not in repr(credential)


def test_an_entry_has_one_credential_as_long_as_it_is_the_same(play: SubscriptionPlay) -> None:
    source = play.source(["a"])
    first = asked(source)
    assert asked(source) is first
    play.put("a", "newer")
    assert asked(source).value == Secret("Bearer newer")


def test_accounts_take_turns(play: SubscriptionPlay) -> None:
    source = play.source(["a", "b"])
    assert [account(asked(source)) for _ in range(3)] == ["a", "b", "a"]


def test_a_limited_account_rests_for_that_model_and_another_is_used(play: SubscriptionPlay) -> None:
    source = play.source(["a", "b"])
    another = result_of(source.refused(asked(source), refusal(headers=LIMITED)))
    assert account(another) == "b"
    assert [account(asked(source)) for _ in range(2)] == ["b", "b"]
    assert account(asked(source, "n")) == "a"
    play.clock.advance(30)
    assert {account(asked(source)) for _ in range(2)} == {"a", "b"}


def test_where_all_rest_the_client_is_told_when_the_first_has_rested(play: SubscriptionPlay) -> None:
    source = play.source(["a", "b"])
    another = result_of(source.refused(asked(source), refusal(headers=LIMITED)))
    assert another is not None
    play.clock.advance(10.5)
    with pytest.raises(GatewayError) as refused:
        result_of(source.refused(another, refusal(headers=[(b"retry-after", b"5")])))
    assert (refused.value.reason, refused.value.retry_after) == (Reason.NO_ACCOUNT, 5.0)
    assert source.ready(None, "m") is None
    play.clock.advance(1.5)
    with pytest.raises(GatewayError) as refused:
        result_of(source.obtain(None, "m"))
    assert (refused.value.reason, refused.value.retry_after) == (Reason.NO_ACCOUNT, 4.0)


@pytest.mark.parametrize("status", [403, 429])
def test_a_count_of_tokens_leaves_the_rests_alone(play: SubscriptionPlay, status: int) -> None:
    source = play.source(["a", "b"])
    said = refusal(status, LIMITED, None)
    assert result_of(source.refused(asked(source), said)) is None
    assert [account(asked(source)) for _ in range(2)] == ["b", "a"]


def test_an_account_without_the_right_to_a_model_rests_for_it(play: SubscriptionPlay) -> None:
    source = play.source(["a", "b"])
    another = result_of(source.refused(asked(source), refusal(403)))
    assert account(another) == "b"
    assert another is not None
    assert result_of(source.refused(another, refusal(403))) is None, "the client reads why"
    assert account(asked(source, "n")) == "a"
    with pytest.raises(GatewayError) as refused:
        result_of(source.obtain(None, "m"))
    assert refused.value.reason is Reason.NO_ACCOUNT


def test_a_403_that_means_something_else_is_the_clients(play: SubscriptionPlay) -> None:
    play.text = PROFILE + "limits: {no_entitlement: {words: [Not Entitled], header: X-Plan}}\n"
    source = play.source(["a", "b"])
    assert result_of(source.refused(asked(source), refusal(403, body=b"blocked"))) is None
    for said in (refusal(403, body=b'"you are NOT entitled"'), refusal(403, [(b"x-plan", b"")])):
        source = play.source(["a", "b"])
        assert account(result_of(source.refused(asked(source), said))) == "b"


def test_a_refused_token_is_refreshed_once_and_refused_again_the_account_rests(
    play: SubscriptionPlay,
) -> None:
    source = play.source(["a", "b"])
    first = asked(source)
    renewing = Deferred.fromCoroutine(source.refused(first, refusal(401)))
    play.hosts.newest().answer_token("newer")
    newer = result_of(renewing)
    assert newer is not None
    assert newer.value == Secret("Bearer newer")
    assert account(result_of(source.refused(newer, refusal(401, attempts=2)))) == "b"
    assert len(play.hosts.posts()) == 1
    assert [account(asked(source, model)) for model in ("m", "n", None)] == ["b", "b", "b"]
    play.put("a", "of-a-new-login")
    assert account(asked(source)) == "a"


def test_an_account_whose_token_is_refused_is_tried_again_after_its_rest(play: SubscriptionPlay) -> None:
    source = play.source(["a", "b"])
    renewing = Deferred.fromCoroutine(source.refused(asked(source), refusal(401)))
    play.hosts.newest().refuse()
    assert account(result_of(renewing)) == "b"
    assert account(asked(source)) == "b"
    play.clock.advance(REFUSED_COOLDOWN_SECONDS)
    assert account(asked(source)) == "a"


def test_who_was_refused_with_an_old_token_gets_the_one_that_is_there_by_now(
    play: SubscriptionPlay,
) -> None:
    source = play.source(["a", "b"])
    old = asked(source)
    play.put("a", "newer")
    found = result_of(source.refused(old, refusal(401)))
    assert found is not None
    assert found.value == Secret("Bearer newer")
    assert not play.hosts.posts()


@pytest.mark.parametrize("status", [401, 403, 429])
def test_an_account_whose_token_has_ended_is_refreshed_before_a_request_fails(
    play: SubscriptionPlay, status: int
) -> None:
    play.put("a", refresh_token=None)
    play.put("b", expires_at=play.wall())
    source = play.source(["a", "b"])
    waiting = Deferred.fromCoroutine(source.refused(asked(source), refusal(status)))
    play.hosts.newest().answer_token("newer")
    assert account(result_of(waiting)) == "b"


def test_a_refused_token_is_not_renewed_while_renewals_pause(play: SubscriptionPlay) -> None:
    source = play.source(["a"], is_pool=False)
    renewing = Deferred.fromCoroutine(source.refused(asked(source), refusal(401)))
    play.hosts.newest().answer({"error": "server_error"}, 500)
    assert result_of(renewing) is None
    assert result_of(source.refused(asked(source), refusal(401))) is None
    assert len(play.hosts.posts()) == 1
    play.clock.advance(60)
    _ = Deferred.fromCoroutine(source.refused(asked(source), refusal(401)))
    assert len(play.hosts.posts()) == 2


def test_an_endpoint_that_gives_the_refused_token_again_has_renewed_nothing(play: SubscriptionPlay) -> None:
    source = play.source(["a"], is_pool=False)
    renewing = Deferred.fromCoroutine(source.refused(asked(source), refusal(401)))
    play.hosts.newest().answer_token("token-of-a")
    assert result_of(renewing) is None
    assert result_of(source.refused(asked(source), refusal(401))) is None
    assert len(play.hosts.posts()) == 1, "nor is it asked for each request"


def test_a_provider_that_refuses_every_token_costs_one_renewal_in_all_processes(
    play: SubscriptionPlay,
) -> None:
    source = play.source(["a"], is_pool=False)
    renewing = Deferred.fromCoroutine(source.refused(asked(source), refusal(401)))
    play.hosts.newest().answer_token("newer", expires_in=3600)
    newer = result_of(renewing)
    assert newer is not None
    play.accounts = play.another_process()
    play.accounts.load()
    other = play.source(["a"], is_pool=False)
    for wait in (0.0, NEW_SECONDS - 0.001):
        play.clock.advance(wait)
        assert result_of(source.refused(newer, refusal(401))) is None
        assert result_of(other.refused(asked(other), refusal(401))) is None, "the client gets the 401"
    assert len(play.hosts.posts()) == 1
    play.clock.advance(0.002)
    again = Deferred.fromCoroutine(other.refused(asked(other), refusal(401)))
    play.hosts.newest().answer_token("newest")
    assert result_of(again) is not None


def test_an_account_limited_at_the_last_attempt_rests_too(play: SubscriptionPlay) -> None:
    source = play.source(["a", "b"])
    assert result_of(source.refused(asked(source), refusal(headers=LIMITED, attempts=99))) is None
    assert [account(asked(source)) for _ in range(2)] == ["b", "b"]


def test_another_token_ends_the_rest_of_a_refused_account_after_a_reload_too(play: SubscriptionPlay) -> None:
    play.put("a", refresh_token=None)
    before = play.source(["a", "b"])
    assert account(result_of(before.refused(asked(before), refusal(401)))) == "b"
    after = play.source(["a", "b"], cooldowns=before.pool.cooldowns)
    assert account(asked(after)) == "b"
    play.put("a", "of-a-new-login")
    assert {account(asked(after)) for _ in range(2)} == {"a", "b"}


def test_one_account_alone_is_renewed_and_does_not_rest(play: SubscriptionPlay) -> None:
    source = play.source(["a"], is_pool=False)
    assert [source.refusable(status) for status in (401, 403, 429, 500)] == [True, False, False, False]
    renewing = Deferred.fromCoroutine(source.refused(asked(source), refusal(401)))
    play.hosts.newest().answer_token("newer")
    newer = result_of(renewing)
    assert newer is not None
    assert result_of(source.refused(newer, refusal(401, attempts=2))) is None
    assert account(asked(source)) == "a"


def test_a_token_that_is_refused_later_is_refreshed_again_unless_the_request_had_that(
    play: SubscriptionPlay,
) -> None:
    source = play.source(["a"], is_pool=False)
    renewing = Deferred.fromCoroutine(source.refused(asked(source), refusal(401)))
    play.hosts.newest().answer_token("newer")
    newer = result_of(renewing)
    assert newer is not None
    play.clock.advance(NEW_SECONDS)
    assert result_of(source.refused(newer, replace(refusal(401, attempts=2), renewed=True))) is None
    again = Deferred.fromCoroutine(source.refused(newer, refusal(401)))
    play.hosts.newest().answer_token("newest")
    assert result_of(again) is not None


def test_an_endpoint_that_fails_is_not_asked_for_each_request_that_is_refused(play: SubscriptionPlay) -> None:
    source = play.source(["a"], is_pool=False)
    first = Deferred.fromCoroutine(source.refused(asked(source), refusal(401)))
    play.hosts.newest().answer({"error": "server_error"}, 500)
    assert result_of(first) is None
    assert result_of(source.refused(asked(source), refusal(401))) is None
    assert len(play.hosts.posts()) == 1


def test_a_token_that_has_ended_is_refreshed_where_no_other_is_good(play: SubscriptionPlay) -> None:
    play.put("a", expires_at=play.wall() + 1)
    source = play.source(["a", "b"])
    assert [account(asked(source)) for _ in range(2)] == ["b", "b"], "it need not wait"
    alone = play.source(["a"])
    assert alone.ready(None, "m") is None
    waiting = Deferred.fromCoroutine(alone.obtain(None, "m"))
    play.hosts.newest().answer_token("newer")
    assert result_of(waiting).value == Secret("Bearer newer")


def test_where_one_cannot_be_refreshed_the_next_is(play: SubscriptionPlay) -> None:
    for name in ("a", "b"):
        play.put(name, expires_at=play.wall() + 1)
    waiting = Deferred.fromCoroutine(play.source(["a", "b"]).obtain(None, "m"))
    play.hosts.newest().refuse()
    play.hosts.newest().answer_token("newer")
    assert result_of(waiting).account == "b"


def test_without_a_login_the_client_is_told_so(play: SubscriptionPlay) -> None:
    source = play.source(["nobody"])
    assert not source.has_usable
    with pytest.raises(GatewayError, match="mgw auth login") as refused:
        result_of(source.obtain(None, "m"))
    assert refused.value.reason is Reason.NO_PROVIDER_KEY


def test_where_no_token_can_be_had_the_source_has_failed(play: SubscriptionPlay) -> None:
    play.put("a", expires_at=play.wall() + 1)
    source = play.source(["a"])
    waiting = Deferred.fromCoroutine(source.obtain(None, "m"))
    play.hosts.newest().refuse()
    for work in (waiting, Deferred.fromCoroutine(source.obtain(None, "m"))):
        with pytest.raises(GatewayError) as refused:
            result_of(work)
        assert refused.value.reason is Reason.CREDENTIAL_SOURCE
    assert not source.has_usable


def test_a_provider_that_refuses_more_slowly_than_accounts_rest_is_not_asked_for_ever(
    play: SubscriptionPlay,
) -> None:
    source = play.source(["a", "b"])
    current: Credential | None = asked(source)
    attempts = 1
    while current is not None:
        play.clock.advance(5)
        said = refusal(headers=[(b"retry-after", b"1")], attempts=attempts)
        current = result_of(source.refused(current, said))
        attempts += 1
    assert attempts < 30


@examples(60)
@given(
    names=st.integers(1, 4).map(lambda count: list("abcd"[:count])),
    answers=st.lists(
        st.tuples(
            st.sampled_from([200, 200, 403, 429]),
            st.integers(1, 90),
            st.sampled_from("mn"),
            st.integers(0, 40),
        ),
        max_size=40,
    ),
)
def test_no_request_goes_to_a_resting_account_while_another_is_usable(
    names: list[str], answers: list[tuple[int, int, str, int]]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        play = SubscriptionPlay(Path(folder))
        for name in names:
            play.put(name, expires_at=None)
        source = play.source(names)
        until: dict[tuple[str, str], float] = {}
        for status, seconds, model, pause in answers:
            now = play.clock.seconds()
            waits = {name: until.get((name, model), 0.0) - now for name in names}
            credential = source.ready(None, model)
            if credential is None:
                assert all(wait > 0 for wait in waits.values())
                with pytest.raises(GatewayError) as refused:
                    result_of(source.obtain(None, model))
                assert refused.value.reason is Reason.NO_ACCOUNT
                assert 0 <= (refused.value.retry_after or -1) - min(waits.values()) < 1
            else:
                name = credential.account or ""
                assert waits[name] <= 0
                if status != 200:
                    rest = 600 if status == 403 else seconds
                    until[name, model] = now + rest
                    said = refusal(status, [(b"retry-after", b"%d" % seconds)], model)
                    awake = [other for other in names if until.get((other, model), 0.0) <= now]
                    if awake or status == 403:
                        another = result_of(source.refused(credential, said))
                        assert (account(another) in awake) if awake else another is None
                    else:
                        with pytest.raises(GatewayError) as refused:
                            result_of(source.refused(credential, said))
                        assert refused.value.reason is Reason.NO_ACCOUNT
            play.clock.advance(pause)


def test_headers_of_the_profile_go_with_the_account(play: SubscriptionPlay) -> None:
    play.text = PROFILE + (
        "account: {details: {id: [x], other: [y]}}\n"
        "headers:\n"
        "  set: {X-Account: 'acc {id}', X-Other: '{other}', User-Agent: own/1}\n"
        "  merge: {anthropic-beta: [one, two]}\n"
        "  remove: [x-title]\n"
        "cloak: {client: ['Vendor-Cli/*'], headers: {X-App: cli, User-Agent: 'vendor-cli/2'}}\n"
    )
    play.put("a", details={"id": "17"})
    sent: RawHeaders = [
        (b"User-Agent", b"sdk/1"),
        (b"Anthropic-Beta", b"three, two"),
        (b"X-Title", b"t"),
        (b"anthropic-beta", b"four"),
        (b"Accept", b"*/*"),
    ]
    plain = [(b"X-Account", b"acc 17"), (b"User-Agent", b"own/1")]
    merged = (b"anthropic-beta", b"one,two,three,four")

    def edited(mode: CloakMode, headers: RawHeaders) -> RawHeaders:
        credential = asked(play.source(["a"], cloak=mode))
        assert credential.headers is not None
        return credential.headers.apply(headers)

    assert edited(CloakMode.NEVER, sent) == [(b"Accept", b"*/*"), *plain, merged]
    cloaked = [(b"X-Account", b"acc 17"), (b"User-Agent", b"vendor-cli/2"), (b"X-App", b"cli")]
    assert edited(CloakMode.ALWAYS, sent) == [(b"Accept", b"*/*"), *cloaked, merged]
    assert edited(CloakMode.AUTO, sent) == [(b"Accept", b"*/*"), *cloaked, merged]
    own_client: RawHeaders = [(b"user-agent", b"vendor-CLI/9 (x)")]
    assert edited(CloakMode.AUTO, own_client) == [*plain, (b"anthropic-beta", b"one,two")]


def test_credentials_in_the_headers_of_a_profile_are_among_what_no_response_may_repeat(
    tmp_path: Path,
) -> None:
    text = f"""{PROFILE}
headers:
  set: {{X-Client-Secret: canary-plain, User-Agent: example/1}}
  merge: {{X-Tokens: [canary-merged]}}
cloak: {{headers: {{X-Client-Secret: "Basic canary-cloaked"}}}}
"""
    play = SubscriptionPlay(tmp_path, text)
    play.put("a")
    credential = play.source(["a"]).ready(None)
    assert credential is not None
    provider = config("providers: {p: {kind: openai, api_key: sk-1}}").providers["p"]
    sent = {secret.reveal() for secret in secrets_sent(provider, credential)}
    assert sent == {
        *("token-of-a", "canary-plain", "canary-merged", "Basic canary-cloaked", "canary-cloaked"),
    }
