"""Refusals of signatures: the same request once more, in the host's time or with other keys, and no more."""

from __future__ import annotations

import gzip
import json
from email.utils import formatdate
from typing import Final

import pytest
from twisted.internet.defer import Deferred
from twisted.logger import capturedLogs, formatEvent
from twisted.python.failure import Failure

from mgw.credentials.signed_again import Again
from mgw.nouns.errors import GatewayError
from mgw.ops.live_models import LiveModels
from mgw.ops.provider_health import ProviderHealth
from mgw.usage.event import Outcome
from tests.support.bodies import MemorySource, patterned
from tests.support.deferreds import result_of
from tests.support.pipelines import CHAT, Pipeline, RecordingChannel, answered
from tests.support.probes import Providers
from tests.support.signed_requests import KEYS, SESSION_KEYS, SigningHost
from tests.support.signing_source import SigningSource

CONFIG: Final = """
providers:
  main: {kind: openai, base_url: "https://bedrock-mantle.eu-central-1.api.aws/openai/v1", api_key: sk-canary}
  claude: {kind: anthropic, base_url: "https://claude.example/v1", api_key: sk-ant-canary}
defaults: {openai_dialect: main, anthropic_dialect: main, gemini_dialect: main}
aliases: {fast: [main/gpt, claude/c]}
health_checks: {enabled: true}
"""
NOW: Final = 1_767_322_800.0
MESSAGE: Final = b'{"model":"gpt","max_tokens":9,"messages":[{"role":"user","content":"Hi"}]}'
STREAM: Final = b'{"model":"gpt","stream":true,"messages":[{"role":"user","content":"Hi"}]}'
CHOICE: Final = (
    b'{"id":"x","object":"chat.completion%b","created":1,"model":"gpt",'
    b'"choices":[{"index":0,"%b":{"role":"assistant","content":"Hi"},"finish_reason":"stop"}]}'
)
WHOLE: Final = answered(CHOICE % (b"", b"message"))
EVENTS: Final = answered(
    b"data: %b\n\ndata: [DONE]\n\n" % (CHOICE % (b".chunk", b"delta")), content_type=b"text/event-stream"
)
STREAMED: Final = MESSAGE.replace(b'"max', b'"stream":true,"max')
WAYS: Final = [
    pytest.param("/v1/chat/completions", CHAT, WHOLE, id="relayed"),
    pytest.param("/v1/chat/completions", STREAM, EVENTS, id="a stream"),
    pytest.param("/v1/chat/completions", STREAM.replace(b"Hi", b"Hi" * 700_000), EVENTS, id="large"),
    pytest.param("/v1/messages", MESSAGE, WHOLE, id="translated"),
    pytest.param("/v1/messages", STREAMED, EVENTS, id="a translated stream"),
    pytest.param("/v1/files", MemorySource(patterned(300_000)), WHOLE, id="stored"),
]


def refusal(
    name: str, status: bytes = b"403 Forbidden", *, ahead: float | None = None, in_body: bool = False
) -> bytes:
    """An error of AWS, given by a host whose clock is ahead of ours."""
    body = json.dumps({"__type": f"com.amazon.x#{name}"} if in_body else {"message": "no"}).encode()
    lines = b"" if in_body else b"X-Amzn-ErrorType: %b:http://x/\r\n" % name.encode()
    if ahead is not None:
        lines += b"date: %b\r\n" % formatdate(NOW + ahead, usegmt=True).encode()
    head = b"HTTP/1.1 %b\r\n%bContent-Length: %d\r\n\r\n" % (status, lines, len(body))
    return head + body


class Play:
    """A pipeline whose provider checks signatures."""

    def __init__(self, *keys: object) -> None:
        self.source = SigningSource(*(keys or (KEYS,)))  # type: ignore[arg-type]  # they are keys
        self.pipeline = Pipeline(CONFIG, sources={"main": self.source}, wall=NOW)
        self.pipeline.wall = NOW

    def ask(self, path: str = "/v1/chat/completions", body: object = CHAT) -> RecordingChannel:
        self.pipeline.wall = NOW + self.pipeline.clock.seconds()
        query = b"provider=main" if path == "/v1/files" else None
        client, _ = self.pipeline.ask(path, body, query=query)  # type: ignore[arg-type]  # it is a body
        return client

    def answer(self, data: bytes) -> None:
        self.pipeline.connection.send(data)

    def stamps(self, *keys: object) -> list[str]:
        """The times of all requests, each of which is signed in order."""
        found = []
        received = self.pipeline.connection.received
        hosts = [SigningHost(one) for one in keys or (KEYS,)]  # type: ignore[arg-type]  # as above
        requests = [b"POST" + rest for rest in received.split(b"POST")[1:]]
        for number, request in enumerate(requests):
            host = hosts[min(number, len(hosts) - 1)]
            host.check_all(request)
            found.append(host.stamps[-1])
        return found

    def counted(self) -> dict[tuple[str, Again], int]:
        return dict(self.pipeline.generation.signed_again.rows())


CLOCK: Final = {("main", Again.CLOCK): 1}
EXPIRED: Final = {("main", Again.EXPIRED): 1}


@pytest.mark.parametrize("in_body", [False, True], ids=["in the head", "in the body"])
@pytest.mark.parametrize(("path", "body", "answer"), WAYS)
def test_a_request_is_signed_again_in_the_clock_of_its_host(
    path: str, body: bytes, answer: bytes, in_body: bool
) -> None:
    play = Play()
    client = play.ask(path, body)
    play.answer(refusal("RequestTimeTooSkewed", ahead=600, in_body=in_body))
    assert not client.started
    play.answer(answer)
    assert client.status == 200
    assert play.stamps() == ["20260102T030000Z", "20260102T031000Z"]
    assert play.counted() == CLOCK
    assert play.pipeline.event().attempts == 2


def test_the_clock_is_mended_where_the_source_has_no_other_keys() -> None:
    play = Play()
    play.source.statuses = frozenset()
    client = play.ask()
    play.answer(refusal("RequestExpired", ahead=600))
    play.answer(answered())
    assert (client.status, play.counted()) == (200, CLOCK)


def test_the_next_requests_are_signed_in_that_clock_until_a_later_date_says_otherwise() -> None:
    play = Play()
    for ahead in (600, 600, 0, 0):
        play.ask()
        date = formatdate(NOW + ahead, usegmt=True).encode()
        play.answer(answered().replace(b"X-Up", b"Date: %b\r\nX-Up" % date))
    assert [stamp[9:13] for stamp in play.stamps()] == ["0300", "0310", "0310", "0300"]
    assert play.counted() == {}


def test_an_answer_of_a_cache_says_nothing_of_the_clock() -> None:
    play = Play()
    play.ask()
    date = formatdate(NOW + 600, usegmt=True).encode()
    play.answer(answered().replace(b"X-Up", b"age: 7\r\nDate: %b\r\nX-Up" % date))
    play.ask()
    assert play.stamps() == ["20260102T030000Z"] * 2


@pytest.mark.parametrize(
    "name", ["RequestExpired", "RequestInTheFuture", "SignatureDoesNotMatch", "AuthFailure"]
)
def test_it_is_signed_again_once(name: str) -> None:
    play = Play()
    client = play.ask()
    play.answer(refusal(name, b"400 Bad Request", ahead=-600))
    play.answer(refusal(name, b"400 Bad Request", ahead=600))
    assert client.status == 400
    assert (len(play.stamps()), play.counted()) == (2, CLOCK)
    event = play.pipeline.event()
    assert (event.attempts, event.status) == (2, Outcome.UPSTREAM_ERROR)


@pytest.mark.parametrize(
    ("name", "status", "ahead"),
    [
        ("InvalidSignatureException", b"403 Forbidden", 200),
        ("InvalidSignatureException", b"403 Forbidden", None),
        ("RequestTimeTooSkewed", b"403 Forbidden", None),
        ("AccessDeniedException", b"403 Forbidden", 600),
        ("ValidationException", b"400 Bad Request", 600),
        ("RequestTimeTooSkewed", b"500 Error", 600),
        ("RequestTimeTooSkewed", b"404 Not Found", 600),
    ],
)
def test_other_refusals_are_the_clients(name: str, status: bytes, ahead: float | None) -> None:
    play = Play(KEYS, SESSION_KEYS)
    client = play.ask()
    play.answer(refusal(name, status, ahead=ahead))
    assert client.status == int(status[:3])
    assert (len(play.stamps()), play.counted(), play.pipeline.event().attempts) == (1, {}, 1)


@pytest.mark.parametrize("in_body", [False, True], ids=["in the head", "in the body"])
@pytest.mark.parametrize(("path", "body", "answer"), WAYS)
def test_keys_that_have_expired_are_replaced(path: str, body: bytes, answer: bytes, in_body: bool) -> None:
    play = Play(KEYS, SESSION_KEYS)
    client = play.ask(path, body)
    play.answer(refusal("ExpiredTokenException", b"400 Bad Request", in_body=in_body))
    assert not client.started
    play.answer(answer)
    assert client.status == 200
    assert len(play.stamps(KEYS, SESSION_KEYS)) == 2
    assert play.counted() == EXPIRED
    event = play.pipeline.event()
    assert (event.attempts, event.key_hash) == (2, play.source.ready(None).key_hash)


@pytest.mark.parametrize("coding", [b"gzip", b"GZIP", b"identity"])
def test_a_reason_that_comes_compressed_is_read(coding: bytes) -> None:
    play = Play(KEYS, SESSION_KEYS)
    client = play.ask()
    text = b'{"__type":"com.amazon.coral#ExpiredTokenException","message":"no"}'
    body = text if coding == b"identity" else gzip.compress(text)
    play.answer(answered(body, b"403 Forbidden").replace(b"X-Up", b"Content-Encoding: %b\r\nX-Up" % coding))
    play.answer(answered())
    assert (client.status, play.counted()) == (200, EXPIRED)


@pytest.mark.parametrize("body", [b"no gzip", gzip.compress(bytes(2**26)), gzip.compress(b"{}")[:-4], b""])
def test_a_reason_that_cannot_be_unpacked_is_the_clients(body: bytes) -> None:
    play = Play(KEYS, SESSION_KEYS)
    client = play.ask()
    play.answer(answered(body, b"403 Forbidden").replace(b"X-Up", b"Content-Encoding: gzip\r\nX-Up"))
    assert (client.status, client.body, play.counted()) == (403, body, {})


def test_keys_are_replaced_once() -> None:
    play = Play(KEYS, SESSION_KEYS, KEYS)
    client = play.ask()
    for _ in range(2):
        play.answer(refusal("UnrecognizedClientException"))
    assert client.status == 403
    assert (len(play.stamps(KEYS, SESSION_KEYS)), play.counted()) == (2, EXPIRED)


def test_where_there_are_no_other_keys_the_refusal_is_the_clients() -> None:
    play = Play(KEYS)
    client = play.ask()
    play.answer(refusal("ExpiredToken"))
    assert (client.status, play.counted()) == (403, {})
    assert play.source.refusals == ["ExpiredToken"]


def test_the_clock_and_the_keys_are_each_mended_once() -> None:
    play = Play(KEYS, SESSION_KEYS)
    client = play.ask()
    play.answer(refusal("RequestTimeTooSkewed", ahead=600))
    play.answer(refusal("InvalidClientTokenId", ahead=600))
    play.answer(refusal("RequestTimeTooSkewed", ahead=1200))
    assert client.status == 403
    assert len(play.stamps(KEYS, KEYS, SESSION_KEYS)) == 3
    assert play.counted() == CLOCK | EXPIRED


def test_a_reason_that_comes_behind_its_head_is_waited_for() -> None:
    play = Play(KEYS, SESSION_KEYS)
    client = play.ask()
    said = refusal("ExpiredToken", in_body=True)
    for piece in (said[:-30], said[-30:-10], said[-10:]):
        assert len(play.stamps(KEYS)) == 1
        play.answer(piece)
    play.pipeline.connection.close()
    play.answer(answered())
    assert (client.status, play.counted()) == (200, EXPIRED)


def test_a_client_that_leaves_meanwhile_gets_nothing_sent_again() -> None:
    play = Play()
    _, done = play.pipeline.ask()
    said = refusal("RequestTimeTooSkewed", ahead=600, in_body=True)
    play.answer(said[:-10])
    done.cancel()
    play.answer(said[-10:])
    assert (len(play.stamps()), play.counted()) == (1, {})


def test_a_request_that_was_under_way_as_the_clock_was_learned_is_signed_again() -> None:
    play = Play()
    clients = [play.ask(), play.ask()]
    first, second = play.pipeline.endpoint.connections
    first.send(refusal("RequestTimeTooSkewed", ahead=600))
    first.send(answered())
    second.send(refusal("SignatureDoesNotMatch", ahead=600))
    first.send(answered())  # of the two that are idle
    assert [client.status for client in clients] == [200, 200]
    assert play.counted() == {("main", Again.CLOCK): 2}


def test_a_signature_that_is_wrong_in_the_right_clock_is_not_made_again() -> None:
    play = Play()
    play.source.clock.note(formatdate(NOW + 600, usegmt=True).encode(), NOW, NOW)
    client = play.ask()
    play.answer(refusal("SignatureDoesNotMatch", ahead=600))
    assert (client.status, play.counted()) == (403, {})


def test_nothing_secret_is_said_of_it() -> None:
    with capturedLogs() as events:
        play = Play(SESSION_KEYS, KEYS)
        play.ask()
        play.answer(refusal("RequestTimeTooSkewed", ahead=600))
        play.answer(refusal("ExpiredToken", ahead=600))
        play.answer(refusal("InvalidSignatureException", ahead=600))
    said = "".join(
        [*(formatEvent(event) for event in events), repr(play.pipeline.event()), repr(play.source)]
    )
    assert "600 s behind the clock of provider main" in said
    assert "canary" not in said
    assert "AKID" not in said
    assert "Signature=" not in said


def test_lists_and_probes_are_signed_again() -> None:
    play = Play(KEYS, SESSION_KEYS)
    providers = Providers(pipeline=play.pipeline)
    providers.probe.wall = lambda: NOW
    asking = Deferred.fromCoroutine(LiveModels(providers.probe, pytest.fail).ask(providers.generation, None))
    providers.connection("main").send(refusal("RequestTimeTooSkewed", ahead=600))
    providers.respond("main", {"data": [{"id": "gpt"}]})
    providers.respond("claude", {"data": [], "has_more": False})
    assert [model.id for model in result_of(asking)["main"]] == ["gpt"]
    health = Deferred.fromCoroutine(ProviderHealth(providers.probe).report(providers.generation))
    providers.connection("main").send(refusal("ExpiredToken", in_body=True))
    providers.respond("main", {"data": []})
    providers.respond("claude", {"data": [], "has_more": False})
    assert {row["name"]: row["error"] for row in json.loads(result_of(health))["providers"]}["main"] is None
    assert play.counted() == CLOCK | EXPIRED


def test_a_probe_is_signed_again_once() -> None:
    play = Play(KEYS, SESSION_KEYS, KEYS)
    providers = Providers(pipeline=play.pipeline)
    providers.probe.wall = lambda: NOW
    health = Deferred.fromCoroutine(ProviderHealth(providers.probe).report(providers.generation))
    for _ in range(2):
        providers.connection("main").send(refusal("ExpiredToken"))
    providers.respond("claude", {"data": [], "has_more": False})
    found = {row["name"]: row["http_status"] for row in json.loads(result_of(health))["providers"]}
    assert (found["main"], len(providers.requests("main"))) == (403, 2)


def test_the_next_target_has_its_own_turn() -> None:
    play = Play(KEYS, SESSION_KEYS)
    others = SigningSource(KEYS, SESSION_KEYS, provider="claude")
    play.pipeline = Pipeline(CONFIG, sources={"main": play.source, "claude": others}, wall=NOW)
    play.ask(body=MESSAGE.replace(b'"gpt"', b'"fast"'))
    play.answer(refusal("ExpiredToken"))
    play.answer(answered(b"{}", b"503 Busy"))
    play.answer(refusal("ExpiredToken"))
    play.answer(answered())
    assert play.pipeline.event().attempts == 4
    assert play.counted() == EXPIRED | {("claude", Again.EXPIRED): 1}


@pytest.mark.parametrize(("path", "body", "answer"), WAYS[:-1])
def test_a_request_that_meets_a_closed_connection_is_signed_anew(
    path: str, body: bytes, answer: bytes
) -> None:
    """All but uploads: whether those were read, nobody knows."""
    play = Play()
    play.ask()
    play.answer(answered())
    resting = play.pipeline.connection
    play.pipeline.clock.advance(30)
    client = play.ask(path, body)
    assert play.pipeline.endpoint.connections == [resting]
    play.pipeline.clock.advance(2)
    resting.close()
    assert not client.started
    play.answer(answer)
    assert (client.status, client.finished) == (200, True)
    host, (_, again) = SigningHost(KEYS), play.pipeline.endpoint.connections
    [_, sent] = host.check_all(resting.received)
    assert host.check_all(again.received) == [sent]
    assert host.stamps == ["20260102T030000Z", "20260102T030030Z", "20260102T030032Z"]
    assert (play.pipeline.events[-1].attempts, play.counted()) == (2, {})


def redirected(pipeline: Pipeline, path: str, body: object, status: int) -> tuple[object, ...]:
    """Return what a client gets where the provider sends it elsewhere."""
    query = b"provider=main" if path == "/v1/files" else None
    client, ended = pipeline.ask(path, body, query=query)  # type: ignore[arg-type]  # it is a body
    refusals: list[tuple[int, str]] = []

    def note(failure: Failure) -> None:
        assert isinstance(failure.value, GatewayError)
        refusals.append((failure.value.status, failure.value.message))

    _ = ended.addErrback(note)
    lines = b"Location: https://elsewhere.example/openai/v1/files\r\nContent-Length: 2\r\n"
    pipeline.connection.send(b"HTTP/1.1 %d Elsewhere\r\n%b\r\nno" % (status, lines))
    pipeline.clock.advance(60)
    return client.status, client.headers, client.body, refusals


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize(("path", "body", "_answer"), WAYS)
def test_a_signed_request_follows_no_redirect(path: str, body: object, _answer: bytes, status: int) -> None:
    """The client gets what it gets of a provider with a key, and the signature goes nowhere else."""
    play = Play()
    assert redirected(play.pipeline, path, body, status) == redirected(Pipeline(CONFIG), path, body, status)
    assert len(play.pipeline.endpoint.connections) == len(play.stamps()) == 1
    event = play.pipeline.event()
    assert (event.attempts, event.http_status) == (1, 502 if path == "/v1/messages" else status)
