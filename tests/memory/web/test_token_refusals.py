"""How a token is refused, in every dialect and for WebSockets, and that no other spelling of it passes."""

from __future__ import annotations

import json
import re
from base64 import urlsafe_b64decode
from typing import Final

import pytest

from mgw.nouns.token_flaw import TokenFlaw
from tests.memory.web.test_admission import serve
from tests.memory.web.test_tokens import BODY, PATH, TEXT, TokenHarness, ask, challenge, flawed, status
from tests.support.channels import post
from tests.support.exchanges import JSON
from tests.support.memory_sessions import REALTIME
from tests.support.raw_sessions import handshake
from tests.support.token_issuers import encoded

ORDER_OF_P256: Final = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
FLAWS: Final = (TokenFlaw.EXPIRED, TokenFlaw.NO_RULE, TokenFlaw.KEYS_UNAVAILABLE)
OPENAI: Final = ("authentication_error", "invalid_request_error", "server_error")
CODES: Final = ("invalid_token", "access_denied", "identity_provider_unavailable")
ANTHROPIC: Final = ("authentication_error", "permission_error", "overloaded_error")
GEMINI: Final = ("UNAUTHENTICATED", "PERMISSION_DENIED", "UNAVAILABLE")
STATUSES: Final = (401, 403, 503)


@pytest.mark.parametrize("at", range(3), ids=FLAWS)
@pytest.mark.parametrize(
    ("path", "carrier"),
    [
        ("/v1/chat/completions", "Authorization: Bearer "),
        ("/v1/responses", "Authorization: Bearer "),
        ("/v1/messages", "x-api-key: "),
        ("/v1/messages", "Authorization: Bearer "),
        ("/v1beta/models/gem%2Fx:generateContent", "x-goog-api-key: "),
        ("/v1beta/models/gem%2Fx:streamGenerateContent?alt=sse", "x-goog-api-key: "),
    ],
)
def test_each_dialect_has_its_words_for_it(path: str, carrier: str, at: int) -> None:
    harness = TokenHarness()
    response = serve(harness, ask(flawed(harness, FLAWS[at]), path=path, carrier=carrier))
    error = json.loads(response.partition(b"\r\n\r\n")[2])
    if isinstance(error, list):
        (error,) = error
    error = error["error"]
    assert status(response) == STATUSES[at]
    if path.startswith("/v1/messages"):
        assert error["type"] == ANTHROPIC[at]
    elif path.startswith("/v1beta"):
        assert (error["status"], error["code"]) == (GEMINI[at], STATUSES[at])
    else:
        assert (error["type"], error["code"]) == (OPENAI[at], CODES[at])
    for value in (b"example.com", b"research", b"role", b"corp"):
        assert value not in response


@pytest.mark.parametrize("at", range(3), ids=FLAWS)
def test_a_session_is_refused_before_its_handshake(at: int) -> None:
    harness = TokenHarness()
    token = flawed(harness, FLAWS[at])
    harness.connect()
    harness.channel.dataReceived(handshake(REALTIME, token))
    assert harness.status() == STATUSES[at]
    assert not harness.pipeline.endpoint.connections
    assert (challenge(harness.received()) is None) == (at == 2)


@pytest.mark.parametrize("flaw", [flaw for flaw in TokenFlaw if flaw is not TokenFlaw.KEYS_UNAVAILABLE])
def test_a_challenge_is_well_formed(flaw: TokenFlaw) -> None:
    """RFC 6750 3: a description has printable ASCII without quotation marks and backslashes."""
    harness = TokenHarness()
    found = challenge(serve(harness, ask(flawed(harness, flaw))))
    text = r'"[\x20-\x21\x23-\x5b\x5d-\x7e]+"'
    assert found is not None
    assert re.fullmatch(f"Bearer realm={text}, error={text}, error_description={text}", found)


def other_signature(token: str) -> str:
    """Return a token with the other signature that its ECDSA signature gives: (r, n - s)."""
    signed, _, signature = token.rpartition(".")
    raw = urlsafe_b64decode(signature + "==")
    s = ORDER_OF_P256 - int.from_bytes(raw[32:])
    return f"{signed}.{encoded(raw[:32] + s.to_bytes(32))}"


@pytest.mark.parametrize("was_known", [True, False])
def test_an_expired_token_comes_back_with_no_other_signature(was_known: bool) -> None:
    harness = TokenHarness()
    token = harness.token(expires=1060.0, role="guest")
    other = other_signature(token)
    assert status(serve(harness, ask(other, "X-Number: 0"))) == 200
    if was_known:
        assert status(serve(harness, ask(token))) == 200
    harness.unix_seconds = 1060.0
    assert status(serve(harness, ask(token))) == 401
    harness.unix_seconds = 1000.0  # set back
    harness.server.use(harness.generation)
    for one in (token, other):
        assert status(serve(harness, ask(one))) == 401
    assert set(harness.observer.flaws) == {("corp", TokenFlaw.EXPIRED)}


def test_a_forged_signature_is_named_also_of_a_token_that_has_expired() -> None:
    harness = TokenHarness()
    token = harness.token(expires=1000.0)
    forged = f"{token.rpartition('.')[0]}.{encoded(bytes(64))}"
    for one in (token, forged):
        assert status(serve(harness, ask(one))) == 401
    assert harness.observer.flaws == [("corp", TokenFlaw.EXPIRED), ("corp", TokenFlaw.SIGNATURE)]


def test_of_several_headers_none_goes_upstream() -> None:
    harness = TokenHarness()
    token, expired = harness.token(), harness.token("bob", 1.0)
    lines = (f"Authorization: Bearer {expired}", f"x-api-key: {expired}", f"api-key: {token}")
    request = post(BODY, f"Authorization: Bearer {token}", *lines, JSON, path="/v1/chat/completions")
    assert status(serve(harness, request)) == 200
    (connection,) = harness.pipeline.endpoint.connections
    assert b"eyJ" not in connection.received
    assert harness.event.client == "corp:ann"


@pytest.mark.parametrize("has_key", [True, False])
def test_few_tokens_of_one_request_are_checked_and_none_goes_upstream(has_key: bool) -> None:
    harness = TokenHarness(TEXT.replace("api_key: sk-main-0001, ", ""))
    tokens = [harness.token(f"user-{number}", 1.0) for number in range(40)]
    lines = [*(f"x-api-key: {token}" for token in tokens)]
    request = post(BODY, *lines, "x-api-key: alice-canary-0001" if has_key else "X-A: b", JSON, path=PATH)
    assert status(serve(harness, request)) == 401
    assert harness.keys.looked_up == 8
    assert not harness.pipeline.endpoint.connections
    assert [event.client for event in harness.observer.events] == ["alice"] * has_key


@pytest.mark.parametrize("order", [(0, 1, 2), (1, 0, 2), (2, 1, 0), (2, 0, 1)])
def test_of_several_authorizations_the_first_counts(order: tuple[int, ...]) -> None:
    harness = TokenHarness()
    values = ("alice-canary-0001", harness.token(), harness.token("bob"))
    first, *others = (f"Authorization: Bearer {values[at]}" for at in order)
    lines = [first, *others, f"x-api-key: {harness.token('zoe')}"]
    for request in (
        post(BODY, *lines, JSON, path=PATH),
        post(BODY, *lines[::-1][:1], *lines, JSON, path=PATH),
    ):
        assert status(serve(harness, request)) == 200
    clients = [event.client for event in harness.observer.events]
    assert clients == [("alice", "corp:ann", "corp:bob")[order[0]]] * 2
