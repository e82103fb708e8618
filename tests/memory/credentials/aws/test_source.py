"""The credentials of providers with ``auth: aws``: renewed, replaced when files change, shared."""

from __future__ import annotations

from typing import Any

import pytest
from twisted.internet.defer import CancelledError, Deferred
from twisted.logger import LogLevel, capturedLogs

from mgw.config.proxy import parse_proxy
from mgw.credentials.aws.found_keys import FoundKeys, NoKeys
from mgw.credentials.aws.key_givers import use_keys
from mgw.credentials.aws.keys import AwsKeys, FixedKeys, KeySource
from mgw.credentials.aws.signer import SigV4
from mgw.credentials.aws.source import CHECK_SECONDS, AwsCredentials
from mgw.credentials.provider import Credential, CredentialRefusal
from mgw.credentials.renewed_token import NEW_SECONDS, RETRY_SECONDS
from mgw.credentials.state import State
from mgw.credentials.token_request import TokenRequestError
from mgw.nouns.secret import Secret, key_hash
from tests.support.aws_keys import (
    DENIED,
    EXPIRED,
    FIXED,
    INSTANCE,
    KEYS,
    METADATA,
    OTHER_KEYS,
    ROLE,
    STS,
    Files,
    answer_instance,
    assumed,
    container,
    credentials,
    error_xml,
    obtain,
    role_xml,
    scope_of,
    secret_of,
)
from tests.support.deferreds import result_of
from tests.support.token_endpoints import WALL, TokenHosts

ROLE_KEYS = FoundKeys(assumed())
OTHER = FixedKeys(OTHER_KEYS, "the profile 'llm'")


@pytest.fixture
def hosts() -> TokenHosts:
    return TokenHosts()


def refused(
    found: AwsCredentials, credential: Credential, refusal: CredentialRefusal = EXPIRED
) -> Deferred[Credential | None]:
    return Deferred.fromCoroutine(found.refused(credential, refusal))


def held(hosts: TokenHosts, found: AwsCredentials, number: int = 1, seconds: float = 3600.0) -> Credential:
    """Return a credential with new keys of STS."""
    waiting = obtain(found)
    hosts.newest(STS).answer(role_xml(number, hosts.clock.seconds() + seconds))
    return result_of(waiting)


def error_of(waiting: Deferred[Credential]) -> TokenRequestError:
    with pytest.raises(TokenRequestError) as caught:
        result_of(waiting)
    return caught.value


def test_fixed_keys_sign_at_once(hosts: TokenHosts) -> None:
    found = credentials(hosts.sources, FoundKeys(FIXED))
    credential = result_of(obtain(found))
    assert (credential.header, secret_of(credential)) == (b"", "canary-secret-0")
    assert credential.key_hash == key_hash("AKIDEXAMPLE")
    assert scope_of(credential) == "AKIDEXAMPLE us-east-1 bedrock"
    assert found.ready(None) is credential
    assert result_of(obtain(found)) is credential, "the signer keeps what it has prepared"
    hosts.clock.advance(1e9)
    assert found.ready(None) is credential
    assert found.signs
    assert found.describe(WALL).state is State.READY


def test_what_is_sent_of_keys_is_known_with_the_credential(hosts: TokenHosts) -> None:
    keys = AwsKeys("ASIACANARY1", Secret("canary-secret"), Secret("canary-session"))
    credential = result_of(obtain(credentials(hosts.sources, FoundKeys(FixedKeys(keys, "x")))))
    assert credential.added == (Secret("ASIACANARY1"), Secret("canary-session"))
    assert {"canary-secret", "canary-session"} <= {secret.reveal() for secret in hosts.sources.secrets()}


@pytest.mark.parametrize(("life", "fresh"), [(3600, 3300), (900, 600), (601, 301), (600, 300), (10, 5)])
def test_keys_are_renewed_5_minutes_before_their_end_or_in_the_middle_of_a_short_life(
    hosts: TokenHosts, life: float, fresh: float
) -> None:
    found = credentials(hosts.sources, ROLE_KEYS)
    first = held(hosts, found, seconds=life)
    hosts.clock.advance(fresh - 0.25)
    assert found.ready(None) is first
    hosts.clock.advance(0.25)
    assert found.ready(None) is None
    assert result_of(obtain(found)) is first, "nobody waits while the old ones are good"
    assert result_of(obtain(found)) is first
    assert len(hosts.posts(STS)) == 2
    hosts.newest(STS).answer(role_xml(2, fresh + 3600))
    second = result_of(obtain(found))
    assert secret_of(second) == "canary-secret-2"
    assert scope_of(second) == "ASIAROLE2 us-east-1 bedrock"
    assert len(hosts.posts(STS)) == 2


def test_old_keys_are_used_until_they_have_expired_and_the_log_says_so_once_a_minute(
    hosts: TokenHosts,
) -> None:
    found = credentials(hosts.sources, ROLE_KEYS)
    first = held(hosts, found)
    hosts.clock.advance(3300)
    with capturedLogs() as events:
        for _ in range(60):
            assert result_of(obtain(found)) is first
            hosts.newest(STS).answer(error_xml("Throttling"), 400)
            hosts.clock.advance(RETRY_SECONDS)
    warnings = [event for event in events if event["log_level"] is LogLevel.warn]
    assert 4 <= len(warnings) <= 5
    assert "Throttling" in warnings[0]["message"]
    assert found.failures == 60
    waiting = obtain(found)
    hosts.newest(STS).answer(error_xml("Throttling"), 400)
    assert error_of(waiting).code == "credential_source_failed"


def test_a_client_that_leaves_does_not_cancel_a_renewal(hosts: TokenHosts) -> None:
    found = credentials(hosts.sources, ROLE_KEYS)
    waiting = [obtain(found) for _ in range(3)]
    for waiter in waiting:
        waiter.cancel()
        _ = waiter.addErrback(lambda failure: failure.trap(CancelledError))
    hosts.newest(STS).answer(role_xml())
    assert secret_of(result_of(obtain(found))) == "canary-secret-1"
    assert len(hosts.posts(STS)) == 1


def test_providers_with_the_same_source_share_its_keys_and_sign_each_for_itself(hosts: TokenHosts) -> None:
    one = credentials(hosts.sources, ROLE_KEYS, "us-east-1", "one")
    other = credentials(hosts.sources, ROLE_KEYS, "eu-central-1", "other")
    waiting = [obtain(one), obtain(other)]
    assert len(hosts.posts(STS)) == 1
    hosts.newest(STS).answer(role_xml())
    scopes = [scope_of(result_of(waiter)) for waiter in waiting]
    assert scopes == ["ASIAROLE1 us-east-1 bedrock", "ASIAROLE1 eu-central-1 bedrock"]
    one.close()
    assert other.ready(None) is not None
    other.close()
    assert not len(hosts.sources)


@pytest.mark.parametrize("source", [INSTANCE, container()], ids=["instance", "container"])
def test_what_is_next_door_is_asked_once_for_providers_with_other_proxies(
    hosts: TokenHosts, source: KeySource
) -> None:
    proxies = None, parse_proxy("http://one.example:3128"), parse_proxy("http://two.example:3128")
    givers = [use_keys(hosts.sources, proxy, source) for proxy in proxies]
    assert len({id(giver) for giver in givers}) == 1
    roles = [use_keys(hosts.sources, proxy, assumed(source)) for proxy in proxies]
    assert len({id(giver) for giver in roles}) == 3, "STS is reached in other ways"
    for giver in (*givers, *roles):
        hosts.sources.release(giver)
    assert not len(hosts.sources)


REFUSING = ("ExpiredTokenException", "ExpiredToken", "UnrecognizedClientException", "InvalidClientTokenId")


@pytest.mark.parametrize("status", [400, 403])
@pytest.mark.parametrize("name", REFUSING)
def test_keys_that_aws_does_not_accept_are_renewed_once_for_all(
    hosts: TokenHosts, name: str, status: int
) -> None:
    found = credentials(hosts.sources, ROLE_KEYS)
    first = held(hosts, found)
    assert found.refusable(status)
    refusal = CredentialRefusal(status, [], body=b'{"__type":"com.amazon#%b"}' % name.encode())
    waiting = [refused(found, first, refusal) for _ in range(100)]
    assert len(hosts.posts(STS)) == 2
    hosts.newest(STS).answer(role_xml(2))
    others = {id(other): other for waiter in waiting if (other := result_of(waiter)) is not None}
    (second,) = others.values()
    assert secret_of(second) == "canary-secret-2"
    assert result_of(refused(found, first)) is second, "who comes late takes it"
    assert result_of(refused(found, second)) is None, "they have just been renewed"
    hosts.clock.advance(NEW_SECONDS - 0.001)
    assert result_of(refused(found, second)) is None
    assert len(hosts.posts(STS)) == 2


@pytest.mark.parametrize(
    "refusal",
    [
        DENIED,
        CredentialRefusal(403, [], body=b'{"__type":"AccessDeniedException","code":"AccessDenied"}'),
        CredentialRefusal(400, [(b"x-amzn-errortype", b"ValidationException")]),
        CredentialRefusal(403, [(b"x-amzn-errortype", b"SignatureDoesNotMatch")]),
        CredentialRefusal(401, [(b"x-amzn-errortype", b"ExpiredToken")]),
        CredentialRefusal(403),
        CredentialRefusal(403, [], body=b"<html>ExpiredToken"),
    ],
)
def test_no_other_refusal_renews_keys(hosts: TokenHosts, refusal: CredentialRefusal) -> None:
    found = credentials(hosts.sources, ROLE_KEYS)
    first = held(hosts, found)
    assert result_of(refused(found, first, refusal)) is None
    assert len(hosts.posts(STS)) == 1
    assert not any(map(found.refusable, (200, 401, 404, 429, 500)))


def test_a_source_that_gives_the_same_keys_again_gives_no_others(hosts: TokenHosts) -> None:
    found = credentials(hosts.sources, ROLE_KEYS)
    waiting = refused(found, held(hosts, found))
    hosts.newest(STS).answer(role_xml(1))
    assert result_of(waiting) is None


@pytest.mark.parametrize(("code", "status"), [("AccessDenied", 403), ("ExpiredToken", 400)])
def test_where_no_others_are_to_be_had_the_refusal_is_passed_on(
    hosts: TokenHosts, code: str, status: int
) -> None:
    found = credentials(hosts.sources, ROLE_KEYS)
    waiting = refused(found, held(hosts, found))
    hosts.newest(STS).answer(error_xml(code), status)
    assert result_of(waiting) is None
    assert len(hosts.posts(STS)) == 2


def test_fixed_keys_that_are_refused_stay_refused(hosts: TokenHosts) -> None:
    found = credentials(hosts.sources, FoundKeys(FIXED))
    assert result_of(refused(found, result_of(obtain(found)))) is None


def test_files_that_change_lead_to_other_keys_a_second_later(hosts: TokenHosts) -> None:
    files = Files()
    found = credentials(hosts.sources, files)
    first = result_of(obtain(found))
    files.change(OTHER)
    hosts.clock.advance(CHECK_SECONDS - 0.001)
    assert found.ready(None) is first
    hosts.clock.advance(0.001)
    assert found.ready(None) is None
    second = result_of(obtain(found))
    assert scope_of(second) == "AKIDOTHER us-east-1 bedrock"
    assert second.key_hash == key_hash("AKIDOTHER")
    assert found.ready(None) is second
    assert len(hosts.sources) == 1, "nobody uses the keys from before"
    assert "canary-secret-0" in {secret.reveal() for secret in hosts.sources.secrets()}, "but requests did"


def test_files_are_looked_at_once_a_second_however_many_ask(hosts: TokenHosts) -> None:
    files = Files(assumed())
    found = credentials(hosts.sources, files)
    first = held(hosts, found)
    looks = files.looks
    for _ in range(100):
        assert found.ready(None) is first or result_of(obtain(found)) is first
    assert files.looks == looks
    hosts.clock.advance(CHECK_SECONDS)
    assert found.ready(None) is None
    for _ in range(100):
        assert result_of(obtain(found)) is first, "and the keys are kept"
    assert files.looks == looks + 1
    assert found.ready(None) is first


def test_a_source_without_files_is_never_looked_at(hosts: TokenHosts) -> None:
    found = credentials(hosts.sources, FoundKeys(FIXED))
    result_of(obtain(found))
    hosts.clock.advance(1e6)
    assert found.ready(None) is not None
    assert not hosts.sources.watchers


def test_a_refusal_looks_at_the_files_at_once(hosts: TokenHosts) -> None:
    files = Files()
    found = credentials(hosts.sources, files)
    first = result_of(obtain(found))
    assert result_of(refused(found, first)) is None
    files.change(OTHER)
    second = result_of(refused(found, first))
    assert second is not None
    assert secret_of(second) == "canary-secret-9"
    assert found.ready(None) is second


def test_files_that_break_leave_everything_as_it_was_and_the_log_says_so_once_a_minute(
    hosts: TokenHosts,
) -> None:
    files = Files(assumed())
    found = credentials(hosts.sources, files)
    first = held(hosts, found, seconds=120)
    files.problem = "/credentials has no profile 'llm'"
    with capturedLogs() as events:
        for _ in range(59):
            hosts.clock.advance(CHECK_SECONDS)
            assert result_of(obtain(found)) is first
        hosts.clock.advance(CHECK_SECONDS)
        result_of(obtain(found))
    warnings = [event for event in events if event["log_level"] is LogLevel.warn]
    assert [(event["provider"], event["problem"]) for event in warnings] == [("p", files.problem)]
    assert found.failures == 60
    hosts.clock.advance(60)
    waiting = obtain(found)
    hosts.newest(STS).answer(error_xml("AccessDenied"), 403)
    error = error_of(waiting)
    assert "answered 403 AccessDenied" in error.message
    assert files.problem not in error.message, "a client need not know our files"
    assert error.detail.endswith(files.problem), "the log has why it may be the wrong role"
    files.change(OTHER)
    hosts.clock.advance(CHECK_SECONDS)
    assert secret_of(result_of(obtain(found))) == "canary-secret-9"


def test_a_source_that_is_closed_while_its_files_are_looked_at_takes_no_other(hosts: TokenHosts) -> None:
    files, run = Files(), hosts.sources.subscriptions.run
    found = credentials(hosts.sources, files)
    stalled: Deferred[Any] = Deferred()
    hosts.sources.subscriptions.run = lambda work: stalled  # as a disk that stalls
    looking = Deferred.fromCoroutine(found.look())
    found.close()
    hosts.sources.subscriptions.run = run
    stalled.callback(FoundKeys(OTHER, (("/credentials", None),)))
    result_of(looking)
    assert not len(hosts.sources)
    assert not hosts.sources.watchers


def test_where_nothing_was_found_the_sentence_says_what_was_looked_at(hosts: TokenHosts) -> None:
    looked_at = "the environment, the profile 'default' or a container's endpoint"
    waiting = obtain(credentials(hosts.sources, FoundKeys(INSTANCE, looked_at=looked_at)))
    hosts.clock.advance(1)
    error = error_of(waiting)
    start = f"no AWS credentials were found in {looked_at}, and AWS's instance metadata service did not"
    assert error.message.startswith(start)
    assert "hop limit" in error.message
    assert (error.detail, error.code) == (METADATA, "credential_source_failed")


def test_a_role_that_cannot_be_assumed_with_the_keys_of_an_instance_is_another_matter(
    hosts: TokenHosts,
) -> None:
    waiting = obtain(credentials(hosts.sources, FoundKeys(assumed(INSTANCE), looked_at="the environment")))
    answer_instance(hosts)
    hosts.newest(STS).answer(error_xml("AccessDenied"), 403)
    assert error_of(waiting).message.startswith("AWS STS answered 403")


def test_where_there_is_no_source_the_sentence_says_so_until_a_file_names_one(hosts: TokenHosts) -> None:
    files = Files(NoKeys("no AWS credentials found in the environment"))
    found = credentials(hosts.sources, files)
    error = error_of(obtain(found))
    assert (error.message, error.code) == (
        "no AWS credentials found in the environment",
        "credential_source_failed",
    )
    assert found.ready(None) is None
    assert found.failures == 1
    assert found.describe(WALL).state is State.MISSING
    files.change(OTHER)
    hosts.clock.advance(CHECK_SECONDS)
    assert secret_of(result_of(obtain(found))) == "canary-secret-9"
    assert found.failures == 1, "a counter does not go back"
    files.change(NoKeys("no AWS credentials found in the environment"))
    hosts.clock.advance(CHECK_SECONDS)
    error_of(obtain(found))
    assert found.ready(None) is None


def test_failures_are_counted_for_the_metric(hosts: TokenHosts) -> None:
    found = credentials(hosts.sources, ROLE_KEYS)
    assert found.failures == 0
    assert found.describe(WALL).state is State.UNKNOWN
    waiting = obtain(found)
    hosts.newest(STS).answer(error_xml("AccessDenied"), 403)
    error_of(waiting)
    assert found.failures == 1
    assert found.describe(WALL).state is State.MISSING
    held(hosts, found)
    state = found.describe(WALL)
    assert (state.state, state.key_hash, state.expires) == (State.READY, key_hash(ROLE), WALL + 3600)


def test_nothing_secret_prints(hosts: TokenHosts) -> None:
    for source in (FIXED, assumed(), container(), assumed(container())):
        found = credentials(hosts.sources, FoundKeys(source))
        waiting = obtain(found)
        shown = [found, found.found, source, vars(type(found)), waiting, hosts.sources]
        assert "canary" not in repr(shown)
    found = credentials(hosts.sources, FoundKeys(INSTANCE))
    waiting = obtain(found)
    answer_instance(hosts)
    credential = result_of(waiting)
    assert "canary" not in repr([found, credential, credential.signer, KEYS])
    assert "ASIAROLE1" not in repr([found, credential, credential.signer])


def test_nothing_is_kept_of_what_keys_signed_before_others_took_their_place(hosts: TokenHosts) -> None:
    found = credentials(hosts.sources, ROLE_KEYS)
    before = held(hosts, found)
    scope_of(before)
    assert isinstance(before.signer, SigV4)
    assert before.signer.kept == 1
    waiting = refused(found, before)
    hosts.newest(STS).answer(role_xml(2))
    other = result_of(waiting)
    assert secret_of(other) == "canary-secret-2"
    assert before.signer.kept == 0, "heads that never come again may hold the signer for long"
    assert scope_of(before).startswith("ASIAROLE1 "), "a request under way may still need it"
