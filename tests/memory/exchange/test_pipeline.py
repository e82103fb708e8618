"""One request, from its model to the last byte, with both ends in memory."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mgw.exchange.body import RequestBody
from mgw.memo.client_request import ClientRequest
from mgw.nouns.errors import Reason
from mgw.usage.event import Outcome
from mgw.wire.headers import value_of
from tests.support.deferreds import refusal_of
from tests.support.pipelines import ANSWER, CHAT, Pipeline, answered
from tests.support.upstreams import LIMITS


def test_only_the_models_value_changes_and_the_answer_comes_back_as_it_is() -> None:
    pipeline = Pipeline()
    client, work = pipeline.ask()
    line, headers, body = pipeline.received()
    assert line == b"POST /v1/chat/completions HTTP/1.1"
    assert body == b'{ "model" : "gpt-b", "messages": [] }'
    assert value_of(headers, b"authorization") == b"Bearer sk-main-0001"
    pipeline.connection.send(answered())
    assert (client.status, client.body, client.finished) == (200, ANSWER, True)
    assert value_of(client.headers, b"x-up") == b"1"
    assert value_of(client.headers, b"x-gateway-request-id") == b"req_1"
    assert value_of(client.headers, b"set-cookie") is None
    assert work.called


def test_the_event_says_what_happened() -> None:
    pipeline = Pipeline()
    pipeline.ask()
    pipeline.clock.advance(0.25)
    pipeline.connection.send(answered())
    event = pipeline.event()
    assert (event.provider, event.model, event.upstream_model) == ("main", "fast", "gpt-b")
    assert (event.status, event.http_status, event.tokens_in, event.tokens_out) == (Outcome.OK, 200, 7, 5)
    assert (event.latency_ms, event.ttft_ms, event.attempts, event.stream) == (250.0, 250.0, 1, False)
    assert event.key_hash is not None


def test_a_body_that_needs_no_change_is_the_very_same() -> None:
    pipeline = Pipeline()
    body = b'{"model":"gpt-9",\r\n "x": 1e400}'
    pipeline.ask(body=body)
    assert pipeline.received()[2] == body


def test_an_encoded_body_is_decoded_only_where_the_model_changes() -> None:
    pipeline = Pipeline()
    encoded = gzip.compress(CHAT)
    pipeline.ask(body=encoded, headers=[(b"Content-Encoding", b"gzip")])
    _, headers, body = pipeline.received()
    assert body == CHAT.replace(b"fast", b"gpt-b")
    assert value_of(headers, b"content-encoding") is None

    encoded = gzip.compress(b'{"model":"gpt-9"}')
    pipeline = Pipeline()
    pipeline.ask(body=encoded, headers=[(b"Content-Encoding", b"gzip")])
    _, headers, body = pipeline.received()
    assert body == encoded
    assert value_of(headers, b"content-encoding") == b"gzip"


@pytest.mark.parametrize(
    ("path", "query", "line"),
    [
        ("/v1/models/gem-x:generateContent", None, b"/v1beta/models/gem-x:generateContent"),
        ("/v1alpha/models/a%2Eb:countTokens", None, b"/v1beta/models/a%2Eb:countTokens"),
        (
            "/v1beta/models/gem%2Fpro-é:generateContent".replace("é", "%C3%A9"),
            None,
            b"/v1beta/models/pro-%C3%A9:generateContent",
        ),
        (
            "/v1beta/models/gem/p:streamGenerateContent",
            b"alt=sse&x=%7e",
            b"/v1beta/models/p:streamGenerateContent?alt=sse&x=%7e",
        ),
    ],
)
def test_a_model_in_the_path_is_replaced_there_and_the_body_is_not_looked_at(
    path: str, query: bytes | None, line: bytes
) -> None:
    pipeline = Pipeline()
    pipeline.ask(path, b"not json", query=query)
    assert pipeline.received()[0] == b"POST " + line + b" HTTP/1.1"
    assert pipeline.received()[2] == b"not json"


@pytest.mark.parametrize(
    ("verb", "body", "expected"),
    [
        (
            "batchEmbedContents",
            b'{"requests": [{"model":"models/gem/p"}, {"model": "gem/p"}, {"model":"models/other"}]}',
            b'{"requests": [{"model":"models/p"}, {"model": "p"}, {"model":"models/other"}]}',
        ),
        ("embedContent", b'{"model" : "models/gem/p","x":1e400}', b'{"model" : "models/p","x":1e400}'),
        (
            "countTokens",
            b'{"generateContentRequest":{"model":"models/gem/p"}}',
            b'{"generateContentRequest":{"model":"models/p"}}',
        ),
    ],
)
def test_a_body_that_repeats_the_paths_model_follows_it(verb: str, body: bytes, expected: bytes) -> None:
    pipeline = Pipeline()
    pipeline.ask(f"/v1beta/models/gem/p:{verb}", body)
    assert pipeline.received()[2] == expected
    pipeline = Pipeline()
    pipeline.ask(f"/v1beta/models/p:{verb}", body)
    assert pipeline.received()[2] == body


def test_the_beta_path_takes_the_place_of_the_version_in_the_base_address() -> None:
    pipeline = Pipeline()
    pipeline.ask("/beta/completions", b'{"model":"host/m"}')
    assert pipeline.received()[0] == b"POST /beta/completions HTTP/1.1"


def test_anthropics_version_is_sent_unless_the_client_sent_one() -> None:
    pipeline = Pipeline()
    pipeline.ask("/v1/messages", b'{"model":"m"}')
    assert value_of(pipeline.received()[1], b"anthropic-version") == b"2023-06-01"
    assert value_of(pipeline.received()[1], b"x-api-key") == b"sk-ant-0003"
    pipeline = Pipeline()
    pipeline.ask("/v1/messages", b'{"model":"m"}', [(b"Anthropic-Version", b"2099-01-01")])
    versions = [pair for pair in pipeline.received()[1] if pair[0].lower() == b"anthropic-version"]
    assert versions == [(b"Anthropic-Version", b"2099-01-01")]


def test_an_operators_headers_are_set_removed_and_forwarded() -> None:
    edits = "{set: {X-Team: blue}, remove: [user-agent], forward: [x-mine]}"
    provider = f"{{kind: openai, api_key: k, headers: {edits}}}"
    pipeline = Pipeline(f"providers: {{main: {provider}}}\ndefaults: {{openai_dialect: main}}")
    pipeline.ask(headers=[(b"User-Agent", b"u"), (b"X-Mine", b"m"), (b"X-Other", b"o")])
    headers = pipeline.received()[1]
    assert value_of(headers, b"x-team") == b"blue"
    assert value_of(headers, b"x-mine") == b"m"
    assert value_of(headers, b"user-agent") is None
    assert value_of(headers, b"x-other") is None


@pytest.mark.parametrize(
    ("path", "body", "reason"),
    [
        ("/v1/chat/completions", b"{}", Reason.MALFORMED),
        ("/v1/chat/completions", b"[]", Reason.MALFORMED),
        ("/v1/chat/completions", b'{"model": 7}', Reason.MALFORMED),
        ("/v1/chat/completions", b"", Reason.MALFORMED),
        ("/v1/chat/completions", b'{"model":"smart"}', Reason.MALFORMED),
        ("/v1/responses", b'{"model":"smart"}', Reason.UNSUPPORTED_BY_KIND),
        ("/v1/chat/completions", b'{"model":"mute/m"}', Reason.CAPABILITY_OFF),
        ("/v1beta/models/x%3Fy:generateContent", b"{}", None),
        ("/v1beta/models/gem/x%3Fy:generateContent", b"{}", Reason.MALFORMED),
    ],
)
def test_a_refusal_reaches_no_upstream_and_leaves_one_event(
    path: str, body: bytes, reason: Reason | None
) -> None:
    pipeline = Pipeline()
    _, work = pipeline.ask(path, body)
    if reason is None:  # the path as sent is the client's own affair
        assert pipeline.received()[0] == b"POST /v1beta/models/x%3Fy:generateContent HTTP/1.1"
        return
    assert refusal_of(work).reason is reason
    assert not pipeline.endpoint.connections
    event = pipeline.event()
    assert (event.status, event.http_status) == (Outcome.REJECTED, reason.status)


def test_an_optional_model_that_is_absent_goes_to_the_default() -> None:
    pipeline = Pipeline()
    pipeline.ask("/v1/moderations", b'{"input":"x"}')
    assert pipeline.received()[2] == b'{"input":"x"}'


def test_an_upstreams_own_error_is_passed_on_and_is_an_upstream_error() -> None:
    pipeline = Pipeline()
    client, _ = pipeline.ask()
    pipeline.connection.send(answered(b'{"error":{}}', b"429 Slow Down"))
    assert (client.status, client.body, client.finished) == (429, b'{"error":{}}', True)
    assert (pipeline.event().status, pipeline.event().http_status) == (Outcome.UPSTREAM_ERROR, 429)


def test_a_client_that_leaves_cancels_its_upstream_at_once() -> None:
    pipeline = Pipeline()
    _, work = pipeline.ask()
    work.cancel()
    assert pipeline.connection.aborted
    event = pipeline.event()
    assert (event.status, event.http_status) == (Outcome.CLIENT_ABORT, 499)
    _ = work.addErrback(lambda _: None)


def test_a_client_that_leaves_in_mid_stream_cancels_its_upstream_and_keeps_the_counts() -> None:
    pipeline = Pipeline()
    _, work = pipeline.ask()
    pipeline.connection.send(answered(content_type=b"text/event-stream")[:-10].replace(ANSWER[:-10], b""))
    pipeline.connection.send(b'data: {"usage":{"prompt_tokens":3,"completion_tokens":1}}\n\n'[:40])
    work.cancel()
    assert pipeline.connection.aborted
    event = pipeline.event()
    assert (event.status, event.http_status, event.stream) == (Outcome.CLIENT_ABORT, 499, True)
    _ = work.addErrback(lambda _: None)


def test_an_upstream_that_breaks_in_mid_body_breaks_the_clients_connection() -> None:
    pipeline = Pipeline()
    client, work = pipeline.ask()
    pipeline.connection.send(answered()[:-10])
    pipeline.connection.reset()
    assert client.aborted
    assert not client.finished
    assert refusal_of(work).reason is Reason.UPSTREAM_BROKEN
    event = pipeline.event()
    assert (event.status, event.http_status) == (Outcome.UPSTREAM_ERROR, 200)


def test_a_stalled_upstream_is_504_before_its_head() -> None:
    pipeline = Pipeline()
    client, work = pipeline.ask()
    pipeline.clock.advance(LIMITS.first_byte)
    assert refusal_of(work).reason is Reason.UPSTREAM_TOO_SLOW
    assert not client.started
    assert pipeline.event().http_status == 504


def test_a_slow_client_holds_the_upstream_back() -> None:
    pipeline = Pipeline()
    client, _ = pipeline.ask()
    pipeline.connection.send(answered()[:-10])
    assert client.source is not None
    client.source.pause()
    assert pipeline.connection.paused
    client.source.resume()
    assert not pipeline.connection.paused


def test_a_stale_connection_is_tried_again_once_with_the_same_bytes() -> None:
    pipeline = Pipeline()
    pipeline.ask()
    pipeline.connection.send(answered())
    client, _ = pipeline.ask()
    first = pipeline.connection
    assert len(pipeline.endpoint.connections) == 1
    first.close()
    assert len(pipeline.endpoint.connections) == 2
    pipeline.connection.send(answered())
    assert client.finished
    assert first.received == pipeline.connection.received * 2
    assert pipeline.events[-1].attempts == 2


def test_a_fresh_connection_that_closes_is_not_tried_again() -> None:
    pipeline = Pipeline()
    _, work = pipeline.ask()
    pipeline.connection.close()
    assert refusal_of(work).reason is Reason.UPSTREAM_BROKEN
    assert pipeline.event().attempts == 1


def test_no_timer_is_left_when_all_is_done() -> None:
    pipeline = Pipeline()
    pipeline.ask()
    pipeline.connection.send(answered())
    pipeline.generation.retire()
    pipeline.endpoint.settle()
    assert not pipeline.clock.getDelayedCalls()


def test_the_generation_closes_when_its_last_request_is_done() -> None:
    pipeline = Pipeline()
    pipeline.ask()
    pipeline.generation.retire()
    assert not pipeline.connection.closing
    pipeline.connection.send(answered())
    assert pipeline.connection.closing
    assert pipeline.generation.in_use == 0


def test_a_gzipped_answer_is_metered_and_passes_untouched() -> None:
    pipeline = Pipeline()
    client, _ = pipeline.ask()
    body = gzip.compress(json.dumps({"usage": {"prompt_tokens": 9, "completion_tokens": 1}}).encode())
    pipeline.connection.send(answered(body).replace(b"X-Up: 1", b"Content-Encoding: gzip"))
    assert client.body == body
    assert pipeline.event().tokens_in == 9


PIECES = st.lists(
    st.sampled_from(
        [
            b"data: ",
            b"\n\n",
            b"\r\n",
            b'{"usage":{"prompt_tokens":3}}',
            b'"usage"',
            b"[DONE]",
            b"\xff\x00",
            b"event: x\n",
        ]
    )
    | st.binary(max_size=40),
    max_size=12,
)


@pytest.mark.slow
@given(pieces=PIECES, content_type=st.sampled_from([b"text/event-stream", b"application/json", b"image/png"]))
def test_whatever_pieces_an_answer_comes_in_the_client_receives_its_bytes(
    pieces: list[bytes], content_type: bytes
) -> None:
    pipeline = Pipeline()
    client, work = pipeline.ask()
    pipeline.connection.send(
        b"HTTP/1.1 200 OK\r\nContent-Type: %b\r\nTransfer-Encoding: chunked\r\n\r\n" % content_type
    )
    for piece in pieces:
        if piece:
            pipeline.connection.send(b"%x\r\n%b\r\n" % (len(piece), piece))
    assert client.body == b"".join(pieces)
    assert not work.called
    pipeline.connection.send(b"0\r\n\r\n")
    assert client.finished
    assert pipeline.event().error in {None, "truncated"}  # an event stream of such bytes has no last event


@pytest.mark.parametrize(
    ("path", "target"),
    [
        ("/v1/tunedModels/mine:generateContent", b"/v1beta/tunedModels/mine:generateContent"),
        ("/v1beta/models/tunedModels/m%2De:generateContent", b"/v1beta/tunedModels/m%2De:generateContent"),
        ("/v1beta/models/gem/tunedModels/mine:generateContent", b"/v1beta/tunedModels/mine:generateContent"),
        ("/v1beta/models/gem/p:generateContent", b"/v1beta/models/p:generateContent"),
    ],
)
def test_tuned_models_stand_beside_the_others_at_google(path: str, target: bytes) -> None:
    pipeline = Pipeline()
    pipeline.ask(path, b"{}")
    assert pipeline.received()[0] == b"POST " + target + b" HTTP/1.1"


def test_every_model_of_the_body_follows_the_path_or_its_own_prefix() -> None:
    pipeline = Pipeline()
    sent = [b"models/gem/p", b"x", b"gem/p", b"models/gem/p", b"gem/other"] * 300
    body = b'{"requests":[' + b", ".join(b'{"model" :"%b"}' % model for model in sent) + b"]}"
    pipeline.ask("/v1beta/models/gem/p:batchEmbedContents", body)
    expected = body.replace(b'"gem/p"', b'"p"').replace(b'"models/gem/p"', b'"models/p"')
    expected = expected.replace(b'"gem/other"', b'"other"')
    assert pipeline.received()[2] == expected


def test_a_version_that_an_operator_removes_stays_removed() -> None:
    provider = "{kind: anthropic, api_key: k, headers: {remove: [anthropic-version]}}"
    pipeline = Pipeline(f"providers: {{claude: {provider}}}\ndefaults: {{anthropic_dialect: claude}}")
    pipeline.ask("/v1/messages", b'{"model":"m"}', [(b"anthropic-version", b"2023-06-01")])
    assert value_of(pipeline.received()[1], b"anthropic-version") is None


def test_a_request_shows_neither_its_headers_nor_its_body_nor_its_query() -> None:
    request = ClientRequest(
        b"POST",
        b"/v1/messages",
        b"access_token=canary-7f3a",
        [(b"Authorization", b"Bearer canary-7f3a")],
        None,
        "/v1",
        None,
    )
    assert "canary" not in repr(request)
    assert "canary" not in repr(RequestBody(b"canary", b"canary", None))


@pytest.mark.parametrize(
    ("query", "headers", "host", "sent_query"),
    [
        (None, [], b"openai.example", b""),
        (b"provider=host&x=%7e", [], b"host.example", b"?x=%7e"),
        (None, [(b"X-Provider", b"host")], b"host.example", b""),
    ],
)
def test_a_request_without_a_model_chooses_its_provider(
    query: bytes | None, headers: list[tuple[bytes, bytes]], host: bytes, sent_query: bytes
) -> None:
    pipeline = Pipeline()
    pipeline.ask("/v1/responses", b'{"input":"x"}', headers, query)
    line, sent, _ = pipeline.received()
    assert line == b"POST /v1/responses%b HTTP/1.1" % sent_query
    assert value_of(sent, b"host") == host
    assert value_of(sent, b"x-provider") is None


@pytest.mark.parametrize(
    ("name", "reason"), [("nobody", Reason.UNKNOWN_MODEL), ("claude", Reason.UNSUPPORTED_BY_KIND)]
)
def test_a_provider_that_cannot_serve_is_refused(name: str, reason: Reason) -> None:
    pipeline = Pipeline()
    _, work = pipeline.ask("/v1/responses", b"{}", query=f"provider={name}".encode())
    assert refusal_of(work).reason is reason


def test_a_parameter_named_provider_travels_on_where_the_model_decides() -> None:
    pipeline = Pipeline()
    pipeline.ask(query=b"provider=host")
    line, headers, _ = pipeline.received()
    assert line == b"POST /v1/chat/completions?provider=host HTTP/1.1"
    assert value_of(headers, b"host") == b"openai.example"


def test_an_upstreams_word_for_the_request_id_gives_way_to_ours() -> None:
    pipeline = Pipeline()
    client, _ = pipeline.ask()
    pipeline.connection.send(answered().replace(b"X-Up: 1", b"X-Gateway-Request-Id: theirs"))
    assert [value for name, value in client.headers if name.lower() == b"x-gateway-request-id"] == [b"req_1"]


def test_a_gzipped_answer_that_swells_is_not_metered_and_passes_untouched() -> None:
    pipeline = Pipeline()
    client, _ = pipeline.ask(headers=[(b"Accept-Encoding", b"gzip")])
    usage = json.dumps({"usage": {"prompt_tokens": 9, "completion_tokens": 1}}).encode()
    body = gzip.compress(usage + b" " * 5_000_000)
    pipeline.connection.send(answered(body).replace(b"X-Up: 1", b"Content-Encoding: gzip"))
    assert client.body == body
    assert pipeline.event().tokens_in is None


def test_a_model_with_an_endless_name_is_refused() -> None:
    pipeline = Pipeline()
    _, work = pipeline.ask(body=b'{"model":"main/%b"}' % (b"m" * 5000))
    failures: list[Any] = []
    _ = work.addErrback(failures.append)
    assert failures[0].value.reason is Reason.MALFORMED
    assert failures[0].value.param == "model"
    assert pipeline.event().model is None
