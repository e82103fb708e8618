"""How a stream that passes through ended is told: by the provider's own error, complete, or too early."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.interfaces import IReactorTime

from mgw.usage.event import Outcome
from mgw.usage.journal import FailureLog, ProviderFailure
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
    head,
)
from tests.support.pipelines import Pipeline, RecordingChannel

each_stream = pytest.mark.parametrize("stream", STREAMS.values(), ids=STREAMS)
WITH_ERRORS = [
    pytest.param(stream, error, id=f"{name} {number}")
    for name, stream in STREAMS.items()
    for number, error in enumerate(stream.errors)
]
each_error = pytest.mark.parametrize(("stream", "error"), WITH_ERRORS)
ERROR_EVENT = (Outcome.UPSTREAM_ERROR, "upstream_error_event", 200)
TRUNCATED = (Outcome.UPSTREAM_ERROR, "truncated", 200)
OK = (Outcome.OK, None, 200)


class Notes(FailureLog):
    """Remembers what it is told."""

    def __init__(self) -> None:
        super().__init__()
        self.causes: list[str] = []

    def note(self, failure: ProviderFailure, clock: IReactorTime) -> None:
        self.causes.append(failure.cause)


class Asked:
    """A request for a stream, and its provider."""

    def __init__(self, stream: Stream, *, body: bytes | None = None, beginning: bytes | None = None) -> None:
        self.pipeline = Pipeline()
        self.pipeline.generation.failures = self.log = Notes()
        body = stream.body if body is None else body
        self.client: RecordingChannel
        self.client, self.work = self.pipeline.ask(stream.path, body, query=stream.query)
        self.send(head(stream.content_type) if beginning is None else beginning)

    def send(self, data: bytes) -> None:
        self.pipeline.connection.send(data)

    def end(self) -> None:
        """End the body, and take what is told of it."""
        self.send(CLOSE)
        _ = self.work.addErrback(lambda _: None)

    def told(self) -> tuple[Outcome, str | None, int | None]:
        event = self.pipeline.event()
        return event.status, event.error, event.http_status


def begun(stream: Stream) -> bytes:
    return b"".join(stream.silent)


@each_error
@pytest.mark.parametrize("place", ["behind start-up events", "behind words"])
def test_a_stream_that_ends_in_the_providers_error_is_an_upstream_error(
    stream: Stream, error: bytes, place: str
) -> None:
    asked = Asked(stream)
    before = begun(stream) + (stream.words if place == "behind words" else b"")
    asked.send(chunks(before, error))
    asked.end()
    assert (asked.client.status, asked.client.body) == (200, before + error)
    assert (asked.client.finished, asked.client.aborted) == (True, False)
    assert asked.told() == ERROR_EVENT
    assert asked.pipeline.event().stream is True
    assert asked.log.causes == ["upstream_error_event"]


@each_error
@given(data=st.data())
def test_the_error_is_found_however_the_stream_is_cut(
    stream: Stream, error: bytes, data: st.DataObject
) -> None:
    whole = begun(stream) + stream.words + error
    cuts = sorted(data.draw(st.sets(st.integers(0, len(whole)), max_size=12)))
    asked = Asked(stream)
    for start, end in zip([0, *cuts], [*cuts, len(whole)], strict=True):
        if start < end:
            asked.send(chunks(whole[start:end]))
    asked.end()
    assert asked.client.body == whole
    assert asked.told() == ERROR_EVENT


@each_stream
def test_a_stream_that_came_in_one_piece_with_its_head_is_judged_as_well(stream: Stream) -> None:
    for body, told in (
        (stream.whole, OK),
        (begun(stream) + stream.words, TRUNCATED),
        (begun(stream) + stream.errors[0], ERROR_EVENT),
    ):
        asked = Asked(stream, beginning=head(stream.content_type, length=len(body)) + body)
        assert (asked.client.body, asked.client.finished) == (body, True)
        assert asked.told() == told


@each_stream
def test_a_stream_that_ends_without_its_last_event_is_truncated(stream: Stream) -> None:
    asked = Asked(stream)
    asked.send(chunks(begun(stream) + stream.words))
    asked.end()
    assert (asked.client.finished, asked.client.aborted) == (True, False)
    assert asked.told() == TRUNCATED
    assert asked.log.causes == ["truncated"]


@each_stream
def test_an_empty_stream_is_truncated(stream: Stream) -> None:
    asked = Asked(stream)
    asked.end()
    assert asked.told() == TRUNCATED


@each_stream
@given(data=st.data())
def test_a_stream_that_ends_well_is_ok_however_it_is_cut(stream: Stream, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.sets(st.integers(0, len(stream.whole)), max_size=12)))
    asked = Asked(stream)
    for start, end in zip([0, *cuts], [*cuts, len(stream.whole)], strict=True):
        if start < end:
            asked.send(chunks(stream.whole[start:end]))
    asked.end()
    assert asked.told() == OK
    assert asked.log.causes == []


@each_stream
def test_a_stream_whose_choice_has_ended_is_complete_without_the_last_event(stream: Stream) -> None:
    asked = Asked(stream)
    asked.send(chunks(begun(stream) + stream.words + stream.finish))
    asked.end()
    assert asked.told() == OK


def finished(*indexes: int) -> Iterator[bytes]:
    for index in indexes:
        yield b'data: {"choices":[{"index":%d,"delta":{},"finish_reason": "stop"}]}\n\n' % index


@pytest.mark.parametrize("user", ["u", "u" * 100_000])
@pytest.mark.parametrize(("ended", "told"), [((0, 2), TRUNCATED), ((2, 0, 1), OK), ((0, 0, 0), TRUNCATED)])
def test_all_the_choices_that_were_asked_for_must_end(
    ended: tuple[int, ...], told: tuple[Outcome, str | None, int], user: str
) -> None:
    body = asked(model="main/m", messages=[], n=3, user=user)
    opened = Asked(CHAT, body=body)
    opened.send(chunks(*finished(*ended)))
    opened.end()
    assert opened.told() == told


@pytest.mark.parametrize("reason", ["max_tokens", "content_filter"])
def test_an_incomplete_response_is_an_answer(reason: str) -> None:
    last = {"type": "response.incomplete", "response": {"incomplete_details": {"reason": reason}}}
    asked = Asked(RESPONSES)
    asked.send(chunks(b"data: %b\n\n" % json.dumps(last).encode()))
    asked.end()
    assert asked.told() == OK


@pytest.mark.parametrize("stream", [GEMINI, ARRAY], ids=["events", "array"])
def test_a_prompt_that_was_blocked_is_an_answer(stream: Stream) -> None:
    document = b'{"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": {"promptTokenCount": 3}}'
    body = b"[%b]" % document if stream is ARRAY else b"data: %b\r\n\r\n" % document
    asked = Asked(stream)
    asked.send(chunks(body))
    asked.end()
    assert asked.told() == OK


def test_an_error_that_is_null_is_none() -> None:
    asked = Asked(CHAT)
    asked.send(chunks(CHAT.finish.replace(b'"id"', b'"error":null,"id"'), CHAT.rest))
    asked.end()
    assert asked.told() == OK


@each_stream
def test_a_zipped_stream_is_judged_too(stream: Stream) -> None:
    for body, told in (
        (stream.whole, OK),
        (begun(stream) + stream.words, TRUNCATED),
        (begun(stream) + stream.words + stream.errors[0], ERROR_EVENT),
    ):
        zipped = gzip.compress(body)
        asked = Asked(stream, beginning=head(stream.content_type, b"Content-Encoding: gzip"))
        asked.send(chunks(zipped[:20], zipped[20:]))
        asked.end()
        assert asked.client.body == zipped
        assert asked.told() == told


def test_nothing_is_said_of_a_stream_that_cannot_be_read() -> None:
    asked = Asked(CHAT, beginning=head(CHAT.content_type, b"Content-Encoding: zstd"))
    asked.send(chunks(b"(\xb5/\xfd whatever"))
    asked.end()
    assert asked.told() == OK


@pytest.mark.parametrize("size", [2**20 + 100, 100])
def test_an_event_that_is_too_large_to_be_read_may_have_been_the_last(size: int) -> None:
    asked = Asked(CHAT)
    asked.send(chunks(b'data: {"choices":[{"finish_reason": "stop"}], "x":"'))
    asked.send(chunks(b"x" * size))
    asked.send(chunks(b'"}\n\n'))
    asked.end()
    assert asked.told() == OK


def test_a_stream_that_is_no_answer_of_a_model_has_no_last_event() -> None:
    pipeline = Pipeline()
    client, _ = pipeline.ask("/v1/images/generations", b'{"model":"m","prompt":"x","stream":true}')
    pipeline.connection.send(head() + chunks(b'data: {"type":"image_generation.completed"}\n\n') + CLOSE)
    assert (client.finished, pipeline.event().status) == (True, Outcome.OK)


@each_stream
def test_a_client_that_leaves_with_the_providers_error_got_all_there_was(stream: Stream) -> None:
    asked = Asked(stream)
    asked.send(chunks(begun(stream) + stream.errors[0]))
    _ = asked.work.addErrback(lambda _: None)
    asked.work.cancel()
    assert asked.told() == ERROR_EVENT


def test_a_refusal_of_the_request_within_a_stream_warns_nobody() -> None:
    asked = Asked(CHAT)
    asked.send(chunks(b'data: {"error":{"message":"bad","code":400}}\n\n'))
    asked.end()
    assert asked.told() == ERROR_EVENT
    assert asked.log.causes == []


def test_an_error_status_with_events_is_told_by_its_status() -> None:
    beginning = head().replace(b"200 OK", b"503 Busy")
    asked = Asked(CHAT, beginning=beginning)
    asked.send(chunks(CHAT.errors[0]))
    asked.end()
    assert asked.told() == (Outcome.UPSTREAM_ERROR, "upstream_5xx", 503)


def test_many_errors_are_not_read_for_long() -> None:
    asked = Asked(MESSAGES)
    asked.send(chunks(b'data:"error"\n\n' * 30_000))
    asked.end()
    assert asked.told() == OK


@pytest.mark.parametrize("data", [b'{"message": "too busy", "code": 503}', b"too busy"])
@pytest.mark.parametrize("stream", [CHAT, MESSAGES, RESPONSES], ids=["chat", "messages", "responses"])
def test_an_event_named_error_is_one_whatever_its_data_is_called(stream: Stream, data: bytes) -> None:
    asked = Asked(stream)
    error = b"event: error\ndata: %b\n\n" % data
    asked.send(chunks(*stream.silent, stream.words, error, b"data: [DONE]\n\n"))
    asked.end()
    assert asked.told() == ERROR_EVENT
