"""The endpoint that gives containers keys: what it is asked, and what it answers."""

from __future__ import annotations

from pathlib import Path

import pytest
from twisted.internet.defer import Deferred

from mgw.config.proxy import parse_proxy
from mgw.credentials.aws.container import ANSWER_SECONDS
from mgw.credentials.aws.key_givers import use_keys
from mgw.credentials.aws.keys import ContainerEndpoint
from mgw.credentials.provider import Credential
from mgw.credentials.token_request import TokenRequestError
from mgw.nouns.secret import key_hash
from tests.support.aws_keys import CONTAINER, container, keys_json, secret_of
from tests.support.deferreds import result_of
from tests.support.token_endpoints import TokenHosts


@pytest.fixture
def hosts() -> TokenHosts:
    return TokenHosts()


def obtain(hosts: TokenHosts, source: ContainerEndpoint) -> Deferred[Credential]:
    return Deferred.fromCoroutine(use_keys(hosts.sources, None, source).obtain(None))


def error_of(waiting: Deferred[Credential]) -> TokenRequestError:
    with pytest.raises(TokenRequestError) as caught:
        result_of(waiting)
    return caught.value


def test_the_endpoint_is_asked_with_the_token_and_never_through_a_proxy(hosts: TokenHosts) -> None:
    found = use_keys(hosts.sources, parse_proxy("http://proxy.example:3128"), container())
    assert hosts.proxies == [None]
    waiting = Deferred.fromCoroutine(found.obtain(None))
    post = hosts.newest(CONTAINER)
    assert (post.line, post.header(b"authorization"), post.body) == (
        b"GET /v2/keys",
        b"canary-container",
        b"",
    )
    post.answer(keys_json())
    credential = result_of(waiting)
    assert secret_of(credential) == "canary-secret-1"
    assert credential.key_hash == key_hash("container")
    known = {secret.reveal() for secret in hosts.sources.secrets()}
    assert {"canary-container", "canary-secret-1", "canary-token-1"} <= known


def test_a_token_that_no_header_can_have_is_not_sent(hosts: TokenHosts) -> None:
    for token in ("canary\r\nX: y", "canary-\N{EURO SIGN}", "canary-\xfc"):
        error = error_of(obtain(hosts, container(token)))
        assert "has characters that a header cannot have" in error.message
        assert "canary" not in error.message
    assert not hosts.posts(CONTAINER)


def test_an_endpoint_without_a_token_is_asked_without_one(hosts: TokenHosts) -> None:
    waiting = obtain(hosts, container(None))
    assert hosts.newest(CONTAINER).header(b"authorization") is None
    hosts.newest(CONTAINER).answer(keys_json())
    assert secret_of(result_of(waiting)) == "canary-secret-1"


def test_the_file_of_the_token_is_read_for_each_request(hosts: TokenHosts, tmp_path: Path) -> None:
    file = tmp_path / "token"
    found = use_keys(hosts.sources, None, container(None, str(file)))
    for number in (1, 2):
        file.write_text(f"Basic canary-{number}\n")
        waiting = Deferred.fromCoroutine(found.obtain(None))
        assert hosts.newest(CONTAINER).header(b"authorization") == f"Basic canary-{number}".encode()
        hosts.newest(CONTAINER).answer(keys_json(number, 3600 * number))
        assert secret_of(result_of(waiting)) == f"canary-secret-{number}"
        hosts.clock.advance(3600)
    assert {"canary-1", "canary-2"} <= {secret.reveal() for secret in hosts.sources.secrets()}


@pytest.mark.parametrize(
    ("content", "said"), [(None, "cannot be read (No such file"), (b"a\nb", "exactly one token")]
)
def test_without_its_token_the_endpoint_is_not_asked(
    hosts: TokenHosts, tmp_path: Path, content: bytes | None, said: str
) -> None:
    if content is not None:
        (tmp_path / "token").write_bytes(content)
    assert said in error_of(obtain(hosts, container(None, str(tmp_path / "token")))).message
    assert not hosts.posts(CONTAINER)


@pytest.mark.parametrize(
    ("status", "body", "said"),
    [
        (401, b"{}", "answered 401: check its authorization token"),
        (404, b'{"message":"canary"}', "answered 404: check the role of the task or pod"),
        (500, b"canary", "answered 500: try again later"),
        (200, b"canary", "its body is not a JSON object"),
        (200, b"{}", "its AccessKeyId is missing"),
        (200, keys_json(Token=None), "its Token is missing"),
    ],
)
def test_what_is_wrong_is_said_with_what_to_do(
    hosts: TokenHosts, status: int, body: bytes, said: str
) -> None:
    waiting = obtain(hosts, container())
    hosts.newest(CONTAINER).answer(body, status)
    error = error_of(waiting)
    assert said in error.message
    assert error.message.startswith("AWS's container credentials endpoint answered")
    assert (error.detail, error.code) == (CONTAINER, "credential_source_failed")
    assert "canary" not in error.message


def test_an_endpoint_that_hangs_is_given_up(hosts: TokenHosts) -> None:
    waiting = obtain(hosts, container())
    hosts.clock.advance(ANSWER_SECONDS)
    assert "did not respond within 5 s" in error_of(waiting).message
