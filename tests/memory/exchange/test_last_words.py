"""Behind the last word of a stream silence is no error: it has ended well, whatever follows."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Final

import pytest

from mgw.usage.event import Outcome
from tests.support.configs import THREE_FAMILIES
from tests.support.passing_streams import (
    ARRAY,
    CHAT,
    CLOSE,
    GEMINI,
    MESSAGES,
    RESPONSES,
    STREAMS,
    Stream,
    asked,
    chunks,
    event,
    head,
)
from tests.support.pipelines import Pipeline, RecordingChannel

CONFIG: Final = THREE_FAMILIES.replace("sk-host-0002}", "sk-host-0002, speaks: [chat]}") + (
    "translation: {responses: {enabled: true}}\n"
)
CLIENTS: Final = {
    "chat": (CHAT, b"data: [DONE]\n\n"),
    "messages": (MESSAGES, MESSAGES.rest),
    "responses": (RESPONSES, b'"status":"completed"'),
    "gemini": (GEMINI, b'"finishReason":"STOP"'),
    "array": (ARRAY, b'"finishReason":"STOP"'),
}
"""What each client's stream has at its end."""
PROVIDERS: Final = {"host/x": CHAT, "claude/x": MESSAGES, "gem/x": GEMINI}
PAIRS: Final = {
    f"{name} from {model}": (client, provider, model, last)
    for name, (client, last) in CLIENTS.items()
    for model, provider in PROVIDERS.items()
    if (name, model) not in {("chat", "host/x"), ("messages", "claude/x"), ("gemini", "gem/x")}
    and (name, model) != ("array", "gem/x")
}
each_pair = pytest.mark.parametrize(("client", "provider", "model", "last"), PAIRS.values(), ids=PAIRS)
each_stream = pytest.mark.parametrize("stream", STREAMS.values(), ids=STREAMS)


class Asked:
    """A request for a stream that has begun."""

    def __init__(
        self, client: Stream, provider: Stream, model: str | None = None, body: bytes | None = None
    ) -> None:
        self.pipeline = Pipeline(CONFIG)
        body = client.body if body is None else body
        path = client.path
        if model is not None:
            body = body.replace(b'"m"', b'"%b"' % model.encode())
            path = path.replace("/m:", f"/{model}:")
        self.client: RecordingChannel
        self.client, self.work = self.pipeline.ask(path, body, query=client.query)
        self.pipeline.connection.send(head(provider.content_type))

    def send(self, *pieces: bytes) -> None:
        self.pipeline.connection.send(chunks(*pieces))

    def wait(self, seconds: float) -> None:
        self.pipeline.clock.advance(seconds)

    def told(self) -> tuple[Outcome, str | None, int | None]:
        _ = self.work.addErrback(lambda _: None)
        event = self.pipeline.event()
        return event.status, event.error, event.http_status


OK: Final = (Outcome.OK, None, 200)


def stay_silent(asked: Asked, provider: Stream) -> None:
    asked.wait(9.9)
    assert not asked.client.finished
    asked.wait(0.2)


def send_heartbeats(asked: Asked, provider: Stream) -> None:
    for number in range(11):
        asked.send(provider.heartbeats[number % len(provider.heartbeats)])
        asked.wait(1)


def drop(asked: Asked, provider: Stream) -> None:
    asked.pipeline.connection.reset()


def end(asked: Asked, provider: Stream) -> None:
    asked.pipeline.connection.send(CLOSE)


WAYS: Final = {"silence": stay_silent, "heartbeats": send_heartbeats, "break": drop, "end": end}
each_way = pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)


@each_pair
@each_way
def test_a_translated_stream_is_closed_as_its_client_expects(
    client: Stream,
    provider: Stream,
    model: str,
    last: bytes,
    way: Callable[[Asked, Stream], None],
) -> None:
    asked = Asked(client, provider, model)
    asked.send(*provider.silent, provider.words, provider.finish)
    way(asked, provider)
    assert (asked.client.finished, asked.client.aborted) == (True, False)
    assert last in asked.client.body
    assert b'"error":{' not in asked.client.body
    if client is ARRAY:
        assert json.loads(asked.client.body)[-1]["candidates"][0]["finishReason"] == "STOP"
    assert asked.told() == OK
    now, timers = asked.pipeline.clock.seconds(), asked.pipeline.clock.getDelayedCalls()
    assert all(timer.getTime() > now + 50 for timer in timers)  # that of a connection that rests


@each_stream
@each_way
def test_a_stream_that_passes_through_ends_in_order(
    stream: Stream, way: Callable[[Asked, Stream], None]
) -> None:
    asked = Asked(stream, stream)
    asked.send(*stream.silent, stream.words, stream.finish)
    way(asked, stream)
    assert (asked.client.finished, asked.client.aborted) == (True, False)
    assert asked.client.body.startswith(b"".join(stream.silent) + stream.words + stream.finish)
    assert asked.told() == OK


@each_stream
def test_the_connection_of_a_provider_that_does_not_hang_up_is_dropped(stream: Stream) -> None:
    asked = Asked(stream, stream)
    asked.send(*stream.silent, stream.words, stream.finish)
    asked.wait(11)
    assert asked.pipeline.connection.aborted


@each_stream
def test_before_the_last_word_silence_and_breaks_are_what_they_were(stream: Stream) -> None:
    asked = Asked(stream, stream)
    asked.send(*stream.silent, stream.words)
    asked.wait(299)
    assert not asked.client.finished
    asked.wait(2)
    assert asked.client.aborted
    assert asked.told() == (Outcome.UPSTREAM_ERROR, "idle_timeout", 200)


@each_pair
def test_before_the_last_word_a_translated_stream_waits(
    client: Stream, provider: Stream, model: str, last: bytes
) -> None:
    asked = Asked(client, provider, model)
    asked.send(*provider.silent, provider.words)
    asked.wait(299)
    assert not asked.client.finished
    asked.wait(2)
    assert last not in asked.client.body
    assert asked.told() == (Outcome.UPSTREAM_ERROR, "idle_timeout", 200)


USAGE: Final = event({"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2}})


@pytest.mark.parametrize("client", [CHAT, MESSAGES], ids=["passed through", "translated"])
def test_counts_that_come_within_ten_seconds_are_taken(client: Stream) -> None:
    asked = Asked(client, CHAT, "host/x")
    asked.send(CHAT.silent[3], CHAT.words, CHAT.finish)
    asked.wait(9)
    asked.send(USAGE)
    asked.wait(2)
    assert asked.client.finished
    assert asked.told() == OK
    assert (asked.pipeline.event().tokens_in, asked.pipeline.event().tokens_out) == (3, 2)
    if client is MESSAGES:
        assert b'"output_tokens":2' in asked.client.body


@pytest.mark.parametrize("client", [CHAT, MESSAGES], ids=["passed through", "translated"])
def test_counts_that_did_not_come_are_unknown(client: Stream) -> None:
    asked = Asked(client, CHAT, "host/x")
    asked.send(CHAT.silent[3], CHAT.words, CHAT.finish)
    asked.wait(11)
    assert (asked.pipeline.event().tokens_in, asked.pipeline.event().tokens_out) == (None, None)


@pytest.mark.parametrize("client", [CHAT, GEMINI], ids=["passed through", "translated"])
def test_all_the_choices_that_were_asked_for_must_have_ended(client: Stream) -> None:
    body = asked(model="host/x", messages=[], n=2)
    if client is GEMINI:
        body = b'{"contents":[{"parts":[{"text":"x"}]}],"generationConfig":{"candidateCount":2}}'
    opened = Asked(client, CHAT, "host/x", body)
    opened.send(CHAT.words, CHAT.finish)
    opened.wait(60)
    assert not opened.client.finished
    second = CHAT.words.replace(b'"index":0', b'"index":1')
    opened.send(second, CHAT.finish.replace(b'"index":0', b'"index":1'))
    opened.wait(11)
    assert opened.client.finished
    assert opened.told() == OK


@pytest.mark.parametrize("client", [CHAT, GEMINI], ids=["passed through", "translated"])
def test_a_break_behind_one_of_two_choices_is_a_break(client: Stream) -> None:
    body = asked(model="host/x", messages=[], n=2)
    if client is GEMINI:
        body = b'{"contents":[{"parts":[{"text":"x"}]}],"generationConfig":{"candidateCount":2}}'
    opened = Asked(client, CHAT, "host/x", body)
    opened.send(CHAT.words, CHAT.finish)
    opened.pipeline.connection.reset()
    assert opened.told() == (Outcome.UPSTREAM_ERROR, "truncated", 200)


@pytest.mark.parametrize("client", [GEMINI, CHAT], ids=["passed through", "translated"])
def test_a_host_that_names_a_reason_in_every_event_may_pause(client: Stream) -> None:
    text = b'{"candidates":[{"content":{"parts":[{"text":"x"}]},"finishReason":"STOP","index":0}]}'
    asked = Asked(client, GEMINI, "gem/x")
    for _ in range(2):
        asked.send(b"data: %b\r\n\r\n" % text)
        asked.wait(5)
    asked.wait(60)
    assert not asked.client.finished
    asked.send(b"data: %b\r\n\r\n" % text)
    asked.pipeline.connection.send(CLOSE)
    assert asked.told() == OK


def test_a_client_that_does_not_read_is_not_cut_off() -> None:
    asked = Asked(CHAT, CHAT, "host/x")
    asked.send(CHAT.words, CHAT.finish)
    assert asked.client.source is not None
    asked.client.source.pause()
    asked.pipeline.connection.send(chunks(USAGE))
    asked.wait(60)
    assert not asked.client.finished
    asked.client.source.resume()
    assert asked.client.body.endswith(USAGE)
    asked.wait(11)
    assert asked.client.finished


def test_a_stream_that_ends_in_an_error_need_not_end_itself() -> None:
    asked = Asked(CHAT, CHAT)
    asked.send(CHAT.words, CHAT.errors[0])
    asked.wait(11)
    assert (asked.client.finished, asked.client.aborted) == (True, False)
    assert asked.told() == (Outcome.UPSTREAM_ERROR, "upstream_error_event", 200)


def test_a_limit_of_silence_below_ten_seconds_ends_it_as_well() -> None:
    asked = Asked(replace(CHAT), CHAT)
    asked.send(CHAT.words, CHAT.finish)
    connection = asked.pipeline.connection
    connection.close()  # without the end of its chunks
    assert (asked.client.finished, asked.client.aborted) == (True, False)
    assert asked.told() == OK


@pytest.mark.parametrize("spaced", [False, True])
def test_a_host_of_chat_that_names_a_reason_in_every_chunk_may_pause(*, spaced: bool) -> None:
    chunk = CHAT.words.replace(b'"finish_reason":null', b'"finish_reason":"stop"')
    if spaced:
        chunk = chunk.replace(b'":', b'": ')
    asked = Asked(CHAT, CHAT)
    for _ in range(3):
        asked.send(chunk)
        asked.wait(9)
    asked.wait(60)
    assert not asked.client.finished
    asked.send(chunk)
    asked.pipeline.connection.send(CLOSE)
    assert asked.client.body == chunk * 4
    assert asked.told() == OK


def test_a_block_behind_the_stop_reason_keeps_a_stream_of_messages_open() -> None:
    asked = Asked(MESSAGES, MESSAGES)
    asked.send(MESSAGES.words, MESSAGES.finish)
    asked.wait(9)
    asked.send(MESSAGES.words)
    asked.wait(60)
    assert not asked.client.finished
    asked.send(MESSAGES.finish, MESSAGES.rest)
    asked.pipeline.connection.send(CLOSE)
    assert asked.told() == OK


@pytest.mark.parametrize("name", ["messages", "responses", "gemini", "array"])
def test_a_translated_stream_loses_nothing_of_a_host_that_names_a_reason_in_every_chunk(name: str) -> None:
    client, last = CLIENTS[name]
    asked = Asked(client, CHAT, "host/x")
    for word in (b"one", b"two", b"three"):
        asked.send(CHAT.words.replace(b"an ", word).replace(b'reason":null', b'reason":"stop"'))
        asked.wait(9)
    asked.wait(60)
    assert (asked.client.finished, last in asked.client.body) == (False, False)
    asked.send(USAGE, b"data: [DONE]\n\n")
    assert asked.told() == OK
    assert last in asked.client.body
    for word in (b"one", b"two", b"three"):
        assert word in asked.client.body


def test_the_last_event_ends_a_stream_whose_reasons_told_nothing() -> None:
    asked = Asked(CHAT, CHAT)
    asked.send(*[CHAT.words.replace(b'reason":null', b'reason":"stop"')] * 3)
    asked.send(CHAT.words.replace(b'reason":null', b'reason":"stop"'))
    asked.send(b"data: [DONE]\n\n")
    asked.wait(11)
    assert asked.client.finished
    assert asked.told() == OK
