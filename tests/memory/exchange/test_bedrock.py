"""Claude on Bedrock between its clients and a host in memory: requests, answers, refusals, counts."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Callable
from hashlib import sha256
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.defer import Deferred

from mgw.credentials.signed_again import Again
from mgw.exchange.relay import LAST_SECONDS
from mgw.nouns.errors import Reason
from mgw.usage.event import Outcome
from mgw.wire.headers import RawHeaders, value_of
from tests.memory.exchange.test_wires import ANSWER, CHAT, CONTENTS, EVENTS, chunk
from tests.support.deferreds import refusal_of
from tests.support.event_streams import chunk_frame, exception_frame
from tests.support.pipelines import Pipeline, RecordingChannel
from tests.support.timed_auth import SIGNATURE, TIME, signature
from tests.support.timed_source import TimedKeys

CONFIG: Final = """
providers:
  host: {kind: bedrock, base_url: "https://bedrock-runtime.us-east-1.amazonaws.com", api_key: b-canary}
  main: {kind: openai, base_url: "https://openai.example/v1", api_key: sk-canary}
defaults: {anthropic_dialect: host, openai_dialect: host, gemini_dialect: host}
aliases: {several: [host/m, main/gpt]}
translation: {responses: {enabled: true}}
observe_dropped_fields: true
"""
RETRIES: Final = "retries: {attempts: 1}\n"
KEEPALIVE: Final = "stream_keepalive: {interval: 5}\n"
MESSAGE: Final = b'{"model":"m", "max_tokens":9,"messages":[{"role":"user","content":"Hi"}],"stream":true}'
WHOLE: Final = MESSAGE.replace(b',"stream":true', b"")
SENT: Final = (
    b'{"anthropic_version":"bedrock-2023-05-31","max_tokens":9,"messages":[{"role":"user","content":"Hi"}]}'
)
VERSION: Final[RawHeaders] = [(b"anthropic-version", b"2023-06-01"), (b"Content-Type", b"application/json")]
RESPONSES: Final = json.dumps({"model": "m", "input": "Hi"}).encode()
FRAMES: Final = b"application/vnd.amazon.eventstream"
HEAD: Final = (
    b"HTTP/1.1 200 OK\r\nContent-Type: %b\r\nx-amzn-RequestId: 12-34\r\nTransfer-Encoding: chunked\r\n\r\n"
    % FRAMES
)
LAST: Final[dict[str, Any]] = {
    **EVENTS[-1],
    "amazon-bedrock-invocationMetrics": {"inputTokenCount": 7, "outputTokenCount": 3},
}
DATA: Final = [json.dumps(event).encode() for event in (*EVENTS[:-1], LAST)]
FRAME: Final = [chunk_frame(data, p="abcdefghi") for data in DATA]
STREAM: Final = b"".join(FRAME)
EVENT: Final = [b"event: %b\ndata: %b\n\n" % (json.loads(data)["type"].encode(), data) for data in DATA]
EVENT_STREAM: Final = b"".join(EVENT)
CLIENTS: Final = [
    pytest.param("/v1/messages", WHOLE, id="messages"),
    pytest.param("/v1/chat/completions", CHAT, id="chat"),
    pytest.param("/v1/responses", RESPONSES, id="responses"),
    pytest.param("/v1beta/models/m:generateContent", CONTENTS, id="gemini"),
]
STREAMS: Final = [
    pytest.param("/v1/messages", MESSAGE, id="messages"),
    pytest.param("/v1/chat/completions", CHAT[:-1] + b', "stream": true}', id="chat"),
    pytest.param("/v1/responses", RESPONSES[:-1] + b', "stream": true}', id="responses"),
    pytest.param("/v1beta/models/m:streamGenerateContent", CONTENTS, id="gemini"),
]
BETA: Final = "invalid beta flag: `two-1`"


def pipeline_of(*lines: str) -> Pipeline:
    return Pipeline(CONFIG + "".join(lines))


def answered(body: bytes, status: bytes = b"200 OK", *headers: bytes) -> bytes:
    lines = b"".join(b"%b\r\n" % header for header in (b"Content-Type: application/json", *headers))
    return b"HTTP/1.1 %b\r\n%bx-amzn-RequestId: 12-34\r\nContent-Length: %d\r\n\r\n%b" % (
        status,
        lines,
        len(body),
        body,
    )


def refused(name: str, message: str, status: bytes) -> bytes:
    body = json.dumps({"message": message}).encode()
    return answered(body, status, b"x-amzn-ErrorType: %b:http://internal.amazon.com/" % name.encode())


def requests(pipeline: Pipeline) -> list[tuple[str, RawHeaders, bytes]]:
    """Return target, headers and body of each request that reached the host, on connections of their own."""
    found = []
    for connection in pipeline.endpoint.connections:
        for part in connection.received.split(b"POST ")[1:]:
            head, _, body = part.partition(b"\r\n\r\n")
            line, *rows = head.split(b"\r\n")
            headers = [(name, value) for name, _, value in (row.partition(b": ") for row in rows)]
            found.append((line.split(b" ")[0].decode(), headers, body))
    return found


def send_stream(pipeline: Pipeline, *frames: bytes, ends: bool = True) -> None:
    pipeline.connection.send(HEAD)
    for data in frames:
        pipeline.connection.send(chunk(data))
    if ends:
        pipeline.connection.send(b"0\r\n\r\n")


def said(client: RecordingChannel) -> Any:
    return json.loads(client.body)["error"]


# Messages


def test_a_message_goes_as_bedrock_takes_it_and_its_answer_comes_byte_for_byte() -> None:
    pipeline = pipeline_of()
    headers = [
        *VERSION,
        (b"User-Agent", b"sdk"),
        (b"X-Stainless-Lang", b"python"),
        (b"Accept-Encoding", b"gzip"),
    ]
    client, _ = pipeline.ask("/v1/messages", WHOLE, headers)
    [(target, up, body)] = requests(pipeline)
    assert (target, body) == ("/model/m/invoke", SENT)
    assert {name.lower(): value for name, value in up} == {
        b"host": b"bedrock-runtime.us-east-1.amazonaws.com",
        b"user-agent": b"sdk",
        b"content-type": b"application/json",
        b"accept": b"application/json",
        b"authorization": b"Bearer b-canary",
        b"content-length": b"%d" % len(SENT),
    }
    pipeline.connection.send(answered(ANSWER))
    assert (client.status, client.body) == (200, ANSWER)
    assert value_of(client.headers, b"content-type") == b"application/json"
    assert (
        value_of(client.headers, b"request-id") == value_of(client.headers, b"x-amzn-requestid") == b"12-34"
    )
    event = pipeline.event()
    assert (event.tokens_in, event.tokens_out, event.status) == (7, 3, Outcome.OK)
    assert event.upstream_request_id == "12-34"


@given(cuts=st.lists(st.integers(1, 400), max_size=40))
def test_a_stream_is_what_anthropics_own_would_have_been_however_it_is_cut(cuts: list[int]) -> None:
    pipeline = pipeline_of()
    client, _ = pipeline.ask("/v1/messages", MESSAGE, VERSION)
    [(target, up, body)] = requests(pipeline)
    assert (target, body) == ("/model/m/invoke-with-response-stream", SENT)
    assert value_of(up, b"accept") == FRAMES
    pieces, left = [], STREAM
    for size in cuts:
        pieces.append(left[:size])
        left = left[size:]
    send_stream(pipeline, *filter(None, [*pieces, left]))
    assert (client.status, client.body, client.finished) == (200, EVENT_STREAM, True)
    assert value_of(client.headers, b"content-type") == b"text/event-stream; charset=utf-8"
    assert value_of(client.headers, b"request-id") == b"12-34"
    event = pipeline.event()
    assert (event.stream, event.tokens_in, event.tokens_out, event.status) == (True, 7, 3, Outcome.OK)


def test_the_head_of_a_stream_waits_for_its_first_frame() -> None:
    pipeline = pipeline_of()
    client, _ = pipeline.ask("/v1/messages", MESSAGE, VERSION)
    send_stream(pipeline, FRAME[0][:-1], ends=False)
    assert not client.started
    pipeline.connection.send(chunk(FRAME[0][-1:]))
    assert client.body == EVENT[0]


@pytest.mark.parametrize(("path", "body"), CLIENTS)
def test_clients_of_all_families_get_whole_answers(path: str, body: bytes) -> None:
    pipeline = pipeline_of()
    client, _ = pipeline.ask(path, body)
    [(target, up, sent)] = requests(pipeline)
    assert target == "/model/m/invoke"
    assert value_of(up, b"accept-encoding") is None
    assert [name for name, _ in up if name.lower().startswith(b"anthropic-")] == []
    assert json.loads(sent)["anthropic_version"] == "bedrock-2023-05-31"
    assert json.loads(sent).keys() & {"model", "stream"} == set()
    pipeline.connection.send(answered(ANSWER))
    assert client.status == 200
    assert b"Hello" in client.body


@pytest.mark.parametrize(("path", "body"), STREAMS)
def test_clients_of_all_families_get_streams(path: str, body: bytes) -> None:
    pipeline = pipeline_of()
    client, _ = pipeline.ask(path, body)
    assert requests(pipeline)[0][0] == "/model/m/invoke-with-response-stream"
    send_stream(pipeline, *FRAME)
    assert (client.status, client.finished) == (200, True)
    assert b"Hello" in client.body
    assert (pipeline.event().tokens_in, pipeline.event().tokens_out) == (7, 3)


@pytest.mark.parametrize(("path", "body"), STREAMS)
def test_a_guardrail_that_intervenes_is_a_refusal_in_each_dialect(path: str, body: bytes) -> None:
    pipeline = pipeline_of()
    client, _ = pipeline.ask(path, body)
    delta = {**EVENTS[-2], "amazon-bedrock-guardrailAction": "INTERVENED"}
    frames = [*FRAME[:-2], chunk_frame(json.dumps(delta).encode()), FRAME[-1]]
    send_stream(pipeline, *frames)
    words = {
        "/v1/messages": b'"amazon-bedrock-guardrailAction": "INTERVENED"',
        "/v1/chat/completions": b'"finish_reason":"content_filter"',
        "/v1/responses": b'"reason":"content_filter"',
    }
    assert words.get(path, b'"finishReason":"SAFETY"') in client.body


# Streams that fail


@pytest.mark.parametrize(("path", "body"), STREAMS)
@pytest.mark.parametrize("together", [True, False], ids=["with the head", "behind the head"])
@pytest.mark.parametrize(
    ("name", "status"),
    [
        ("throttlingException", 429),
        ("serviceUnavailableException", 503),
        ("modelStreamErrorException", 424),
        ("validationException", 400),
        ("modelTimeoutException", 408),
        ("internalServerException", 500),
    ],
)
def test_an_exception_in_the_first_frame_is_a_response_of_its_own_status(
    path: str, body: bytes, name: str, status: int, together: bool
) -> None:
    pipeline = pipeline_of()
    client, _ = pipeline.ask(path, body)
    exception = exception_frame(name, "no, b-canary")
    if together:
        pipeline.connection.send(HEAD + chunk(exception) + b"0\r\n\r\n")
    else:
        send_stream(pipeline, exception)
    assert (client.status, value_of(client.headers, b"content-type")) == (status, b"application/json")
    assert b"canary" not in client.body
    assert b"no, " in client.body
    event = pipeline.event()
    assert (event.http_status, event.status) == (status, Outcome.UPSTREAM_ERROR)


def test_anthropics_clients_read_its_own_types_of_errors() -> None:
    for name, kind in (
        ("throttlingException", "rate_limit_error"),
        ("serviceUnavailableException", "overloaded_error"),
        ("modelStreamErrorException", "api_error"),
        ("modelTimeoutException", "timeout_error"),
    ):
        pipeline = pipeline_of()
        client, _ = pipeline.ask("/v1/messages", MESSAGE, VERSION)
        send_stream(pipeline, exception_frame(name, "no"))
        assert json.loads(client.body) == {
            "type": "error",
            "error": {"type": kind, "message": "no"},
            "request_id": "req_1",
        }


@pytest.mark.parametrize(("path", "body"), STREAMS)
def test_an_exception_in_the_first_frame_leads_to_another_attempt(path: str, body: bytes) -> None:
    pipeline = pipeline_of(RETRIES)
    client, _ = pipeline.ask(path, body)
    send_stream(pipeline, exception_frame("throttlingException", "later"))
    assert not client.started
    pipeline.clock.advance(1)
    send_stream(pipeline, *FRAME)
    assert (client.status, client.finished) == (200, True)
    assert pipeline.event().attempts == 2


def test_an_exception_behind_a_beginning_that_says_nothing_leads_to_another_attempt() -> None:
    pipeline = pipeline_of(RETRIES)
    client, _ = pipeline.ask("/v1/messages", MESSAGE, VERSION)
    send_stream(pipeline, FRAME[0], exception_frame("serviceUnavailableException", "later"))
    assert not client.started
    pipeline.clock.advance(1)
    send_stream(pipeline, *FRAME)
    assert client.body == EVENT_STREAM


def test_a_stream_that_is_refused_goes_on_to_the_next_target() -> None:
    pipeline = pipeline_of()
    _ = pipeline.ask("/v1/messages", MESSAGE.replace(b'"m"', b'"several"'), VERSION)
    send_stream(pipeline, exception_frame("throttlingException", "later"))
    target, _, body = requests(pipeline)[-1]
    assert (target, json.loads(body)["model"]) == ("/v1/chat/completions", "gpt")


@pytest.mark.parametrize(("path", "body"), STREAMS)
def test_a_later_exception_ends_the_stream_with_an_error(path: str, body: bytes) -> None:
    pipeline = pipeline_of()
    client, _ = pipeline.ask(path, body)
    send_stream(
        pipeline, *FRAME[:3], exception_frame("modelStreamErrorException", "no, b-canary"), ends=False
    )
    assert (client.status, client.finished, client.aborted) == (200, True, False)
    assert b"Hello" in client.body
    assert b"no, [key]" in client.body
    event = pipeline.event()
    assert (event.status, event.error) == (Outcome.UPSTREAM_ERROR, "upstream_error_event")
    assert event.error_message == "no, [redacted]"


def ended_with_error(client: RecordingChannel, events: int, kind: str = "api_error") -> str:
    """Return the message of the error that ends a stream of messages behind some events."""
    before = b"".join(EVENT[:events])
    assert client.body.startswith(before)
    assert (client.finished, client.aborted) == (True, False)
    name, data, *rest = client.body[len(before) :].split(b"\n")
    assert (name, rest) == (b"event: error", [b"", b""])
    error = json.loads(data.removeprefix(b"data: "))["error"]
    assert error["type"] == kind
    message: str = error["message"]
    return message


def test_a_later_exception_is_anthropics_event_of_an_error() -> None:
    pipeline = pipeline_of()
    client, _ = pipeline.ask("/v1/messages", MESSAGE, VERSION)
    send_stream(pipeline, *FRAME[:3], exception_frame("throttlingException", "slower"), ends=False)
    assert ended_with_error(client, 3, "rate_limit_error") == "slower"


DAMAGED: Final = FRAME[3][:-1] + bytes([FRAME[3][-1] ^ 1])


@pytest.mark.parametrize(
    ("end", "error"),
    [
        pytest.param([DAMAGED], "unreadable", id="a broken sum"),
        pytest.param([b"\xff" * 12], "unreadable", id="broken lengths"),
        pytest.param([FRAME[3][:-3]], "truncated", id="an end within a frame"),
        pytest.param([], "truncated", id="an end before the stop reason"),
        pytest.param(FRAME[3:5], "truncated", id="an end before the last event"),
    ],
)
def test_a_stream_that_breaks_ends_with_an_error(end: list[bytes], error: str) -> None:
    pipeline = pipeline_of()
    client, _ = pipeline.ask("/v1/messages", MESSAGE, VERSION)
    send_stream(pipeline, *FRAME[:3], *end)
    whole = len(end) if len(end) > 1 else 0
    assert ended_with_error(client, 3 + whole)
    event = pipeline.event()
    assert (event.status, event.error) == (Outcome.UPSTREAM_ERROR, error)
    assert event.tokens_in == 7


def end_in_order(pipeline: Pipeline) -> None:
    pipeline.connection.send(b"0\r\n\r\n")


def end_with_a_break(pipeline: Pipeline) -> None:
    pipeline.connection.reset()


def say_no_more(pipeline: Pipeline) -> None:
    pipeline.clock.advance(LAST_SECONDS)


def has_error(data: bytes) -> bool:
    return b'"error"' in data.replace(b'"error":null', b"")


ENDS: Final = [end_in_order, end_with_a_break, say_no_more]


@pytest.mark.parametrize("end", ENDS, ids=["an end", "a break", "silence"])
@pytest.mark.parametrize(("path", "body"), STREAMS)
def test_without_its_last_event_a_stream_ends_with_an_error_for_clients_of_all_families(
    path: str, body: bytes, end: Callable[[Pipeline], None]
) -> None:
    pipeline = pipeline_of()
    client, _ = pipeline.ask(path, body)
    send_stream(pipeline, *FRAME[:-1], ends=False)
    assert not client.finished
    end(pipeline)
    assert (client.status, client.finished, client.aborted) == (200, True, False)
    assert b"Hello" in client.body
    assert has_error(client.body.rstrip().rpartition(b"\n\n")[2])
    assert b"[DONE]" not in client.body
    event = pipeline.event()
    assert (event.status, event.error) == (Outcome.UPSTREAM_ERROR, "truncated")
    assert (event.tokens_in, event.tokens_out) == (7, 3)


@pytest.mark.parametrize("end", ENDS, ids=["an end", "a break", "silence"])
@pytest.mark.parametrize(("path", "body"), STREAMS)
def test_with_its_last_event_a_stream_is_complete_however_its_body_ends(
    path: str, body: bytes, end: Callable[[Pipeline], None]
) -> None:
    pipeline = pipeline_of()
    client, _ = pipeline.ask(path, body)
    send_stream(pipeline, *FRAME, ends=False)
    end(pipeline)
    assert (client.finished, client.aborted, has_error(client.body)) == (True, False, False)
    assert pipeline.event().status is Outcome.OK


def test_a_connection_that_breaks_ends_a_stream_with_an_error() -> None:
    pipeline = pipeline_of()
    client, _ = pipeline.ask("/v1/messages", MESSAGE, VERSION)
    send_stream(pipeline, *FRAME[:3], ends=False)
    pipeline.connection.reset()
    ended_with_error(client, 3)


@pytest.mark.parametrize(
    "data", [b"", FRAME[0][:-3], b"\xff" * 12], ids=["nothing", "half a frame", "no frame"]
)
def test_a_stream_that_breaks_before_it_says_anything_is_a_502(data: bytes) -> None:
    pipeline = pipeline_of()
    client, ended = pipeline.ask("/v1/messages", MESSAGE, VERSION)
    send_stream(pipeline, *filter(None, [data]))
    assert refusal_of(ended).status == 502
    assert not client.started


@pytest.mark.parametrize(("path", "body"), STREAMS)
def test_a_stream_of_another_media_type_is_a_502(path: str, body: bytes) -> None:
    pipeline = pipeline_of()
    client, ended = pipeline.ask(path, body)
    pipeline.connection.send(answered(b"<html>").replace(b"application/json", b"text/html"))
    assert (refusal_of(ended).status, client.started) == (502, False)


def test_keep_alives_stand_in_for_the_pings_that_bedrock_does_not_send() -> None:
    pipeline = pipeline_of(KEEPALIVE)
    client, _ = pipeline.ask("/v1/messages", MESSAGE, VERSION)
    send_stream(pipeline, *FRAME[:3], ends=False)
    pipeline.clock.pump([1.0] * 11)
    ping = b'event: ping\ndata: {"type": "ping"}\n\n'
    assert client.body.replace(b'{"type":"ping"}', b'{"type": "ping"}') == b"".join(EVENT[:3]) + 2 * ping


def test_there_are_no_keep_alives_unless_the_operator_wants_them() -> None:
    pipeline = pipeline_of()
    client, _ = pipeline.ask("/v1/messages", MESSAGE, VERSION)
    send_stream(pipeline, *FRAME[:3], ends=False)
    pipeline.clock.pump([1.0] * 30)
    assert client.body == b"".join(EVENT[:3])


# Refusals


@pytest.mark.parametrize(
    ("path", "body", "where", "word"),
    [
        ("/v1/messages", WHOLE, "type", "rate_limit_error"),
        ("/v1/messages", MESSAGE, "type", "rate_limit_error"),
        ("/v1/chat/completions", CHAT, "type", "rate_limit_error"),
        ("/v1/responses", RESPONSES, "code", "ThrottlingException"),
        ("/v1beta/models/m:generateContent", CONTENTS, "status", "RESOURCE_EXHAUSTED"),
    ],
)
def test_a_refusal_is_said_in_the_clients_dialect(path: str, body: bytes, where: str, word: str) -> None:
    pipeline = pipeline_of()
    client, _ = pipeline.ask(path, body)
    pipeline.connection.send(refused("ThrottlingException", "too many for b-canary", b"429 Too Many"))
    assert (client.status, said(client)[where]) == (429, word)
    assert said(client)["message"] == "too many for [key]"
    assert pipeline.event().http_status == 429


@pytest.mark.parametrize("body", [WHOLE, MESSAGE], ids=["whole", "a stream"])
def test_a_page_that_refuses_is_said_as_anthropic_does(body: bytes) -> None:
    pipeline = pipeline_of()
    client, _ = pipeline.ask("/v1/messages", body, VERSION)
    page = answered(b"<h1>Too large</h1>", b"413 Content Too Large")
    pipeline.connection.send(page.replace(b"application/json", b"text/html"))
    assert (client.status, value_of(client.headers, b"content-type")) == (413, b"application/json")
    assert said(client)["type"] == "request_too_large"
    assert "Too large" in said(client)["message"]


TOO_LONG: Final = "Input is too long for requested model."
COMPACTED: Final[dict[str, dict[str, Any]]] = {
    "messages": {"type": "invalid_request_error", "message": f"prompt is too long ({TOO_LONG})"},
    "chat": {
        "type": "invalid_request_error",
        "code": "context_length_exceeded",
        "param": None,
        "message": TOO_LONG,
    },
    "responses": {
        "type": "invalid_request_error",
        "code": "context_length_exceeded",
        "param": None,
        "message": TOO_LONG,
    },
    "gemini": {
        "code": 400,
        "status": "INVALID_ARGUMENT",
        "message": "The input token count exceeds the maximum number of tokens allowed.",
    },
}
"""What each client is told of a prompt that is too long, so that it compacts (contract 8.28)."""


@pytest.mark.parametrize("way", ["whole", "a stream", "the first frame"])
@pytest.mark.parametrize("name", COMPACTED)
def test_a_prompt_that_is_too_long_is_said_so_that_clients_compact(name: str, way: str) -> None:
    ways = {str(each.id): each.values for each in (CLIENTS if way == "whole" else STREAMS)}
    path, body = ways[name]
    pipeline = pipeline_of()
    client, _ = pipeline.ask(str(path), body)  # type: ignore[arg-type]  # it is a body
    if way in ("whole", "a stream"):
        pipeline.connection.send(refused("ValidationException", TOO_LONG, b"400 Bad Request"))
    else:
        send_stream(pipeline, exception_frame("validationException", TOO_LONG), ends=False)
    assert (client.status, value_of(client.headers, b"content-type")) == (400, b"application/json")
    error = said(client)
    assert {key: error[key] for key in COMPACTED[name]} == COMPACTED[name]
    assert pipeline.event().http_status == 400


@pytest.mark.parametrize(("path", "body"), STREAMS)
def test_a_prompt_that_is_too_long_after_all_is_said_so_in_the_stream(path: str, body: bytes) -> None:
    pipeline = pipeline_of()
    client, _ = pipeline.ask(path, body)
    send_stream(pipeline, *FRAME[:3], exception_frame("validationException", TOO_LONG), ends=False)
    assert (client.status, client.finished) == (200, True)
    last = client.body[client.body.index(b"Hello") :]
    words = {
        "/v1/messages": b'"type":"invalid_request_error","message":"prompt is too long (Input is too long',
        "/v1/chat/completions": b'"code":"context_length_exceeded"',
        "/v1/responses": b'"code":"context_length_exceeded"',
    }
    assert words.get(path, b"exceeds the maximum number of tokens allowed.") in last


def test_a_refusal_has_the_id_that_sdks_look_for() -> None:
    pipeline = pipeline_of()
    client, _ = pipeline.ask("/v1/messages", WHOLE, VERSION)
    pipeline.connection.send(refused("AccessDeniedException", "no", b"403 Forbidden"))
    assert said(client)["type"] == "permission_error"
    assert value_of(client.headers, b"request-id") == b"12-34"


# Betas


def beta_headers(*names: bytes) -> RawHeaders:
    return [*VERSION, *[(b"anthropic-beta", name) for name in names]]


def test_a_request_is_sent_once_more_without_the_betas_that_are_refused() -> None:
    pipeline = pipeline_of()
    client, _ = pipeline.ask("/v1/messages", WHOLE, beta_headers(b"one-1,two-1", b"three-1"))
    pipeline.connection.send(refused("ValidationException", BETA, b"400 Bad Request"))
    assert not client.started
    bodies = [json.loads(body) for _, _, body in requests(pipeline)]
    assert [body["anthropic_beta"] for body in bodies] == [
        ["one-1", "two-1", "three-1"],
        ["one-1", "three-1"],
    ]
    assert bodies[0] == {**bodies[1], "anthropic_beta": bodies[0]["anthropic_beta"]}
    pipeline.connection.send(answered(ANSWER))
    assert client.body == ANSWER
    event = pipeline.event()
    assert (event.attempts, event.dropped_fields) == (2, ("anthropic-beta[two-1]",))
    assert dict(pipeline.generation.signed_again.rows()) == {("host", Again.BETAS): 1}
    assert event.status is Outcome.OK


def test_betas_that_were_refused_are_not_sent_again_for_ten_minutes() -> None:
    pipeline = pipeline_of()

    def sent_betas(model: bytes = b"m") -> Any:
        client, _ = pipeline.ask(
            "/v1/messages", WHOLE.replace(b'"m"', b'"%b"' % model), beta_headers(b"one,two-1")
        )
        sent = json.loads(requests(pipeline)[-1][2]).get("anthropic_beta")
        if "two-1" in (sent or ()):
            pipeline.connection.send(refused("ValidationException", BETA, b"400 Bad Request"))
        pipeline.connection.send(answered(ANSWER))
        assert client.body == ANSWER
        pipeline.connection.close()
        return sent

    assert [sent_betas(), sent_betas(), sent_betas(b"n")] == [["one", "two-1"], ["one"], ["one", "two-1"]]
    assert pipeline.events[1].dropped_fields == ("anthropic-beta[two-1]",)
    pipeline.clock.advance(599)
    assert sent_betas() == ["one"]
    pipeline.clock.advance(2)
    assert sent_betas() == ["one", "two-1"]


@pytest.mark.parametrize(("path", "body"), [("/v1/messages", WHOLE), ("/v1/messages", MESSAGE)])
def test_a_second_refusal_is_the_clients_and_remembered_as_well(path: str, body: bytes) -> None:
    pipeline = pipeline_of()
    client, _ = pipeline.ask(path, body, beta_headers(b"one,two-1"))
    pipeline.connection.send(refused("ValidationException", BETA, b"400 Bad Request"))
    pipeline.connection.send(refused("ValidationException", "invalid beta flag", b"400 Bad Request"))
    assert (client.status, said(client)["message"]) == (400, "invalid beta flag")
    assert len(requests(pipeline)) == 2
    _ = pipeline.ask(path, body, beta_headers(b"one,two-1"))
    assert "anthropic_beta" not in json.loads(requests(pipeline)[-1][2])


def test_a_refusal_that_is_about_no_beta_is_the_clients() -> None:
    pipeline = pipeline_of()
    client, _ = pipeline.ask("/v1/messages", WHOLE, beta_headers(b"one"))
    body = answered(
        b'{"message":"max_tokens: too large"}', b"400 Bad Request", b"x-amzn-errortype: ValidationException"
    )
    head, _, rest = body.partition(b"\r\n\r\n")
    pipeline.connection.send(head + b"\r\n\r\n")
    assert not client.started
    pipeline.connection.send(rest)
    assert (client.status, said(client)["message"]) == (400, "max_tokens: too large")
    assert len(requests(pipeline)) == 1


def test_a_first_frame_that_refuses_a_beta_leads_to_the_same_request_without_it() -> None:
    pipeline = pipeline_of()
    client, _ = pipeline.ask("/v1/messages", MESSAGE, beta_headers(b"one,two-1"))
    send_stream(pipeline, exception_frame("validationException", BETA), ends=False)
    assert [json.loads(body)["anthropic_beta"] for _, _, body in requests(pipeline)] == [
        ["one", "two-1"],
        ["one"],
    ]
    send_stream(pipeline, *FRAME)
    assert client.body == EVENT_STREAM


def test_a_version_that_is_refused_is_replaced_by_the_first() -> None:
    pipeline = pipeline_of()
    client, _ = pipeline.ask("/v1/messages", WHOLE, [(b"anthropic-version", b"2026-10-21")])
    message = "anthropic_version: Input should be 'bedrock-2023-05-31'"
    pipeline.connection.send(refused("ValidationException", message, b"400 Bad Request"))
    versions = [json.loads(body)["anthropic_version"] for _, _, body in requests(pipeline)]
    assert versions == ["2026-10-21", "bedrock-2023-05-31"]
    pipeline.connection.send(answered(ANSWER))
    assert (client.body, pipeline.event().dropped_fields) == (ANSWER, None)


def test_older_models_get_the_first_version() -> None:
    pipeline = pipeline_of()
    for model, version in (
        (b"us.anthropic.claude-opus-4-5-20251101-v1:0", "bedrock-2023-05-31"),
        (b"anthropic.claude-3-7-sonnet-20250219-v1:0", "bedrock-2023-05-31"),
        (b"eu.anthropic.claude-opus-4-7", "2026-10-21"),
        (b"anthropic.claude-opus-5", "2026-10-21"),
    ):
        body = WHOLE.replace(b'"m"', b'"%b"' % model)
        _ = pipeline.ask("/v1/messages", body, [(b"anthropic-version", b"2026-10-21")])
        assert json.loads(requests(pipeline)[-1][2])["anthropic_version"] == version


def test_betas_that_the_operator_does_not_let_pass_are_reported() -> None:
    pipeline = Pipeline(CONFIG.replace("api_key: b-canary", 'api_key: b-canary, betas: ["one*"]'))
    _ = pipeline.ask("/v1/messages", WHOLE, beta_headers(b"one-1, two"))
    assert json.loads(requests(pipeline)[-1][2])["anthropic_beta"] == ["one-1"]
    pipeline.connection.send(answered(ANSWER))
    assert pipeline.event().dropped_fields == ("anthropic-beta[two]",)


# Counts


def test_tokens_are_counted_by_the_model_behind_a_profile() -> None:
    pipeline = pipeline_of()
    body = WHOLE.replace(b'"m"', b'"us.anthropic.claude-opus-5"')
    client, _ = pipeline.ask("/v1/messages/count_tokens", body, VERSION)
    [(target, _, sent)] = requests(pipeline)
    assert target == "/model/anthropic.claude-opus-5/count-tokens"
    assert b64decode(json.loads(sent)["input"]["invokeModel"]["body"]) == SENT
    pipeline.connection.send(answered(b'{"inputTokens":11}'))
    assert (client.status, client.body) == (200, b'{"input_tokens":11}')


def test_tokens_are_counted_for_other_families() -> None:
    pipeline = pipeline_of()
    client, _ = pipeline.ask("/v1beta/models/m:countTokens", CONTENTS)
    sent = json.loads(b64decode(json.loads(requests(pipeline)[0][2])["input"]["invokeModel"]["body"]))
    assert (sent["max_tokens"], sent["messages"][0]["role"]) == (1, "user")
    pipeline.connection.send(answered(b'{"inputTokens":11}'))
    assert json.loads(client.body)["totalTokens"] == 11


@pytest.mark.parametrize("status", [b"400 Bad Request", b"404 Not Found"])
@pytest.mark.parametrize(
    ("path", "body", "key"),
    [
        ("/v1/messages/count_tokens", WHOLE, "input_tokens"),
        ("/v1beta/models/m:countTokens", CONTENTS, "totalTokens"),
        ("/v1/responses/input_tokens", RESPONSES, "input_tokens"),
    ],
)
def test_a_count_that_the_model_does_not_make_is_estimated(
    path: str, body: bytes, key: str, status: bytes
) -> None:
    pipeline = pipeline_of()
    client, _ = pipeline.ask(path, body)
    pipeline.connection.send(refused("ValidationException", "This model does not count", status))
    assert (client.status, value_of(client.headers, b"x-gateway-estimated")) == (200, b"true")
    assert 1 <= json.loads(client.body)[key] < 50
    assert pipeline.event().status is Outcome.OK


@pytest.mark.parametrize("together", [True, False], ids=["with the head", "behind the head"])
@pytest.mark.parametrize("answer", [b"{}", b'{"inputTokens":-1}', b"<html>", b" " * 70_000])
def test_what_is_no_count_is_a_502(answer: bytes, together: bool) -> None:
    pipeline = pipeline_of()
    client, ended = pipeline.ask("/v1/messages/count_tokens", WHOLE, VERSION)
    if together:
        pipeline.connection.send(answered(answer))
    else:
        head, _, body = answered(answer).partition(b"\r\n\r\n")
        pipeline.connection.send(head + b"\r\n\r\n")
        pipeline.connection.send(body)
    assert (refusal_of(ended).status, client.started) == (502, False)
    assert pipeline.event().http_status == 502


@pytest.mark.parametrize("status", [b"403 Forbidden", b"429 Too Many", b"500 Error"])
def test_another_refusal_of_a_count_is_the_clients(status: bytes) -> None:
    pipeline = pipeline_of()
    client, _ = pipeline.ask("/v1/messages/count_tokens", WHOLE, VERSION)
    pipeline.connection.send(refused("AccessDeniedException", "no", status))
    assert client.status == int(status[:3])


# What is not served


@pytest.mark.parametrize(
    "part",
    [
        {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}},
        {"type": "file", "file": {"file_data": "https://example.com/a.pdf"}},
    ],
)
def test_addresses_of_images_and_documents_are_refused(part: dict[str, Any]) -> None:
    pipeline = pipeline_of()
    body = json.dumps({"model": "claude-opus-5", "messages": [{"role": "user", "content": [part]}]}).encode()
    client, ended = pipeline.ask("/v1/chat/completions", body)
    refusal = refusal_of(ended)
    assert (refusal.reason, client.started, pipeline.endpoint.connections) == (Reason.MALFORMED, False, [])


def test_models_of_other_vendors_are_refused() -> None:
    for path, body in (("/v1/messages", WHOLE), ("/v1/chat/completions", CHAT)):
        pipeline = pipeline_of()
        _, ended = pipeline.ask(path, body.replace(b'"m"', b'"us.meta.llama3-v1:0"'))
        refusal = refusal_of(ended)
        assert (refusal.reason, pipeline.endpoint.connections) == (Reason.UNSUPPORTED_BY_KIND, [])
        assert "if Bedrock serves it by OpenAI's API, use a provider of kind openai_compat" in refusal.message


@pytest.mark.parametrize(
    ("method", "path", "query"),
    [
        ("POST", "/v1/messages/batches", None),
        ("GET", "/v1/messages/batches", None),
        ("GET", "/v1/files", b"provider=host"),
        ("GET", "/v1/models/m", b"provider=host"),
    ],
)
def test_nothing_else_is_served(method: str, path: str, query: bytes | None) -> None:
    pipeline = pipeline_of()
    ended: Deferred[None]
    client, ended = pipeline.ask(path, b"{}" if method == "POST" else b"", VERSION, query, method=method)
    assert refusal_of(ended).reason is Reason.UNSUPPORTED_BY_KIND
    assert (client.started, pipeline.endpoint.connections) == (False, [])


def test_betas_of_a_host_of_anthropics_own_api_are_chosen_and_reported() -> None:
    text = 'providers: {host: {kind: anthropic, base_url: "https://a.example/v1", api_key: k, betas: []}}\n'
    pipeline = Pipeline(text + "defaults: {anthropic_dialect: host}\nobserve_dropped_fields: true\n")
    client, _ = pipeline.ask("/v1/messages", WHOLE, beta_headers(b"one"))
    [(target, up, body)] = requests(pipeline)
    assert (target, body, value_of(up, b"anthropic-beta")) == ("/v1/messages", WHOLE, None)
    assert value_of(up, b"anthropic-version") == b"2023-06-01"
    pipeline.connection.send(answered(ANSWER))
    assert client.body == ANSWER
    assert pipeline.event().dropped_fields == ("anthropic-beta[one]",)


PING: Final = b'event: ping\ndata: {"type":"ping"}\n\n'


def silent(*lines: str) -> tuple[Pipeline, RecordingChannel]:
    """Return a client that has heard a keep-alive before an answer."""
    pipeline = pipeline_of(KEEPALIVE, *lines)
    client, _ = pipeline.ask("/v1/messages", MESSAGE, VERSION)
    pipeline.clock.pump([1.0] * 6)
    assert (client.status, client.body) == (200, PING)
    assert value_of(client.headers, b"content-type") == b"text/event-stream; charset=utf-8"
    return pipeline, client


def test_a_client_hears_of_a_slow_answer_before_its_head() -> None:
    pipeline, client = silent()
    send_stream(pipeline, *FRAME)
    assert (client.body, client.finished) == (PING + EVENT_STREAM, True)


def test_a_client_hears_of_a_slow_answer_while_its_head_is_held() -> None:
    pipeline = pipeline_of(KEEPALIVE)
    client, _ = pipeline.ask("/v1/messages", MESSAGE, VERSION)
    pipeline.connection.send(HEAD)
    pipeline.clock.pump([1.0] * 11)
    assert client.body == 2 * PING
    for frame in FRAME:
        pipeline.connection.send(chunk(frame))
    pipeline.connection.send(b"0\r\n\r\n")
    assert (client.body, client.finished) == (2 * PING + EVENT_STREAM, True)


@pytest.mark.parametrize("whole", [True, False], ids=["a refusal", "an exception in the first frame"])
def test_what_fails_behind_keep_alives_is_an_event_of_an_error(whole: bool) -> None:
    pipeline, client = silent()
    if whole:
        pipeline.connection.send(refused("ThrottlingException", "no, b-canary", b"429 Too Many"))
    else:
        send_stream(pipeline, exception_frame("throttlingException", "no, b-canary"), ends=False)
    assert client.body.startswith(PING + b"event: error\n")
    error = json.loads(client.body.partition(b"data: ")[2].partition(b"data: ")[2])["error"]
    assert error == {"type": "rate_limit_error", "message": "no, [key]"}
    assert client.finished


def test_another_attempt_goes_on_behind_keep_alives() -> None:
    pipeline, client = silent(RETRIES)
    send_stream(pipeline, exception_frame("throttlingException", "later"), ends=False)
    pipeline.clock.advance(1)
    send_stream(pipeline, *FRAME)
    assert (client.body, client.finished) == (PING + EVENT_STREAM, True)


@pytest.mark.parametrize(
    ("path", "body"), [("/v1/messages/count_tokens", WHOLE), ("/v1beta/models/m:countTokens", CONTENTS)]
)
def test_a_large_count_is_estimated_in_a_thread(path: str, body: bytes) -> None:
    pipeline = pipeline_of()
    work: list[Deferred[Any]] = []

    def offload(run: Callable[[], Any]) -> Deferred[Any]:
        work.append(Deferred())
        return work[-1].addCallback(lambda _: run())

    pipeline.offload = offload
    client, _ = pipeline.ask(path, body.replace(b"Hi", b"Hi " * 400_000))
    while not pipeline.endpoint.connections:
        work.pop(0).callback(None)
    pipeline.connection.send(refused("ValidationException", "This model does not count", b"400 No"))
    assert not client.started
    [estimating] = work
    estimating.callback(None)
    assert value_of(client.headers, b"x-gateway-estimated") == b"true"


@pytest.mark.parametrize(("path", "body"), STREAMS)
def test_an_exception_that_a_repetition_would_not_mend_is_the_clients_at_once(path: str, body: bytes) -> None:
    pipeline = pipeline_of(RETRIES)
    client, _ = pipeline.ask(path, body)
    send_stream(pipeline, exception_frame("validationException", "max_tokens: too large"))
    pipeline.clock.advance(10)
    assert (client.status, len(requests(pipeline))) == (400, 1)


def test_what_is_sent_once_more_is_signed_with_what_goes_up_then() -> None:
    pipeline = Pipeline(CONFIG, sources={"host": TimedKeys("timed-canary")})
    client, _ = pipeline.ask("/v1/messages", WHOLE, beta_headers(b"one,two-1"))
    pipeline.clock.advance(3)
    pipeline.connection.send(refused("ValidationException", BETA, b"400 Bad Request"))
    pipeline.connection.send(answered(ANSWER))
    assert client.body == ANSWER
    for (target, headers, body), seconds in zip(requests(pipeline), (0.0, 3.0), strict=True):
        when = value_of(headers, TIME.lower()) or b""
        digest = sha256(body).digest()
        expected = signature(b"timed-canary", b"POST", target.encode(), headers, digest, when)
        assert (value_of(headers, SIGNATURE.lower()), float(when)) == (expected, seconds)
