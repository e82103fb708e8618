"""Signatures of AWS: what they cover, that they are botocore's, and what they leave behind."""

from __future__ import annotations

from hashlib import sha256
from typing import Final

import pytest

from mgw.credentials.aws import signer as module
from mgw.credentials.aws.clock import HostClock
from mgw.credentials.aws.keys import AwsKeys
from mgw.credentials.aws.signer import SigV4
from mgw.nouns.secret import Secret
from mgw.nouns.varying_headers import VARYING
from mgw.wire.headers import RawHeaders, value_of
from tests.support.calls import count_calls
from tests.support.drawn_signatures import draw_many, sign_twice
from tests.support.signed_requests import KEYS, SESSION_KEYS, SigningHost, is_to_be_signed
from tests.support.signing_source import REGION, SERVICE

TARGET: Final = b"/anthropic/v1/messages"
NOW: Final = 1_767_322_800.0
DIGEST: Final = sha256(b"{}").digest()
HEADERS: Final[RawHeaders] = [
    (b"Host", b"bedrock-runtime.eu-central-1.amazonaws.com"),
    (b"Content-Type", b"application/json"),
    (b"anthropic-version", b"2023-06-01"),
]


def signer_of(keys: AwsKeys = KEYS) -> SigV4:
    return SigV4(keys, REGION, SERVICE, HostClock("main"))


def sign(signer: SigV4, headers: RawHeaders = HEADERS, now: float = NOW) -> RawHeaders:
    return signer.sign(b"POST", TARGET, headers, DIGEST, now)


def test_signatures_are_those_of_botocore() -> None:
    draw_many(300, sign_twice)


@pytest.mark.parametrize("keys", [KEYS, SESSION_KEYS], ids=["a key", "a key with a session"])
def test_a_signature_takes_four_headers_at_most(keys: AwsKeys) -> None:
    added = sign(signer_of(keys))
    names = [b"X-Amz-Date", b"X-Amz-Content-SHA256", b"Authorization", b"X-Amz-Security-Token"]
    assert [name for name, _ in added] == names[: 3 if keys is KEYS else 4]
    SigningHost(keys).check(b"POST", TARGET, [*HEADERS, *added], b"{}")


def test_what_a_proxy_may_change_is_not_signed() -> None:
    names = (b"User-Agent", b"Connection", b"Accept-Encoding", b"traceparent", b"X-Amzn-Trace-Id", b"Via")
    changed = [*HEADERS, *[(name, b"x") for name in names]]
    assert sign(signer_of(), changed) == sign(signer_of())


def test_nothing_is_signed_that_varies_between_requests_of_one_head() -> None:
    assert not [name for name in VARYING if is_to_be_signed(name.decode())]


def test_a_header_that_somebody_else_set_in_place_of_ours_is_not_signed() -> None:
    others = [(b"x-amz-date", b"20000101T000000Z"), (b"X-Amz-Content-Sha256", b"UNSIGNED-PAYLOAD")]
    assert sign(signer_of(), [*HEADERS, *others]) == sign(signer_of())


def test_a_time_a_body_and_a_day_of_their_own_sign_each_request_of_a_known_head() -> None:
    signer, found = signer_of(), set()
    for now in (NOW, NOW + 1, NOW + 86_400, NOW):
        found.add(value_of(sign(signer, now=now), b"authorization"))
    found.add(value_of(signer.sign(b"POST", TARGET, HEADERS, sha256(b"").digest(), NOW), b"authorization"))
    assert len(found) == 4


def test_what_is_kept_of_heads_is_bounded() -> None:
    signer = signer_of()
    for number in range(3 * module.MAX_KEPT):
        sign(signer, [*HEADERS, (b"anthropic-beta", b"b-%d" % number)])
        sign(signer, [*HEADERS, (b"anthropic-beta", b"%d" % number * module.MAX_KEPT_BYTES)])
        assert len(signer._kept) <= module.MAX_KEPT


def test_a_known_head_is_signed_with_few_calls() -> None:
    signer = signer_of()
    sign(signer)
    assert count_calls(lambda: sign(signer)) <= 4  # with the two of the test's own


@pytest.mark.parametrize("keys", [KEYS, SESSION_KEYS], ids=["a key", "a key with a session"])
def test_neither_key_nor_secret_is_shown(keys: AwsKeys) -> None:
    shown = repr(signer_of(keys))
    assert "canary" not in shown
    assert keys.access_key_id[:-4] not in shown


@pytest.mark.parametrize("odd", ["a b", "a\r\nX: y", "a\n", "", "é"])
def test_a_key_that_cannot_stand_in_a_header_is_refused_without_being_shown(odd: str) -> None:
    for keys in (AwsKeys(odd, Secret("s")), AwsKeys("AK", Secret("s"), Secret(odd))):
        with pytest.raises(ValueError, match="an access key of AWS") as caught:
            signer_of(keys)
        assert not odd or odd not in str(caught.value).replace("a blank", "")
