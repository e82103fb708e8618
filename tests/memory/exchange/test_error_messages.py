"""Why a provider failed a request, in its own words: its message is in the event and the warning, alone."""

from __future__ import annotations

import gc
import gzip
import json
import tracemalloc
from collections.abc import Callable
from typing import Any, Final

import pytest

from mgw.config.secrets import secrets_of
from mgw.credentials.provider import ClientKey
from mgw.dialects.metering import BlindMeter
from mgw.exchange.refusals import ARRIVAL_SECONDS, MAX_BYTES, RefusalMeter
from mgw.nouns.secret import Secret
from mgw.nouns.vocabulary import DialectName, Family
from tests.memory.exchange.test_failures import warnings
from tests.support.configs import config
from tests.support.in_memory.measure import collector_off
from tests.support.passing_streams import STREAMS, Stream, chunks, head
from tests.support.pipelines import Pipeline, RecordingChannel, answered

SAID: Final = "Rate limit reached for gpt-5"
PROMPT: Final = "canary-prompt"
SENT_KEY: Final = "sk-operator-7f3a91"
OTHER_KEY: Final = "canary.other.key"
TEXT: Final = f"""
providers:
  main: {{kind: openai, base_url: "https://a.example/v1", api_key: {SENT_KEY}}}
  claude: {{kind: anthropic, base_url: "https://b.example/v1", api_key: {OTHER_KEY}}}
  gem: {{kind: gemini, base_url: "https://c.example/v1beta", api_key: AIza-gemini-7f3a91}}
  other: {{kind: openai, base_url: "https://d.example/v1"}}
defaults: {{openai_dialect: main, anthropic_dialect: claude, gemini_dialect: gem}}
"""
OFF: Final = TEXT + "hooks: {error_messages: false}\n"
HELLO: Final = [{"role": "user", "content": PROMPT}]
PLACES: Final = {
    "passes": ("/v1/chat/completions", {"model": "main/m", "messages": HELLO}),
    "responses": ("/v1/responses", {"model": "main/m", "input": PROMPT}),
    "files": ("/v1/files/file-1?provider=main", None),
    "messages pass": ("/v1/messages", {"model": "claude/m", "max_tokens": 9, "messages": HELLO}),
    "gemini passes": ("/v1beta/models/m:generateContent", {"contents": []}),
    "chat to anthropic": ("/v1/chat/completions", {"model": "claude/m", "messages": HELLO}),
    "chat to gemini": ("/v1/chat/completions", {"model": "gem/m", "messages": HELLO}),
    "messages to chat": ("/v1/messages", {"model": "main/m", "max_tokens": 9, "messages": HELLO}),
    "stream to chat": (
        "/v1/messages",
        {"model": "main/m", "max_tokens": 9, "messages": HELLO, "stream": True},
    ),
}
each_place = pytest.mark.parametrize("place", PLACES)


def pipeline_of(text: str = TEXT) -> Pipeline:
    pipeline = Pipeline(text)
    pipeline.generation.configured_secrets = secrets_of(config(text))
    return pipeline


def ask(pipeline: Pipeline, place: str, key: ClientKey | None = None) -> RecordingChannel:
    path, body = PLACES[place]
    path, _, query = path.partition("?")
    client, work = pipeline.ask(
        path,
        b"" if body is None else json.dumps(body).encode(),
        method="GET" if body is None else "POST",
        query=query.encode() or None,
        key=key,
    )
    _ = work.addErrback(lambda _: None)
    return client


def error(message: Any = SAID, **more: Any) -> bytes:
    return json.dumps({"error": {"message": message, "type": "x", **more}, "request": PROMPT}).encode()


@each_place
def test_the_event_and_the_warning_have_the_message_of_a_refusal(place: str) -> None:
    pipeline = pipeline_of()
    with warnings() as heard:
        client = ask(pipeline, place)
        pipeline.connection.send(answered(error(input=PROMPT), b"429 Slow"))
    assert client.status == 429
    event = pipeline.event()
    assert (event.error, event.error_message) == ("upstream_4xx", SAID)
    [warning] = heard
    assert warning.startswith(f'the provider returned status 429: "{SAID}" (provider=')
    assert PROMPT not in warning


@each_place
@pytest.mark.parametrize("status", [b"400 Bad", b"500 Broken"])
def test_a_message_that_quotes_keys_and_lines_is_made_safe(place: str, status: bytes) -> None:
    pipeline = pipeline_of()
    with warnings() as heard:
        ask(pipeline, place)
        words = f"no {SENT_KEY}\n{OTHER_KEY} AIza-gemini-7f3a91 Bearer {SENT_KEY}\u202e" + "m" * 400
        body = json.dumps({"error": {"message": words}}).encode()
        pipeline.connection.send(answered(body, status))
    said = pipeline.event().error_message
    assert said is not None
    assert len(said) == 301
    for text in (said, *heard):
        assert not {"7f3a91", "canary.other"} & {part for part in ("7f3a91", "canary.other") if part in text}
        assert "\n" not in text
    assert said.isprintable()
    assert len(heard) == (status[:1] == b"5")  # other refusals are the client's business


@each_place
@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        (f"<html><title>{PROMPT}</title></html>".encode(), b"text/html"),
        (f"{PROMPT} is not allowed".encode(), b"text/plain"),
        (json.dumps({"request": {"messages": PROMPT}}).encode(), b"application/json"),
        (json.dumps({"error": {"type": "x", "param": PROMPT}}).encode(), b"application/json"),
        (b"", b"application/json"),
    ],
    ids=["page", "text", "other JSON", "no message", "nothing"],
)
def test_a_body_without_a_message_says_its_status_alone(place: str, body: bytes, content_type: bytes) -> None:
    pipeline = pipeline_of()
    with warnings() as heard:
        ask(pipeline, place)
        pipeline.connection.send(answered(body, b"500 Broken", content_type))
    assert (pipeline.event().error, pipeline.event().error_message) == ("upstream_5xx", None)
    [warning] = heard
    assert warning.startswith("the provider returned status 500 (provider=")
    assert PROMPT not in f"{pipeline.event()} {pipeline.settled} {heard}"


@each_place
def test_nothing_is_read_where_the_operator_says_so(place: str) -> None:
    pipeline = pipeline_of(OFF)
    with warnings() as heard:
        client = ask(pipeline, place)
        pipeline.connection.send(answered(error(), b"429 Slow"))
    assert client.status == 429
    assert (pipeline.event().error, pipeline.event().error_message) == ("upstream_4xx", None)
    assert heard[0].startswith("the provider returned status 429 (provider=")


def test_the_clients_own_credential_is_overwritten_too() -> None:
    pipeline = pipeline_of()
    path = "/v1/chat/completions"
    key = ClientKey(Secret("canary-of-a-client"), b"Bearer", Family.OPENAI)
    client, _ = pipeline.ask(path, b'{"model":"other/m","messages":[]}', key=key)
    body = error("wrong key: canary-of-a-client")
    pipeline.connection.send(answered(body, b"401 No"))
    assert client.body == body, "the client may read its own"
    assert pipeline.event().error_message == "wrong key: [redacted]"


@pytest.mark.parametrize("pieces", [1, 2, 7])
@pytest.mark.parametrize("coding", ["identity", "gzip"])
@pytest.mark.parametrize("place", ["passes", "files", "messages pass", "messages to chat"])
def test_a_message_is_read_however_it_comes(place: str, coding: str, pieces: int) -> None:
    pipeline = pipeline_of()
    client = ask(pipeline, place)
    body = error() if coding == "identity" else gzip.compress(error())
    whole = answered(body, b"500 No").replace(b"X-Up: 1", b"Content-Encoding: " + coding.encode())
    size = -(-len(whole) // pieces)
    for start in range(0, len(whole), size):
        pipeline.connection.send(whole[start : start + size])
    assert client.finished
    assert pipeline.event().error_message == SAID
    assert not PLACES[place][1] or "to" in place or client.body == body


@pytest.mark.parametrize("more", [0, 1])
def test_an_error_of_64_kib_is_looked_at_and_a_longer_one_is_not(more: int) -> None:
    pipeline = pipeline_of()
    client = ask(pipeline, "passes")
    body = error(input="")
    body = body.replace(b'"input": ""', b'"input": "%b"' % (b"x" * (MAX_BYTES + more - len(body))))
    assert len(body) == MAX_BYTES + more
    pipeline.connection.send(answered(body, b"500 No"))
    assert client.body == body
    assert pipeline.event().error_message == (None if more else SAID)


def test_a_zipped_body_that_swells_is_given_up() -> None:
    pipeline = pipeline_of()
    client = ask(pipeline, "passes")
    body = gzip.compress(error(input="x" * 5_000_000))
    whole = answered(body, b"500 No").replace(b"X-Up: 1", b"Content-Encoding: gzip")
    pipeline.connection.send(whole)
    assert (client.body, pipeline.event().error_message) == (body, None)


WITH_ERRORS: Final = [
    pytest.param(stream, one, id=f"{name} {number}")
    for name, stream in STREAMS.items()
    for number, one in enumerate(stream.errors)
    if b"busy" in one
]


@pytest.mark.parametrize(("stream", "said"), WITH_ERRORS)
def test_an_error_event_in_a_stream_that_passes_says_why(stream: Stream, said: bytes) -> None:
    pipeline = Pipeline()
    with warnings() as heard:
        client, _ = pipeline.ask(stream.path, stream.body, query=stream.query)
        pipeline.connection.send(
            head(stream.content_type) + chunks(*stream.silent, stream.words, said) + b"0\r\n\r\n"
        )
    event = pipeline.event()
    assert (client.status, event.error) == (200, "upstream_error_event")
    assert event.error_message is not None
    assert event.error_message in said.decode()
    assert f'ended its stream with an error: "{event.error_message}" (provider=' in heard[0]


SSE: Final = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
WORDS: Final = b'data: {"choices":[{"index":0,"delta":{"content":"hi"}}]}\n\n'


@pytest.mark.parametrize("before", [b"", WORDS], ids=["at once", "behind words"])
def test_an_error_event_in_a_translated_stream_says_why(before: bytes) -> None:
    pipeline = pipeline_of()
    ask(pipeline, "stream to chat")
    pipeline.connection.send(SSE + chunks(before + b"data: " + error() + b"\n\n") + b"0\r\n\r\n")
    event = pipeline.event()
    assert (event.error, event.error_message) == ("upstream_error_event", SAID)


def test_a_whole_answer_of_good_status_that_is_an_error_says_why() -> None:
    pipeline = pipeline_of()
    ask(pipeline, "messages to chat")
    pipeline.connection.send(answered(error()))
    assert (pipeline.event().error, pipeline.event().error_message) == ("unreadable", SAID)


AGAIN: Final = (
    TEXT.replace("api_key: sk", "retries: {attempts: 1}, api_key: sk")
    + "aliases: {both: [main/m, claude/m]}\n"
)


def all_at_once(pipeline: Pipeline, whole: bytes) -> None:
    pipeline.connection.send(whole)


def in_two(pipeline: Pipeline, whole: bytes) -> None:
    connection = pipeline.connection
    connection.send(whole[:-9])
    connection.send(whole[-9:])


def never(pipeline: Pipeline, whole: bytes) -> None:
    pipeline.connection.send(whole[:-9])
    pipeline.clock.advance(ARRIVAL_SECONDS)


@pytest.mark.parametrize(
    ("send", "said"), [(all_at_once, f': "{SAID}"'), (in_two, f': "{SAID}"'), (never, "")]
)
def test_an_attempt_before_a_better_one_is_warned_about_with_its_message(
    send: Callable[[Pipeline, bytes], None], said: str
) -> None:
    pipeline = pipeline_of(AGAIN.replace("attempts: 1", "attempts: 0"))
    with warnings() as heard:
        client, _ = pipeline.ask(
            "/v1/chat/completions", json.dumps({"model": "both", "messages": HELLO}).encode()
        )
        first = pipeline.connection
        whole = answered(error(), b"503 Busy")
        send(pipeline, whole)
        pipeline.endpoint.settle()
    assert pipeline.connection is not first, "the next one is not waited for"
    [warning] = heard
    assert warning.startswith(f"the provider returned status 503{said} (provider=main error=upstream_5xx")
    assert not client.started


def test_an_event_that_ended_well_says_nothing_of_the_attempt_before() -> None:
    pipeline = pipeline_of(AGAIN)
    pipeline.generation.chance = lambda: 1.0
    client, _ = pipeline.ask("/v1/chat/completions", json.dumps({"model": "main/m", "messages": []}).encode())
    pipeline.connection.send(answered(error(), b"503 Busy"))
    pipeline.clock.advance(0.5)
    pipeline.connection.send(answered())
    assert client.status == 200
    assert (pipeline.event().attempts, pipeline.event().error_message) == (2, None)


def test_a_refusal_of_the_gateway_has_no_message() -> None:
    pipeline = pipeline_of()
    _, work = pipeline.ask("/v1/chat/completions", b'{"messages":[]}')
    _ = work.addErrback(lambda _: None)
    assert pipeline.event().error_message is None


@each_place
@pytest.mark.parametrize("again", [False, True], ids=["the last attempt", "an attempt before another"])
def test_a_refusal_leaves_nothing_to_the_collector(place: str, again: bool) -> None:
    pipeline = pipeline_of(AGAIN if again else TEXT)
    with collector_off():
        before = {id(one) for one in gc.get_objects()}
        ask(pipeline, place)
        pipeline.connection.send(answered(error(), b"503 Busy"))
        pipeline.clock.advance(1)
        if not pipeline.events:
            pipeline.connection.send(answered(error(), b"503 Busy"))
        assert pipeline.event().error_message == SAID
        left = [type(one).__name__ for one in gc.get_objects() if id(one) not in before]
    held = {
        "Exchange",
        "RefusalMeter",
        "Fault",
        "UpstreamResponse",
        "GatewayError",
        "UpstreamError",
        "_Warning",
    }
    assert not held & set(left)


def test_an_error_that_comes_byte_by_byte_takes_no_more_memory_than_its_bytes() -> None:
    meter = RefusalMeter(BlindMeter(), DialectName.OPENAI_CHAT, 429)
    pieces = [b"m%d" % (number % 10) for number in range(MAX_BYTES // 4)]
    tracemalloc.start()
    try:
        for piece in pieces:
            meter.feed(bytes(bytearray(piece)))  # each a new object, as from a socket
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 2 * MAX_BYTES
