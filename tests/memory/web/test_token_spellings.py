"""Tokens of a configured issuer go to no provider, however they are spelled and wherever they stand."""

from __future__ import annotations

from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.memory.web.test_admission import serve
from tests.memory.web.test_tokens import PATH, TEXT, TokenHarness, ask, status
from tests.support.token_issuers import TokenIssuer

SPELLINGS: Final = {
    "as it is": "{0}.{1}.{2}",
    "after Bearer": "Bearer {0}.{1}.{2}",
    "in quotes": '"{0}.{1}.{2}"',
    "in brackets": "<{0}.{1}.{2}>",
    "in a list": "{0}.{1}.{2},{0}.{1}.{2}",
    "twice": "{0}.{1}.{2}{0}.{1}.{2}",
    "with a user": "user:{0}.{1}.{2}",
    "in a path": "/a/{0}.{1}.{2}/b",
    "with a name": "t={0}.{1}.{2}",
    "behind a letter": "x{0}.{1}.{2}",
    "behind a prefix": "mgw_{0}.{1}.{2}",
    "behind a dash": "Bearer-{0}.{1}.{2}",
    "before a letter": "{0}.{1}.{2}a",
    "before three letters": "{0}.{1}.{2}abc",
    "before dots": "{0}.{1}.{2}..",
    "behind a dot": ".{0}.{1}.{2}",
    "in five parts": "{0}.{1}.{2}.{0}.{1}",
    "padded at the end": "{0}.{1}.{2}==",
    "padded": "{0}=.{1}==.{2}==",
    "with encoded dots": "{0}%2e{1}%2E{2}",
    "encoded three times": "{0}%25252e{1}%25252e{2}",
    "without a signature": "{0}.{1}.",
    "with an empty header": "e30.{1}.{2}",
}
PLACES: Final = (
    *("X-Forwarded-Access-Token: {}", "Referer: https://x.example/{}", "Cookie: a={}; b", "User-Agent: {}"),
    *(
        "Accept: {}",
        "Content-Type: {}",
        "Accept-Encoding: {}",
        "Origin: {}",
        "traceparent: {}",
        "Via: 1.1 {}",
    ),
    *("OpenAI-Beta: {}", "X-Custom: {}", "Via: 1.1 {}"),
    *("Proxy-Authorization: Bearer {}", "Sec-WebSocket-Protocol: {}", "x-goog-api-key: {}", "api-key: {}"),
)
WITHOUT_KEY: Final = TEXT.replace("api_key: sk-main-0001, ", "")


def parts_of(token: str, spelling: str) -> tuple[str, bytes]:
    """Return a token as it is spelled, and the part of it that must not be seen."""
    parts = token.split(".")
    return SPELLINGS[spelling].format(*parts), parts[1].encode()


def received(harness: TokenHarness) -> bytes:
    return b"".join(connection.received for connection in harness.pipeline.endpoint.connections)


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_no_spelling_makes_a_token_the_clients_own_credential(spelling: str) -> None:
    for scheme in ("Bearer", "bearer", "Token", "Basic"):
        harness = TokenHarness(WITHOUT_KEY)
        spelled, claims = parts_of(harness.token(), spelling)
        request = ask(spelled, "x-api-key: alice-canary-0001", carrier=f"Authorization: {scheme} ")
        for _ in range(3):
            assert status(serve(harness, request)) in (200, 401)
        assert claims not in received(harness)


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_no_header_and_no_query_takes_a_token_along(spelling: str) -> None:
    for place in (*PLACES, *("?x={}", "?{}=1", "?a=b&{}")):
        harness = TokenHarness()
        spelled, claims = parts_of(harness.token(), spelling)
        if place.startswith("?"):
            for character in '"<> ':
                spelled = spelled.replace(character, f"%{ord(character):02x}")
            request = ask("alice-canary-0001", path=PATH + place.format(spelled))
        else:
            request = ask("alice-canary-0001", place.format(spelled))
        for _ in range(3):
            assert status(serve(harness, request)) in (200, 400), place
        assert claims not in received(harness), place


def test_a_token_of_somebody_else_stays_in_its_header() -> None:
    harness = TokenHarness()
    harness.issuer.issuer = "https://chat.example.com"
    token = harness.token()
    assert status(serve(harness, ask("alice-canary-0001", f"OpenAI-Beta: {token}"))) == 200
    assert token.encode() in received(harness)


GATE: Final = TokenHarness()
PIECES: Final = st.lists(
    st.sampled_from(
        [b"a", b"Z9", b"-", b"_", b".", b"..", b"=", b"Bearer ", b",", b'"', b"eyJ", b"{", b"\xff"]
    )
).map(b"".join)


@given(before=PIECES, behind=PIECES, is_ours=st.booleans(), padding=st.sampled_from([b"", b"=", b"=="]))
def test_a_token_is_found_behind_and_before_anything(
    before: bytes, behind: bytes, is_ours: bool, padding: bytes
) -> None:
    tokens = GATE.server.gate.tokens
    assert tokens is not None
    issuer = GATE.issuer if is_ours else TokenIssuer("https://chat.example.com")
    header, claims, signature = issuer.token("ann", 1600.0).encode().split(b".")
    words = before + b".".join([header + padding, claims + padding, signature]) + behind
    assert tokens.are_mentioned(words) == is_ours
