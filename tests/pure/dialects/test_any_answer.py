"""Whatever JSON a provider answers, nothing but a refusal of the gateway's own comes of it.

The keys are the vendors', so that the readers go far; what stands under them is anything.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, note
from hypothesis import strategies as st

from mgw.canonical.embedding import EmbeddingRequest
from mgw.canonical.reply import Broke, UpstreamError
from mgw.canonical.speech import SpeechRequest
from mgw.dialects import client_side_of, provider_side_of
from mgw.dialects.dialect import ProviderSide, ReplyContext, ReplySource
from mgw.dialects.refusal import AnswerError
from mgw.nouns.errors import GatewayError, Reason
from mgw.nouns.vocabulary import DialectName

DIALECTS = (
    DialectName.OPENAI_CHAT,
    DialectName.OPENAI_RESPONSES,
    DialectName.ANTHROPIC,
    DialectName.GEMINI,
)
KEYS = st.sampled_from(
    [
        "error",
        "errors",
        "message",
        "messages",
        "type",
        "code",
        "status",
        "details",
        "metadata",
        "raw",
        "choices",
        "delta",
        "content",
        "text",
        "tool_calls",
        "function",
        "name",
        "arguments",
        "id",
        "finish_reason",
        "stop_reason",
        "usage",
        "prompt_tokens",
        "output_tokens",
        "candidates",
        "parts",
        "functionCall",
        "inlineData",
        "data",
        "thoughtSignature",
        "finishReason",
        "usageMetadata",
        "output",
        "response",
        "item",
        "output_index",
        "content_block",
        "index",
        "annotations",
        "citations",
        "detail",
        "fault",
        "base_resp",
        "x_groq",
        "promptFeedback",
        "blockReason",
        "embedding",
        "embeddings",
        "images",
    ]
)
WORDS = st.sampled_from(
    [
        "error",
        "message_start",
        "message_delta",
        "message_stop",
        "content_block_start",
        "content_block_delta",
        "text",
        "text_delta",
        "tool_use",
        "thinking",
        "response.created",
        "response.completed",
        "response.failed",
        "response.output_item.added",
        "message",
        "completed",
        "failed",
        "function_call",
        "stop",
        "STOP",
        "prompt_is_too_long",
    ]
)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5)
    | WORDS
)
ANYTHING = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)
NESTED = (b"[" * 5000, b'{"error":' * 3000 + b"1" + b"}" * 3000)
DOCUMENTS = ANYTHING.map(lambda value: json.dumps(value).encode()) | st.sampled_from(NESTED)
EVENTS = st.sampled_from(
    ["", "error", "message_start", "message_delta", "response.failed", "response.completed"]
)
each_dialect = pytest.mark.parametrize("dialect", DIALECTS)
CONTEXT = ReplyContext("req_1", "m", 0)


def is_told_to_everybody(error: UpstreamError) -> None:
    assert error.message
    for name in DIALECTS:
        side = client_side_of(name)
        status, body = side.render_error(error, "req_1")
        assert 400 <= status < 600
        json.loads(body)
        side.stream_writer(CONTEXT).fail(error)


def is_a_bad_gateway(error: GatewayError) -> None:
    assert error.reason is Reason.UPSTREAM_BROKEN


def parsers(side: ProviderSide) -> list[Any]:
    operations: list[Any] = [(side.text, None), (side.count, None)]
    operations.append((side.embedding, EmbeddingRequest(("a",))))
    operations.append((side.speech, SpeechRequest("hi", None)))
    return [(operation.parse_reply, request) for operation, request in operations if operation is not None]


@given(body=DOCUMENTS)
def test_any_whole_answer_is_an_answer_or_a_bad_gateway(body: bytes) -> None:
    for parse, request in (one for dialect in DIALECTS for one in parsers(provider_side_of(dialect))):
        note(parse.__module__)
        try:
            parse(body, ReplySource("seed", request=request))
        except AnswerError as refused:
            is_told_to_everybody(refused.error)
        except GatewayError as error:
            is_a_bad_gateway(error)
        except RecursionError:  # the exchange says that it is nested too deeply
            assert body in NESTED


@given(body=DOCUMENTS, status=st.integers(400, 599))
def test_any_refusal_keeps_its_status_and_is_told_in_words(body: bytes, status: int) -> None:
    for dialect in DIALECTS:
        note(dialect)
        error = provider_side_of(dialect).parse_error(status, body)
        assert error.status == status
        is_told_to_everybody(error)


@each_dialect
@pytest.mark.parametrize(
    "body", [b"", b"{}", b"[]", b"null", b'""', b'{"error":{}}', b'{"error":null}', b"\xff"]
)
@pytest.mark.parametrize("status", [404, 418, 500])
def test_a_refusal_without_words_is_told_by_its_status(
    dialect: DialectName, body: bytes, status: int
) -> None:
    assert str(status) in provider_side_of(dialect).parse_error(status, body).message


@given(events=st.lists(st.tuples(EVENTS, DOCUMENTS), max_size=4))
def test_any_stream_is_events_or_a_bad_gateway(events: list[tuple[str, bytes]]) -> None:
    data = b"".join(
        (f"event: {name}\n".encode() if name else b"") + b"data: %b\n\n" % body for name, body in events
    )
    for dialect in DIALECTS:
        note(dialect)
        is_read_or_refused(dialect, data)


def is_read_or_refused(dialect: DialectName, data: bytes) -> None:
    reader = provider_side_of(dialect).stream_reader("seed")
    writers = [client_side_of(name).stream_writer(CONTEXT) for name in DIALECTS]
    try:
        found = reader.feed(data) + reader.finish()
    except GatewayError as error:
        is_a_bad_gateway(error)
        return
    for event in found:
        if isinstance(event, Broke):
            is_told_to_everybody(event.error)
    for writer in writers:
        writer.write(found)
        writer.finish()


WRONG = [b'["what"]', b'"what"', b'{"error":{"message":"what"}}', b'{"error":"what"}', b'{"message":"what"}']


@each_dialect
@pytest.mark.parametrize("body", WRONG)
def test_an_error_without_a_status_in_an_answer_stands_for_a_bad_gateway(
    dialect: DialectName, body: bytes
) -> None:
    with pytest.raises(GatewayError) as refused:
        provider_side_of(dialect).text.parse_reply(body, ReplySource("seed"))
    assert refused.value.status == 502
    if isinstance(refused.value, AnswerError):
        assert refused.value.error.status == 502
