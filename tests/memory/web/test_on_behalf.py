"""Requests on behalf of callers: each goes out with a token that was got for its own caller, and no other."""

from __future__ import annotations

import re
from typing import Any

import pytest
from twisted.internet.defer import Deferred
from twisted.logger import capturedLogs

from mgw.credentials.provider import CallerToken
from mgw.nouns.secret import Secret, key_hash
from mgw.ops.live_models import LiveModels
from mgw.ops.provider_health import ProviderHealth
from mgw.usage.event import Outcome
from tests.memory.web.test_tokens import Issued, challenge, status
from tests.support.channels import get, post
from tests.support.deferreds import result_of
from tests.support.exchanges import JSON
from tests.support.memory_sessions import SessionHarness
from tests.support.pipelines import Pipeline, answered
from tests.support.probes import LISTS, Providers
from tests.support.raw_sessions import handshake
from tests.support.token_endpoints import TOKEN_URL, WALL
from tests.support.token_issuers import ISSUER
from tests.support.web_servers import WebServerHarness, settled

OAUTH = f"auth: oauth2, oauth: {{token_url: '{TOKEN_URL}', client_id: gateway, client_secret: canary-secret, "
TEXT = f"""
providers:
  main: {{kind: openai, base_url: "http://main.example/v1", {OAUTH}
    grant: token_exchange, subject_token: client}}}}
  claude: {{kind: anthropic, base_url: "http://claude.example/v1", {OAUTH}
    grant: jwt_bearer, assertion: client}}}}
  spare: {{kind: openai, base_url: "http://spare.example/v1", api_key: sk-spare-canary}}
aliases: {{both: [main/m, spare/m], other: [spare/m, main/m]}}
defaults: {{openai_dialect: main}}
edge_auth:
  enabled: true
  keys: [plain-canary-0001]
  jwt: [{{name: corp, issuer: {ISSUER}, audience: mgw, clock_skew: 0, rules: [{{}}]}}]
health_checks: {{enabled: true}}
"""
CHAT = "/v1/chat/completions"
MESSAGE = b'{"id":"m","type":"message","role":"assistant","content":[],"usage":{}}'
NEW_AND_KNOWN = pytest.mark.usefixtures("heads")


class CallersHarness(WebServerHarness):
    """A server that asks its providers on behalf of callers."""

    def __init__(self, text: str = TEXT) -> None:
        super().__init__(text)
        self.issued = Issued(self)
        self.unix_seconds = WALL
        self.hosts = self.pipeline.token_hosts

    def token(self, subject: str, seconds: float = 3600.0) -> str:
        return self.issued.token(subject, WALL + seconds)

    def pass_time(self, seconds: float) -> None:
        self.unix_seconds += seconds
        self.clock.advance(seconds)

    def upstream(self) -> list[bytes]:
        """Return the heads of all requests that reached a provider, by connection."""
        return [
            head
            for connection in self.pipeline.endpoint.connections
            for head in re.findall(rb"(?:POST|GET) [^\r]* HTTP/1.1\r\n.*?\r\n\r\n", connection.received, re.S)
        ]

    def answer_exchange(self, token: str, **more: object) -> None:
        self.hosts.newest().answer_token(token, **more)

    def finish(self, response: bytes | None = None) -> bytes:
        """Have the provider answer, and return what the client gets."""
        self.connection.send(answered() if response is None else response)
        return self.received()


def ask(
    token: str, model: str = "main/m", path: str = CHAT, carrier: str = "Authorization: Bearer "
) -> bytes:
    body = b'{"model":"%b","messages":[{"role":"user","content":"hi"}],"max_tokens":9}' % model.encode()
    return post(body, f"{carrier}{token}", JSON, path=path)


def connected(harness: CallersHarness) -> dict[str, tuple[Any, Any]]:  # Any: Twisted's
    """Connect both callers; return their channels and transports."""
    channels = {}
    for name in ("ann", "bob"):
        harness.connect()
        channels[name] = harness.channel, harness.transport
    return channels


def bearer(head: bytes) -> bytes:
    (found,) = re.findall(rb"(?im)^authorization: bearer (\S+)\r$", head)
    assert isinstance(found, bytes)
    return found


@NEW_AND_KNOWN
def test_a_request_goes_out_with_the_token_that_its_callers_was_exchanged_for() -> None:
    harness = CallersHarness()
    token = harness.token("ann")
    harness.send(ask(token))
    assert harness.hosts.newest().form["subject_token"] == token
    assert harness.upstream() == []
    harness.answer_exchange("exchanged-ann")
    assert status(harness.finish()) == 200
    assert [bearer(head) for head in harness.upstream()] == [b"exchanged-ann"]
    assert (harness.event.client, harness.event.key_hash) == ("corp:ann", key_hash("gateway"))
    assert settled(harness) == (0, 0, 0)


@pytest.mark.parametrize("model", ["main/m", "claude/m"], ids=["passed on", "translated"])
def test_callers_who_take_turns_on_kept_connections_never_have_each_others_tokens(model: str) -> None:
    """What is remembered of heads, targets and lines holds the bytes of one credential."""
    harness = CallersHarness()
    tokens = {name: harness.token(name) for name in ("ann", "bob")}
    channels = connected(harness)
    turns = [*("ann", "bob") * 6, "ann", "ann", "bob", "bob", "ann"]
    sent: dict[str, int] = {}
    for turn, name in enumerate(turns):
        if turn == 12:  # and what replaces a token is not the other's, either
            harness.pass_time(3600)
            tokens, channels = {one: harness.token(one, 9000) for one in tokens}, connected(harness)
        harness.channel, harness.transport = channels[name]
        harness.transport.clear()
        asked = len(harness.hosts.posts())
        harness.channel.dataReceived(ask(tokens[name], model))
        if len(harness.hosts.posts()) > asked:
            assert tokens[name] in harness.hosts.newest().form.values()
            sent[name] = sent.get(name, 0) + 1
            harness.answer_exchange(f"{name}-{sent[name]}")
        assert len(harness.pipeline.endpoint.connections) == (2 if turn >= 12 else 1)
        head = harness.upstream()[-1]
        assert bearer(head) == f"{name}-{2 if turn >= 12 else 1}".encode()
        assert len(harness.upstream()) == turn + 1
        harness.finish(answered(MESSAGE) if model == "claude/m" else answered())
        assert harness.status() == 200
    assert sent == {"ann": 2, "bob": 2}


def test_requests_of_both_callers_at_the_same_time_wait_for_one_exchange_each() -> None:
    harness = CallersHarness()
    tokens = {name: harness.token(name) for name in ("ann", "bob")}
    for name in ("ann", "bob", "ann", "bob", "ann"):
        harness.connect()
        harness.channel.dataReceived(ask(tokens[name]))
    first, second = harness.hosts.posts()
    second.answer_token("b1")
    first.answer_token("a1")
    assert sorted(map(bearer, harness.upstream())) == [b"a1", b"a1", b"a1", b"b1", b"b1"]


@NEW_AND_KNOWN
@pytest.mark.parametrize(("model", "path"), [("main/m", CHAT), ("claude/m", "/v1/messages/count_tokens")])
def test_a_client_with_a_gateway_key_gets_a_401(model: str, path: str) -> None:
    harness = CallersHarness()
    harness.send(ask("plain-canary-0001", model, path))
    assert harness.status() == 401
    assert b"a token of an identity provider" in harness.received()
    assert b"no_provider_key" in harness.received() or path != CHAT
    assert harness.event.error == "no_provider_key"
    assert (harness.hosts.posts(), harness.upstream()) == ([], [])


def test_a_caller_whose_token_is_refused_gets_a_401_that_shows_nothing() -> None:
    harness = CallersHarness()
    token = harness.token("ann")
    with capturedLogs() as logged:
        harness.send(ask(token))
        harness.hosts.newest().refuse("invalid_request")
    assert harness.status() == 401
    assert challenge(harness.received()) is None or b"invalid_token" not in harness.received()
    assert (harness.event.error, harness.event.status) == ("no_provider_key", Outcome.REJECTED)
    assert harness.upstream() == []
    shown = harness.received().decode() + str(logged) + repr(harness.event)
    assert token not in shown
    assert "canary" not in shown


def test_an_endpoint_that_fails_is_a_502() -> None:
    harness = CallersHarness()
    harness.send(ask(harness.token("ann")))
    harness.hosts.newest().answer({}, 500)
    assert harness.status() == 502
    assert b"credential_source_failed" in harness.received()


def test_a_401_leads_to_one_exchange_and_the_next_is_passed_on() -> None:
    harness = CallersHarness()
    harness.send(ask(harness.token("ann")))
    harness.answer_exchange("first-canary-a1")
    harness.finish(answered(b'{"error":{"message":"bad first-canary-a1"}}', b"401 Unauthorized"))
    assert harness.received() == b""
    harness.answer_exchange("second-canary-a2")
    harness.finish(answered(b'{"error":{"message":"bad second-canary-a2"}}', b"401 Unauthorized"))
    assert harness.status() == 401
    assert b"canary" not in harness.received()
    assert [bearer(head) for head in harness.upstream()] == [b"first-canary-a1", b"second-canary-a2"]
    assert len(harness.hosts.posts()) == 2
    assert "canary" not in repr(harness.event)


def test_a_token_that_ends_while_a_request_waits_is_not_exchanged() -> None:
    harness = CallersHarness()
    token = harness.token("ann", 60)
    harness.send(ask(token))
    harness.answer_exchange("a1")
    harness.pass_time(61)
    with capturedLogs() as logged:
        harness.finish(answered(b"{}", b"401 Unauthorized"))
    assert [event["log_format"] for event in logged if "could not be renewed" in event["log_format"]] == []
    assert (harness.status(), len(harness.hosts.posts())) == (401, 1)
    harness.connect()
    harness.channel.dataReceived(ask(token))
    assert (harness.status(), challenge(harness.received()) is not None) == (401, True)
    assert len(harness.hosts.posts()) == 1


def test_nothing_is_kept_beyond_the_exp_of_a_token_that_still_opens_the_gateway() -> None:
    harness = CallersHarness(TEXT.replace("clock_skew: 0", "clock_skew: 30"))
    token = harness.token("ann", 60)
    for second, exchanged in ((0, "a1"), (59, "a1"), (60, "a2"), (89, "a3")):
        harness.pass_time(WALL + second - harness.unix_seconds)
        harness.connect()
        asked = len(harness.hosts.posts())
        harness.channel.dataReceived(ask(token))
        if len(harness.hosts.posts()) > asked:
            harness.answer_exchange(exchanged)
        assert bearer(harness.upstream()[-1]) == exchanged.encode()
        harness.finish()
    assert len(harness.hosts.posts()) == 3
    harness.pass_time(1)
    harness.connect()
    harness.channel.dataReceived(ask(token))
    assert (harness.status(), len(harness.hosts.posts())) == (401, 3)


@pytest.mark.parametrize(("model", "path"), [("claude/m", "/v1/messages/count_tokens"), ("main/m", CHAT)])
def test_counts_and_answers_have_the_same_token(model: str, path: str) -> None:
    harness = CallersHarness()
    harness.send(ask(harness.token("ann"), model, path))
    harness.answer_exchange("a1")
    harness.finish(answered(b'{"input_tokens":3}'))
    assert [bearer(head) for head in harness.upstream()] == [b"a1"]


def test_an_alias_goes_on_where_the_endpoint_fails_but_not_where_it_refuses_the_caller() -> None:
    harness = CallersHarness()
    token = harness.token("ann")
    harness.send(ask(token, "both"))
    harness.hosts.newest().answer({}, 500)
    assert bearer(harness.upstream()[-1]) == b"sk-spare-canary"
    harness.connect()
    harness.channel.dataReceived(ask(token, "both"))
    harness.hosts.newest().refuse("invalid_grant")
    assert (harness.status(), len(harness.upstream())) == (401, 1)


def test_a_later_target_is_asked_on_behalf_of_the_caller() -> None:
    harness = CallersHarness()
    harness.send(ask(harness.token("ann"), "other"))
    harness.finish(answered(b"{}", b"503 Service Unavailable"))
    harness.answer_exchange("a1")
    assert [bearer(head) for head in harness.upstream()] == [b"sk-spare-canary", b"a1"]


class CallerSession(SessionHarness):
    """A session on behalf of its caller."""

    def __init__(self, *, has_token: bool = True) -> None:
        WebServerHarness.__init__(self, TEXT)
        self.issued = Issued(self)
        self.unix_seconds = WALL
        self.seen_by_provider, self._taken = b"", 0
        self.connect()
        token = self.issued.token("ann", WALL + 600) if has_token else "plain-canary-0001"
        self.channel.dataReceived(handshake("/v1/realtime?model=main%2Fm", token))


def test_a_session_is_opened_with_the_callers_token() -> None:
    harness = CallerSession()
    harness.pipeline.token_hosts.newest().answer_token("a1")
    assert bearer(harness.provider.received) == b"a1"
    harness.provider.send(b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n")
    harness.pipeline.token_hosts.newest().answer_token("a2")
    assert bearer(harness.provider.received) == b"a2"
    harness.switch()
    assert harness.take_head().startswith(b"HTTP/1.1 101 ")


def test_a_session_with_a_gateway_key_is_refused() -> None:
    harness = CallerSession(has_token=False)
    assert harness.take_head().startswith(b"HTTP/1.1 401 ")
    assert harness.pipeline.endpoint.connections == []


@pytest.mark.parametrize("has_token", [True, False])
def test_an_upload_begins_with_the_callers_token_and_chunks_need_none(has_token: bool) -> None:
    gem = TEXT.replace(
        "  spare:",
        f"  gem: {{kind: gemini, base_url: 'http://gem.example/v1beta', {OAUTH}\n"
        "    grant: jwt_bearer, assertion: client}}\n  spare:",
    )
    harness = CallersHarness(gem.replace("openai_dialect: main", "gemini_dialect: gem"))
    key = harness.token("ann") if has_token else "plain-canary-0001"
    head = f"Authorization: Bearer {key}"
    harness.send(
        post(b"data", head, "X-Goog-Upload-Command: upload", path="/upload/v1beta/files?upload_id=7")
    )
    if has_token:
        harness.answer_exchange("a1")
    (sent,) = harness.upstream()
    assert (b"Bearer a1" in sent) is has_token
    harness.connect()
    harness.channel.dataReceived(post(b"data", head, path="/upload/v1beta/files"))
    if not has_token:
        assert harness.status() == 401


def test_no_other_request_is_taken_for_a_chunk_of_an_upload() -> None:
    harness = CallersHarness()
    harness.send(ask("plain-canary-0001", path=f"{CHAT}?upload_id=7"))
    assert (harness.status(), harness.upstream()) == (401, [])


# The gateway's own questions


class OwnQuestions(Providers):
    """What the gateway asks providers by itself."""

    def __init__(self) -> None:
        self.failures: list[str] = []
        self._answered: dict[str, int] = {}
        super().__init__(pipeline=Pipeline(TEXT))
        assert self.pipeline is not None
        self.hosts = self.pipeline.token_hosts
        self.lists = LiveModels(self.probe, self.failures.append)
        self.health = ProviderHealth(self.probe)

    def ask(self, name: str | None) -> Deferred[Any]:
        token = None if name is None else CallerToken(Secret(f"token-of-{name}"), WALL + 3600)
        return Deferred.fromCoroutine(self.lists.ask(self.generation, None, None, token))

    def list_for(self, name: str) -> list[str]:
        """Return what is listed for a caller, where each is asked for anew."""
        asked = self.ask(name)
        for one in self.hosts.posts():
            if not one.connection.over and f"token-of-{name}" in one.form.values():
                one.answer_token(f"exchanged-{name}")
        for provider in ("main", "claude", "spare"):
            if len(self.requests(provider)) > self._answered.get(provider, 0):
                self._answered[provider] = len(self.requests(provider))
                self.respond(provider, {"data": [{"id": f"{provider}-for-{name}"}], "has_more": False})
        return [model.id for models in result_of(asked).values() for model in models]


def test_each_caller_has_live_lists_of_its_own() -> None:
    questions = OwnQuestions()
    ann = questions.list_for("ann")
    assert ann == ["main-for-ann", "claude-for-ann", "spare-for-ann"]
    assert bearer(questions.requests("main")[-1] + b"\r\n") == b"exchanged-ann"
    bob = questions.list_for("bob")
    assert bob == ["main-for-bob", "claude-for-bob", "spare-for-ann"], "one key, one list: all have the same"
    assert questions.list_for("ann") == ann
    assert questions.failures == []


def test_a_live_list_without_a_callers_token_leaves_such_providers_out() -> None:
    questions = OwnQuestions()
    asked = questions.ask(None)
    questions.respond("spare", {"data": [{"id": "spare-m"}]})
    found = {name: len(models) for name, models in result_of(asked).items()}
    assert found == {"main": 0, "claude": 0, "spare": 1}
    assert (questions.failures, questions.hosts.posts()) == ([], [])


def test_a_live_list_that_is_refused_is_asked_for_with_another_token_of_the_caller() -> None:
    questions = OwnQuestions()
    asked = questions.ask("ann")
    for one in questions.hosts.posts():
        one.answer_token("a1")
    questions.respond("main", {}, 401)
    questions.hosts.newest().answer_token("a2")
    assert bearer(questions.requests("main")[-1] + b"\r\n") == b"a2"
    for name in ("main", "claude", "spare"):
        questions.respond(name, {"data": [], "has_more": False})
    result_of(asked)


@pytest.mark.parametrize("refusal", [200, 401])
def test_a_probe_has_no_caller_and_says_whether_the_provider_responds(refusal: int) -> None:
    questions = OwnQuestions()
    asked = Deferred.fromCoroutine(questions.health.report(questions.generation))
    for name in ("main", "claude"):
        assert b"authorization" not in questions.requests(name)[-1].lower()
        questions.respond(name, LISTS["main"], refusal)
    questions.respond("spare", LISTS["main"])
    assert b'"status":"ok"' in result_of(asked)
    assert b'"error":"' not in result_of(
        Deferred.fromCoroutine(questions.health.report(questions.generation))
    )
    assert questions.hosts.posts() == []


def test_the_page_of_live_models_is_the_callers() -> None:
    harness = CallersHarness()
    harness.channel.dataReceived(get("/v1/models?live=1", f"Authorization: Bearer {harness.token('ann')}"))
    assert [form.form["client_id"] for form in harness.hosts.posts()] == ["gateway", "gateway"]
