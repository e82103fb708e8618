"""The token of the page "Try it": whose it is, how long, and where the page is offered."""

from __future__ import annotations

from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mgw.clients.try_it import (
    MAX_TOKENS,
    SECONDS,
    is_try_it_offered,
    key_hash_of,
    make_token,
    parse_token,
    tokens_in,
)
from mgw.exchange.upload_tokens import upload_token
from mgw.routing.routes import is_dashboard_api_denied
from tests.support.configs import THREE_FAMILIES, config

NOW = 1_800_000_000.0
MINE, YOURS = b"my key", b"your key"
EDGE = "edge_auth: {enabled: true, keys: [a-gateway-key-1]}\n"
BEYOND = "listen: 0.0.0.0:8787\n"


def is_of(token: bytes, key: bytes, now: float = NOW) -> bool:
    found = parse_token(token)
    return found is not None and found.is_of(key, now)


@given(key=st.binary(min_size=1), later=st.floats(0, 2 * SECONDS))
def test_a_token_is_of_its_key_for_a_minute(key: bytes, later: float) -> None:
    token = make_token(key, NOW)
    assert is_of(token, key, NOW + later) == (later < SECONDS)
    assert not is_of(token, key + b"0", NOW)
    assert not is_of(token, sha256(key).digest(), NOW)


@given(at=st.integers(0), byte=st.binary(min_size=1, max_size=1))
def test_a_token_that_was_changed_is_nobodys(at: int, byte: bytes) -> None:
    token = make_token(MINE, NOW)
    position = at % len(token)
    changed = token[:position] + byte + token[position + 1 :]
    assert is_of(changed, MINE) == (changed == token)


def test_another_expiry_or_another_key_needs_another_signature() -> None:
    name, expires, mac = make_token(MINE, NOW).split(b"-")
    assert not is_of(b"%b-%d-%b" % (name, int(expires) + 1, mac), MINE)
    assert not is_of(b"%b-%b-%b" % (key_hash_of(YOURS).encode(), expires, mac), YOURS)
    assert not is_of(b"%b-%b-%b" % (key_hash_of(YOURS).encode(), expires, mac), MINE)


@pytest.mark.parametrize("text", ["", "-", "a-1-b", "0" * 12 + "-1-" + "g" * 64, "0" * 12 + "-1-" + "0" * 65])
def test_what_is_no_token_is_none(text: str) -> None:
    assert parse_token(text.encode()) is None


def test_a_token_has_neither_the_key_nor_its_digest_and_shows_no_signature() -> None:
    token = make_token(MINE, NOW)
    assert MINE not in token
    assert sha256(MINE).hexdigest().encode() not in token
    found = parse_token(token)
    assert found is not None
    assert token.rpartition(b"-")[2].decode() not in repr(found)


def test_the_token_of_an_upload_opens_nothing_here() -> None:
    token = upload_token(sha256(MINE).digest(), b"/upload/v1beta/files?upload_id=1", NOW).encode()
    assert not is_of(b"%b-%b" % (key_hash_of(MINE).encode(), token), MINE)


def test_the_tokens_of_a_header_are_those_under_its_name() -> None:
    token = make_token(MINE, NOW)
    header = b"a=1;mgw_try_it=%b ; __Host-mgw_try_it=%b; mgw_try_it=x" % (token, make_token(YOURS, NOW))
    assert [found.key_hash for found in tokens_in(header, b"mgw_try_it")] == [key_hash_of(MINE)]
    assert [found.key_hash for found in tokens_in(header, b"__Host-mgw_try_it")] == [key_hash_of(YOURS)]


def test_a_few_cookies_of_the_name_are_looked_at() -> None:
    token = b"mgw_try_it=" + make_token(MINE, NOW)
    for others, found in ((MAX_TOKENS - 1, 1), (MAX_TOKENS, 0)):
        assert len(list(tokens_in(b"mgw_try_it=x; " * others + token, b"mgw_try_it"))) == found


OFFERED = {
    "on this machine": ("", True),
    "beyond it, with keys": (BEYOND + EDGE, True),
    "beyond it, without keys": (BEYOND, False),
    "a socket that somebody else opened": ("listen: systemd:domain=INET:index=0\n", False),
    "a UNIX socket": ("listen: unix:/run/mgw.sock\n", True),
    "beyond it, wanted": (BEYOND + "dashboard: {try_it: true}\n", True),
    "with keys, unwanted": (EDGE + "dashboard: {try_it: false}\n", False),
    "no dashboard": ("dashboard: {enabled: false, try_it: true}\n", False),
    "a dashboard that is denied": ("routes: {deny: [dashboard]}\n", False),
}


@pytest.mark.parametrize(("more", "offered"), OFFERED.values(), ids=OFFERED)
def test_the_page_is_offered_where_strangers_cannot_use_it(more: str, offered: bool) -> None:
    made = config(THREE_FAMILIES + more)
    assert is_try_it_offered(made, is_api_denied=is_dashboard_api_denied(made.routes.deny)) is offered
