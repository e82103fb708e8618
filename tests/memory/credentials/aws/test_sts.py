"""Roles are assumed with keys, signed, or with a web identity token, unsigned."""

from __future__ import annotations

from email.utils import formatdate
from hashlib import sha256
from pathlib import Path
from time import process_time

import pytest
from twisted.internet.defer import CancelledError, Deferred

from mgw.config.proxy import parse_proxy
from mgw.credentials.aws.clock import HostClock
from mgw.credentials.aws.key_givers import use_keys
from mgw.credentials.aws.keys import AwsKeys, KeySource
from mgw.credentials.aws.signed_keys import KeyGiver
from mgw.credentials.aws.signer import SigV4
from mgw.credentials.aws.sts_response import ERROR_HINTS, read_texts
from mgw.credentials.provider import Credential
from mgw.credentials.token_request import REQUEST_SECONDS, TokenRequestError
from mgw.nouns.secret import Secret, key_hash
from tests.support.aws_keys import (
    INSTANCE,
    KEYS,
    METADATA,
    ROLE,
    STS,
    answer_instance,
    assumed,
    error_xml,
    role_xml,
    secret_of,
    web_identity,
)
from tests.support.deferreds import result_of
from tests.support.token_endpoints import WALL, TokenHosts, TokenPost

OTHER_ROLE = "arn:aws:iam::123456789012:role/other"


@pytest.fixture
def hosts() -> TokenHosts:
    return TokenHosts()


def giver(hosts: TokenHosts, source: KeySource) -> KeyGiver:
    return use_keys(hosts.sources, None, source)


def obtain(found: KeyGiver) -> Deferred[Credential]:
    return Deferred.fromCoroutine(found.obtain(None))


def error_of(waiting: Deferred[Credential]) -> TokenRequestError:
    with pytest.raises(TokenRequestError) as caught:
        result_of(waiting)
    return caught.value


def assert_signed(post: TokenPost, keys: AwsKeys, now: float = WALL, region: str = "us-east-1") -> None:
    """Check that a request is signed as it was sent."""
    names = (b"host", b"content-type")
    sent = [(name, post.header(name) or b"") for name in names]
    target = post.line.partition(b" ")[2]
    signer = SigV4(keys, region, "sts", HostClock("sts"))
    for name, value in signer.sign(b"POST", target, sent, sha256(post.body).digest(), now):
        assert post.header(name.lower()) == value


def test_a_role_is_assumed_with_a_signed_form(hosts: TokenHosts) -> None:
    waiting = obtain(giver(hosts, assumed(external_id="gw 7")))
    post = hosts.newest(STS)
    assert post.line == b"POST /"
    assert post.form == {
        "Action": "AssumeRole",
        "Version": "2011-06-15",
        "RoleArn": ROLE,
        "RoleSessionName": "mgw",
        "ExternalId": "gw 7",
    }
    assert post.header(b"content-type") == b"application/x-www-form-urlencoded; charset=utf-8"
    assert post.header(b"accept") == b"*/*", "asked for JSON, STS answers in JSON"
    assert post.header(b"x-amz-security-token") is None
    assert_signed(post, KEYS)
    post.answer(role_xml())
    credential = result_of(waiting)
    assert secret_of(credential) == "canary-secret-1"
    assert credential.key_hash == key_hash(ROLE)


def test_a_role_without_an_external_id_is_asked_for_without_one(hosts: TokenHosts) -> None:
    _ = obtain(giver(hosts, assumed()))
    assert "ExternalId" not in hosts.newest(STS).form


@pytest.mark.parametrize(
    ("url", "line", "host"),
    [
        ("http://sts.example", b"POST /", b"sts.example"),
        ("http://sts.example:80/", b"POST /", b"sts.example"),
        ("http://sts.example:8080", b"POST /", b"sts.example:8080"),
        ("http://127.0.0.1:9/sim-aws/sts", b"POST /sim-aws/sts", b"127.0.0.1:9"),
        ("http://[::1]:9/", b"POST /", b"[::1]:9"),
        ("http://STS.example/", b"POST /", b"sts.example"),
    ],
)
def test_the_signature_covers_the_host_and_the_path_that_are_sent(
    hosts: TokenHosts, url: str, line: bytes, host: bytes
) -> None:
    waiting = obtain(giver(hosts, assumed(url=url)))
    post = hosts.newest(f"http://{host.decode()}")
    assert post.line == line
    assert post.header(b"host") == host
    assert_signed(post, KEYS)
    post.answer(role_xml())
    assert secret_of(result_of(waiting)) == "canary-secret-1"


def test_a_web_identity_is_exchanged_unsigned_and_its_file_read_each_time(
    hosts: TokenHosts, tmp_path: Path
) -> None:
    file = tmp_path / "token"
    found = giver(hosts, web_identity(str(file)))
    for number in (1, 2):
        file.write_text(f"canary-identity-{number}\n")
        waiting = obtain(found)
        post = hosts.newest(STS)
        assert post.form == {
            "Action": "AssumeRoleWithWebIdentity",
            "Version": "2011-06-15",
            "RoleArn": ROLE,
            "RoleSessionName": "mgw",
            "WebIdentityToken": f"canary-identity-{number}",
        }
        assert post.header(b"authorization") is None
        assert post.header(b"x-amz-date") is None
        post.answer(role_xml(number, 3600.0 * number, "AssumeRoleWithWebIdentity"))
        assert secret_of(result_of(waiting)) == f"canary-secret-{number}"
        hosts.clock.advance(3600)
    known = {secret.reveal() for secret in hosts.sources.secrets()}
    assert {"canary-identity-1", "canary-identity-2", "canary-secret-1", "canary-token-1"} <= known


@pytest.mark.parametrize(
    ("content", "said"), [(None, "No such file"), (b"two tokens", "exactly one token"), (b"", "one")]
)
def test_a_token_file_that_cannot_be_used_is_named(
    hosts: TokenHosts, tmp_path: Path, content: bytes | None, said: str
) -> None:
    file = tmp_path / "token"
    if content is not None:
        file.write_bytes(content)
    error = error_of(obtain(giver(hosts, web_identity(str(file)))))
    assert said in error.message
    assert (error.detail, str(file) in error.message) == (str(file), False), "the log alone names the file"
    assert not hosts.posts(STS)


def test_each_role_of_a_chain_is_renewed_by_itself(hosts: TokenHosts) -> None:
    chain = assumed(assumed(INSTANCE, OTHER_ROLE))
    found = giver(hosts, chain)
    waiting = obtain(found)
    answer_instance(hosts, 7, 21600)
    first = hosts.newest(STS)
    assert first.form["RoleArn"] == OTHER_ROLE
    assert_signed(first, AwsKeys("ASIAROLE7", Secret("canary-secret-7"), Secret("canary-token-7")))
    first.answer(role_xml(1, 7200))
    second = hosts.newest(STS)
    assert second.form["RoleArn"] == ROLE
    assert_signed(second, AwsKeys("ASIAROLE1", Secret("canary-secret-1"), Secret("canary-token-1")))
    second.answer(role_xml(2, 3600))
    assert secret_of(result_of(waiting)) == "canary-secret-2"
    hosts.clock.advance(3600)
    waiting = obtain(found)
    assert hosts.newest(STS).form["RoleArn"] == ROLE, "the one below is good for another hour"
    hosts.newest(STS).answer(role_xml(3, 10800))
    assert secret_of(result_of(waiting)) == "canary-secret-3"
    assert (len(hosts.posts(STS)), len(hosts.posts(METADATA))) == (3, 3)
    assert len(hosts.sources) == 3
    hosts.sources.release(found)
    assert not len(hosts.sources), "nothing is held that nobody uses"


@pytest.mark.parametrize("code", ["ExpiredToken", "ExpiredTokenException", "InvalidClientTokenId"])
def test_keys_that_sts_does_not_accept_are_renewed_once(hosts: TokenHosts, code: str) -> None:
    waiting = obtain(giver(hosts, assumed(INSTANCE)))
    answer_instance(hosts, 1)
    hosts.newest(STS).answer(error_xml(code), 403)
    answer_instance(hosts, 2)
    assert_signed(
        hosts.newest(STS), AwsKeys("ASIAROLE2", Secret("canary-secret-2"), Secret("canary-token-2"))
    )
    hosts.newest(STS).answer(error_xml(code), 403)
    assert code in error_of(waiting).message
    assert (len(hosts.posts(STS)), len(hosts.posts(METADATA))) == (2, 6)


def test_keys_that_cannot_be_renewed_are_not_sent_again(hosts: TokenHosts) -> None:
    waiting = obtain(giver(hosts, assumed()))
    hosts.newest(STS).answer(error_xml("InvalidClientTokenId"), 403)
    assert "no such access key is active" in error_of(waiting).message
    assert len(hosts.posts(STS)) == 1


@pytest.mark.parametrize(("code", "offset"), [("RequestExpired", 400), ("SignatureDoesNotMatch", 90000)])
def test_a_role_is_asked_for_again_in_the_clock_of_sts(hosts: TokenHosts, code: str, offset: int) -> None:
    found = giver(hosts, assumed())
    waiting = obtain(found)
    host_time = WALL + offset
    date = f"Date: {formatdate(host_time, usegmt=True)}\r\n"
    hosts.newest(STS).answer(error_xml(code), 403, date)
    second = hosts.newest(STS)
    assert len(hosts.posts(STS)) == 2
    assert_signed(second, KEYS, host_time)
    second.answer(error_xml(code), 403, date)
    assert code in error_of(waiting).message
    assert len(hosts.posts(STS)) == 2, "once"
    waiting = obtain(found)
    assert_signed(hosts.newest(STS), KEYS, host_time)


@pytest.mark.parametrize("code", sorted(ERROR_HINTS))
def test_a_known_error_is_named_with_what_to_do(hosts: TokenHosts, code: str) -> None:
    waiting = obtain(giver(hosts, assumed()))
    hosts.newest(STS).answer(error_xml(code), 403)
    error = error_of(waiting)
    assert error.message == f"AWS STS answered 403 {code}: {ERROR_HINTS[code]}"
    assert error.detail == f"{STS}, role {ROLE}"


def test_a_role_that_may_not_be_assumed_is_told_with_its_external_id(hosts: TokenHosts) -> None:
    waiting = obtain(giver(hosts, assumed()))
    hosts.newest(STS).answer(error_xml("AccessDenied"), 403)
    assert (
        "trust policy, the external id that it may require (aws.external_id), " in error_of(waiting).message
    )


@pytest.mark.parametrize(
    ("status", "body", "said"),
    [
        (403, error_xml("CanaryCode"), "answered 403: check aws.role_arn and aws.sts_url"),
        (500, error_xml("InternalFailure"), "answered 500: try again later"),
        (200, error_xml("AccessDenied"), "its AccessKeyId is missing"),
        (200, b"<html>canary", "not a response of STS: check aws.sts_url"),
        (200, b'{"canary":1}', "not a response of STS"),
        (200, b"<!DOCTYPE a [<!ENTITY b 'canary'>]><a>&b;</a>", "not a response of STS"),
        (302, b"", "redirects are not followed"),
        (200, role_xml().replace(b"canary-token-1", b"canary token"), "its SessionToken has characters"),
        (200, role_xml().replace(b"</Expiration>", b"canary</Expiration>"), "its Expiration is not a date"),
    ],
)
def test_nothing_else_of_a_response_is_repeated(
    hosts: TokenHosts, status: int, body: bytes, said: str
) -> None:
    waiting = obtain(giver(hosts, assumed()))
    hosts.newest(STS).answer(body, status)
    error = error_of(waiting)
    assert said in error.message
    assert "canary" not in error.message.lower() + error.detail


def test_sts_has_20_seconds(hosts: TokenHosts) -> None:
    waiting = obtain(giver(hosts, assumed()))
    hosts.clock.advance(REQUEST_SECONDS - 0.001)
    assert not waiting.called
    hosts.clock.advance(0.001)
    error = error_of(waiting)
    assert error.message.startswith("AWS STS did not respond within 20 s")
    assert error.detail == f"{STS}, role {ROLE}"


def test_each_request_of_a_chain_of_roles_has_20_seconds_of_its_own(hosts: TokenHosts) -> None:
    found = giver(hosts, assumed(assumed(role=OTHER_ROLE)))
    waiting = obtain(found)
    for number in (1, 2):
        hosts.clock.advance(REQUEST_SECONDS - 0.001)
        assert len(hosts.posts(STS)) == number
        hosts.newest(STS).answer(role_xml(number))
    assert secret_of(result_of(waiting)) == "canary-secret-2"


@pytest.mark.parametrize(("answered", "late"), [(0, OTHER_ROLE), (1, ROLE)], ids=["the first", "the second"])
def test_the_role_of_a_chain_that_sts_did_not_answer_for_is_named(
    hosts: TokenHosts, answered: int, late: str
) -> None:
    found = giver(hosts, assumed(assumed(role=OTHER_ROLE)))
    waiting = obtain(found)
    for number in range(answered):
        hosts.clock.advance(REQUEST_SECONDS - 0.001)
        hosts.newest(STS).answer(role_xml(number))
    hosts.clock.advance(REQUEST_SECONDS - 0.001)
    assert not waiting.called
    hosts.clock.advance(0.001)
    error = error_of(waiting)
    assert error.message.startswith("AWS STS did not respond within 20 s")
    assert error.detail == f"{STS}, role {late}"
    waiting = obtain(found)
    assert hosts.newest(STS).form["RoleArn"] == late, "what the one below gave is kept"
    assert len(hosts.posts(STS)) == answered + 2


@pytest.mark.parametrize("answered", [0, 1], ids=["the first", "the second"])
def test_whoever_leaves_during_a_chain_cancels_nothing(hosts: TokenHosts, answered: int) -> None:
    found = giver(hosts, assumed(assumed(role=OTHER_ROLE)))
    waiting = [obtain(found) for _ in range(3)]
    for number in range(answered):
        hosts.newest(STS).answer(role_xml(number))
    for waiter in waiting:
        waiter.cancel()
        _ = waiter.addErrback(lambda failure: failure.trap(CancelledError))
    for number in range(answered, 2):
        hosts.newest(STS).answer(role_xml(number))
    assert len(hosts.posts(STS)) == 2
    assert secret_of(result_of(obtain(found))) == "canary-secret-1"
    assert len(hosts.posts(STS)) == 2, "nobody asks again"


def test_sts_is_reached_through_the_proxy_and_what_is_next_door_is_not(
    hosts: TokenHosts, tmp_path: Path
) -> None:
    proxy = parse_proxy("http://proxy.example:3128")
    use_keys(hosts.sources, proxy, assumed(INSTANCE))
    assert hosts.proxies == [None, proxy]


EXPANDING = (
    b'<?xml version="1.0"?><!DOCTYPE l [<!ENTITY a0 "aaaa">'
    + b"".join(b'<!ENTITY a%d "%s">' % (n, b"&a%d;" % (n - 1) * 10) for n in range(1, 12))
    + b"]><l>&a11;</l>"
)
HOSTILE = {
    "entities that expand": EXPANDING,
    "a file": b'<!DOCTYPE a [<!ENTITY f SYSTEM "file:///etc/passwd">]><a><AccessKeyId>&f;</AccessKeyId></a>',
    "an address": b'<!DOCTYPE a SYSTEM "http://canary.example/a.dtd"><a/>',
    "an entity of nobody": b"<a>&nbsp;</a>",
    "nested elements": b"<a>" * 85_000,
    "one too many": b"<a>" * 17 + b"</a>" * 17,
    "nothing": b"",
    "two roots": b"<a/><b/>",
    "a long name": b"<" + b"a" * 255_000,
}


@pytest.mark.parametrize("document", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_document_is_refused_at_once(document: bytes) -> None:
    began = process_time()
    with pytest.raises(ValueError, match=r"^it (is|has) "):
        read_texts(document)
    assert process_time() - began < 0.25


@pytest.mark.parametrize(
    "document",
    [
        b"<r>" + b"<a>t</a>" * 31_000 + b"</r>",
        b"<r>" + b"".join(b"<a%d>t</a%d>" % (n, n) for n in range(14_000)) + b"</r>",
        b"<r>" + b"&#97;" * 50_000 + b"</r>",
        b"<r " + b" ".join(b'a%d="x"' % n for n in range(20_000)) + b"/>",
    ],
    ids=["one name", "names", "references", "attributes"],
)
def test_a_large_document_is_read_in_time_and_little_of_it_is_kept(document: bytes) -> None:
    began = process_time()
    assert len(read_texts(document)) <= 256
    assert process_time() - began < 0.25


def test_of_two_elements_with_a_name_the_first_counts_and_space_around_a_text_does_not() -> None:
    assert read_texts(b"<r><a>\n 1 &amp; 2 \n</a><a>3</a><b/><c><![CDATA[<]]></c></r>") == {
        "a": "1 & 2",
        "c": "<",
    }
