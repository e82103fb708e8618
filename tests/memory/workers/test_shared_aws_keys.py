"""Workers ask the supervisor's process for keys of AWS, so that it alone asks STS and its like."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from twisted.internet.defer import Deferred

from mgw.credentials.aws.found_keys import FoundKeys
from mgw.credentials.aws.keys import KeySource
from mgw.credentials.aws.source import AwsCredentials
from mgw.credentials.provider import Credential
from mgw.credentials.token_request import TokenRequestError
from mgw.workers.channel import ChannelError
from mgw.workers.messages import ChannelMessage, TokenAnswer, TokenQuestion
from mgw.workers.shared_credentials import ANSWER_SECONDS, SupervisorTokens, answer_token_question
from tests.support.aws_keys import (
    CONTAINER,
    EXPIRED,
    FIXED,
    INSTANCE,
    METADATA,
    STS,
    Files,
    answer_instance,
    assumed,
    container,
    credentials,
    error_xml,
    keys_json,
    obtain,
    role_xml,
    scope_of,
    secret_of,
)
from tests.support.channel_messages import sent
from tests.support.deferreds import result_of
from tests.support.token_endpoints import TokenHosts

ROLE = FoundKeys(assumed())


@dataclass
class Service:
    """A supervisor's process, and the channel to it."""

    hosts: TokenHosts = field(default_factory=TokenHosts)
    answers: list[ChannelMessage] = field(default_factory=list)

    def ask(self, question: ChannelMessage, seconds: float) -> Deferred[ChannelMessage]:
        """Answer a question, as both sides of a channel read it."""
        question = sent(question)
        assert isinstance(question, TokenQuestion)
        return answer_token_question(question, self.hosts.sources).addCallback(self._send)

    def _send(self, answer: ChannelMessage) -> ChannelMessage:
        self.answers.append(answer)
        return sent(answer)

    def worker(
        self, found: FoundKeys | Files, region: str = "us-east-1"
    ) -> tuple[TokenHosts, AwsCredentials]:
        """Return a worker's process, and its credentials."""
        hosts = TokenHosts(clock=self.hosts.clock)
        hosts.sources.share = SupervisorTokens(self)
        return hosts, credentials(hosts.sources, found, region)


def refused(found: AwsCredentials, credential: Credential) -> Deferred[Credential | None]:
    return Deferred.fromCoroutine(found.refused(credential, EXPIRED))


@pytest.fixture
def service() -> Service:
    return Service()


def test_all_workers_get_keys_that_were_asked_for_once(service: Service) -> None:
    own = credentials(service.hosts.sources, ROLE)
    workers = [service.worker(ROLE, region) for region in ("us-east-1", "eu-west-1", "us-east-1")]
    waiting = [obtain(own), *[obtain(found) for _, found in workers]]
    assert len(service.hosts.posts(STS)) == 1
    service.hosts.newest(STS).answer(role_xml())
    found = [result_of(waiter) for waiter in waiting]
    assert [scope_of(each) for each in found[1:]] == [
        "ASIAROLE1 us-east-1 bedrock",
        "ASIAROLE1 eu-west-1 bedrock",
        "ASIAROLE1 us-east-1 bedrock",
    ]
    assert {each.added for each in found} == {found[0].added}
    assert not any(hosts.posts(STS) for hosts, _ in workers)
    assert "canary" not in repr(service.answers)
    for hosts, _ in workers:
        known = {secret.reveal() for secret in hosts.sources.secrets()}
        assert {"canary-secret-1", "canary-token-1", "ASIAROLE1"} <= known


def test_workers_renew_when_the_supervisor_does(service: Service) -> None:
    credentials(service.hosts.sources, ROLE)
    _, one = service.worker(ROLE)
    waiting = obtain(one)
    service.hosts.newest(STS).answer(role_xml(1, 3600))
    result_of(waiting)
    service.hosts.clock.advance(3000)
    _, late = service.worker(ROLE)
    assert secret_of(result_of(obtain(late))) == "canary-secret-1"
    service.hosts.clock.advance(299)
    assert one.ready(None) is not None
    assert late.ready(None) is not None
    service.hosts.clock.advance(1)
    assert one.ready(None) is late.ready(None) is None
    assert {secret_of(result_of(obtain(found))) for found in (one, late)} == {"canary-secret-1"}
    assert len(service.hosts.posts(STS)) == 2
    service.hosts.newest(STS).answer(role_xml(2, 7200))
    assert {secret_of(result_of(obtain(found))) for found in (one, late)} == {"canary-secret-2"}
    assert len(service.hosts.posts(STS)) == 2


def test_a_refusal_in_all_workers_makes_one_request(service: Service) -> None:
    credentials(service.hosts.sources, ROLE)
    workers = [service.worker(ROLE)[1] for _ in range(4)]
    waiting = [obtain(found) for found in workers]
    service.hosts.newest(STS).answer(role_xml(1))
    pairs = [(found, result_of(waiter)) for found, waiter in zip(workers, waiting, strict=True)]
    renewed = [refused(found, credential) for found, credential in pairs for _ in range(3)]
    assert len(service.hosts.posts(STS)) == 2
    service.hosts.newest(STS).answer(role_xml(2))
    seconds = [result_of(waiter) for waiter in renewed]
    assert {secret_of(second) for second in seconds} == {"canary-secret-2"}
    again = [refused(found, second) for (found, _), second in zip(pairs, seconds[::3], strict=True) if second]
    assert [result_of(waiter) for waiter in again] == [None] * 4
    assert len(service.hosts.posts(STS)) == 2


def test_a_chain_is_renewed_by_the_supervisor_alone(service: Service) -> None:
    chain = FoundKeys(assumed(INSTANCE))
    credentials(service.hosts.sources, chain)
    hosts, found = service.worker(chain)
    waiting = obtain(found)
    answer_instance(service.hosts, 1)
    service.hosts.newest(STS).answer(role_xml(2))
    assert secret_of(result_of(waiting)) == "canary-secret-2"
    assert not hosts.posts(STS)
    assert not hosts.posts(METADATA)


@dataclass
class SlowService(Service):
    """The same with the limits of a channel."""

    hangs: bool = False

    def ask(self, question: ChannelMessage, seconds: float) -> Deferred[ChannelMessage]:
        """Answer in time, or not at all."""
        answer = Deferred() if self.hangs else super().ask(question, seconds)
        asked: Deferred[ChannelMessage] = Deferred()
        limit = self.hosts.clock.callLater(seconds, asked.errback, ChannelError("no answer"))

        def on_answer(message: ChannelMessage) -> None:
            limit.cancel()
            asked.callback(message)

        _ = answer.addCallback(on_answer)
        return asked


def advance(service: Service, seconds: int) -> None:
    for _ in range(seconds):
        service.hosts.clock.advance(1)


@pytest.mark.parametrize("good", [True, False], ids=["keys", "none"])
def test_a_worker_waits_for_a_chain_of_roles_as_long_as_the_supervisor_is_at_work(*, good: bool) -> None:
    service, roles = SlowService(), 5
    chain: KeySource = FIXED
    for number in range(roles):
        chain = assumed(chain, f"arn:aws:iam::123456789012:role/r{number}")
    found = FoundKeys(chain)
    credentials(service.hosts.sources, found)
    workers = [service.worker(found) for _ in range(2)]
    waiting = [obtain(own) for _, own in workers]
    for number in range(roles):
        advance(service, 19)  # STS may take 20 s for each
        if good or number < roles - 1:
            service.hosts.newest(STS).answer(role_xml(number))
        else:
            service.hosts.newest(STS).answer(error_xml("AccessDenied"), 403)
    assert len(service.hosts.posts(STS)) == roles
    assert not any(hosts.posts(STS) for hosts, _ in workers)
    for waiter in waiting:
        if good:
            assert secret_of(result_of(waiter)) == f"canary-secret-{roles - 1}"
        else:
            with pytest.raises(TokenRequestError, match="AccessDenied"):
                result_of(waiter)
    assert "TokenPending" in {type(answer).__name__ for answer in service.answers}


def test_a_worker_whose_supervisor_hangs_waits_no_longer_than_for_one_answer() -> None:
    service = SlowService()
    credentials(service.hosts.sources, ROLE)
    hosts, found = service.worker(ROLE)
    service.hangs = True
    waiting = obtain(found)
    advance(service, int(ANSWER_SECONDS) - 1)
    assert not hosts.posts(STS)
    advance(service, 1)
    hosts.newest(STS).answer(role_xml(1))
    assert secret_of(result_of(waiting)) == "canary-secret-1"


def test_a_failure_is_the_same_in_the_worker(service: Service) -> None:
    own = credentials(service.hosts.sources, ROLE)
    _, found = service.worker(ROLE)
    waiting = [obtain(own), obtain(found)]
    service.hosts.newest(STS).answer(error_xml("AccessDenied"), 403)
    errors = []
    for waiter in waiting:
        with pytest.raises(TokenRequestError) as caught:
            result_of(waiter)
        errors.append((caught.value.message, caught.value.detail, caught.value.code))
    assert errors[0] == errors[1]
    assert "AccessDenied" in errors[0][0]
    assert found.failures == 1


def test_a_source_that_only_a_changed_file_names_is_found_by_the_supervisor_too(service: Service) -> None:
    files = Files(assumed())
    credentials(service.hosts.sources, files)
    workers = [service.worker(files) for _ in range(2)]
    waiting = [obtain(found) for _, found in workers]
    service.hosts.newest(STS).answer(role_xml(1))
    assert {secret_of(result_of(waiter)) for waiter in waiting} == {"canary-secret-1"}
    files.change(assumed(role="arn:aws:iam::123456789012:role/new"))
    service.hosts.clock.advance(1)
    waiting = [obtain(found) for _, found in workers]
    assert len(service.hosts.posts(STS)) == 2
    assert service.hosts.newest(STS).form["RoleArn"].endswith("role/new")
    service.hosts.newest(STS).answer(role_xml(2))
    assert {secret_of(result_of(waiter)) for waiter in waiting} == {"canary-secret-2"}
    assert not any(hosts.posts(STS) for hosts, _ in workers)
    assert len(service.hosts.sources) == 2, "the role and its keys"


def test_a_worker_that_gets_no_answer_asks_by_itself(service: Service) -> None:
    hosts, found = service.worker(FoundKeys(container()))
    waiting = obtain(found)
    assert [type(answer).__name__ for answer in service.answers] == ["Failed"]
    hosts.newest(CONTAINER).answer(keys_json(5))
    assert secret_of(result_of(waiting)) == "canary-secret-5"


def test_an_answer_with_several_parts_prints_none_of_them() -> None:
    answer = TokenAnswer("canary-secret", 60.0, ("canary-key", "canary-token"))
    assert "canary" not in repr(answer)
    assert sent(answer) == answer


def test_a_worker_without_keys_gets_good_ones_at_once_while_they_cannot_be_renewed(service: Service) -> None:
    own = credentials(service.hosts.sources, ROLE)
    waiting = obtain(own)
    service.hosts.newest(STS).answer(role_xml(1, 3600))
    result_of(waiting)
    service.hosts.clock.advance(3500)
    _, found = service.worker(ROLE)
    assert secret_of(result_of(obtain(found))) == "canary-secret-1", "STS has not answered"
    assert len(service.hosts.posts(STS)) == 2, "it is asked all the same"
    service.hosts.newest(STS).answer(role_xml(2, 7200))
    service.hosts.clock.advance(60)
    for _ in range(2):
        newest = secret_of(result_of(obtain(found)))
    assert newest == "canary-secret-2"


def test_a_worker_with_good_keys_waits_for_new_ones_and_goes_on_meanwhile(service: Service) -> None:
    _, found = service.worker(ROLE)
    own = credentials(service.hosts.sources, ROLE)
    waiting = obtain(found)
    service.hosts.newest(STS).answer(role_xml(1, 3600))
    result_of(waiting)
    service.hosts.clock.advance(3400)
    assert secret_of(result_of(obtain(found))) == "canary-secret-1"
    service.hosts.newest(STS).answer(role_xml(2, 7200))
    assert secret_of(result_of(obtain(found))) == "canary-secret-2"
    own.close()
