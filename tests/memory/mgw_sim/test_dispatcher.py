"""The desk answers whatever comes, and never with a failure of its own."""

import json
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.internet.task import Clock

from mgw_sim.api import StreamResponse, UnaryResponse
from mgw_sim.dispatcher import Dispatcher
from mgw_sim.http.parser import Head
from mgw_sim.recording import RecordedRequest, Recorder
from tests.memory.mgw_sim.client import CLAUDE, GOOGLE, KEYS, ask, post_json, result_of

CHAT: Final[dict[str, Any]] = {
    "model": "m",
    "messages": [
        {"role": "system", "content": "s"},
        {"role": "user", "content": [{"type": "text", "text": "use tool t"}]},
        {
            "role": "assistant",
            "tool_calls": [{"id": "c", "type": "function", "function": {"name": "t", "arguments": "{}"}}],
        },
        {"role": "tool", "tool_call_id": "c", "content": "r"},
    ],
    "tools": [{"type": "function", "function": {"name": "t", "parameters": {"type": "object"}}}],
    "tool_choice": {
        "type": "allowed_tools",
        "allowed_tools": {"mode": "auto", "tools": [{"type": "function", "function": {"name": "t"}}]},
    },
    "response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object"}}},
    "stop": ["x"],
    "max_tokens": 5,
    "stream": True,
    "stream_options": {"include_usage": True},
}
RESPONSE: Final[dict[str, Any]] = {
    "model": "m",
    "input": [
        {"role": "user", "content": [{"type": "input_text", "text": "hi"}]},
        {"type": "function_call", "call_id": "c", "name": "t", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c", "output": "r"},
    ],
    "tools": [{"type": "function", "name": "t", "parameters": {"type": "object"}, "strict": False}],
    "tool_choice": {"type": "function", "name": "t"},
    "text": {"format": {"type": "json_schema", "name": "n", "schema": {"type": "object"}}},
    "reasoning": {"effort": "low", "summary": "auto"},
    "include": ["reasoning.encrypted_content"],
    "stream": True,
}
MESSAGES: Final[dict[str, Any]] = {
    "model": "m",
    "max_tokens": 2000,
    "system": [{"type": "text", "text": "s"}],
    "messages": [
        {"role": "user", "content": "use tool t"},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "t", "input": {}}]},
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "c", "content": [{"type": "text", "text": "r"}]}
            ],
        },
    ],
    "tools": [{"name": "t", "input_schema": {"type": "object"}}],
    "tool_choice": {"type": "tool", "name": "t"},
    "thinking": {"type": "disabled"},
    "output_config": {
        "format": {"type": "json_schema", "schema": {"type": "object", "additionalProperties": False}}
    },
    "stop_sequences": ["x"],
    "stream": True,
}
CONTENT: Final[dict[str, Any]] = {
    "contents": [
        {"role": "user", "parts": [{"text": "use tool t"}]},
        {"role": "model", "parts": [{"functionCall": {"name": "t", "args": {}}}]},
        {"role": "user", "parts": [{"functionResponse": {"name": "t", "response": {"result": "r"}}}]},
    ],
    "system_instruction": {"parts": [{"text": "s"}]},
    "tools": [
        {
            "function_declarations": [
                {"name": "t", "parameters": {"type": "OBJECT", "properties": {"a": {"type": "STRING"}}}}
            ]
        }
    ],
    "toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["t"]}},
    "generationConfig": {
        "candidateCount": 2,
        "thinkingConfig": {"includeThoughts": True},
        "stopSequences": ["x"],
    },
}
SPOKEN: Final[dict[str, Any]] = {
    "responseModalities": ["AUDIO"],
    "speechConfig": {"voiceConfig": {"prebuiltVoiceConfig": {"voiceName": "Kore"}}},
}
CASES: Final[list[tuple[str, tuple[tuple[bytes, bytes], ...], dict[str, Any]]]] = [
    ("/v1/chat/completions", KEYS, CHAT),
    ("/v1/responses", KEYS, RESPONSE),
    ("/v1/completions", KEYS, {"model": "m", "prompt": [[1, 2]], "stream": True, "stop": "x"}),
    ("/v1/embeddings", KEYS, {"model": "m", "input": ["a"], "dimensions": 4}),
    ("/v1/moderations", KEYS, {"input": [{"type": "text", "text": "a"}]}),
    ("/v1/messages", CLAUDE, MESSAGES),
    ("/v1/messages/count_tokens", CLAUDE, {"model": "m", "messages": [{"role": "user", "content": "a"}]}),
    ("/v1beta/models/m:generateContent", GOOGLE, CONTENT),
    ("/v1beta/models/m:streamGenerateContent?alt=sse", GOOGLE, CONTENT),
    ("/v1/models/m:streamGenerateContent", GOOGLE, CONTENT),
    ("/v1beta/models/m:countTokens", GOOGLE, {"generateContentRequest": {"model": "models/m", **CONTENT}}),
    ("/v1beta/models/m:embedContent", GOOGLE, {"content": {"parts": [{"text": "a"}]}}),
    (
        "/v1beta/models/m:batchEmbedContents",
        GOOGLE,
        {"requests": [{"model": "models/m", "content": {"parts": [{"text": "a"}]}}]},
    ),
    (
        "/v1beta/models/m:batchGenerateContent",
        GOOGLE,
        {"batch": {"inputConfig": {"requests": {"requests": [{"request": CONTENT, "metadata": {}}]}}}},
    ),
    (
        "/v1beta/models/m:generateContent",
        GOOGLE,
        {"contents": CONTENT["contents"], "generationConfig": SPOKEN},
    ),
    ("/v1beta/interactions", GOOGLE, {"model": "m", "input": [{"content": [{"text": "a"}]}], "stream": True}),
    ("/v1beta/models/m:predict", GOOGLE, {"instances": [], "parameters": {"sampleCount": 2}}),
    ("/v1beta/fileSearchStores/s:importFile", GOOGLE, {"fileName": "files/f"}),
    ("/v1beta/files:register", GOOGLE, {"uris": ["gs://a"]}),
    (
        "/v1/messages/batches",
        CLAUDE,
        {"requests": [{"custom_id": "a", "params": {"model": "m", "max_tokens": 5, "messages": []}}]},
    ),
    (
        "/v1/audio/speech",
        KEYS,
        {"model": "m", "input": "a", "voice": {"id": "v"}, "response_format": "wav", "stream_format": "sse"},
    ),
    (
        "/v1/images/generations",
        KEYS,
        {"model": "gpt-image-1", "prompt": "a", "n": 2, "size": "auto", "stream": True, "partial_images": 1},
    ),
    ("/v1/images/edits", KEYS, {"model": "m", "prompt": "a", "images": [], "n": 2}),
    ("/v1/videos", KEYS, {"model": "m", "prompt": "a", "seconds": "4", "size": "720x1280"}),
    ("/v1/responses/compact", KEYS, {"model": "m", "input": RESPONSE["input"]}),
    ("/v1/responses/input_tokens", KEYS, {"model": "m", "input": "a", "tools": RESPONSE["tools"]}),
    ("/v1/rerank", KEYS, {"model": "m", "query": "a", "documents": ["a", {"text": "b"}], "top_n": 1}),
    ("/v1/ocr", KEYS, {"model": "m", "document": {"type": "document_url"}}),
    ("/v1/tokenizers/estimate-token-count", KEYS, {"model": "m", "messages": [{"content": "a"}]}),
    ("/v1/realtime/client_secrets", KEYS, {"session": {"type": "realtime", "audio": {}}}),
    ("/v1/uploads", KEYS, {"bytes": 1, "filename": "f", "mime_type": "t", "purpose": "batch"}),
    ("/v1/vector_stores", KEYS, {"name": "n", "metadata": {"a": "b"}, "stream": True}),
    ("/v1/fine_tuning/checkpoints/c/permissions", KEYS, {"project_ids": ["p"]}),
]


@pytest.mark.parametrize(("target", "headers", "body"), CASES, ids=[case[0] for case in CASES])
def test_the_pattern_of_each_route_is_answered(
    target: str, headers: tuple[tuple[bytes, bytes], ...], body: dict[str, Any]
) -> None:
    answer, _ = ask(target, json.dumps(body).encode(), headers)
    assert answer.status == 200, answer


JUNK: Final[list[Any]] = [
    *(None, True, -2, 0, 9, 1.5, "", "text", "auto", "function"),
    *([], {}, [None], [{}], ["a"], [1], [{"type": "text"}]),
    *({"type": "function"}, {"type": 1}, {"type": "tool"}, {"a": 1}),
]


def places(value: Any, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """The path of everything in a JSON value."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, item in inner for place in places(item, (*path, key)))]


def put(value: Any, path: tuple[str | int, ...], new: Any) -> Any:
    """The value with something else at a path."""
    if not path:
        return new
    made: Any = dict(value) if isinstance(value, dict) else list(value)
    made[path[0]] = put(value[path[0]], path[1:], new)
    return made


@pytest.mark.parametrize(("target", "headers", "body"), CASES, ids=[case[0] for case in CASES])
def test_junk_at_any_place_is_answered_or_refused_but_never_a_failure(
    target: str, headers: tuple[tuple[bytes, bytes], ...], body: dict[str, Any]
) -> None:
    for path in places(body):
        for junk in JUNK:
            answer, _ = ask(target, json.dumps(put(body, path, junk)).encode(), headers)
            assert answer.status in {200, 400}, (answer, path, junk)


@settings(deadline=None)
@given(data=st.data())
def test_junk_at_two_places_is_no_failure_either(data: st.DataObject) -> None:
    target, headers, body = data.draw(st.sampled_from(CASES))
    changed: Any = body
    for _ in range(2):
        changed = put(changed, data.draw(st.sampled_from(places(changed))), data.draw(st.sampled_from(JUNK)))
    answer, _ = ask(target, json.dumps(changed).encode(), headers)
    assert answer.status in {200, 400}, (answer, changed)


@given(raw=st.binary(max_size=30))
def test_bytes_that_are_no_json_are_refused(raw: bytes) -> None:
    answer, _ = ask("/v1/chat/completions", b"!" + raw)
    assert answer.status == 400


def test_the_older_version_alone_takes_sampling() -> None:
    body = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "a"}], "top_k": 3}
    newer = (*KEYS, (b"anthropic-version", b"2026-10-21"))
    assert post_json("/v1/messages", body, CLAUDE)["stop_reason"] == "end_turn"
    assert (
        post_json("/v1/messages", body, newer)["error"]["message"] == "top_k: Extra inputs are not permitted"
    )


def test_without_a_version_messages_are_refused() -> None:
    body = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "a"}]}
    assert post_json("/v1/messages", body)["error"]["message"] == "anthropic-version: header is required"


@pytest.mark.parametrize(
    ("target", "told_type"),
    [
        ("/v1/chat/completions", ("invalid_request_error",)),
        ("/v1/messages", ("authentication_error",)),
        ("/v1beta/models/m:generateContent", ("UNAUTHENTICATED",)),
    ],
)
def test_a_request_without_a_credential_is_a_401_in_the_familys_shape(
    target: str, told_type: tuple[str]
) -> None:
    answer, _ = ask(target, b"{}", ((b"content-type", b"application/json"),))
    assert answer.status == 401
    assert isinstance(answer, UnaryResponse)
    error = json.loads(answer.body)["error"]
    assert told_type[0] in {error.get("type"), error.get("status")}


def test_a_fault_that_is_not_known_is_refused() -> None:
    body = {"model": "sim-statsu-429", "messages": [{"role": "user", "content": "a"}]}
    assert "sim-statsu-429" in post_json("/v1/chat/completions", body)["error"]["message"]


def test_a_key_can_be_demanded() -> None:
    body = json.dumps({"model": "sim-key-other", "messages": [{"role": "user", "content": "a"}]}).encode()
    assert ask("/v1/chat/completions", body)[0].status == 401
    good = ((b"authorization", b"Bearer other"), KEYS[1])
    assert ask("/v1/chat/completions", body, good)[0].status == 200


def test_googles_snake_case_is_understood() -> None:
    body = {"contents": [{"parts": [{"text": "a b"}]}], "generation_config": {"max_output_tokens": 1}}
    found = post_json("/v1beta/models/m:generateContent", body, GOOGLE)
    assert found["candidates"][0]["finishReason"] == "MAX_TOKENS"


def test_googles_parameters_take_no_json_schema_words() -> None:
    schema = {"type": "OBJECT", "properties": {"a": {"type": "STRING", "const": "x"}}}
    body = {
        "contents": [{"parts": [{"text": "a"}]}],
        "tools": [{"functionDeclarations": [{"name": "t", "parameters": schema}]}],
    }
    message = post_json("/v1beta/models/m:generateContent", body, GOOGLE)["error"]["message"]
    assert message.startswith(
        'Invalid JSON payload received. Unknown name "const" at \'tools[0].function_declarations'
    )


@pytest.mark.parametrize(
    ("signature", "status"), [(None, 400), ("skip_thought_signature_validator", 200), ("Zm9yZWlnbg==", 400)]
)
def test_a_gemini_3_call_wants_its_signature_back(signature: str | None, status: int) -> None:
    call: dict[str, Any] = {"functionCall": {"name": "t", "args": {}}}
    if signature:
        call["thoughtSignature"] = signature
    contents = [
        {"role": "user", "parts": [{"text": "a"}]},
        {"role": "model", "parts": [call]},
        {"role": "user", "parts": [{"functionResponse": {"name": "t", "response": {"result": "r"}}}]},
    ]
    answer, _ = ask(
        "/v1beta/models/gemini-3-x:generateContent", json.dumps({"contents": contents}).encode(), GOOGLE
    )
    assert answer.status == status


def test_an_array_stream_is_one_json_array() -> None:
    body = json.dumps({"contents": [{"parts": [{"text": "a b c"}]}]}).encode()
    answer, _ = ask("/v1beta/models/m:streamGenerateContent", body, GOOGLE)
    assert isinstance(answer, StreamResponse)
    assert len(json.loads(b"".join(answer.pieces))) == 5
    assert json.loads(b"".join(answer.pieces[:2]) + answer.error_piece)[-1]["error"]["code"] == 503


def test_a_message_stream_has_a_ping_after_its_first_block_start() -> None:
    body = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "a"}], "stream": True}
    answer, _ = ask("/v1/messages", json.dumps(body).encode(), CLAUDE)
    assert isinstance(answer, StreamResponse)
    assert [piece.split(b"\n")[0] for piece in answer.pieces[:3]] == [
        b"event: message_start",
        b"event: content_block_start",
        b"event: ping",
    ]


def test_a_flaky_model_recovers_after_its_failures() -> None:
    clock, recorder = Clock(), Recorder()
    desk = Dispatcher(clock, recorder, lambda: 0.0)
    body = json.dumps({"model": "sim-flaky-503-2", "messages": [{"role": "user", "content": "a"}]}).encode()
    statuses = []
    for _ in range(3):
        head = Head(b"POST", b"/v1/chat/completions", b"HTTP/1.1", KEYS)
        answer, _faults = result_of(desk.answer(RecordedRequest(1, 1, head, bytearray(body))))
        statuses.append(answer.status)
    assert statuses == [503, 503, 200]
