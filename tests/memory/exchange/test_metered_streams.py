"""Chat streams that pass are asked for usage where an operator says so, and clients get them as ever."""

from __future__ import annotations

import gzip

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.chat_streams import DONE, chunk, sse
from tests.support.configs import THREE_FAMILIES
from tests.support.pipelines import Pipeline, RecordingChannel, answered

METERED = THREE_FAMILIES.replace("{kind: openai,", "{kind: openai, meter_streams: true,")
STREAM = b'{"model": "fast", "stream": true, "messages": []}'
ASKED = b'{"stream_options":{"include_usage":true},"model": "gpt-b", "stream": true, "messages": []}'
USAGE = {"prompt_tokens": 7, "completion_tokens": 5}
EXTRA = sse({"id": "c1", "choices": [], "usage": USAGE})
WORDS = chunk({"content": "a"}, usage=None) + b": ping\n\n" + chunk({"content": "b"}, "stop", usage=None)
SSE = b"text/event-stream"
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"


def chunked(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def asked(text: str = METERED, body: bytes = STREAM) -> tuple[Pipeline, RecordingChannel]:
    pipeline = Pipeline(text)
    client, done = pipeline.ask(body=body)
    _ = done.addErrback(lambda _: None)
    return pipeline, client


def test_the_request_asks_for_usage_and_the_client_does_not_get_the_chunk() -> None:
    pipeline, client = asked()
    assert pipeline.received()[2] == ASKED
    pipeline.connection.send(answered(WORDS + EXTRA + DONE, content_type=SSE))
    assert client.body == WORDS + DONE
    assert (pipeline.event().tokens_in, pipeline.event().tokens_out) == (7, 5)
    assert dict(client.headers).get(b"Content-Length") in (None, b"%d" % len(client.body))


@given(st.lists(st.sampled_from([WORDS, EXTRA[:30], EXTRA[30:], EXTRA, DONE, b"\n"]), max_size=8))
def test_a_stream_in_pieces_is_what_it_is_as_a_whole(pieces: list[bytes]) -> None:
    bodies = []
    for sent in (pieces, [b"".join(pieces)]):
        pipeline, client = asked()
        pipeline.connection.send(HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
        for piece in sent:
            pipeline.connection.send(chunked(piece) if piece else b"")
        pipeline.connection.send(b"0\r\n\r\n")
        assert client.finished
        bodies.append(client.body)
    assert bodies[0] == bodies[1]


def test_a_client_that_asks_itself_gets_the_chunk() -> None:
    body = STREAM.replace(b'"stream"', b'"stream_options": {"include_usage": true}, "stream"')
    pipeline, client = asked(body=body)
    assert pipeline.received()[2] == body.replace(b"fast", b"gpt-b")
    pipeline.connection.send(answered(WORDS + EXTRA + DONE, content_type=SSE))
    assert client.body == WORDS + EXTRA + DONE


@pytest.mark.parametrize("text", [METERED, THREE_FAMILIES])
def test_a_request_for_no_stream_is_left_alone(text: str) -> None:
    pipeline, client = asked(text, STREAM.replace(b"true", b"false"))
    assert pipeline.received()[2] == STREAM.replace(b"true", b"false").replace(b"fast", b"gpt-b")
    pipeline.connection.send(answered())
    assert client.finished


def test_without_the_setting_nothing_is_asked_and_everything_passes() -> None:
    pipeline, client = asked(THREE_FAMILIES)
    assert pipeline.received()[2] == STREAM.replace(b"fast", b"gpt-b")
    pipeline.connection.send(answered(WORDS + EXTRA + DONE, content_type=SSE))
    assert client.body == WORDS + EXTRA + DONE


def test_other_routes_of_the_provider_are_left_alone() -> None:
    pipeline = Pipeline(METERED)
    pipeline.ask("/v1/completions", STREAM)
    assert pipeline.received()[2] == STREAM.replace(b"fast", b"gpt-b")


def test_a_refusal_of_the_options_passes() -> None:
    pipeline, client = asked()
    refusal = b'{"error":{"message":"Unknown parameter: stream_options","param":"stream_options"}}'
    pipeline.connection.send(answered(refusal, b"400 Bad Request"))
    assert (client.status, client.body) == (400, refusal)


def test_an_identity_body_is_asked_for_and_a_coded_one_passes_as_it_comes() -> None:
    pipeline = Pipeline(METERED)
    client, _ = pipeline.ask(body=STREAM, headers=[(b"Accept-Encoding", b"gzip")])
    assert (b"Accept-Encoding", b"identity") in pipeline.received()[1]
    body = gzip.compress(WORDS + EXTRA + DONE)
    pipeline.connection.send(
        HEAD + b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    )
    assert client.body == body
    assert pipeline.event().tokens_in == 7


def test_a_stream_that_breaks_within_an_event_breaks_before_it() -> None:
    pipeline, client = asked()
    pipeline.connection.send(HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
    pipeline.connection.send(chunked(chunk({"content": "a"}) + WORDS[:40]))
    pipeline.connection.reset()
    assert client.aborted
    assert client.body == chunk({"content": "a"})


def test_nothing_of_an_extra_chunk_that_was_cut_is_sent() -> None:
    pipeline, client = asked()
    pipeline.connection.send(HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
    pipeline.connection.send(chunked(WORDS + EXTRA[:40]))
    pipeline.connection.reset()
    assert client.finished  # every choice has ended
    assert client.body == WORDS


def test_a_stream_that_is_held_until_it_says_something_is_metered_as_well() -> None:
    pipeline, client = asked(f"{METERED}\nretries: {{attempts: 2}}\n")
    pipeline.connection.send(HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
    pipeline.connection.send(chunked(chunk({"role": "assistant"})) + chunked(WORDS + EXTRA + DONE))
    pipeline.connection.send(b"0\r\n\r\n")
    assert client.body == chunk({"role": "assistant"}) + WORDS + DONE
    assert pipeline.event().tokens_out == 5


def test_a_coded_request_is_asked_without_its_coding() -> None:
    pipeline = Pipeline(METERED)
    pipeline.ask(body=gzip.compress(STREAM), headers=[(b"Content-Encoding", b"gzip")])
    _, headers, body = pipeline.received()
    assert body == ASKED
    assert all(name.lower() != b"content-encoding" for name, _ in headers)


def test_a_second_request_is_asked_as_the_first() -> None:
    pipeline, client = asked()
    pipeline.connection.send(answered(WORDS + EXTRA + DONE, content_type=SSE))
    client, _ = pipeline.ask(body=STREAM)
    pipeline.connection.send(answered(WORDS + EXTRA + DONE, content_type=SSE))
    assert client.body == WORDS + DONE
