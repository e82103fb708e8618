"""What Bedrock answers, as Anthropic would have said it."""

from __future__ import annotations

import json
from base64 import b64encode
from typing import Any, Final

import pytest
from botocore.loaders import Loader
from hypothesis import given
from hypothesis import strategies as st

from mgw.dialects.anthropic.errors import render_error
from mgw.dialects.refusal import AnswerError
from mgw.nouns.errors import Cause, GatewayError, Reason
from mgw.nouns.vocabulary import Operation
from mgw.upstream.unframing import Unframing
from mgw.upstream.wires.bedrock import WIRE
from mgw.upstream.wires.bedrock_answers import (
    BedrockCount,
    BedrockEvents,
    is_access_denied,
    read_error,
)
from mgw.upstream.wires.wire import VendorCall
from mgw.wire.media_types import AMAZON_EVENT_STREAM
from tests.support.calls import count_calls
from tests.support.event_streams import (
    chunk_frame,
    error_frame,
    event_frame,
    exception_frame,
    frame,
    text_header,
)

STOP: Final = chunk_frame(b'{"type":"message_stop"}')
STOPPED: Final = b'event: message_stop\ndata: {"type":"message_stop"}\n\n'
NAMES: Final = [
    ("ValidationException", 400, "invalid_request_error"),
    ("ConflictException", 400, "invalid_request_error"),
    ("ServiceQuotaExceededException", 400, "rate_limit_error"),
    ("UnrecognizedClientException", 403, "authentication_error"),
    ("InvalidSignatureException", 403, "authentication_error"),
    ("ExpiredTokenException", 403, "authentication_error"),
    ("AccessDeniedException", 403, "permission_error"),
    ("ResourceNotFoundException", 404, "not_found_error"),
    ("ModelTimeoutException", 408, "timeout_error"),
    ("ThrottlingException", 429, "rate_limit_error"),
    ("ModelNotReadyException", 429, "rate_limit_error"),
    ("ServiceUnavailableException", 503, "overloaded_error"),
    ("ModelErrorException", 424, "api_error"),
    ("ModelStreamErrorException", 424, "api_error"),
    ("InternalServerException", 500, "api_error"),
]


def events(*data: bytes) -> bytes:
    unframer = BedrockEvents()
    found = [event for piece in data for event in unframer.feed(piece)]
    return b"".join([*found, unframer.finish()])


def broken(*data: bytes) -> tuple[bytes, GatewayError]:
    """Return what came before a break, and the break."""
    unframing, found = Unframing(BedrockEvents()), b""
    for piece in data:
        found += unframing.feed(piece, ends=False)
        if unframing.fault is not None:
            return found, unframing.fault
    found += unframing.feed(b"", ends=True)
    assert unframing.fault is not None
    return found, unframing.fault


# Streams


@given(
    documents=st.lists(
        st.dictionaries(st.text(max_size=4), st.one_of(st.text(max_size=8), st.integers()), max_size=3)
    ),
    kinds=st.lists(st.sampled_from(["content_block_delta", "ping", "message_start"]), max_size=12),
    spaced=st.booleans(),
)
def test_events_pass_byte_for_byte(documents: list[dict[str, Any]], kinds: list[str], spaced: bool) -> None:
    pairs = [
        (
            kind,
            json.dumps(
                {**document, "type": kind}, ensure_ascii=False, separators=None if spaced else (",", ":")
            ),
        )
        for document, kind in zip(documents, kinds, strict=False)
    ]
    frames = b"".join(chunk_frame(data.encode(), p="abcdef") for _, data in pairs)
    expected = "".join(f"event: {kind}\ndata: {data}\n\n" for kind, data in pairs)
    assert events(frames + STOP) == expected.encode() + STOPPED


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b'{"type":"ping",\r\n "a": "b\\n"}', b'event: ping\ndata: {"type":"ping", "a": "b\\n"}\n\n'),
        (b'{"ty\\u0070e":"ping"}', b'event: ping\ndata: {"ty\\u0070e":"ping"}\n\n'),
        (b'{"type":"x","a":"\\ud83d"}', b'event: x\ndata: {"type":"x","a":"\\ud83d"}\n\n'),
        (b'{"a":{"type":"x"}}', b""),
        (b'{"type":7}', b""),
        (b'{"type":""}', b""),
        (b'{"type":"a\\nb"}', b""),
        (b'{"completion":"x"}', b""),
        (b"[]", b""),
        (b"no JSON", b""),
        (b"", b""),
    ],
)
def test_the_type_of_an_event_stands_before_it_and_what_has_none_is_skipped(
    data: bytes, expected: bytes
) -> None:
    assert events(chunk_frame(data), STOP) == expected + STOPPED


def test_what_is_no_event_of_the_model_is_skipped() -> None:
    others = [
        event_frame("initial-response", b"{}"),
        event_frame("chunk", b'{"p":"abc"}'),
        event_frame("chunk", b'{"bytes":""}'),
        frame(b"x", text_header(":message-type", "other")),
        frame(b""),
    ]
    assert events(*others, STOP) == STOPPED


def test_a_frame_that_means_nothing_is_no_part_of_a_frame_that_grows() -> None:
    unframing, skipped = Unframing(BedrockEvents()), event_frame("other", bytes(1024 * 1024))
    for _ in range(40):
        assert unframing.feed(skipped, ends=False) == b""
    assert unframing.fault is None


@pytest.mark.parametrize(
    "payload", [b"", b"[]", b"no JSON", b'{"bytes":7}', b'{"bytes":"a"}', b'{"bytes":"?==="}']
)
def test_a_payload_that_cannot_be_read_is_a_break(payload: bytes) -> None:
    found, error = broken(STOP, event_frame("chunk", payload))
    assert (found, error.reason, error.cause) == (STOPPED, Reason.UPSTREAM_BROKEN, Cause.UNREADABLE)


@pytest.mark.parametrize(
    ("name", "status", "vendor_type"), [*NAMES, ("SomethingElse", 500, "api_error"), ("", 500, "api_error")]
)
def test_an_exception_in_a_frame_is_the_refusal_that_its_name_stands_for(
    name: str, status: int, vendor_type: str
) -> None:
    small = name[:1].lower() + name[1:]
    for exception in (
        exception_frame(small, "so it is"),
        exception_frame(name, "so it is", "Message"),
        error_frame(name, "so it is"),
    ):
        found, error = broken(chunk_frame(b'{"type":"ping"}') + exception + STOP)
        assert found == b'event: ping\ndata: {"type":"ping"}\n\n'
        assert isinstance(error, AnswerError)
        assert (error.error.status, error.error.vendor_type) == (status, vendor_type)
        assert (error.error.message, error.error.code) == ("so it is", name or "InternalServerException")
        assert (error.cause, error.provider_message) == (Cause.UPSTREAM_ERROR_EVENT, "so it is")


def test_an_exception_without_a_message_is_one_all_the_same() -> None:
    for exception in (
        exception_frame("throttlingException", ""),
        frame(b"", text_header(":message-type", "exception")),
    ):
        _, error = broken(exception)
        assert isinstance(error, AnswerError)
        assert error.provider_message is None
        assert error.error.message


def test_an_exception_that_is_too_long_says_nothing_but_its_name() -> None:
    _, error = broken(exception_frame("throttlingException", "x" * 65_536))
    assert isinstance(error, AnswerError)
    assert (error.error.status, error.provider_message) == (429, None)
    assert "x" * 9 not in error.error.message


@pytest.mark.parametrize("data", [b"", chunk_frame(b'{"type":"ping"}'), STOP[:-1], STOP + b"\0"])
def test_an_end_before_the_last_event_is_a_break(data: bytes) -> None:
    _, error = broken(data)
    assert error.cause is Cause.TRUNCATED


def test_an_error_event_of_the_models_own_ends_a_stream() -> None:
    said = b'{"type":"error","error":{"type":"overloaded_error","message":"x"}}'
    assert events(chunk_frame(said)) == b"event: error\ndata: %b\n\n" % said


@pytest.mark.parametrize("content_type", [b"text/html", b"application/json", b"text/event-stream", b""])
def test_a_stream_of_another_media_type_is_a_break(content_type: bytes) -> None:
    assert WIRE.unframe is not None
    with pytest.raises(GatewayError) as caught:
        WIRE.unframe(VendorCall(Operation.CHAT, b"POST", b"/messages", stream=True), content_type)
    assert caught.value.reason is Reason.UPSTREAM_BROKEN


def test_what_is_unframed_says_what_it_is() -> None:
    assert WIRE.unframe is not None
    stream = VendorCall(Operation.CHAT, b"POST", b"/messages", stream=True)
    found = WIRE.unframe(stream, AMAZON_EVENT_STREAM + b"; charset=x")
    assert found is not None
    assert found.content_type == b"text/event-stream; charset=utf-8"
    assert WIRE.unframe(VendorCall(Operation.CHAT, b"POST", b"/messages"), b"application/json") is None


def test_a_frame_takes_at_most_fourteen_calls() -> None:
    delta = b'{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"word"}}'
    data = [chunk_frame(delta, p="abcdefgh")] * 100
    unframing = Unframing(BedrockEvents())
    unframing.feed(data[0], ends=False)
    assert count_calls(lambda: [unframing.feed(piece, ends=False) for piece in data]) / 100 <= 7


# Counts


@pytest.mark.parametrize("cut", range(20))
def test_a_count_is_anthropics(cut: int) -> None:
    counter, answer = BedrockCount(), b'{"inputTokens": 1203}'
    assert [*counter.feed(answer[:cut]), *counter.feed(answer[cut:])] == []
    assert counter.finish() == b'{"input_tokens":1203}'


@pytest.mark.parametrize("answer", [b"", b"{}", b'{"inputTokens":"7"}', b"[]", b"[" * 5000])
def test_what_is_no_count_is_a_break(answer: bytes) -> None:
    counter = BedrockCount()
    counter.feed(answer)
    with pytest.raises(GatewayError) as caught:
        counter.finish()
    assert caught.value.reason is Reason.UPSTREAM_BROKEN


def test_a_count_that_does_not_end_is_a_break() -> None:
    counter = BedrockCount()
    with pytest.raises(GatewayError):
        [counter.feed(bytes(10_000)) for _ in range(100)]


# Refusals


@pytest.mark.parametrize(("name", "status", "vendor_type"), NAMES)
def test_a_refusal_has_the_status_that_came_and_anthropics_type(
    name: str, status: int, vendor_type: str
) -> None:
    for headers, document in (
        ([(b"X-Amzn-ErrorType", f"{name}:http://internal.amazon.com/coral/".encode())], {"message": "m"}),
        ([], {"__type": f"com.amazon.coral.service#{name}", "Message": "m"}),
        ([], {"code": name, "message": "m"}),
    ):
        error = read_error(status, headers, json.dumps(document).encode())
        assert error is not None
        assert (error.status, error.message, error.code) == (status, "m", name)
        rendered, body = render_error(error, "req_1")
        said = {"type": "error", "error": {"type": vendor_type, "message": "m"}, "request_id": "req_1"}
        assert (rendered, json.loads(body)) == (status, said)


def test_the_statuses_are_those_of_amazons_own_model() -> None:
    model = Loader().load_service_model("bedrock-runtime", "service-2")
    statuses = {
        name: shape["error"]["httpStatusCode"]
        for name, shape in model["shapes"].items()
        if shape.get("exception")
    }
    assert {name: status for name, status, _ in NAMES if name in statuses}.items() <= statuses.items()
    assert len(statuses.keys() & {name for name, _, _ in NAMES}) == len(statuses)


def test_an_unknown_name_is_a_fault_of_the_api_with_the_status_that_came() -> None:
    error = read_error(418, [(b"x-amzn-errortype", b"TeapotException")], b"")
    assert error is not None
    assert render_error(error, "r")[0] == 418
    assert json.loads(render_error(error, "r")[1])["error"]["type"] == "api_error"


def test_a_message_alone_is_amazons() -> None:
    error = read_error(403, [], b'{"Message":"no"}')
    assert error is not None
    assert json.loads(render_error(error, "r")[1])["error"] == {"type": "permission_error", "message": "no"}
    busy = read_error(503, [], b'{"message":"later"}')
    assert busy is not None
    assert render_error(busy, "r")[0] == 503


def test_a_prompt_that_is_too_long_is_said_as_anthropic_does() -> None:
    said = b'{"message":"Input is too long for requested model."}'
    error = read_error(400, [(b"x-amzn-errortype", b"ValidationException")], said)
    assert error is not None
    assert json.loads(render_error(error, "r")[1])["error"]["message"].startswith("prompt is too long")


def test_what_anthropics_models_refuse_passes() -> None:
    assert read_error(400, [], b'{"type":"error","error":{"type":"x","message":"y"}}') is None


@pytest.mark.parametrize(
    ("status", "kind"), [(400, "invalid_request_error"), (403, "permission_error"), (503, "overloaded_error")]
)
@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", ""),
        (b"[]", ""),
        (b"{}", ""),
        (b"[" * 5000, ""),
        (b"<html><body><h1>Forbidden</h1></body></html>", ": Forbidden"),
    ],
)
def test_whatever_else_is_refused_is_said_as_anthropic_does(
    body: bytes, words: str, status: int, kind: str
) -> None:
    error = read_error(status, [], body)
    assert error is not None
    rendered, document = render_error(error, "r")
    assert (rendered, error.own_message) == (status, None)
    message = f"the upstream rejected the request with status {status}{words}"
    assert json.loads(document)["error"] == {"type": kind, "message": message}


def test_a_code_that_is_a_number_hides_no_type() -> None:
    error = read_error(400, [], b'{"code":7,"__type":"ThrottlingException"}')
    assert error is not None
    assert error.vendor_type == "rate_limit_error"


def test_a_list_that_is_refused_shows_that_the_credential_was_accepted() -> None:
    denied = [(b"x-amzn-errortype", b"AccessDeniedException")]
    assert is_access_denied(403, denied, b"")
    assert is_access_denied(403, [], b'{"__type":"AccessDeniedException"}')
    assert not is_access_denied(400, denied, b"")
    assert not is_access_denied(403, [(b"x-amzn-errortype", b"UnrecognizedClientException")], b"")


def test_nothing_is_lost_of_base64_of_any_length() -> None:
    for size in range(5):
        data = b'{"type":"x","a":"' + b"b" * size + b'"}'
        payload = b'{"bytes":"%b","p":"ab"}' % b64encode(data)
        assert events(event_frame("chunk", payload), STOP) == b"event: x\ndata: %b\n\n" % data + STOPPED
