"""Tokens of identity providers at the gate: whom they let in, and that none of them goes to a provider."""

from __future__ import annotations

import re
from collections.abc import Callable
from hashlib import sha256
from typing import Any

import pytest

from mgw.clients.expired_tokens import ExpiredTokens
from mgw.config.edge_auth import EdgeAuthSettings
from mgw.nouns.token_flaw import TokenFlaw
from mgw.nouns.token_refusal import TokenRefusedError
from mgw.usage.event import Outcome
from mgw.web.key_changes import KeyChanges
from mgw.web.pending_keys import NoKeysOfIssuers
from mgw.web.token_gate import TokenGate, make_token_gate
from tests.memory.web.test_admission import known, serve, upstream_heads
from tests.support.channels import get, post
from tests.support.configs import THREE_FAMILIES
from tests.support.exchanges import JSON
from tests.support.memory_sessions import REALTIME, SessionHarness
from tests.support.pipelines import answered
from tests.support.raw_sessions import handshake
from tests.support.token_issuers import ISSUER, FakeKeys, TokenIssuer, encoded
from tests.support.web_servers import WebServerHarness, settled

TEXT = f"""{THREE_FAMILIES}
edge_auth:
  enabled: true
  keys: [plain-canary-0001, {{name: alice, key: alice-canary-0001}}]
  groups: {{research: {{models: ["main/*"], limits: [{{requests: 4, per: day, each: true}}]}}}}
  jwt:
    - name: corp
      issuer: {ISSUER}
      audience: mgw
      clock_skew: 0
      rules: [{{when: {{role: llm}}, groups: [research]}}, {{when: {{role: guest}}}}]
"""
PATH = "/v1/chat/completions"
BODY = b'{"model":"main/m","messages":[{"role":"user","content":"hi"}],"max_tokens":9}'
NEW_AND_KNOWN = pytest.mark.usefixtures("heads")


class Issued:
    """A server that admits the tokens of one issuer, at 1000 seconds.

    :param harness: has been made, and nobody has sent it anything yet.
    """

    def __init__(self, harness: WebServerHarness) -> None:
        self.issuer, self.keys = TokenIssuer(), FakeKeys()
        self.keys.known["corp"] = self.issuer.key_set()
        harness.unix_seconds = 1000.0
        server = harness.server

        def make(settings: EdgeAuthSettings) -> TokenGate:
            expired = server.registry.memory.expired_tokens
            gate = make_token_gate(settings, harness.counts, self.keys, expired, harness.read_wall)
            gate.monotonic = harness.clock.seconds
            return gate

        server.make_token_gate, server.monotonic = make, harness.clock.seconds
        server.use(harness.generation)

    def token(self, subject: str = "ann", expires: float = 1600.0, **claims: Any) -> str:  # Any: JSON
        return self.issuer.token(subject, expires, **{"role": "llm", **claims})


class TokenHarness(WebServerHarness):
    """A server that admits the tokens of one issuer."""

    def __init__(self, text: str = TEXT) -> None:
        super().__init__(text)
        self.issued = Issued(self)
        self.issuer, self.keys, self.token = self.issued.issuer, self.issued.keys, self.issued.token


def ask(token: str, *headers: str, path: str = PATH, carrier: str = "Authorization: Bearer ") -> bytes:
    return post(BODY, f"{carrier}{token}", *headers, JSON, path=path)


def status(response: bytes) -> int:
    return int(response.split(b" ")[1])


def challenge(response: bytes) -> str | None:
    found = re.search(rb"\r\nWWW-Authenticate: ([^\r]*)\r\n", response)
    return None if found is None else found[1].decode()


@NEW_AND_KNOWN
@pytest.mark.parametrize(
    "carrier", ["Authorization: Bearer ", "x-api-key: ", "api-key: ", "x-goog-api-key: "]
)
def test_a_token_lets_its_client_in_and_stays_here(carrier: str) -> None:
    harness = TokenHarness()
    token = harness.token()
    path = {"x-api-key: ": "/v1/messages", "x-goog-api-key: ": "/v1beta/models/main%2Fm:generateContent"}
    serve(harness, ask(token, carrier=carrier, path=path.get(carrier, PATH)))
    event = harness.event
    assert (event.client, event.client_groups) == ("corp:ann", ("research",))
    assert token.encode() not in b"".join(upstream_heads(harness))


def test_limits_are_each_persons_own() -> None:
    harness = TokenHarness()
    ann, bob = harness.token("ann"), harness.token("bob")
    again = harness.token("ann", 1700.0)
    statuses = [status(serve(harness, ask(one))) for one in (ann, again, ann, bob, again, ann, again, bob)]
    assert statuses == [200, 200, 200, 200, 200, 429, 429, 200]
    clients = [event.client for event in harness.observer.events]
    assert clients == [*["corp:ann"] * 3, "corp:bob", *["corp:ann"] * 3, "corp:bob"]


CLAIMS: dict[TokenFlaw, dict[str, Any]] = {  # Any: JSON
    TokenFlaw.EXPIRED: {"exp": 1000.0},
    TokenFlaw.NOT_YET_VALID: {"nbf": 1001},
    TokenFlaw.AUDIENCE: {"aud": "another"},
    TokenFlaw.CLAIMS: {"sub": ""},
    TokenFlaw.NO_RULE: {"role": "none"},
}
HEADS = {TokenFlaw.MALFORMED: b'{"alg":"ES256","crit":[]}', TokenFlaw.ALGORITHM: b'{"alg":"none"}'}


def flawed(harness: TokenHarness, flaw: TokenFlaw) -> str:
    if flaw is TokenFlaw.UNKNOWN_KEY:
        harness.issuer.rotate()
    if flaw is TokenFlaw.KEYS_UNAVAILABLE:
        harness.keys.known.clear()
    token = harness.token(**CLAIMS.get(flaw, {}))
    head, claims, signature = token.split(".")
    if flaw in HEADS:
        return f"{encoded(HEADS[flaw])}.{claims}.{signature}"
    if flaw is TokenFlaw.SIGNATURE:
        return f"{head}.{harness.token('bob').split('.')[1]}.{signature}"
    return token


@NEW_AND_KNOWN
@pytest.mark.parametrize("flaw", TokenFlaw)
def test_a_refusal_says_what_is_wrong(flaw: TokenFlaw) -> None:
    harness = TokenHarness()
    token = flawed(harness, flaw)
    response = serve(harness, ask(token))
    code, wanted = {
        TokenFlaw.KEYS_UNAVAILABLE: ("identity_provider_unavailable", 503),
        TokenFlaw.NO_RULE: ("access_denied", 403),
    }.get(flaw, ("invalid_token", 401))
    assert status(response) == wanted
    assert f'"code":"{code}"'.encode() in response.replace(b": ", b":")
    said = challenge(response)
    if wanted == 503:
        assert said is None
        assert b"\r\nRetry-After: 5\r\n" in response
    else:
        error = "insufficient_scope" if wanted == 403 else "invalid_token"
        assert said is not None
        assert re.fullmatch(
            f'Bearer realm="mgw", error="{error}", error_description="the [^"]*token[^"]+"', said
        )
        assert said.count('"') == 6
    assert harness.observer.flaws == [("corp", flaw)]
    assert harness.observer.reasons == ["rule" if flaw is TokenFlaw.NO_RULE else "token"]
    assert token.encode() not in response
    assert not harness.observer.events
    assert known(harness, ask(token)) is None


@pytest.mark.parametrize("flaw", [flaw for flaw in TokenFlaw if flaw is not TokenFlaw.KEYS_UNAVAILABLE])
def test_a_flawed_token_closes_nothing_that_a_key_opens_and_goes_nowhere(flaw: TokenFlaw) -> None:
    harness = TokenHarness(TEXT.replace("api_key: sk-main-0001, ", ""))
    token = flawed(harness, flaw)
    request = ask(token, "x-api-key: alice-canary-0001")
    for _ in range(3):
        assert status(serve(harness, request)) == 401  # there is no key for the provider
    assert {event.error for event in harness.observer.events} == {"no_provider_key"}
    assert not harness.pipeline.endpoint.connections
    assert {event.client for event in harness.observer.events} == {"alice"}
    assert known(harness, request) is None


@NEW_AND_KNOWN
def test_the_credential_after_authorization_counts() -> None:
    harness = TokenHarness()
    serve(harness, ask("alice-canary-0001", f"x-api-key: {harness.token()}"))
    serve(harness, ask(harness.token(), "x-api-key: alice-canary-0001"))
    assert [event.client for event in harness.observer.events] == ["alice", "corp:ann"]


@NEW_AND_KNOWN
@pytest.mark.parametrize(
    "header",
    [
        *("X-Forwarded-Access-Token: {}", "X-Custom: Bearer {}", 'X-Custom: "{}"', "Cookie: a=1; t={}; b=2"),
        *("X-Custom: a.b.{}", "X-Custom: {}.more"),
    ],
)
@pytest.mark.parametrize("is_valid", [True, False])
def test_no_header_takes_a_token_to_a_provider(header: str, is_valid: bool) -> None:
    harness = TokenHarness()
    token = harness.token() if is_valid else flawed(harness, TokenFlaw.SIGNATURE)
    response = serve(harness, ask("alice-canary-0001", header.format(token), path=f"{PATH}?x={token}"))
    assert status(response) == 200
    (connection,) = harness.pipeline.endpoint.connections
    assert token.encode() not in connection.received


def test_a_token_of_another_issuer_is_the_clients_own() -> None:
    harness = TokenHarness(TEXT.replace("api_key: sk-main-0001, ", ""))
    token = TokenIssuer("https://chat.example.com").token("me", 1600.0)
    serve(harness, ask(token, "x-api-key: alice-canary-0001"))
    (head,) = upstream_heads(harness)
    assert b"Authorization: Bearer " + token.encode() in head


@pytest.mark.parametrize("issuer", ["https://chat.example.com", "https://login.example.com/", None, 5])
@pytest.mark.parametrize("carrier", ["Authorization: Bearer ", "x-api-key: "])
def test_a_token_of_another_issuer_opens_nothing_and_is_told_so(issuer: object, carrier: str) -> None:
    """A slash too many in the configuration is found by its user, not by guessing."""
    harness = TokenHarness()
    token = TokenIssuer().token("me", 1600.0, iss=issuer)
    response = serve(harness, ask(token, carrier=carrier))
    place = b"after Bearer" if "Bearer" in carrier else b"in x-api-key"
    assert status(response) == 401
    said = (
        b" is of an issuer that is not configured here: send a gateway key, or a token of an issuer that is"
    )
    assert b'"the token ' + place + said + b'"' in response
    assert b'"code":"invalid_api_key"' in response
    assert b'WWW-Authenticate: Bearer realm="mgw"\r\n' in response
    assert b"is not a gateway key" in serve(harness, ask("eyJh.eyJi.c", carrier=carrier))


def test_who_sends_nothing_is_told_of_tokens() -> None:
    response = serve(TokenHarness(), post(BODY, JSON, path=PATH))
    assert b"x-api-key: <key>; a token of a configured issuer can take the place of the key" in response


def test_no_head_outlives_its_token() -> None:
    harness = TokenHarness()
    request = ask(harness.token(expires=1060.0, role="guest"))
    for _ in range(3):
        assert status(serve(harness, request)) == 200
    assert known(harness, request) is not None
    harness.unix_seconds = 1059.9
    assert status(serve(harness, request)) == 200
    harness.unix_seconds = 1060.0
    assert status(serve(harness, request)) == 401
    harness.unix_seconds = 1000.0  # set back
    assert status(serve(harness, request)) == 401
    assert harness.observer.flaws == [("corp", TokenFlaw.EXPIRED)] * 2


@pytest.mark.parametrize("numbers", [(1, 2, 3, 4), (1, 1, 1, 1)])
def test_a_wall_clock_that_stands_still_keeps_no_token_alive(numbers: tuple[int, ...]) -> None:
    harness = TokenHarness()
    token = harness.token(expires=1060.0, role="guest")
    requests = [ask(token, f"X-Number: {number}") for number in numbers]
    for request in requests[:3]:
        assert status(serve(harness, request)) == 200
    harness.clock.advance(60)
    assert status(serve(harness, requests[3])) == 401


@pytest.mark.parametrize("forgets", ["reload", "keys"])
def test_what_is_forgotten_gives_no_token_more_time(forgets: str) -> None:
    harness = TokenHarness()
    request = ask(harness.token(expires=1060.0, role="guest"))
    assert status(serve(harness, request)) == 200
    harness.clock.advance(59.9)  # which the wall clock does not show
    assert status(serve(harness, request)) == 200
    harness.clock.advance(0.1)
    if forgets == "reload":
        harness.server.use(harness.generation)
    else:
        KeyChanges(harness.server).use_issuer_keys()
    assert status(serve(harness, request)) == 401
    assert harness.observer.flaws == [("corp", TokenFlaw.EXPIRED)]


def test_other_keys_have_tokens_checked_anew() -> None:
    harness = TokenHarness()
    request = ask(harness.token(role="guest"))
    for _ in range(3):
        assert status(serve(harness, request)) == 200
    harness.issuer.keys = TokenIssuer().keys  # with the same id
    harness.keys.known["corp"] = harness.issuer.key_set()
    KeyChanges(harness.server).use_issuer_keys()
    assert status(serve(harness, request)) == 401
    assert harness.observer.flaws == [("corp", TokenFlaw.SIGNATURE)]


# While keys are fetched


def waiting(body: Callable[[str], bytes] = ask) -> tuple[TokenHarness, bytes]:
    harness = TokenHarness()
    harness.keys.may_ask = True
    harness.issuer.rotate()
    request = body(harness.token(role="guest"))
    harness.connect()
    return harness, request


@pytest.mark.parametrize("cut", [None, 40, -10])
def test_a_request_waits_for_the_key_of_its_token(cut: int | None) -> None:
    harness, request = waiting()
    harness.channel.dataReceived(request[:cut])
    if cut == 40:
        assert not harness.keys.asked
        harness.channel.dataReceived(request[40:])
    assert not harness.received()
    assert harness.transport.producerState == "paused"
    assert settled(harness) == (0, 0, 0)
    harness.keys.known["corp"] = harness.issuer.key_set()
    harness.keys.asked[0].callback(None)
    if cut == -10:
        harness.channel.dataReceived(request[-10:])
    harness.connection.send(answered())
    assert harness.status() == 200
    assert harness.event.client == "corp:ann"
    assert harness.transport.producerState == "producing"


def test_a_second_request_behind_it_keeps_its_place() -> None:
    harness, request = waiting()
    harness.channel.dataReceived(request + ask("alice-canary-0001"))
    harness.keys.known["corp"] = harness.issuer.key_set()
    harness.keys.asked[0].callback(None)
    for _ in range(2):
        harness.connection.send(answered())
    assert [event.client for event in harness.observer.events] == ["corp:ann", "alice"]


def test_a_request_behind_a_refused_one_ends_with_its_client() -> None:
    harness, request = waiting(lambda token: get("/v1/models", f"Authorization: Bearer {token}"))
    harness.channel.dataReceived(request + ask("alice-canary-0001"))
    harness.keys.asked[0].callback(None)  # without the key
    assert harness.status() == 401
    assert settled(harness)[0] == 1
    harness.leave()
    assert settled(harness)[0] == 0
    assert harness.event.status is Outcome.CLIENT_ABORT


@pytest.mark.parametrize("is_whole", [True, False])
def test_a_key_that_does_not_come_is_a_refusal(is_whole: bool) -> None:
    harness, request = waiting()
    harness.channel.dataReceived(request if is_whole else request[:-10])
    harness.keys.asked[0].callback(None)
    assert harness.status() == 401
    assert harness.observer.flaws == [("corp", TokenFlaw.UNKNOWN_KEY)]
    assert len(harness.keys.asked) <= 2
    assert not harness.pipeline.endpoint.connections


def test_a_client_that_leaves_is_forgotten() -> None:
    harness, request = waiting()
    harness.channel.dataReceived(request)
    harness.leave()
    harness.keys.known["corp"] = harness.issuer.key_set()
    harness.keys.asked[0].callback(None)
    assert not harness.pipeline.endpoint.connections
    assert settled(harness) == (0, 0, 0)
    assert not harness.server._waiting


def test_a_drain_ends_the_waiting() -> None:
    harness, request = waiting()
    harness.channel.dataReceived(request)
    harness.server.drain()
    assert harness.status() == 503
    harness.keys.asked[0].callback(None)
    assert harness.received().count(b"HTTP/1.1 ") == 1


# What else carries a token


def test_a_token_in_the_query_of_gemini() -> None:
    harness = TokenHarness()
    serve(
        harness,
        post(BODY, JSON, path=f"/v1beta/models/gem%2Fx:generateContent?key={harness.token(role='guest')}"),
    )
    assert harness.event.client == "corp:ann"
    (head,) = upstream_heads(harness)
    assert b"key=" not in head


def test_tokens_of_a_gate_that_is_open_stay_here() -> None:
    harness = TokenHarness(
        TEXT.replace("enabled: true", "enabled: false").replace("api_key: sk-main-0001, ", "")
    )
    for token in (harness.token(), harness.token(expires=1.0)):
        serve(harness, ask(token))
    assert not harness.pipeline.endpoint.connections
    assert [event.client for event in harness.observer.events] == [None, None]


UPLOAD = "/upload/v1beta/files"


def test_an_upload_names_the_client_whose_token_began_it() -> None:
    harness = TokenHarness()
    harness.connect()
    harness.send(
        post(b"{}", f"x-goog-api-key: {harness.token()}", "X-Goog-Upload-Command: start", JSON, path=UPLOAD)
    )
    harness.connection.send(
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n"
        b"X-Goog-Upload-URL: https://gemini.example/upload/v1beta/files?upload_id=7\r\n\r\n{}"
    )
    found = re.search(rb"X-Goog-Upload-URL: http://[^/]*(/\S+)", harness.received())
    assert found is not None
    address = found[1].decode()
    harness.unix_seconds += 3600  # the token has expired
    serve(harness, post(b"data", "X-Goog-Upload-Command: upload", path=address))
    assert [event.client for event in harness.observer.events] == ["corp:ann", "corp:ann"]
    assert harness.observer.events[1].client_groups == ("research",)
    for other in (
        address[:-1] + ("0" if address[-1] != "0" else "1"),
        address.replace("upload_id=7", "upload_id=8"),
    ):
        assert status(serve(harness, post(b"data", "X-Goog-Upload-Command: upload", path=other))) == 401


# Sessions


class TokenSession(SessionHarness):
    """A session of a client with a token."""

    def __init__(self, *, cuts: bool, key: str | None = None, header: str = "") -> None:
        text = TEXT.replace("enabled: true", f"enabled: true\n  cut_revoked: {str(cuts).lower()}")
        WebServerHarness.__init__(self, text)
        self.issued = Issued(self)
        self.changes = KeyChanges(self.server)
        self.changes.follow()
        self.seen_by_provider, self._taken = b"", 0
        self.connect()
        token = self.issued.token(expires=1060.0, role="guest")
        headers = [header.format(token)] if header else []
        self.channel.dataReceived(handshake(REALTIME, None if header else token, *headers))


@pytest.mark.parametrize(("cuts", "goes"), [(True, True), (False, True), (True, False)])
def test_a_session_is_cut_at_the_end_of_its_token_where_that_is_wanted(cuts: bool, goes: bool) -> None:
    """The clock of Unix time may stand still, which means that it was set back."""
    harness = TokenSession(cuts=cuts)
    harness.switch()
    assert harness.take_head().startswith(b"HTTP/1.1 101 ")
    for seconds in (30, 29):
        harness.unix_seconds += seconds if goes else 0
        harness.clock.advance(seconds)
    assert harness.client_frames() == []
    harness.unix_seconds += 1 if goes else 0
    harness.clock.advance(1)
    found = [frame.code for frame in harness.client_frames()]
    assert found == ([1008] if cuts else [])
    if cuts:
        harness.clock.advance(5)
        harness.turn()
        assert (harness.event.status, harness.event.error) == (Outcome.REJECTED, "revoked")
    harness.changes.stop()


def test_no_request_is_cut_at_the_end_of_its_token() -> None:
    harness = TokenHarness(TEXT.replace("enabled: true", "enabled: true\n  cut_revoked: true"))
    changes = KeyChanges(harness.server)
    changes.follow()
    harness.connect()
    harness.send(ask(harness.token(expires=1060.0, role="guest")))
    harness.unix_seconds = 1061.0
    harness.clock.advance(2)
    harness.connection.send(answered())
    assert harness.status() == 200
    changes.stop()


def test_a_token_in_a_subprotocol_opens_a_session_and_stays_here() -> None:
    header = "Sec-WebSocket-Protocol: realtime, openai-insecure-api-key.{}"
    harness = TokenSession(cuts=False, header=header)
    harness.switch()
    assert harness.take_head().startswith(b"HTTP/1.1 101 ")
    assert b"eyJ" not in harness.provider.received


def test_a_gate_that_is_open_recognizes_tokens_without_keys() -> None:
    harness = TokenHarness()
    settings = harness.generation.config.edge_auth
    gate = make_token_gate(settings, harness.counts, NoKeysOfIssuers(), ExpiredTokens(), harness.read_wall)
    value = harness.token().encode()
    found = gate.find(value, sha256(value).digest())
    assert isinstance(found, TokenRefusedError)
    assert (found.flaw, gate.wait_for(found)) == (TokenFlaw.KEYS_UNAVAILABLE, None)
