"""A kind with an API of its own and credentials that sign, each made up in two files, on every way there."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from hashlib import sha256
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from twisted.internet.defer import Deferred

from mgw.nouns.errors import Reason
from mgw.ops.live_models import LiveModels
from mgw.ops.provider_health import ProviderHealth
from mgw.upstream.wires.wire import Framing, chat_call
from mgw.usage.event import Outcome
from mgw.wire.headers import RawHeaders, value_of, values_of
from mgw.wire.json_array import ElementReader
from mgw.wire.sse import render_event
from tests.support.bodies import MemorySource, patterned
from tests.support.deferreds import refusal_of, result_of
from tests.support.framed_kind import ROW
from tests.support.framed_wire import FRAMES, WIRE, frame
from tests.support.pipelines import Pipeline, RecordingChannel, answered
from tests.support.probes import Providers
from tests.support.timed_auth import SIGNATURE, TIME, signature
from tests.support.timed_source import TimedKeys

CONFIG: Final = """
providers:
  host: {kind: anthropic, base_url: "https://framed.example/api", api_key: framed-canary}
  main: {kind: openai, base_url: "https://openai.example/v1", api_key: sk-canary}
defaults: {anthropic_dialect: host, openai_dialect: host, gemini_dialect: host}
aliases: {several: [host/m, main/gpt]}
health_checks: {enabled: true}
"""
KEY: Final = "timed-canary"
HELLO: Final = [{"role": "user", "content": "Hi"}]
MESSAGE: Final = (
    b'{ "model": "m",\n "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}], "stream" :true}'
)
KEPT: Final = (
    b'{"host_version":"2023-06-01", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}]}'
)
"""What is left of it."""
WHOLE: Final = MESSAGE.replace(b', "stream" :true', b"")
CHAT: Final = json.dumps({"model": "m", "messages": HELLO, "max_tokens": 9}).encode()
CONTENTS: Final = b'{"contents":[{"role":"user","parts":[{"text":"Hi"}]}]}'
VERSION: Final[RawHeaders] = [(b"anthropic-version", b"2023-06-01"), (b"Content-Type", b"application/json")]
ANSWER: Final = json.dumps(
    {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [{"type": "text", "text": "Hello"}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 7, "output_tokens": 3},
    }
).encode()
EVENTS: Final[list[dict[str, Any]]] = [
    {
        "type": "message_start",
        "message": {**json.loads(ANSWER), "content": [], "stop_reason": None},
    },
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hello"}},
    {"type": "content_block_stop", "index": 0},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 3}},
    {"type": "message_stop"},
]
STREAM: Final = b"".join(map(frame, EVENTS))
EVENT_STREAM: Final = b"".join(
    b"event: %b\ndata: %b\n\n" % (event["type"].encode(), json.dumps(event).encode()) for event in EVENTS
)
HEAD: Final = b"HTTP/1.1 200 OK\r\nContent-Type: %b\r\nTransfer-Encoding: chunked\r\n\r\n" % FRAMES


def pipeline_of(*, signed: bool = False, text: str = CONFIG) -> Pipeline:
    return Pipeline(
        text,
        rows={"host": ROW},
        wires={"framed": WIRE},
        sources={"host": TimedKeys(KEY)} if signed else {},
    )


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def sent(pipeline: Pipeline) -> tuple[bytes, RawHeaders, bytes]:
    """Return target, headers and body of what reached the provider last."""
    line, headers, body = pipeline.received()
    method, target, _ = line.split(b" ")
    assert method == b"POST"
    return target, headers, body


def streamed(path: str, body: bytes, headers: RawHeaders) -> tuple[Pipeline, RecordingChannel]:
    pipeline = pipeline_of()
    client, _ = pipeline.ask(path, body, headers)
    pipeline.connection.send(HEAD)
    return pipeline, client


# A kind with its own paths, bodies, frames and errors


def test_a_relayed_request_goes_as_the_host_takes_it_and_its_answer_comes_byte_for_byte() -> None:
    pipeline = pipeline_of()
    client, _ = pipeline.ask("/v1/messages", WHOLE, VERSION)
    target, headers, body = sent(pipeline)
    assert (target, body) == (b"/api/model/m/ask", KEPT)
    assert value_of(headers, b"x-framed-key") == b"framed-canary"
    assert value_of(headers, b"anthropic-version") is None
    assert values_of(headers, b"content-length") == [b"%d" % len(KEPT)]
    pipeline.connection.send(answered(ANSWER))
    assert (client.status, client.body) == (200, ANSWER)
    event = pipeline.event()
    assert (event.tokens_in, event.tokens_out, event.status) == (7, 3, Outcome.OK)


@pytest.mark.parametrize("words", [1, 40_000])
def test_a_request_of_any_size_goes_as_the_host_takes_it(words: int) -> None:
    pipeline = pipeline_of()
    whole = WHOLE.replace(b'"model": "m"', b'"model": "host/m"').replace(b"Hi", b"Hi" * words)
    pipeline.ask("/v1/messages", whole, VERSION)
    assert (sent(pipeline)[0], sent(pipeline)[2]) == (b"/api/model/m/ask", KEPT.replace(b"Hi", b"Hi" * words))


@given(cuts=st.lists(st.integers(1, 60), max_size=40))
def test_frames_become_the_dialects_events_however_they_are_cut(cuts: list[int]) -> None:
    pipeline, client = streamed("/v1/messages", MESSAGE, VERSION)
    assert sent(pipeline)[0] == b"/api/model/m/ask-in-frames"
    assert sent(pipeline)[2] == KEPT
    left = STREAM
    for size in cuts:
        piece, left = left[:size], left[size:]
        pipeline.connection.send(chunk(piece) if piece else b"")
    pipeline.connection.send((chunk(left) if left else b"") + b"0\r\n\r\n")
    assert (client.status, client.body, client.finished) == (200, EVENT_STREAM, True)
    assert value_of(client.headers, b"content-type") == b"text/event-stream"
    event = pipeline.event()
    assert (event.stream, event.tokens_in, event.tokens_out) == (True, 7, 3)


def test_a_stream_that_comes_with_its_head_becomes_the_dialects_events() -> None:
    pipeline = pipeline_of()
    client, _ = pipeline.ask("/v1/messages", MESSAGE, VERSION)
    pipeline.connection.send(answered(STREAM, content_type=FRAMES))
    assert (client.body, client.finished) == (EVENT_STREAM, True)
    assert value_of(client.headers, b"content-length") in (None, b"%d" % len(EVENT_STREAM))


class Elements:
    """Makes an event stream of a JSON array in pieces."""

    def __init__(self) -> None:
        self._reader = ElementReader(64 * 1024)

    def feed(self, data: bytes) -> Iterator[bytes]:
        for element in self._reader.feed(data):
            yield render_event(json.loads(element)["type"].encode(), element)

    def finish(self) -> bytes:
        return b""


@given(cuts=st.lists(st.integers(1, 60), max_size=40))
def test_an_array_in_pieces_becomes_the_dialects_events(cuts: list[int]) -> None:
    wire = replace(WIRE, unframe=lambda *_: Framing(Elements(), b"text/event-stream"))
    pipeline = Pipeline(CONFIG, rows={"host": ROW}, wires={"framed": wire})
    client, _ = pipeline.ask("/v1/messages", MESSAGE, VERSION)
    pipeline.connection.send(HEAD.replace(FRAMES, b"application/json"))
    left = json.dumps(EVENTS).encode()
    for size in cuts:
        piece, left = left[:size], left[size:]
        pipeline.connection.send(chunk(piece) if piece else b"")
    pipeline.connection.send((chunk(left) if left else b"") + b"0\r\n\r\n")
    assert (client.body, client.finished) == (EVENT_STREAM, True)


def test_a_stream_is_translated_out_of_its_frames() -> None:
    body = json.dumps({"model": "m", "messages": HELLO, "stream": True}).encode()
    pipeline, client = streamed("/v1/chat/completions", body, [])
    target, _, up = sent(pipeline)
    assert target == b"/api/model/m/ask-in-frames"
    assert json.loads(up).keys() & {"model", "stream", "host_version"} == {"host_version"}
    for piece in (STREAM[:7], STREAM[7:300], STREAM[300:]):
        pipeline.connection.send(chunk(piece))
    pipeline.connection.send(b"0\r\n\r\n")
    assert b'"content":"Hello"' in client.body
    assert client.body.endswith(b"data: [DONE]\n\n")
    assert (pipeline.event().tokens_in, pipeline.event().tokens_out) == (7, 3)


def test_a_whole_answer_is_translated() -> None:
    pipeline = pipeline_of()
    client, _ = pipeline.ask("/v1/chat/completions", CHAT)
    target, _, body = sent(pipeline)
    assert (target, "model" in json.loads(body)) == (b"/api/model/m/ask", False)
    pipeline.connection.send(answered(ANSWER))
    assert json.loads(client.body)["choices"][0]["message"]["content"] == "Hello"


@pytest.mark.parametrize(
    ("path", "body", "answer"),
    [
        pytest.param("/v1/messages/count_tokens", WHOLE, {"input_tokens": 11}, id="relayed"),
        pytest.param("/v1beta/models/m:countTokens", CONTENTS, {"totalTokens": 11}, id="translated"),
    ],
)
def test_tokens_are_counted_as_the_host_counts_them(path: str, body: bytes, answer: dict[str, int]) -> None:
    pipeline = pipeline_of()
    client, _ = pipeline.ask(path, body, VERSION)
    assert sent(pipeline)[0] == b"/api/model/m/count"
    pipeline.connection.send(answered(b'{"inputTokens": 11}'))
    assert json.loads(client.body).items() >= answer.items()


@pytest.mark.parametrize(
    ("path", "body", "kind"),
    [
        pytest.param("/v1/messages", WHOLE, ("error", "type", "rate_limit_error"), id="relayed"),
        pytest.param("/v1/chat/completions", CHAT, ("error", "code", "Throttled"), id="translated"),
    ],
)
def test_an_error_that_the_head_names_is_said_in_the_clients_dialect(
    path: str, body: bytes, kind: tuple[str, str, str]
) -> None:
    pipeline = pipeline_of()
    client, _ = pipeline.ask(path, body, VERSION)
    said = b'{"said": "too many for framed-canary"}'
    head = b"HTTP/1.1 400 Bad\r\nX-Framed-Error: Throttled\r\nContent-Length: %d\r\n\r\n" % len(said)
    pipeline.connection.send(head + said)
    outer, field, word = kind
    error = json.loads(client.body)[outer]
    assert (client.status, error[field]) == (429, word)
    assert error["message"] == "too many for [key]"
    assert value_of(client.headers, b"content-type") == b"application/json"


def test_an_error_of_the_models_vendor_passes_as_it_came() -> None:
    pipeline = pipeline_of()
    client, _ = pipeline.ask("/v1/messages", WHOLE, VERSION)
    body = b'{"type":"error", "error":{"type":"invalid_request_error","message":"no"}}'
    pipeline.connection.send(answered(body, b"400 Bad Request"))
    assert (client.status, client.body) == (400, body)
    assert pipeline.event().http_status == 400


def test_a_fault_in_the_first_frame_leads_to_another_attempt() -> None:
    text = CONFIG + "retries: {attempts: 1, statuses: [529]}"
    pipeline = pipeline_of(text=text)
    client, _ = pipeline.ask("/v1/messages", MESSAGE, VERSION)
    pipeline.connection.send(HEAD + chunk(frame({"fault": "Busy", "said": "later"})) + b"0\r\n\r\n")
    assert not client.started
    pipeline.clock.advance(1)
    pipeline.connection.send(answered(STREAM, content_type=FRAMES))
    assert (client.status, client.body) == (200, EVENT_STREAM)


def test_a_request_goes_on_to_a_target_of_another_kind_as_that_takes_it() -> None:
    pipeline = pipeline_of()
    _ = pipeline.ask("/v1/messages", WHOLE.replace(b'"m"', b'"several"'), VERSION)
    assert sent(pipeline)[0] == b"/api/model/m/ask"
    pipeline.connection.send(answered(b"{}", b"503 Busy"))
    assert sent(pipeline)[0] == b"/v1/chat/completions"
    assert json.loads(sent(pipeline)[2])["model"] == "gpt"


def test_a_body_with_a_coding_goes_without_it() -> None:
    pipeline = pipeline_of()
    _ = pipeline.ask("/v1/messages", gzip.compress(WHOLE), [*VERSION, (b"Content-Encoding", b"gzip")])
    _, headers, body = sent(pipeline)
    assert (body, value_of(headers, b"content-encoding")) == (KEPT, None)


def test_what_the_host_does_not_serve_is_refused_and_nothing_is_sent() -> None:
    pipeline = pipeline_of()
    client, ended = pipeline.ask("/v1/messages/batches", b'{"requests":[]}', VERSION)
    assert refusal_of(ended).reason is Reason.UNSUPPORTED_BY_KIND
    assert (client.started, pipeline.endpoint.connections) == (False, [])


def test_people_are_shown_where_a_conversation_goes() -> None:
    host = pipeline_of().generation.config.providers["host"]
    assert chat_call(host, WIRE, "m").target == b"/api/model/m/ask"


def test_two_requests_alike_may_go_to_two_addresses() -> None:
    pipeline = pipeline_of()
    for body, target in ((WHOLE, b"ask"), (MESSAGE, b"ask-in-frames"), (WHOLE, b"ask")):
        _ = pipeline.ask("/v1/messages", body, VERSION)
        assert sent(pipeline)[0] == b"/api/model/m/" + target
        pipeline.connection.close()


# Credentials that sign


def check(request: tuple[bytes, RawHeaders, bytes], host: bytes, at: float, method: bytes = b"POST") -> None:
    """Check a signature as a host would."""
    target, headers, body = request
    when = value_of(headers, TIME.lower()) or b""
    expected = signature(
        KEY.encode(), method, target, [(b"Host", host), *headers], sha256(body).digest(), when
    )
    assert (values_of(headers, SIGNATURE.lower()), float(when)) == ([expected], at)


FRAMED: Final = ("/v1/messages", WHOLE, "/v1/chat/completions", CHAT)
WAYS: Final = [
    pytest.param("host", "/v1/messages", WHOLE, id="framed, relayed"),
    pytest.param("host", "/v1/messages", MESSAGE, id="framed, streamed"),
    pytest.param("host", "/v1/chat/completions", CHAT, id="framed, translated"),
    pytest.param("host", "/v1/messages/count_tokens", WHOLE, id="framed, counted"),
    pytest.param("host", "/v1beta/models/m:countTokens", CONTENTS, id="framed, counted in translation"),
    pytest.param("main", "/v1/chat/completions", CHAT.replace(b'"m"', b'"main/g"'), id="plain, relayed"),
    pytest.param("main", "/v1/messages", WHOLE.replace(b'"m"', b'"main/g"'), id="plain, translated"),
]


@pytest.mark.parametrize(("provider", "path", "body"), WAYS)
def test_each_request_is_signed_at_its_time_with_all_that_goes_up(
    provider: str, path: str, body: bytes
) -> None:
    pipeline = Pipeline(
        CONFIG, rows={"host": ROW}, wires={"framed": WIRE}, sources={provider: TimedKeys(KEY)}
    )
    host = {"host": b"framed.example", "main": b"openai.example"}[provider]
    for seconds in (0, 5, 7):  # the later ones find head and target remembered
        pipeline.wall = seconds
        _ = pipeline.ask(path, body, [*VERSION, (b"traceparent", b"00-%d" % seconds)])
        check(sent(pipeline), host, seconds)
        pipeline.connection.close()
    assert pipeline.generation.signs


def test_another_attempt_is_signed_anew_with_another_key() -> None:
    pipeline = Pipeline(CONFIG, rows={"host": ROW}, wires={"framed": WIRE})
    pipeline.generation.credentials = {"host": TimedKeys("another-canary", KEY)}
    _ = pipeline.ask("/v1/messages", WHOLE, VERSION)
    with pytest.raises(AssertionError):
        check(sent(pipeline), b"framed.example", 0.0)
    pipeline.clock.advance(2)
    pipeline.connection.send(answered(b"{}", b"401 Unauthorized"))
    *_, last = pipeline.connection.received.split(b"POST ")
    head, _, body = last.partition(b"\r\n\r\n")
    line, *rows = head.split(b"\r\n")
    headers = [(name, value) for name, _, value in (row.partition(b": ") for row in rows)]
    check((line.split(b" ")[0], headers, body), b"framed.example", 2.0)


@pytest.mark.parametrize("known", [True, False], ids=["hashed as it came", "hashed when it is sent"])
def test_a_stored_body_is_signed(known: bool) -> None:
    pipeline = Pipeline(CONFIG, sources={"main": TimedKeys(KEY)})
    data = patterned(700_000)
    body = MemorySource(data, digest=sha256(data).digest() if known else None)
    _ = pipeline.ask("/v1/files", body, [(b"Content-Type", b"text/plain")], b"provider=main")
    check(sent(pipeline), b"openai.example", 0.0)
    assert sent(pipeline)[2] == data


def test_a_stored_form_is_signed_with_the_model_that_goes_up() -> None:
    pipeline = Pipeline(
        CONFIG.replace("several:", "spoken: main/whisper, several:"), sources={"main": TimedKeys(KEY)}
    )
    form = (
        b'--b\r\nContent-Disposition: form-data; name="model"\r\n\r\nspoken\r\n'
        b'--b\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n%b\r\n--b--\r\n'
    ) % patterned(300_000).replace(b"-", b"_")
    body = MemorySource(form, digest=sha256(form).digest())
    _ = pipeline.ask(
        "/v1/audio/transcriptions", body, [(b"Content-Type", b"multipart/form-data; boundary=b")]
    )
    check(sent(pipeline), b"openai.example", 0.0)
    assert b"\r\n\r\nwhisper\r\n" in sent(pipeline)[2]


def test_a_list_and_a_probe_ask_as_the_host_wants_it_and_are_signed() -> None:
    providers = Providers(pipeline=pipeline_of(signed=True))
    probe = providers.probe
    probe.wall = lambda: 12.0
    lists = LiveModels(probe, pytest.fail)
    asking = Deferred.fromCoroutine(lists.ask(providers.generation, None))
    request = providers.requests("host")[-1]
    line, *rows = request.split(b"\r\n")
    headers = [(name, value) for name, _, value in (row.partition(b": ") for row in rows)]
    assert line == b"GET /api/catalog?size=1000 HTTP/1.1"
    check((line.split(b" ")[1], headers, b""), b"framed.example", 12.0, b"GET")
    providers.respond("host", {"entries": ["m", "n"]})
    providers.respond("main", {"data": [{"id": "gpt"}]})
    assert [model.id for model in result_of(asking)["host"]] == ["m", "n"]
    health = Deferred.fromCoroutine(ProviderHealth(probe).report(providers.generation))
    assert providers.target("host") == "/api/catalog?size=1"
    providers.respond("host", {"entries": []})
    providers.respond("main", {"data": []})
    assert [status["error"] for status in json.loads(result_of(health))["providers"]] == [None, None]
