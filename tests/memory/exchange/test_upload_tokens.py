"""A token opens the gate for exactly one upload address, for a day, and for as long as its key is one."""

from __future__ import annotations

from hashlib import sha256
from time import process_time

import pytest

from mgw.config.edge_auth import EdgeAuthSettings
from mgw.exchange.rewritten_urls import key_of_token, upload_token
from mgw.memo.known_head import Caller
from mgw.nouns.errors import GatewayError, Reason
from mgw.nouns.secret import Secret
from mgw.nouns.vocabulary import Family
from mgw.web.edge_auth import EdgeGate, Upload

KEYS = (Secret("edge-1"), Secret("edge-2"))
PATH = b"/upload/v1beta/files"
QUERY = b"upload_id=abc&upload_protocol=resumable&provider=gem"
NOW = 1_800_000_000.0
DAY_SECONDS = 24 * 3600
DIGESTS = [sha256(key.reveal().encode()).digest() for key in KEYS]
TOKEN = upload_token(DIGESTS[0], PATH + b"?" + QUERY, NOW).encode()


def admit(
    query: bytes,
    path: bytes = PATH,
    now: float = NOW,
    keys: tuple[Secret, ...] = KEYS,
    *,
    upload: bool = True,
) -> Caller:
    gate = EdgeGate(EdgeAuthSettings(enabled=True, keys=keys))
    return gate.admit(Family.GEMINI, [], query, Upload(path, now) if upload else None)


def is_shut(query: bytes, path: bytes = PATH, now: float = NOW, keys: tuple[Secret, ...] = KEYS) -> bool:
    try:
        admit(query, path, now, keys)
    except GatewayError as error:
        return error.reason is Reason.EDGE_KEY
    return False


def test_a_token_opens_its_address_and_goes_no_further() -> None:
    caller = admit(QUERY + b"&mgw=" + TOKEN)
    assert caller.raw_query == QUERY
    assert caller.key is None


def test_a_token_may_stand_anywhere_in_the_query() -> None:
    first, _, rest = QUERY.partition(b"&")
    assert admit(first + b"&mgw=" + TOKEN + b"&" + rest).raw_query == QUERY


@pytest.mark.parametrize(
    ("query", "path"),
    [
        (QUERY, PATH),
        (QUERY + b"&mgw=", PATH),
        (QUERY + b"&mgw=" + TOKEN[:-1] + b"0" * 2, PATH),
        (QUERY + b"&mgw=9" + TOKEN, PATH),
        (QUERY.replace(b"abc", b"abd") + b"&mgw=" + TOKEN, PATH),
        (QUERY.replace(b"gem", b"gem2") + b"&mgw=" + TOKEN, PATH),
        (QUERY + b"&more=1&mgw=" + TOKEN, PATH),
        (QUERY + b"&mgw=" + TOKEN, b"/upload/v1/files"),
        (QUERY + b"&mgw=" + TOKEN, PATH + b"/x"),
    ],
)
def test_any_other_address_stays_shut(query: bytes, path: bytes) -> None:
    assert is_shut(query, path)


def test_a_token_opens_no_other_route() -> None:
    with pytest.raises(GatewayError):
        admit(QUERY + b"&mgw=" + TOKEN, upload=False)


def test_a_token_lasts_a_day() -> None:
    query = QUERY + b"&mgw=" + TOKEN
    assert not is_shut(query, now=NOW + DAY_SECONDS - 1)
    assert is_shut(query, now=NOW + DAY_SECONDS + 1)


def test_a_token_lives_and_dies_with_its_key() -> None:
    query = QUERY + b"&mgw=" + TOKEN
    assert not is_shut(query, keys=(Secret("new"), KEYS[0]))
    assert is_shut(query, keys=(Secret("new"), KEYS[1]))


def test_a_token_tells_nothing_of_its_key() -> None:
    assert b"edge" not in TOKEN
    assert key_of_token(DIGESTS, PATH + b"?" + QUERY, TOKEN.decode(), NOW) == DIGESTS[0]


def test_an_expiry_without_end_is_no_token() -> None:
    assert key_of_token(DIGESTS, PATH, "9" * 400 + "-" + "0" * 64, NOW) is None


def test_a_long_address_is_not_hashed_for_each_key() -> None:
    digests = [sha256(b"%d" % number).digest() for number in range(500)]

    def seconds(size: int) -> float:
        address, times = b"/upload/v1beta/files?" + b"a" * size, []
        for _ in range(3):
            begun = process_time()
            assert key_of_token(digests, address, "9999999999-" + "0" * 64, 0) is None
            times.append(process_time() - begun)
        return min(times)

    assert seconds(60_000) < 3 * seconds(500) + 0.002


@pytest.mark.parametrize("size", [1, 60_000])
def test_a_token_opens_its_own_address_alone_however_long_that_is(size: int) -> None:
    digest, address = sha256(b"key").digest(), b"/upload/v1beta/files?" + b"a" * size
    token = upload_token(digest, address, 0)
    assert key_of_token([digest], address, token, 0) == digest
    assert key_of_token([digest], address + b"a", token, 0) is None
