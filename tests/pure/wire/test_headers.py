"""Which headers travel on, and as what."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mgw.nouns.vocabulary import Family
from mgw.wire.headers import (
    RawHeaders,
    reduce_accept_encoding,
    request_headers,
    response_headers,
    value_of,
    values_of,
)

IDENTITY = (b"Accept-Encoding", b"identity")


def sent_up(
    pairs: RawHeaders, client: Family = Family.OPENAI, target: Family = Family.OPENAI, *forward: bytes
) -> RawHeaders:
    kept = request_headers(pairs, client=client, target=target, forward=frozenset(forward))
    return [pair for pair in kept if pair != IDENTITY]


def test_the_first_value_and_all_values_are_found_whatever_the_case() -> None:
    pairs = [(b"X-A", b"1"), (b"x-b", b"2"), (b"x-A", b"3")]
    assert value_of(pairs, b"x-a") == b"1"
    assert value_of(pairs, b"x-c") is None
    assert values_of(pairs, b"x-a") == [b"1", b"3"]


@pytest.mark.parametrize(
    "name",
    [
        b"HTTP-Referer",
        b"Referer",
        b"X-Title",
        b"X-Client-Request-Id",
        b"Content-Type",
        b"Content-Encoding",
        b"Accept",
        b"User-Agent",
        b"Range",
        b"If-None-Match",
        b"If-Modified-Since",
        b"If-Range",
        b"Idempotency-Key",
        b"X-Stainless-Retry-Count",
        b"X-Server-Timeout",
        b"x-codex-turn-state",
        b"session_id",
        b"originator",
        b"traceparent",
        b"tracestate",
        b"baggage",
    ],
)
@pytest.mark.parametrize("target", list(Family))
def test_what_every_family_may_get_goes_as_sent(name: bytes, target: Family) -> None:
    assert sent_up([(name, b"v")], Family.OPENAI, target) == [(name, b"v")]


OWN = [
    (Family.OPENAI, b"OpenAI-Organization"),
    (Family.OPENAI, b"openai-project"),
    (Family.OPENAI, b"OpenAI-Beta"),
    (Family.OPENAI, b"OpenAI-Anything-New"),
    (Family.OPENAI, b"alpha-Organization"),
    (Family.OPENAI, b"alpha-Project"),
    (Family.OPENAI, b"alpha-Beta"),
    (Family.ANTHROPIC, b"anthropic-version"),
    (Family.ANTHROPIC, b"anthropic-beta"),
    (Family.ANTHROPIC, b"beta-version"),
    (Family.ANTHROPIC, b"beta-beta"),
    (Family.GEMINI, b"x-goog-api-client"),
    (Family.GEMINI, b"X-Goog-User-Project"),
]


@pytest.mark.parametrize(("family", "name"), OWN)
def test_a_familys_own_header_goes_to_its_own_family_only(family: Family, name: bytes) -> None:
    for client in Family:
        for target in Family:
            kept = sent_up([(name, b"v")], client, target)
            assert bool(kept) == (client is target is family), (client, target)


@pytest.mark.parametrize(
    "name",
    [
        b"Authorization",
        b"x-api-key",
        b"api-key",
        b"X-Goog-Api-Key",
        b"x-goog-iam-authorization-token",
        b"Cookie",
        b"Proxy-Authorization",
        b"Host",
        b"Content-Length",
        b"Transfer-Encoding",
        b"TE",
        b"Upgrade",
        b"Expect",
    ],
)
def test_no_setting_sends_credentials_or_framing_upstream(name: bytes) -> None:
    for family in Family:
        assert sent_up([(name, b"canary")], family, family, name.lower()) == []


@pytest.mark.parametrize(
    "name", [b"X-Forwarded-For", b"X-Forwarded-Host", b"X-Provider", b"X-Own", b"Accept-Language"]
)
def test_what_is_not_listed_stays_unless_the_operator_adds_it(name: bytes) -> None:
    assert sent_up([(name, b"v")]) == []
    assert sent_up([(name, b"v")], Family.OPENAI, Family.GEMINI, name.lower()) == [(name, b"v")]


def test_order_and_repetition_and_spelling_stay() -> None:
    pairs = [
        (b"anthropic-beta", b"b,a"),
        (b"accept", b"*/*"),
        (b"Anthropic-Beta", b"c"),
        (b"anthropic-VERSION", b"2023-06-01"),
    ]
    assert sent_up(pairs, Family.ANTHROPIC, Family.ANTHROPIC) == pairs


def test_what_the_connection_header_names_goes_no_further() -> None:
    pairs = [(b"X-Title", b"t"), (b"Connection", b"keep-alive, X-Title"), (b"Accept", b"*/*")]
    assert sent_up(pairs) == [(b"Accept", b"*/*")]


def test_a_client_that_offers_no_coding_gets_none() -> None:
    assert request_headers([], client=Family.OPENAI, target=Family.OPENAI) == [IDENTITY]


def test_the_accepted_codings_stay_in_place_and_are_reduced() -> None:
    pairs = [(b"accept-encoding", b"br, gzip;q=0.8, zstd"), (b"Accept", b"*/*")]
    kept = request_headers(pairs, client=Family.OPENAI, target=Family.OPENAI)
    assert kept == [(b"accept-encoding", b"gzip;q=0.8"), (b"Accept", b"*/*")]


@pytest.mark.parametrize(
    ("offered", "left"),
    [
        (None, b"identity"),
        (b"", b"identity"),
        (b"gzip", b"gzip"),
        (b"gzip, deflate, br, zstd", b"gzip"),
        (b"br;q=1.0, gzip;q=0.8, identity;q=0.5", b"gzip;q=0.8, identity;q=0.5"),
        (b"deflate, br", b"identity"),
        (b"GZIP ; q=0.5", b"GZIP ; q=0.5"),
        (b"x-gzip", b"x-gzip"),
        (b"gzip;q=0", b"identity"),
        (b"gzip;Q=0.000, br", b"identity"),
        (b"gzip;q=0.001", b"gzip;q=0.001"),
        (b"*", b"gzip"),
        (b"br, *;q=0.1", b"gzip;q=0.1"),
        (b"*;q=0", b"identity"),
        (b"gzip;q=0, *", b"identity"),
        (b"gzip, *", b"gzip"),
        (b",, gzip ,", b"gzip"),
    ],
)
def test_the_upstream_is_offered_what_can_be_read(offered: bytes | None, left: bytes) -> None:
    assert reduce_accept_encoding(offered) == left


def test_an_answer_loses_what_is_of_its_connection_or_its_origin() -> None:
    own = [
        (b"Connection", b"close, X-Hop"),
        (b"Keep-Alive", b"timeout=5"),
        (b"X-Hop", b"1"),
        (b"Transfer-Encoding", b"chunked"),
        (b"Trailer", b"X-Sum"),
        (b"Upgrade", b"h2c"),
        (b"Proxy-Authenticate", b"Basic"),
        (b"Set-Cookie", b"__cf_bm=1"),
        (b"Server", b"cloudflare"),
        (b"ALT-SVC", b"h3"),
    ]
    rest = [(b"Content-Type", b"text/event-stream"), (b"x-request-id", b"r"), (b"X-Request-Id", b"s")]
    assert response_headers(own + rest) == rest


@given(st.lists(st.tuples(st.sampled_from([b"X-A", b"x-a", b"Date", b"Vary"]), st.binary(max_size=3))))
def test_all_other_headers_of_an_answer_come_down_as_sent(pairs: RawHeaders) -> None:
    assert response_headers(pairs) == pairs
