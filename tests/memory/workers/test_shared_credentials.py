"""Workers ask the supervisor's process for tokens, so that it alone asks token endpoints."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from twisted.internet.defer import Deferred, fail
from twisted.logger import capturedLogs

from mgw.credentials import credentials_of
from mgw.credentials.provider import Credential, CredentialRefusal
from mgw.credentials.renewed_token import NEW_SECONDS, RENEW_SECONDS, RenewedToken
from mgw.credentials.token_request import TokenRequestError
from mgw.workers.channel import ChannelError
from mgw.workers.messages import ChannelMessage, Done, TokenAnswer, TokenQuestion
from mgw.workers.shared_credentials import SupervisorTokens, answer_token_question
from tests.support.channel_messages import sent
from tests.support.configs import config
from tests.support.deferreds import result_of
from tests.support.google_keys import service_account, write_json
from tests.support.token_endpoints import TOKEN_URL, TokenHosts

SECRET = "client_id: me, client_secret: s1"
REFRESH = "client_id: me, refresh_token: canary-r1"
REFUSED = CredentialRefusal(401)


@dataclass
class Supervisor:
    """The supervisor's process; it may be out of reach."""

    hosts: TokenHosts = field(default_factory=TokenHosts)
    questions: list[TokenQuestion] = field(default_factory=list)
    answers: list[str] = field(default_factory=list)
    """As they print."""
    instead: Deferred[ChannelMessage] | None = None
    """The next answer."""

    def ask(self, question: ChannelMessage, seconds: float) -> Deferred[ChannelMessage]:
        assert seconds == 25
        question = sent(question)
        assert isinstance(question, TokenQuestion)
        self.questions.append(question)
        if self.instead is not None:
            return self.instead
        answer = answer_token_question(question, self.hosts.sources)
        return answer.addCallback(self._send)

    def _send(self, answer: ChannelMessage) -> ChannelMessage:
        self.answers.append(repr(answer))
        return sent(answer)


def source(hosts: TokenHosts, oauth: str) -> RenewedToken:
    entry = f"kind: gemini, auth: oauth2, oauth: {{token_url: '{TOKEN_URL}', {oauth}}}"
    found: Any = credentials_of(config(f"providers: {{p: {{{entry}}}}}").providers["p"], hosts.sources)
    assert isinstance(found, RenewedToken)
    return found


def worker(supervisor: Supervisor, oauth: str = SECRET) -> RenewedToken:
    """Return a worker's source, whose own token endpoints have the clock of the supervisor's."""
    hosts = TokenHosts(clock=supervisor.hosts.clock)
    hosts.sources.share = SupervisorTokens(supervisor)
    return source(hosts, oauth)


def obtain(found: RenewedToken) -> Deferred[Credential]:
    return Deferred.fromCoroutine(found.obtain(None))


def token_of(waiting: Deferred[Any]) -> str:
    return str(result_of(waiting).key.reveal())


@pytest.fixture
def supervisor() -> Supervisor:
    return Supervisor()


def test_all_workers_get_the_token_that_the_supervisor_has_asked_for_once(supervisor: Supervisor) -> None:
    used = source(supervisor.hosts, SECRET)
    waiting = [obtain(worker(supervisor)) for _ in range(4)] + [obtain(used)]
    assert len(supervisor.hosts.posts()) == 1
    supervisor.hosts.newest().answer_token("canary-a1")
    assert {token_of(waiter) for waiter in waiting} == {"canary-a1"}
    assert len(supervisor.hosts.posts()) == 1
    assert "canary" not in str(supervisor.questions) + str(supervisor.answers)


def test_a_401_in_all_workers_makes_one_request_for_a_token(supervisor: Supervisor) -> None:
    _, workers = source(supervisor.hosts, SECRET), [worker(supervisor) for _ in range(4)]
    waiting = [obtain(found) for found in workers]
    supervisor.hosts.newest().answer_token("canary-a1")
    sent_with = [result_of(waiter) for waiter in waiting]
    refused = [
        Deferred.fromCoroutine(found.refused(credential, REFUSED))
        for found, credential in zip(workers, sent_with, strict=True)
        for _ in range(3)
    ]
    assert len(supervisor.hosts.posts()) == 2
    assert len(supervisor.questions) == 8, "each worker asks once for all its requests"
    supervisor.hosts.newest().answer_token("canary-a2")
    assert {token_of(waiter) for waiter in refused} == {"canary-a2"}
    late = worker(supervisor)
    late_one = obtain(late)
    assert token_of(late_one) == "canary-a2"
    assert len(supervisor.hosts.posts()) == 2
    assert "canary" not in str(supervisor.questions)


def test_a_provider_that_refuses_every_token_costs_one_renewal_in_all_workers(supervisor: Supervisor) -> None:
    _, workers = source(supervisor.hosts, SECRET), [worker(supervisor) for _ in range(4)]
    waiting = [obtain(found) for found in workers]
    supervisor.hosts.newest().answer_token("a1")
    pairs = [(found, result_of(waiter)) for found, waiter in zip(workers, waiting, strict=True)]
    renewed = [Deferred.fromCoroutine(found.refused(first, REFUSED)) for found, first in pairs]
    supervisor.hosts.newest().answer_token("a2")
    seconds = [one for waiter in renewed if (one := result_of(waiter)) is not None]
    late = worker(supervisor)
    workers.append(late)
    seconds.append(result_of(obtain(late)))
    for wait in (0.0, NEW_SECONDS - 0.001):
        supervisor.hosts.clock.advance(wait)
        for found, second in zip(workers, seconds, strict=True):
            assert result_of(found.refused(second, REFUSED)) is None, "the client gets the 401"
    assert len(supervisor.hosts.posts()) == 2
    supervisor.hosts.clock.advance(0.001)
    again = Deferred.fromCoroutine(workers[0].refused(seconds[0], REFUSED))
    supervisor.hosts.newest().answer_token("a3")
    assert token_of(again) == "a3"


def test_a_worker_that_is_refused_what_the_supervisor_has_replaced_already_gets_the_newer_one(
    supervisor: Supervisor,
) -> None:
    _, one, other = source(supervisor.hosts, SECRET), worker(supervisor), worker(supervisor)
    waiting = [obtain(one), obtain(other)]
    supervisor.hosts.newest().answer_token("a1")
    first, second = (result_of(waiter) for waiter in waiting)
    renewed = Deferred.fromCoroutine(one.refused(first, REFUSED))
    supervisor.hosts.newest().answer_token("a2")
    assert token_of(renewed) == "a2"
    assert token_of(Deferred.fromCoroutine(other.refused(second, REFUSED))) == "a2"
    assert len(supervisor.hosts.posts()) == 2


def test_a_refusal_is_not_answered_by_a_question_that_knew_nothing_of_it(supervisor: Supervisor) -> None:
    found = worker(supervisor)
    supervisor.instead = Deferred()
    first = supervisor.instead
    waiting = obtain(found)
    first.callback(TokenAnswer("a1", 100.0))
    credential = result_of(waiting)
    supervisor.hosts.clock.advance(100 - RENEW_SECONDS)
    renewal: Deferred[ChannelMessage] = Deferred()
    supervisor.instead = renewal
    assert token_of(obtain(found)) == "a1", "and it is renewed meanwhile"
    forced: Deferred[ChannelMessage] = Deferred()
    supervisor.instead = forced
    refused = Deferred.fromCoroutine(found.refused(credential, REFUSED))
    renewal.callback(TokenAnswer("a1", 30.0))
    forced.callback(TokenAnswer("a2", 100.0))
    assert token_of(refused) == "a2"
    assert [question.refused is None for question in supervisor.questions] == [True, True, False]


def test_workers_renew_when_the_supervisor_does(supervisor: Supervisor) -> None:
    _, one, other = source(supervisor.hosts, SECRET), worker(supervisor), worker(supervisor)
    waiting = obtain(one)
    supervisor.hosts.newest().answer_token("a1", expires_in=600)
    assert token_of(waiting) == "a1"
    supervisor.hosts.clock.advance(300)
    assert token_of(obtain(other)) == "a1"
    supervisor.hosts.clock.advance(300 - RENEW_SECONDS - 1)
    assert one.ready(None) is not None
    assert other.ready(None) is not None
    supervisor.hosts.clock.advance(1)
    assert one.ready(None) is other.ready(None) is None
    assert token_of(obtain(one)) == token_of(obtain(other)) == "a1", "nobody waits"
    assert len(supervisor.hosts.posts()) == 2
    supervisor.hosts.newest().answer_token("a2", expires_in=600)
    assert token_of(obtain(one)) == token_of(obtain(other)) == "a2"
    assert len(supervisor.hosts.posts()) == 2


def test_an_endpoint_that_fails_in_the_last_seconds_fails_no_worker(supervisor: Supervisor) -> None:
    used = source(supervisor.hosts, SECRET)
    waiting = obtain(used)
    supervisor.hosts.newest().answer_token("a1", expires_in=600)
    result_of(waiting)
    supervisor.hosts.clock.advance(590)
    waiting = obtain(worker(supervisor))
    supervisor.hosts.newest().answer(b"<html>", 500)
    assert token_of(waiting) == "a1"
    assert token_of(obtain(worker(supervisor))) == "a1"
    assert len(supervisor.hosts.posts()) == 2, "not asked again at once"


@pytest.mark.parametrize("oauth", [SECRET, REFRESH])
def test_a_failure_is_the_same_in_the_worker(supervisor: Supervisor, oauth: str) -> None:
    used, found = source(supervisor.hosts, oauth), worker(supervisor, oauth)
    waiting = [obtain(used), obtain(found)]
    supervisor.hosts.newest().refuse("invalid_client")
    errors = []
    for waiter in waiting:
        with pytest.raises(TokenRequestError) as caught:
            result_of(waiter)
        errors.append((caught.value.message, caught.value.detail, caught.value.code))
    assert errors[0] == errors[1]
    assert "invalid_client" in errors[0][0]
    assert errors[0][1] == "http://idp.example"


UNREACHABLE: dict[str, Callable[[], Deferred[ChannelMessage]]] = {
    "lost": lambda: fail(ChannelError("the channel is closed")),
    "nonsense": lambda: _done(Done()),
}


def _done(message: ChannelMessage) -> Deferred[ChannelMessage]:
    done: Deferred[ChannelMessage] = Deferred()
    done.callback(message)
    return done


@pytest.mark.parametrize("how", [*UNREACHABLE, "another configuration"])
def test_a_worker_that_gets_no_answer_asks_the_endpoint_itself(supervisor: Supervisor, how: str) -> None:
    _ = source(supervisor.hosts, SECRET + ", scopes: other")
    hosts = TokenHosts()
    hosts.sources.share = SupervisorTokens(supervisor)
    supervisor.instead = UNREACHABLE[how]() if how in UNREACHABLE else None
    waiting = obtain(source(hosts, SECRET))
    hosts.newest().answer_token("own")
    assert token_of(waiting) == "own"
    assert not supervisor.hosts.posts()


@pytest.mark.parametrize("how", [*UNREACHABLE, "another configuration"])
def test_a_worker_never_uses_a_refresh_token(supervisor: Supervisor, how: str) -> None:
    _ = source(supervisor.hosts, REFRESH + ", scopes: other")
    hosts = TokenHosts()
    hosts.sources.share = SupervisorTokens(supervisor)
    supervisor.instead = UNREACHABLE[how]() if how in UNREACHABLE else None
    found = source(hosts, REFRESH)
    with capturedLogs() as events, pytest.raises(TokenRequestError) as caught:
        result_of(obtain(found))
    assert caught.value.code == "credential_source_failed"
    assert "did not respond" in caught.value.message
    assert "canary" not in f"{events} {caught.value.message} {caught.value.detail} {found!r}"
    assert not hosts.posts()
    assert not supervisor.hosts.posts()


IDENTITIES = [
    "auth: oauth2, oauth: {token_url: 'http://idp.example/token', client_id: me, client_secret: s1}",
    "auth: oauth2, oauth: {token_url: 'http://idp.example/token', client_id: me, client_secret: s2}",
    "auth: oauth2, oauth: {token_url: 'http://idp.example/other', client_id: me, client_secret: s1}",
    (
        "auth: oauth2, proxy: 'http://user:canary@proxy.example:3128', "
        "oauth: {token_url: 'http://idp.example/token', client_id: me, client_secret: s1}"
    ),
    "auth: oauth2, oauth: {token_url: 'http://idp.example/token', grant: jwt_bearer, assertion_file: /f}",
    "auth: adc",
    "auth: service_account, service_account_file: FILE",
]


def test_a_digest_stands_for_all_that_is_configured(tmp_path: Path) -> None:
    file = write_json(tmp_path / "key.json", service_account())

    def identities() -> list[str]:
        hosts = TokenHosts()
        lines = [auth.replace("FILE", file) for auth in IDENTITIES]
        text = "".join(f"  p{number}: {{kind: gemini, {auth}}}\n" for number, auth in enumerate(lines))
        found: list[Any] = [
            credentials_of(provider, hosts.sources)
            for provider in config("providers:\n" + text).providers.values()
        ]
        return [each.identity for each in found]

    assert identities() == identities()
    assert len(set(identities())) == len(IDENTITIES)
