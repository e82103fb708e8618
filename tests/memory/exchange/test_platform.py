"""Requests without a model, with several, or with one in a form: where they go, and what arrives there."""

from __future__ import annotations

import gzip
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.defer import Deferred, succeed

from mgw.nouns.errors import Reason
from mgw.usage.event import Outcome
from mgw.wire.headers import RawHeaders, value_of
from tests.support.configs import THREE_FAMILIES
from tests.support.deferreds import refusal_of
from tests.support.pipelines import Pipeline, answered

TWO_MORE = THREE_FAMILIES.replace(
    "defaults:",
    """  claude2: {kind: anthropic, base_url: "https://second.example/v1", api_key: sk-ant-0005}
  gem2: {kind: gemini, base_url: "https://gem2.example/v1beta", api_key: AIza-0006}
defaults:""",
)
ANTHROPIC: RawHeaders = [(b"anthropic-version", b"2023-06-01")]
JSON: RawHeaders = [(b"Content-Type", b"application/json")]
FORM: RawHeaders = [(b"Content-Type", b"multipart/form-data; boundary=xyz")]


class Kept:
    """A body that is kept somewhere else than in memory."""

    digest = None

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.most = 0

    @property
    def size(self) -> int:
        return len(self.data)

    def read(self, position: int, size: int) -> Deferred[bytes]:
        self.most = max(self.most, size)
        return succeed(self.data[position : position + size])


def form(*parts: tuple[str, bytes], boundary: str = "xyz") -> bytes:
    pieces = [
        f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n'.encode() + value + b"\r\n"
        for name, value in parts
    ]
    return b"".join(pieces) + f"--{boundary}--\r\n".encode()


@pytest.mark.parametrize(
    ("query", "headers", "host", "target"),
    [
        (None, [], b"openai.example", b"/v1/files"),
        (b"provider=host", [], b"host.example", b"/v1/files"),
        (None, [(b"X-Provider", b"host")], b"host.example", b"/v1/files"),
        (b"provider=main", [(b"X-Provider", b"host")], b"openai.example", b"/v1/files"),
        (b"a=%7e&provider=host&b", [], b"host.example", b"/v1/files?a=%7e&b"),
        (b"purpose=x", ANTHROPIC, b"anthropic.example", b"/v1/files?purpose=x"),
        (b"key=AIza&pageSize=2", [], b"gemini.example", b"/v1beta/files?key=AIza&pageSize=2"),
    ],
)
def test_the_client_or_the_default_says_which_provider_serves(
    query: bytes | None, headers: RawHeaders, host: bytes, target: bytes
) -> None:
    pipeline = Pipeline()
    pipeline.ask("/v1/files", b"", headers, query, method="GET")
    line, sent, body = pipeline.received()
    assert line == b"GET " + target + b" HTTP/1.1"
    assert value_of(sent, b"host") == host
    assert value_of(sent, b"x-provider") is None
    assert body == b""


@pytest.mark.parametrize(
    ("path", "query", "headers", "reason"),
    [
        ("/v1/vector_stores", b"provider=claude", [], Reason.UNSUPPORTED_BY_KIND),
        ("/v1/files", b"provider=claude", [(b"OpenAI-Beta", b"x")], Reason.UNSUPPORTED_BY_KIND),
        ("/v1/files", b"provider=main", ANTHROPIC, Reason.UNSUPPORTED_BY_KIND),
        ("/v1/files", b"provider=nobody", [], Reason.UNKNOWN_MODEL),
    ],
)
def test_a_provider_of_another_family_is_refused_by_name(
    path: str, query: bytes, headers: RawHeaders, reason: Reason
) -> None:
    pipeline = Pipeline()
    _, work = pipeline.ask(path, b"", headers, query, method="GET")
    error = refusal_of(work)
    assert error.reason is reason
    assert error.param == "provider"
    assert not pipeline.endpoint.connections
    assert pipeline.event().status is Outcome.REJECTED


@pytest.mark.parametrize(
    ("path", "body", "query", "host", "arrives"),
    [
        ("/v1/assistants", b'{"model" : "gpt-9","x":1e400}', None, b"openai.example", b"gpt-9"),
        ("/v1/assistants", b'{"model" : "fast","x":1e400}', None, b"openai.example", b"gpt-b"),
        ("/v1/assistants", b'{"model" : "host/m/x","x":1e400}', None, b"host.example", b"m/x"),
        ("/v1/assistants", b'{"model" : "gpt-9","x":1e400}', b"provider=host", b"host.example", b"gpt-9"),
        ("/v1/assistants", b'{"model" : "fast","x":1e400}', b"provider=host", b"openai.example", b"gpt-b"),
        ("/v1/realtime/client_secrets", b'{"session":{"model" : "fast"}}', None, b"openai.example", b"gpt-b"),
        ("/v1/evals/e/runs", b'{"data_source":{"model" : "host/q"}}', None, b"host.example", b"q"),
        ("/v1/images/generations", b'{"model" : "fast"}', b"provider=host", b"openai.example", b"gpt-b"),
        ("/v1/images/generations", b'{"model" : "dall"}', b"provider=mute", b"openai.example", b"dall"),
        ("/v1beta/cachedContents", b'{"model" : "models/gem/p"}', None, b"gemini.example", b"models/p"),
    ],
)
def test_a_model_in_a_body_is_replaced_at_its_place_and_chooses_by_alias_or_prefix(
    path: str, body: bytes, query: bytes | None, host: bytes, arrives: bytes
) -> None:
    pipeline = Pipeline()
    pipeline.ask(path, body, JSON, query)
    line, headers, sent = pipeline.received()
    assert value_of(headers, b"host") == host
    before, _, rest = body.partition(b' : "')
    assert sent == before + b' : "' + arrives + b'"' + rest.partition(b'"')[2]
    if query is not None and path == "/v1/assistants":
        assert b"provider" not in line


def test_a_platform_body_without_a_model_goes_as_it_is() -> None:
    for body in (b'{"name":"x"}', b'{"model":{"id":7}}', b""):
        pipeline = Pipeline()
        pipeline.ask("/v1/assistants/asst_1", body, JSON)
        assert pipeline.received()[2] == body


def test_models_of_two_providers_in_one_body_are_refused_by_place() -> None:
    pipeline = Pipeline()
    body = b'{"session":{"model":"fast","audio":{"input":{"transcription":{"model":"host/w"}}}}}'
    _, work = pipeline.ask("/v1/realtime/client_secrets", body, JSON)
    error = refusal_of(work)
    assert (error.reason, error.param) == (Reason.MALFORMED, "session.audio.input.transcription.model")


def batch(*models: str) -> bytes:
    requests = [
        {"custom_id": str(at), "params": {"model": model, "n": at}} for at, model in enumerate(models)
    ]
    return json.dumps({"requests": requests}).encode()


@pytest.mark.slow
@given(
    models=st.lists(st.sampled_from(["smart", "claude/claude-y", "claude-z", "claude/a/b"]), max_size=6),
    spaces=st.sampled_from([b"", b" ", b"\r\n\t"]),
)
def test_each_model_of_a_batch_is_replaced_and_nothing_else(models: list[str], spaces: bytes) -> None:
    known = {"smart": "claude-x", "claude/claude-y": "claude-y", "claude/a/b": "a/b"}
    pipeline = Pipeline()
    pipeline.ask("/v1/messages/batches", spaces + batch(*models) + spaces, ANTHROPIC)
    expected = spaces + batch(*(known.get(model, model) for model in models)) + spaces
    assert pipeline.received()[2] == expected


@pytest.mark.parametrize(
    ("models", "query", "name", "index"),
    [
        (["claude-z", "claude2/x"], None, "claude", 1),
        (["claude2/x", "smart"], b"provider=claude2", "claude2", 1),
        (["claude2/x"], None, "claude", 0),
    ],
)
def test_a_batch_goes_to_the_chosen_provider_alone(
    models: list[str], query: bytes | None, name: str, index: int
) -> None:
    pipeline = Pipeline(TWO_MORE)
    _, work = pipeline.ask("/v1/messages/batches", batch(*models), ANTHROPIC, query)
    error = refusal_of(work)
    assert error.reason is Reason.MALFORMED
    assert error.param == f"requests[{index}].params.model"
    assert repr(name) in error.message


def test_a_batch_goes_to_providers_of_its_family_only() -> None:
    pipeline = Pipeline()
    _, work = pipeline.ask("/v1/messages/batches", batch("x"), ANTHROPIC, b"provider=main")
    assert refusal_of(work).reason is Reason.UNSUPPORTED_BY_KIND


def test_a_batch_in_gemini_repeats_the_model_of_its_path() -> None:
    pipeline = Pipeline()
    body = b'{"batch":{"inputConfig":{"requests":{"requests":[{"request":{"model":"models/gem/p"}}]}}}}'
    pipeline.ask("/v1beta/models/gem/p:batchGenerateContent", body, JSON)
    line, _, sent = pipeline.received()
    assert line == b"POST /v1beta/models/p:batchGenerateContent HTTP/1.1"
    assert sent == body.replace(b"models/gem/p", b"models/p")


@pytest.mark.parametrize(
    ("path", "body", "name"),
    [
        ("/v1beta/models/gem2/p:batchGenerateContent", b'{"batch":{"model":"models/gem/x"}}', "batch.model"),
        (
            "/v1beta/models/p:asyncBatchEmbedContent",
            b'{"batch":{"inputConfig":{"requests":{"requests":[{},{"request":{"model":"gem2/p"}}]}}}}',
            "batch.inputConfig.requests.requests[1].request.model",
        ),
    ],
)
def test_a_batch_in_gemini_names_models_of_one_provider(path: str, body: bytes, name: str) -> None:
    pipeline = Pipeline(TWO_MORE)
    _, work = pipeline.ask(path, body, JSON)
    error = refusal_of(work)
    assert (error.reason, error.param) == (Reason.MALFORMED, name)
    assert not pipeline.endpoint.connections


def test_each_model_of_a_batch_in_gemini_is_told_as_its_provider_knows_it() -> None:
    pipeline = Pipeline()
    body = b'{"batch":{"model":"models/gem/p","inputConfig":{"requests":{"requests":[%b]}}}}'
    named = b'{"request":{"model":"models/gem/other"}}, {"request":{"model":"gem/p"}}, {"request":{}}'
    pipeline.ask("/v1beta/models/gem/p:batchGenerateContent", body % named, JSON)
    assert pipeline.received()[2] == (body % named).replace(b"gem/", b"")


def test_a_provider_that_the_client_names_takes_a_bare_model_of_a_path() -> None:
    for query, headers in ((b"provider=host", []), (None, [(b"X-Provider", b"host")])):
        pipeline = Pipeline()
        pipeline.ask("/v1/models/ft:gpt:acme::abc", b"", headers, query, method="DELETE")
        line, sent, _ = pipeline.received()
        assert line == b"DELETE /v1/models/ft:gpt:acme::abc HTTP/1.1"
        assert value_of(sent, b"host") == b"host.example"


@pytest.mark.parametrize("kept", [False, True], ids=["memory", "elsewhere"])
@pytest.mark.parametrize(
    ("model", "host", "arrives"),
    [(b"whisper-1", b"openai.example", b"whisper-1"), (b"fast", b"openai.example", b"gpt-b")],
)
def test_a_form_keeps_every_byte_but_its_model(kept: bool, model: bytes, host: bytes, arrives: bytes) -> None:
    pipeline = Pipeline()
    audio = bytes(range(256)) * 4096
    body = form(("file", audio), ("model", model), ("prompt", b"model"))
    pipeline.ask("/v1/audio/transcriptions", Kept(body) if kept else body, FORM)
    _, headers, sent = pipeline.received()
    assert value_of(headers, b"host") == host
    assert sent == form(("file", audio), ("model", arrives), ("prompt", b"model"))


def test_a_form_without_a_model_goes_where_the_client_says() -> None:
    pipeline = Pipeline(
        THREE_FAMILIES.replace("api_key: sk-host-0002", "api_key: k, capabilities: {image_gen: true}")
    )
    pipeline.ask("/v1/images/edits", form(("prompt", b"p")), FORM, b"provider=host")
    line, headers, _ = pipeline.received()
    assert line == b"POST /v1/images/edits HTTP/1.1"
    assert value_of(headers, b"host") == b"host.example"


def test_json_in_place_of_a_form_is_read_as_such() -> None:
    pipeline = Pipeline()
    pipeline.ask("/v1/videos", b'{"model":"fast","prompt":"p"}', JSON)
    assert pipeline.received()[2] == b'{"model":"gpt-b","prompt":"p"}'


def test_the_session_of_a_call_may_be_json_alone() -> None:
    pipeline = Pipeline()
    pipeline.ask("/v1/realtime/calls", b'{"sdp":"v=0","session":{"model" : "fast"}}', JSON)
    assert pipeline.received()[2] == b'{"sdp":"v=0","session":{"model" : "gpt-b"}}'


def test_the_session_of_a_call_is_json_in_a_part() -> None:
    pipeline = Pipeline()
    body = form(("sdp", b"v=0"), ("session", b'{"type":"realtime","model" : "fast"}'))
    pipeline.ask("/v1/realtime/calls", body, FORM)
    assert pipeline.received()[2] == body.replace(b'"fast"', b'"gpt-b"')


def test_an_encoded_form_goes_as_it_came_unless_its_model_changes() -> None:
    for model, changes in ((b"whisper-1", False), (b"fast", True)):
        pipeline = Pipeline()
        plain = form(("model", model))
        sent = gzip.compress(plain, mtime=0)
        pipeline.ask("/v1/audio/transcriptions", sent, [*FORM, (b"Content-Encoding", b"gzip")])
        _, headers, arrived = pipeline.received()
        assert arrived == (form(("model", b"gpt-b")) if changes else sent)
        assert value_of(headers, b"content-encoding") == (None if changes else b"gzip")


def test_a_malformed_form_is_refused_without_a_call() -> None:
    pipeline = Pipeline()
    _, work = pipeline.ask("/v1/audio/transcriptions", b"--xyz\r\nnothing", FORM)
    assert refusal_of(work).reason is Reason.MALFORMED
    assert not pipeline.endpoint.connections


def test_a_model_that_is_deleted_is_named_as_the_provider_knows_it() -> None:
    for path, line in (
        ("/v1/models/fast", b"DELETE /v1/models/gpt-b HTTP/1.1"),
        ("/v1/models/host/ft:x:y", b"DELETE /v1/models/ft:x:y HTTP/1.1"),
        ("/v1/models/host/a%3Fb", None),
        ("/v1/models/gpt-z", b"DELETE /v1/models/gpt-z HTTP/1.1"),
    ):
        pipeline = Pipeline()
        _, work = pipeline.ask(path, b"", method="DELETE")
        if line is None:
            assert refusal_of(work).reason is Reason.MALFORMED
        else:
            assert pipeline.received()[0] == line


def test_an_operation_of_a_model_is_asked_of_whom_the_client_names() -> None:
    for query, host in ((None, b"gemini.example"), (b"provider=gem2", b"gem2.example")):
        pipeline = Pipeline(TWO_MORE)
        pipeline.ask("/v1beta/models/gem/veo/operations/op", b"", query=query, method="GET")
        line, headers, _ = pipeline.received()
        assert line == b"GET /v1beta/models/gem/veo/operations/op HTTP/1.1"
        assert value_of(headers, b"host") == host


@pytest.mark.parametrize("path", ["/v1/responses/resp_1", "/v1/threads/thread_1/runs"])
def test_what_is_fetched_again_is_not_metered_again(path: str) -> None:
    pipeline = Pipeline()
    _, work = pipeline.ask(path, b"", method="GET")
    pipeline.connection.send(answered())
    assert work.called
    event = pipeline.event()
    assert (event.tokens_in, event.tokens_out, event.modality) == (None, None, "platform")


def test_conversations_are_not_implemented_for_any_provider() -> None:
    pipeline = Pipeline()
    _, work = pipeline.ask("/v1/conversations/conv_1/items", b"", method="GET")
    error = refusal_of(work)
    assert error.reason is Reason.NOT_IMPLEMENTED
    assert not pipeline.endpoint.connections
    assert pipeline.event().http_status == 501


@pytest.mark.parametrize("path", ["/v1/images/generations", "/v1/rerank", "/v1/fine_tuning/jobs"])
@pytest.mark.parametrize(
    ("first", "last", "host", "arrives"),
    [
        ("host/dall", "gpt-image", b"openai.example", "gpt-image"),
        ("gpt-image", "fast", b"openai.example", "gpt-b"),
    ],
)
def test_of_two_models_at_one_place_the_last_counts_and_each_is_replaced(
    path: str, first: str, last: str, host: bytes, arrives: str
) -> None:
    pipeline = Pipeline()
    body = b'{"model":"%b","x":1,"model":"%b"}'
    pipeline.ask(path, body % (first.encode(), last.encode()), JSON)
    _, headers, sent = pipeline.received()
    assert value_of(headers, b"host") == host
    assert sent == body % (arrives.encode(), arrives.encode())


def test_what_chooses_a_provider_goes_no_further_though_a_model_chose_already() -> None:
    for path in ("/v1/images/generations", "/v1/moderations"):
        pipeline = Pipeline()
        pipeline.ask(path, b'{"model":"fast"}', JSON, b"a=1&provider=host")
        assert pipeline.received()[0] == f"POST {path}?a=1 HTTP/1.1".encode()
