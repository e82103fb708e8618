"""What a model writes to tools that its provider runs is counted where nobody tells the tokens."""

from __future__ import annotations

import json
from itertools import count
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mgw.dialects.hosted_calls import _LONGEST_LINE
from mgw.exchange.answer_copy import AnswerCopy
from mgw.nouns.vocabulary import DialectName
from mgw.tokens.text import estimate_text_tokens
from tests.support.chat_streams import sse
from tests.support.laws import examples

Json = dict[str, Any]  # Any: JSON
TEXT: Final = "The quick brown fox jumps over the lazy dog. " * 40
TOKENS: Final = estimate_text_tokens([TEXT])
NINES: Final = [TEXT[at : at + 9] for at in range(0, len(TEXT), 9)]
RESPONSES, ANTHROPIC, GEMINI = DialectName.OPENAI_RESPONSES, DialectName.ANTHROPIC, DialectName.GEMINI
ITEMS: Final[dict[str, Json]] = {
    "code_interpreter_call": {"code": TEXT, "outputs": [{"type": "logs", "logs": TEXT}]},
    "mcp_call": {"name": "f", "arguments": json.dumps({"text": TEXT}), "output": TEXT},
    "shell_call": {"action": {"commands": [TEXT], "timeout_ms": None}},
    "local_shell_call": {"action": {"type": "exec", "command": [TEXT], "env": {}}},
    "apply_patch_call": {"operation": {"type": "update_file", "path": "a", "diff": TEXT}},
}
BLOCKS: Final[dict[str, Json]] = {
    "server_tool_use": {"name": "code_execution", "input": {"code": TEXT}},
    "mcp_tool_use": {"name": "f", "server_name": "s", "input": {"text": TEXT}},
}
DELTAS: Final = {
    "code_interpreter_call": "response.code_interpreter_call_code.delta",
    "mcp_call": "response.mcp_call_arguments.delta",
    "shell_call": "response.shell_call_command.delta",
}


def estimate(
    dialect: DialectName, body: bytes, *, stream: bool = False, piece: int = 0, in_pieces: bool = False
) -> int:
    copy = AnswerCopy(dialect, "seed", in_pieces=in_pieces)
    copy.begin(b"text/event-stream" if stream else b"application/json", b"")
    for at in range(0, len(body), piece or len(body)):
        copy.add(body[at : at + (piece or len(body))])
    return copy.estimate(1.0)


def near(tokens: float) -> Any:  # Any: what is about a number
    return pytest.approx(tokens, rel=0.1)


def response(*items: Json, status: str = "completed") -> Json:
    return {"id": "r", "object": "response", "status": status, "output": list(items), "usage": None}


def event(kind: str, **more: Any) -> bytes:  # Any: JSON
    return b"event: %b\n%b" % (kind.encode(), sse({"type": kind, **more}))


@pytest.mark.parametrize("kind", ITEMS)
def test_items_of_whole_responses_count(kind: str) -> None:
    body = json.dumps(response({"id": "i", "type": kind, **ITEMS[kind]})).encode()
    assert estimate(RESPONSES, body) == near(TOKENS)


def responses_stream(kind: str, *, deltas: bool, end: bool = True) -> bytes:
    item = {"id": "i", "type": kind, **ITEMS[kind]}
    begun = {"id": "i", "type": kind, "code": "", "arguments": ""}
    sent = event("response.created", response=response(status="in_progress"))
    sent += event("response.output_item.added", output_index=0, item=begun)
    if deltas:
        sent += b"".join(event(DELTAS[kind], output_index=0, item_id="i", delta=piece) for piece in NINES)
    if end:
        sent += event("response.output_item.done", output_index=0, item=item)
        sent += event("response.completed", response=response(item))
    return sent


@pytest.mark.parametrize("kind", ITEMS)
def test_items_of_streamed_responses_count_once(kind: str) -> None:
    assert estimate(RESPONSES, responses_stream(kind, deltas=False), stream=True) == near(TOKENS)


@pytest.mark.parametrize("end", [True, False], ids=["whole", "broken off"])
@pytest.mark.parametrize("kind", DELTAS)
def test_their_deltas_count_once(kind: str, end: bool) -> None:
    found = estimate(RESPONSES, responses_stream(kind, deltas=True, end=end), stream=True)
    assert found == pytest.approx(TOKENS, rel=0.1)


@pytest.mark.parametrize("kind", BLOCKS)
def test_blocks_of_whole_messages_count(kind: str) -> None:
    block = {"type": kind, "id": "b", **BLOCKS[kind]}
    result = {"type": "code_execution_tool_result", "tool_use_id": "b", "content": {"stdout": TEXT}}
    body = {"id": "m", "type": "message", "role": "assistant", "model": "c", "content": [block, result]}
    assert estimate(ANTHROPIC, json.dumps(body).encode()) == near(TOKENS)


def messages_stream(kind: str, *, end: bool) -> bytes:
    message = {"id": "m", "type": "message", "role": "assistant", "model": "c", "content": []}
    block = {"type": kind, "id": "b", "name": "f", "input": {}}
    sent = event("message_start", message=message) + event(
        "content_block_start", index=0, content_block=block
    )
    for piece in NINES:
        delta = {"type": "input_json_delta", "partial_json": piece}
        sent += event("content_block_delta", index=0, delta=delta)
    if end:
        sent += event("content_block_stop", index=0)
        sent += event("message_delta", delta={"stop_reason": "end_turn"}) + event("message_stop")
    return sent


@pytest.mark.parametrize("end", [True, False], ids=["whole", "broken off"])
@pytest.mark.parametrize("kind", BLOCKS)
def test_blocks_of_streamed_messages_count(kind: str, end: bool) -> None:
    assert estimate(ANTHROPIC, messages_stream(kind, end=end), stream=True) == near(TOKENS)


def test_a_line_without_an_end_counts() -> None:
    item = {"id": "i", "type": "shell_call", **ITEMS["shell_call"]}
    sent = event("response.output_item.done", output_index=0, item=item).rstrip()
    assert estimate(RESPONSES, sent, stream=True) == near(TOKENS)


def test_calls_of_both_kinds_count_once() -> None:
    calls = messages_stream("server_tool_use", end=False)
    further = messages_stream("tool_use", end=True).replace(b'"index": 0', b'"index": 1')
    calls += further[further.index(b"event: content_block_start") :]
    assert estimate(ANTHROPIC, calls, stream=True) == near(2 * TOKENS)


def test_calls_of_clients_count_once() -> None:
    assert estimate(ANTHROPIC, messages_stream("tool_use", end=True), stream=True) == near(TOKENS)


@pytest.mark.parametrize("shape", ["whole", "stream", "array"])
@pytest.mark.parametrize(
    "part",
    [
        {"executableCode": {"language": "PYTHON", "code": TEXT}},
        {"executableCode": {"code": TEXT, "language": "PYTHON"}},
        {"executable_code": {"id": "c", "code": TEXT}},
    ],
    ids=["code last", "code first", "as in proto"],
)
def test_code_of_gemini_counts(part: Json, shape: str) -> None:
    result = {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": TEXT}}
    answer = {"candidates": [{"content": {"parts": [part, result]}, "finishReason": "STOP"}]}
    if shape == "stream":
        assert estimate(GEMINI, sse(answer), stream=True) == near(TOKENS)
    else:
        body = json.dumps([answer] if shape == "array" else answer, indent=1).encode()
        assert estimate(GEMINI, body, in_pieces=shape == "array") == near(TOKENS)


@examples(40)
@given(st.sampled_from(list(ITEMS)), st.integers(1, 90_000), st.integers(59_000, 66_000))
def test_any_cut_of_a_stream_finds_the_same(kind: str, piece: int, before: int) -> None:
    sent = b": %b\n\n" % (b"x" * before) + responses_stream(kind, deltas=False)
    assert estimate(RESPONSES, sent, stream=True, piece=piece) == estimate(RESPONSES, sent, stream=True)


def test_a_line_that_is_too_long_is_skipped() -> None:
    numbers = count()
    item = {"id": "i", "type": "code_interpreter_call", "code": TEXT * (2 * _LONGEST_LINE // len(TEXT))}
    sent = event("response.output_item.done", output_index=next(numbers), item=item)
    item = {**item, "code": TEXT}
    sent += event("response.output_item.done", output_index=next(numbers), item=item)
    assert estimate(RESPONSES, sent, stream=True, piece=9_000) == near(TOKENS)


ODD = [
    b'["server_tool_use"]',
    b'"server_tool_use"',
    b'{"server_tool_use"',
    b'{"type":["server_tool_use"]}',
    b'{"type":"content_block_start","content_block":"server_tool_use"}',
    b'{"type":"content_block_start","content_block":{"type":["server_tool_use"]}}',
    b'{"type":"content_block_start","index":[],"content_block":{"type":"server_tool_use","input":0}}',
    b'"server_tool_use\xff"',
    b"server_tool_use" + b"[" * 5000,
]


@pytest.mark.parametrize("odd", ODD)
def test_an_odd_event_says_nothing(odd: bytes) -> None:
    assert estimate(ANTHROPIC, b"data: %b\n\n" % odd, stream=True) == 0


@pytest.mark.parametrize("odd", ODD)
def test_an_odd_answer_says_nothing(odd: bytes) -> None:
    assert estimate(ANTHROPIC, b'{"content":[%b]}' % odd) == 0
