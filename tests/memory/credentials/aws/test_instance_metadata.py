"""The metadata service of an instance, version 2."""

from __future__ import annotations

from typing import Any

import pytest
from twisted.internet.defer import Deferred
from twisted.internet.error import ConnectionRefusedError as Refused

from mgw.config.proxy import parse_proxy
from mgw.credentials.aws.instance_metadata import ANSWER_SECONDS, PROBE_SECONDS
from mgw.credentials.aws.key_givers import use_keys
from mgw.credentials.token_request import TokenRequestError
from mgw.nouns.secret import key_hash
from tests.support.aws_keys import INSTANCE, METADATA, answer_instance, keys_json, secret_of
from tests.support.deferreds import result_of
from tests.support.token_endpoints import TokenHosts

HOP_LIMIT = "metadata hop limit (HttpPutResponseHopLimit) to be 2 or more"


@pytest.fixture
def hosts() -> TokenHosts:
    return TokenHosts()


def obtain(hosts: TokenHosts) -> Deferred[Any]:
    return Deferred.fromCoroutine(use_keys(hosts.sources, None, INSTANCE).obtain(None))


def error_of(waiting: Deferred[Any]) -> TokenRequestError:
    with pytest.raises(TokenRequestError) as caught:
        result_of(waiting)
    return caught.value


def test_keys_come_with_a_token_that_is_asked_for_first(hosts: TokenHosts) -> None:
    waiting = obtain(hosts)
    token, role, keys = answer_instance(hosts)
    credential = result_of(waiting)
    assert token.line == b"PUT /latest/api/token"
    assert token.header(b"x-aws-ec2-metadata-token-ttl-seconds") == b"21600"
    assert token.header(b"content-length") == b"0"
    assert role.line == b"GET /latest/meta-data/iam/security-credentials/"
    assert keys.line == b"GET /latest/meta-data/iam/security-credentials/my-role"
    assert [each.header(b"x-aws-ec2-metadata-token") for each in (role, keys)] == [b"canary-imds"] * 2
    assert secret_of(credential) == "canary-secret-1"
    assert credential.key_hash == key_hash("imds")
    known = {secret.reveal() for secret in hosts.sources.secrets()}
    assert {"canary-imds", "canary-secret-1", "canary-token-1"} <= known


def test_the_service_is_never_asked_through_a_proxy(hosts: TokenHosts) -> None:
    use_keys(hosts.sources, parse_proxy("http://proxy.example:3128"), INSTANCE)
    assert hosts.proxies == [None]


def test_where_nothing_answers_within_a_second_the_hop_limit_is_named(hosts: TokenHosts) -> None:
    waiting = obtain(hosts)
    hosts.clock.advance(PROBE_SECONDS - 0.001)
    assert not waiting.called
    hosts.clock.advance(0.001)
    error = error_of(waiting)
    assert error.message.startswith("AWS's instance metadata service did not respond within 1 s: on EC2")
    assert HOP_LIMIT in error.message
    assert error.detail == METADATA


def test_where_nothing_listens_it_is_named_too(hosts: TokenHosts) -> None:
    hosts.endpoint(METADATA).refusal = Refused()
    assert HOP_LIMIT in error_of(obtain(hosts)).message


def test_once_the_service_is_there_it_has_more_time(hosts: TokenHosts) -> None:
    waiting = obtain(hosts)
    hosts.newest(METADATA).answer(b"canary-imds")
    hosts.clock.advance(ANSWER_SECONDS - 0.001)
    assert not waiting.called
    hosts.clock.advance(0.001)
    assert "did not respond within 5 s" in error_of(waiting).message


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        ([(403, b"canary")], "answered 403: it is turned off for this instance"),
        ([(404, b"canary")], "answered 404: it gives no token"),
        ([(200, b"")], "its token is missing"),
        ([(200, b"canary\r\nX: y")], "its token has characters"),
        ([(302, b"")], "redirects are not followed"),
        ([(200, b"t"), (404, b"canary")], "the instance has no role; give it one"),
        ([(200, b"t"), (401, b"canary")], "answered 401: try again later"),
        ([(200, b"t"), (200, b"")], "without the name of a role"),
        ([(200, b"t"), (200, b"<html>canary")], "without the name of a role"),
        ([(200, b"t"), (200, b"..")], "without the name of a role"),
        ([(200, b"t"), (200, b"a/../b")], "without the name of a role"),
        ([(200, b"t"), (200, b"r"), (404, b"canary")], "answered 404: try again later"),
        ([(200, b"t"), (200, b"r"), (200, b"canary")], "its body is not a JSON object"),
        (
            [(200, b"t"), (200, b"r"), (200, b'{"Code":"AssumeRoleUnauthorizedAccess","Message":"canary"}')],
            "check that EC2 may assume the role",
        ),
        ([(200, b"t"), (200, b"r"), (200, keys_json(SecretAccessKey=""))], "its SecretAccessKey is missing"),
    ],
)
def test_what_is_wrong_is_said_and_version_1_is_never_tried(
    hosts: TokenHosts, answers: list[tuple[int, bytes]], said: str
) -> None:
    waiting = obtain(hosts)
    for status, body in answers:
        hosts.newest(METADATA).answer(body, status)
    error = error_of(waiting)
    assert said in error.message
    assert (error.detail, "canary" in error.message) == (METADATA, False)
    assert len(hosts.posts(METADATA)) == len(answers)
    assert all(post.header(b"x-aws-ec2-metadata-token") for post in hosts.posts(METADATA)[1:])
