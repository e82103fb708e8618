"""A stream between two families, from its first event to its end or its break."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest
from twisted.logger import capturedLogs

from mgw.nouns.errors import Reason
from mgw.usage.event import Outcome
from mgw.wire.headers import value_of
from tests.support.configs import THREE_FAMILIES
from tests.support.pipelines import Pipeline, RecordingChannel
from tests.support.translation import BEGIN, MESSAGE, MESSAGES, asked, begun, event, failure_of, said

CHAT = "/v1/chat/completions"
CONTENT = b'{"contents":[{"role":"user","parts":[{"text":"hello"}]}]}'
TEXT = event(
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
) + event({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "hi"}})
END = (
    event({"type": "content_block_stop", "index": 0})
    + event({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 5}})
    + event({"type": "message_stop"})
)
OVERLOADED = event({"type": "error", "error": {"type": "overloaded_error", "message": "too busy"}})


CLOSE = b"0\r\n\r\n"


def chunk(piece: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(piece), piece)


def chunks(client: RecordingChannel) -> list[Any]:
    return [
        json.loads(line.removeprefix(b"data: "))
        for line in client.body.splitlines()
        if line.startswith(b"data: {")
    ]


def test_a_stream_is_told_piece_by_piece() -> None:
    pipeline = Pipeline()
    client, work = pipeline.ask(body=asked("smart", stream=True))
    assert value_of(pipeline.received()[1], b"accept") == b"text/event-stream"
    assert value_of(pipeline.received()[1], b"accept-encoding") == b"identity"
    pipeline.connection.send(begun(BEGIN))
    assert client.started
    assert value_of(client.headers, b"content-type") == b"text/event-stream"
    pipeline.connection.send(chunk(TEXT))
    assert [c["choices"][0]["delta"].get("content") for c in chunks(client)][-1] == "hi"
    pipeline.connection.send(chunk(END) + CLOSE)
    assert client.body.endswith(b"data: [DONE]\n\n")
    assert client.finished
    assert work.called
    event = pipeline.event()
    assert (event.stream, event.tokens_in, event.tokens_out, event.status) == (True, 10, 5, Outcome.OK)


def test_an_error_of_the_provider_in_mid_stream_is_the_clients_own_and_no_end() -> None:
    pipeline = Pipeline()
    client, work = pipeline.ask(body=asked("smart", stream=True))
    pipeline.connection.send(begun(BEGIN, TEXT + OVERLOADED + END))
    last = chunks(client)
    assert [c["choices"][0]["delta"].get("content") for c in last[:-1]][-1] == "hi"
    assert last[-1]["error"]["message"] == "too busy"
    assert b"[DONE]" not in client.body
    assert client.finished
    assert failure_of(work).reason is Reason.UPSTREAM_BROKEN
    assert pipeline.connection.aborted
    assert pipeline.event().status is Outcome.UPSTREAM_ERROR


@pytest.mark.parametrize("ends", ["reset", "clean"])
def test_a_stream_that_stops_early_is_shown_as_broken(ends: str) -> None:
    pipeline = Pipeline()
    client, work = pipeline.ask(body=asked("smart", stream=True))
    pipeline.connection.send(begun(BEGIN, TEXT))
    if ends == "clean":
        pipeline.connection.send(CLOSE)
    else:
        pipeline.connection.reset()
    assert "error" in chunks(client)[-1]
    assert b"[DONE]" not in client.body
    assert failure_of(work).reason is Reason.UPSTREAM_BROKEN
    event = pipeline.event()
    assert (event.status, event.http_status, event.tokens_in) == (Outcome.UPSTREAM_ERROR, 200, 10)


def test_what_is_no_stream_of_that_dialect_is_a_bad_gateway() -> None:
    pipeline = Pipeline()
    client, work = pipeline.ask(body=asked("smart", stream=True))
    pipeline.connection.send(begun(b"data: \xff\xfe{\n\n") + CLOSE)
    assert client.status == 502
    assert "error" in json.loads(client.body)
    assert work.called
    assert pipeline.event().status is Outcome.UPSTREAM_ERROR


def test_a_compressed_answer_is_read_though_nobody_asked_for_it() -> None:
    pipeline = Pipeline()
    client, _ = pipeline.ask(body=asked("smart"))
    body = gzip.compress(json.dumps(MESSAGE).encode())
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Encoding: gzip\r\n"
    pipeline.connection.send(head + b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
    assert json.loads(client.body)["choices"][0]["message"]["content"] == "hi"
    assert value_of(client.headers, b"content-encoding") is None


def test_a_whole_answer_where_a_stream_was_asked_for_becomes_a_stream() -> None:
    pipeline = Pipeline()
    client, _ = pipeline.ask(body=asked("smart", stream=True))
    pipeline.connection.send(said(MESSAGE))
    assert value_of(client.headers, b"content-type") == b"text/event-stream"
    assert client.body.endswith(b"data: [DONE]\n\n")
    assert pipeline.event().stream is True


def test_a_client_that_leaves_while_an_answer_is_gathered_stops_the_provider() -> None:
    pipeline = Pipeline()
    client, work = pipeline.ask(body=asked("smart"))
    pipeline.connection.send(said(MESSAGE)[:-10])
    _ = work.addErrback(lambda _: None)
    work.cancel()
    assert pipeline.connection.aborted
    assert not client.started
    event = pipeline.event()
    assert (event.status, event.http_status) == (Outcome.CLIENT_ABORT, 499)


def test_a_client_that_leaves_a_stream_stops_the_provider() -> None:
    pipeline = Pipeline(THREE_FAMILIES + "stream_keepalive: {}\n")
    _, work = pipeline.ask(body=asked("smart", stream=True))
    pipeline.connection.send(begun(BEGIN, TEXT))
    _ = work.addErrback(lambda _: None)
    work.cancel()
    assert pipeline.connection.aborted
    assert pipeline.event().status is Outcome.CLIENT_ABORT
    assert not pipeline.clock.getDelayedCalls()


def test_an_encoded_body_is_decoded_to_be_translated() -> None:
    pipeline = Pipeline()
    body = gzip.compress(b'{"contents":[{"parts":[{"text":"hello"}]}]}')
    pipeline.ask(
        "/v1beta/models/claude%2Fclaude-x:generateContent", body, headers=[(b"Content-Encoding", b"gzip")]
    )
    _, headers, sent = pipeline.received()
    assert "hello" in json.dumps(json.loads(sent)["messages"])
    assert value_of(headers, b"content-encoding") is None


def test_a_silent_provider_leaves_a_translated_stream_with_signs_of_life() -> None:
    pipeline = Pipeline(THREE_FAMILIES + "stream_keepalive: {interval: 5}\n")
    client, _ = pipeline.ask(body=asked("smart", stream=True))
    pipeline.connection.send(begun(BEGIN))
    before = client.body
    pipeline.clock.advance(5.1)
    assert client.body.removeprefix(before).startswith(b":")
    assert client.body.endswith(b"\n\n")


def test_without_the_setting_a_silent_stream_is_silent() -> None:
    pipeline = Pipeline()
    client, _ = pipeline.ask(body=asked("smart", stream=True))
    pipeline.connection.send(begun(BEGIN))
    before = client.body
    pipeline.clock.advance(100)
    assert client.body == before


PASSED: dict[str, tuple[str, bytes, bytes]] = {
    "chat": (CHAT, asked("gpt-9", stream=True), b": ping\n\n"),
    "messages": (MESSAGES, asked("claude-9", stream=True), b'event: ping\ndata: {"type":"ping"}\n\n'),
    "gemini": ("/v1beta/models/gemini-3:streamGenerateContent", b"{}", b"\n"),
}


@pytest.mark.parametrize("name", PASSED)
def test_untranslated_streams_get_signs_of_life_between_events_alone(name: str) -> None:
    path, body, sign = PASSED[name]
    pipeline = Pipeline(THREE_FAMILIES + "stream_keepalive: {interval: 5, passthrough: true}\n")
    client, _ = pipeline.ask(path, body)
    pipeline.connection.send(begun(b"data: {}\n\n"))
    pipeline.clock.advance(5.1)
    assert client.body == b"data: {}\n\n" + sign
    pipeline.connection.send(chunk(b"data: {}\n"))
    pipeline.clock.advance(5.1)
    assert client.body == b"data: {}\n\n" + sign + b"data: {}\n"
    pipeline.connection.send(chunk(b"\n"))
    pipeline.clock.advance(5.1)
    assert client.body.endswith(b"data: {}\n\n" + sign)


def test_untranslated_streams_get_none_unless_it_is_said() -> None:
    pipeline = Pipeline(THREE_FAMILIES + "stream_keepalive: {interval: 5}\n")
    client, _ = pipeline.ask(body=asked("gpt-9", stream=True))
    pipeline.connection.send(begun(b"data: {}\n\n"))
    pipeline.clock.advance(50)
    assert client.body == b"data: {}\n\n"


def test_an_unknown_stop_is_a_normal_end_and_logged_once() -> None:
    pipeline = Pipeline()
    with capturedLogs() as logged:
        for _ in range(2):
            client, _ = pipeline.ask(body=asked("smart"))
            pipeline.connection.send(said(MESSAGE | {"stop_reason": "bored"}))
            assert json.loads(client.body)["choices"][0]["finish_reason"] == "stop"
        streamed, _ = pipeline.ask(body=asked("smart", stream=True))
        pipeline.connection.send(begun(BEGIN, TEXT, END.replace(b"end_turn", b"tired")) + CLOSE)
        assert streamed.body.endswith(b"[DONE]\n\n")
    assert [entry["word"] for entry in logged if "word" in entry] == ["bored", "tired"]


@pytest.mark.parametrize("stream", [False, True])
def test_a_tool_comes_back_under_the_name_that_the_client_gave_it(stream: bool) -> None:
    pipeline = Pipeline()
    body = {
        "contents": [{"role": "user", "parts": [{"text": "hello"}]}],
        "tools": [{"functionDeclarations": [{"name": "maps.google:find"}]}],
    }
    method = "streamGenerateContent" if stream else "generateContent"
    query = b"alt=sse" if stream else None
    client, _ = pipeline.ask(f"/v1beta/models/claude/x:{method}", json.dumps(body).encode(), query=query)
    name = json.loads(pipeline.received()[2])["tools"][0]["name"]
    assert name != "maps.google:find"
    call = {"type": "tool_use", "id": "toolu_1", "name": name, "input": {}}
    if stream:
        begin = event({"type": "content_block_start", "index": 0, "content_block": call})
        pipeline.connection.send(begun(BEGIN, begin, END.replace(b"end_turn", b"tool_use")) + CLOSE)
    else:
        pipeline.connection.send(said(MESSAGE | {"content": [call], "stop_reason": "tool_use"}))
    assert b'"maps.google:find"' in client.body


@pytest.mark.parametrize("later", ["silence", "end", "more"])
def test_a_client_need_not_wait_for_a_provider_that_forgets_to_hang_up(later: str) -> None:
    pipeline = Pipeline()
    client, work = pipeline.ask(body=asked("smart", stream=True))
    pipeline.connection.send(begun(BEGIN, TEXT + END))
    assert client.body.endswith(b"data: [DONE]\n\n")
    assert client.finished
    assert work.called
    assert pipeline.event().status is Outcome.OK
    assert not pipeline.connection.aborted
    if later == "end":
        pipeline.connection.send(CLOSE)
    elif later == "more":
        for _ in range(20):
            pipeline.clock.advance(0.1)
            pipeline.connection.send(chunk(b": x\n\n"))
    pipeline.clock.advance(1.1)
    assert pipeline.connection.aborted is (later != "end")
    assert client.body.count(b"[DONE]") == 1


def test_a_connection_whose_answer_ended_late_serves_the_next_request() -> None:
    pipeline = Pipeline()
    pipeline.ask(body=asked("smart", stream=True))
    pipeline.connection.send(begun(BEGIN, TEXT + END))
    pipeline.connection.send(CLOSE)
    pipeline.ask(body=asked("smart"))
    assert len(pipeline.endpoint.connections) == 1


def test_a_reset_behind_the_last_event_takes_nothing_away() -> None:
    pipeline = Pipeline()
    client, _ = pipeline.ask("/v1beta/models/claude/x:streamGenerateContent", CONTENT, query=b"alt=sse")
    pipeline.connection.send(begun(BEGIN, TEXT + END))
    pipeline.connection.reset()
    assert b"error" not in client.body
    assert pipeline.event().status is Outcome.OK


def test_a_gemini_stream_that_has_named_its_reason_is_whole() -> None:
    pipeline = Pipeline()
    client, _ = pipeline.ask(body=asked("gem/gemini-3-pro", stream=True))
    last = {"candidates": [{"content": {"parts": [{"text": "hi"}]}, "finishReason": "STOP"}]}
    pipeline.connection.send(begun(b"data: " + json.dumps(last).encode() + b"\n\n"))
    pipeline.connection.reset()
    assert client.body.endswith(b"data: [DONE]\n\n")
    assert pipeline.event().status is Outcome.OK


def test_an_answer_that_the_writer_cannot_tell_stops_the_provider_and_is_no_success() -> None:
    pipeline = Pipeline()
    client, work = pipeline.ask(MESSAGES, asked("main/gpt-9", stream=True, max_tokens=9))
    stray = {"choices": [{"index": 1, "delta": {"content": "hi"}, "finish_reason": "stop"}]}
    pipeline.connection.send(
        begun(b"data: " + json.dumps(stray).encode() + b"\n\n", b"data: [DONE]\n\n") + CLOSE
    )
    assert b"event: error" in client.body
    assert failure_of(work).reason is Reason.UPSTREAM_BROKEN
    assert pipeline.event().status is Outcome.UPSTREAM_ERROR


def test_signs_of_life_never_enter_a_stream_whose_length_is_told() -> None:
    pipeline = Pipeline(THREE_FAMILIES + "stream_keepalive: {interval: 5, passthrough: true}\n")
    client, _ = pipeline.ask(body=asked("gpt-9", stream=True))
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 100\r\n\r\n"
    pipeline.connection.send(head + b"data: {}\n\n")
    pipeline.clock.advance(20)
    assert client.body == b"data: {}\n\n"
