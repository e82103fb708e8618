"""A stream is held while it says nothing, if it may be asked for elsewhere: an error behind that leads on."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mgw.usage.event import Outcome
from mgw.wire.headers import value_of
from tests.support.passing_streams import (
    ARRAY,
    CHAT,
    CLOSE,
    GEMINI,
    MESSAGES,
    RESPONSES,
    STREAMS,
    Stream,
    chunks,
    event,
    head,
)
from tests.support.pipelines import Pipeline, RecordingChannel

CONFIG: Final = """
providers:
  main: {kind: openai, base_url: "https://a.example/v1", api_key: sk-main}
  host: {kind: openai, base_url: "https://b.example/v1", api_key: sk-host}
  claude: {kind: anthropic, base_url: "https://c.example/v1", api_key: sk-ant}
  aws: {kind: anthropic, base_url: "https://d.example/v1", api_key: sk-aws}
  gem: {kind: gemini, base_url: "https://e.example/v1beta", api_key: AIza-1}
  vertex: {kind: gemini, base_url: "https://f.example/v1beta", api_key: AIza-2}
defaults: {openai_dialect: main, anthropic_dialect: claude, gemini_dialect: gem}
aliases:
  openai: [main/gpt-a, host/gpt-b]
  anthropic: [claude/c-a, aws/c-b]
  gemini: [gem/g-a, vertex/g-b]
retries: {attempts: 0}
"""
RETRIES: Final = CONFIG.replace("attempts: 0", "attempts: 1")
FAMILIES: Final = {
    "chat": "openai",
    "completions": "openai",
    "responses": "openai",
    "messages": "anthropic",
    "gemini": "gemini",
    "array": "gemini",
}
PAIRS: Final = {
    "chat from messages": (CHAT, MESSAGES, "anthropic"),
    "chat from gemini": (CHAT, GEMINI, "gemini"),
    "messages from chat": (MESSAGES, CHAT, "openai"),
    "messages from gemini": (MESSAGES, GEMINI, "gemini"),
    "gemini from chat": (GEMINI, CHAT, "openai"),
    "array from messages": (ARRAY, MESSAGES, "anthropic"),
}
"""What the client speaks, what the provider does, and the alias of such providers."""
WAYS: Final = {
    **{f"{name} passed through": (stream, stream, FAMILIES[name]) for name, stream in STREAMS.items()},
    **PAIRS,
}
each_way = pytest.mark.parametrize(("client", "provider", "alias"), WAYS.values(), ids=WAYS)
each_pair = pytest.mark.parametrize(("client", "provider", "alias"), PAIRS.values(), ids=PAIRS)
each_stream = pytest.mark.parametrize(
    ("stream", "alias"), [(stream, FAMILIES[name]) for name, stream in STREAMS.items()], ids=STREAMS
)


class Asked:
    """A request for a stream of a model, and its providers."""

    def __init__(self, stream: Stream, model: str, text: str = CONFIG) -> None:
        self.pipeline = Pipeline(text)
        self.pipeline.generation.chance = lambda: 1.0
        body = stream.body.replace(b'"m"', b'"%b"' % model.encode())
        path = stream.path.replace("/m:", f"/{model}:")
        self.client: RecordingChannel
        self.client, self.work = self.pipeline.ask(path, body, query=stream.query)
        self.content_type = stream.content_type

    @property
    def attempts(self) -> int:
        """How many requests the providers have got."""
        return sum(
            connection.received.count(b" HTTP/1.1\r\n") for connection in self.pipeline.endpoint.connections
        )

    def begin(self, provider: Stream, *lines: bytes) -> None:
        self.pipeline.connection.send(head(provider.content_type, *lines))

    def send(self, *pieces: bytes) -> None:
        self.pipeline.connection.send(chunks(*pieces))

    def end(self) -> None:
        self.pipeline.connection.send(CLOSE)
        _ = self.work.addErrback(lambda _: None)


def pieces_of(stream: Stream, count: int) -> list[bytes]:
    return [*stream.silent[:count], stream.errors[0]]


@each_way
@given(data=st.data())
def test_an_error_behind_events_that_say_nothing_leads_to_the_next_target(
    client: Stream, provider: Stream, alias: str, data: st.DataObject
) -> None:
    count = data.draw(st.integers(0, len(provider.silent)))
    if provider is ARRAY:
        count = len(provider.silent)
    beginning = b"".join(pieces_of(provider, count))
    cuts = sorted(data.draw(st.sets(st.integers(0, len(beginning)), max_size=8)))
    asked = Asked(client, alias)
    asked.begin(provider)
    for start, end in zip([0, *cuts], [*cuts, len(beginning)], strict=True):
        if start < end and asked.attempts == 1:
            asked.send(beginning[start:end])
            assert not asked.client.started
    assert asked.attempts == 2
    asked.begin(provider)
    asked.send(provider.whole)
    asked.end()
    assert (asked.client.status, asked.client.finished) == (200, True)
    if client is provider:
        assert asked.client.body == provider.whole
    assert b"too busy" not in asked.client.body
    told = asked.pipeline.event()
    assert (told.status, told.attempts, told.error) == (Outcome.OK, 2, None)


@each_way
def test_it_is_sent_again_to_the_same_target(client: Stream, provider: Stream, alias: str) -> None:
    model = {"openai": "main/x", "anthropic": "claude/x", "gemini": "gem/x"}[alias]
    asked = Asked(client, model, RETRIES)
    asked.begin(provider)
    asked.send(*pieces_of(provider, len(provider.silent)))
    assert (asked.attempts, asked.client.started) == (1, False)
    asked.pipeline.clock.advance(0.5)
    assert asked.attempts == 2
    asked.begin(provider)
    asked.send(*pieces_of(provider, len(provider.silent)))
    assert asked.client.status in {503, 529}
    assert value_of(asked.client.headers, b"content-type") == b"application/json"
    said = json.loads(asked.client.body)
    said = said[0] if type(said) is list else said
    assert "too busy" in json.dumps(said["error"])
    told = asked.pipeline.event()
    assert (told.status, told.error) == (Outcome.UPSTREAM_ERROR, "upstream_error_event")
    assert told.http_status == asked.client.status


@each_stream
@given(data=st.data())
def test_every_byte_goes_out_as_it_came_from_the_first_words_on(
    stream: Stream, alias: str, data: st.DataObject
) -> None:
    cuts = sorted(data.draw(st.sets(st.integers(0, len(stream.whole)), max_size=12)))
    asked = Asked(stream, alias)
    asked.begin(stream, b"X-Up: 1")
    for start, end in zip([0, *cuts], [*cuts, len(stream.whole)], strict=True):
        if start < end:
            asked.send(stream.whole[start:end])
    asked.end()
    assert asked.client.body == stream.whole
    assert value_of(asked.client.headers, b"x-up") == b"1"
    assert asked.pipeline.event().status is Outcome.OK


@each_stream
def test_silent_events_are_held_and_words_are_not(stream: Stream, alias: str) -> None:
    asked = Asked(stream, alias)
    asked.begin(stream)
    asked.send(*stream.silent)
    assert not asked.client.started
    asked.send(stream.words)
    assert asked.client.body == b"".join(stream.silent) + stream.words
    asked.send(stream.errors[0])
    asked.end()
    assert asked.client.body.endswith(stream.errors[0])
    assert asked.attempts == 1
    assert asked.pipeline.event().error == "upstream_error_event"


@each_way
def test_nothing_is_held_longer_than_three_seconds(client: Stream, provider: Stream, alias: str) -> None:
    asked = Asked(client, alias)
    asked.begin(provider)
    asked.pipeline.clock.advance(5)  # the provider's first byte counts, not its head
    asked.send(*provider.silent)
    asked.pipeline.clock.advance(2.9)
    assert not asked.client.started
    asked.pipeline.clock.advance(0.2)
    assert asked.client.status == 200
    if client is provider:
        assert asked.client.body == b"".join(provider.silent)
    asked.send(provider.errors[0])
    assert asked.attempts == 1
    asked.end()
    told = asked.pipeline.event()
    assert (told.error, told.http_status) == ("upstream_error_event", 200)


@each_way
@pytest.mark.parametrize("size", [64 * 1024, 64 * 1024 + 1])
def test_no_more_than_64_kib_are_held(client: Stream, provider: Stream, alias: str, size: int) -> None:
    silent = b"".join(provider.silent)
    blanks = b"\n" if provider is ARRAY else b": x\n\n"
    filling = blanks * ((size - len(silent)) // len(blanks))
    filling += b"\n" * (size - len(silent) - len(filling))
    asked = Asked(client, alias)
    asked.begin(provider)
    asked.send(silent, filling)
    assert asked.client.started == (size > 64 * 1024)
    if client is provider and asked.client.started:
        assert asked.client.body == silent + filling


@each_stream
def test_a_content_coding_lets_go_at_once(stream: Stream, alias: str) -> None:
    asked = Asked(stream, alias)
    asked.begin(stream, b"Content-Encoding: gzip")
    assert asked.client.status == 200


@each_stream
def test_without_another_attempt_nothing_is_held(stream: Stream, alias: str) -> None:
    model = {"openai": "main/x", "anthropic": "claude/x", "gemini": "gem/x"}[alias]
    asked = Asked(stream, model)
    asked.begin(stream)
    asked.send(stream.silent[0])
    assert asked.client.body == stream.silent[0]


@each_way
def test_a_break_behind_events_that_say_nothing_leads_to_the_next_target(
    client: Stream, provider: Stream, alias: str
) -> None:
    asked = Asked(client, alias)
    asked.begin(provider)
    asked.send(*provider.silent)
    asked.pipeline.connection.reset()
    assert asked.attempts == 2


@each_way
def test_an_end_behind_events_that_say_nothing_leads_to_the_next_target(
    client: Stream, provider: Stream, alias: str
) -> None:
    asked = Asked(client, alias)
    asked.begin(provider)
    asked.send(*provider.silent)
    asked.pipeline.connection.send(CLOSE)
    assert asked.attempts == 2
    asked.begin(provider)
    asked.send(provider.whole)
    asked.end()
    assert asked.pipeline.event().status is Outcome.OK


@pytest.mark.parametrize(
    "document",
    [
        {"choices": [{"index": 0, "delta": {"content": "x"}}]},
        {"choices": [{"index": 0, "delta": {"role": "assistant", "reasoning": "x"}}]},
        {"choices": [{"index": 0, "delta": {"audio": {"id": "a"}}}]},
        {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
        {"choices": [{"index": 0, "delta": {}}, {"index": 1, "delta": {"content": "x"}}]},
        {"choices": [{"index": 0, "text": "x"}]},
        {"choices": ["x"]},
        {"choices": "x"},
    ],
    ids=json.dumps,
)
def test_a_chunk_that_says_something_passes(document: object) -> None:
    asked = Asked(CHAT, "openai")
    asked.begin(CHAT)
    asked.send(event(document))
    assert asked.client.body == event(document)


@pytest.mark.parametrize(
    "document",
    [
        {"type": "message_start", "message": {"content": [{"type": "text", "text": "x"}]}},
        {"type": "message_start", "message": {"content": [], "stop_reason": "refusal"}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "message_stop"},
        {"type": "unknown"},
    ],
    ids=json.dumps,
)
def test_an_event_of_messages_that_says_something_passes(document: object) -> None:
    asked = Asked(MESSAGES, "anthropic")
    asked.begin(MESSAGES)
    asked.send(event(document))
    assert asked.client.body == event(document)


@pytest.mark.parametrize(
    "document",
    [{"candidates": [{"index": 0}]}, {"promptFeedback": {"blockReason": "SAFETY"}}, [1]],
    ids=json.dumps,
)
def test_a_response_of_gemini_that_says_something_passes(document: object) -> None:
    asked = Asked(GEMINI, "gemini")
    asked.begin(GEMINI)
    asked.send(event(document))
    assert asked.client.body == event(document)


@pytest.mark.parametrize("kind", ["response.output_item.added", "response.completed", "codex.rate_limits"])
def test_an_event_of_responses_that_says_something_passes(kind: str) -> None:
    asked = Asked(RESPONSES, "openai")
    asked.begin(RESPONSES)
    asked.send(event({"type": kind, "response": {}}, kind))
    assert asked.client.body == event({"type": kind, "response": {}}, kind)


def test_a_refusal_behind_silent_events_keeps_its_place_in_the_stream() -> None:
    """It leads to no other attempt."""
    asked = Asked(CHAT, "openai")
    asked.begin(CHAT)
    error = event({"error": {"message": "bad", "code": 400}})
    asked.send(CHAT.silent[3], error)
    assert (asked.client.status, asked.client.body) == (200, CHAT.silent[3] + error)


def test_a_stream_that_is_no_answer_of_a_model_is_held_up_to_its_first_event() -> None:
    picture = replace(CHAT, path="/v1/images/generations", body=b'{"model":"m","prompt":"x","stream":true}')
    asked = Asked(picture, "openai")
    asked.begin(picture)
    asked.send(b": hello\n\n")
    assert not asked.client.started
    asked.send(event({"type": "image_generation.partial_image", "b64_json": ""}))
    assert asked.client.status == 200


def test_the_counts_of_the_attempt_that_failed_are_forgotten() -> None:
    asked = Asked(CHAT, "anthropic")
    asked.begin(MESSAGES)
    asked.send(*pieces_of(MESSAGES, 1))
    asked.begin(MESSAGES)
    asked.send(MESSAGES.words, MESSAGES.finish.replace(b'"output_tokens":2', b'"output_tokens":9'))
    asked.send(MESSAGES.rest)
    asked.end()
    told = asked.pipeline.event()
    assert (told.tokens_in, told.tokens_out) == (None, 9)


def test_a_client_that_leaves_while_events_are_held_ends_it() -> None:
    asked = Asked(CHAT, "openai")
    asked.begin(CHAT)
    asked.send(*CHAT.silent)
    _ = asked.work.addErrback(lambda _: None)
    asked.work.cancel()
    assert (asked.client.started, asked.pipeline.connection.aborted) == (False, True)
    assert asked.pipeline.event().status is Outcome.CLIENT_ABORT
    assert not asked.pipeline.clock.getDelayedCalls()


@each_pair
def test_a_translated_stream_begins_once_though_it_was_asked_for_twice(
    client: Stream, provider: Stream, alias: str
) -> None:
    once = Asked(client, alias)
    once.begin(provider)
    once.send(provider.whole)
    once.end()
    twice = Asked(client, alias)
    twice.begin(provider)
    twice.send(*pieces_of(provider, len(provider.silent)))
    twice.begin(provider)
    twice.send(*provider.silent)
    twice.send(provider.words, provider.finish, provider.rest)
    twice.end()
    assert twice.client.body == once.client.body.replace(b'-a"', b'-b"')


@each_way
def test_silence_behind_the_head_leads_to_the_next_target(
    client: Stream, provider: Stream, alias: str
) -> None:
    asked = Asked(client, alias)
    asked.begin(provider)
    asked.pipeline.clock.advance(301)
    assert (asked.attempts, asked.client.started) == (2, False)
    asked.begin(provider)
    asked.send(provider.whole)
    asked.end()
    assert asked.pipeline.event().status is Outcome.OK
