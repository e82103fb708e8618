"""A prompt that is too long is told to each client as its own vendor tells it, so that agents compact."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mgw.canonical.reply import Broke, UpstreamError
from mgw.dialects import client_side_of, provider_side_of
from mgw.dialects.dialect import ReplyContext
from mgw.nouns.vocabulary import DialectName

CHAT, RESPONSES = DialectName.OPENAI_CHAT, DialectName.OPENAI_RESPONSES
MESSAGES, GEMINI = DialectName.ANTHROPIC, DialectName.GEMINI
FITTED = (
    "This model's maximum context length is 8192 tokens. However, you requested 8246 tokens (54 in the "
    "messages, 8192 in the completion)."
)
GOOGLE = "The input token count (9) exceeds the maximum number of tokens allowed (8)."
LLAMA: dict[str, Any] = {
    "code": 400,
    "message": "the request exceeds the available context size",
    "type": "exceed_context_size_error",
    "n_prompt_tokens": 9000,
    "n_ctx": 8192,
}
REFUSED: dict[str, tuple[DialectName, int, Any, str, tuple[int | None, int | None, int | None]]] = {
    # the provider's dialect, status and body; the words and numbers in it
    "openai": (
        CHAT,
        400,
        {"error": {"message": FITTED, "type": "t", "code": None}},
        FITTED,
        (54, 8192, 8192),
    ),
    "by code alone": (
        CHAT,
        400,
        {"error": {"message": "no", "type": "x", "code": "context_length_exceeded"}},
        "no",
        (None, None, None),
    ),
    "by type alone": (
        CHAT,
        400,
        {"error": {"message": "no", "type": "context_length_exceeded", "code": "3051"}},
        "no",
        (None, None, None),
    ),
    "openrouter": (
        CHAT,
        400,
        {
            "error": {
                "message": "Provider returned error",
                "code": 400,
                "metadata": {
                    "raw": json.dumps({"error": {"message": FITTED, "code": 400}}),
                    "provider_name": "P",
                },
            }
        },
        f"Provider returned error: {FITTED}",
        (54, 8192, 8192),
    ),
    "openrouter, code within": (
        CHAT,
        502,
        {
            "error": {
                "message": "Provider returned error",
                "code": 502,
                "metadata": {"raw": {"error": {"message": "no", "code": "context_length_exceeded"}}},
            }
        },
        "Provider returned error: no",
        (None, None, None),
    ),
    "llama.cpp": (CHAT, 400, {"error": LLAMA}, LLAMA["message"], (9000, None, 8192)),
    "llama.cpp's messages": (MESSAGES, 400, {"error": LLAMA}, LLAMA["message"], (9000, None, 8192)),
    "xai": (
        CHAT,
        400,
        {"code": "x", "error": "maximum prompt length is 10 but the request contains 20 tokens."},
        "maximum prompt length is 10 but the request contains 20 tokens.",
        (20, None, 10),
    ),
    "anthropic": (
        MESSAGES,
        400,
        {
            "type": "error",
            "error": {"type": "invalid_request_error", "message": "prompt is too long: 9 tokens > 8 maximum"},
        },
        "prompt is too long: 9 tokens > 8 maximum",
        (9, None, 8),
    ),
    "bedrock": (
        MESSAGES,
        400,
        {"message": "Input is too long for requested model."},
        "Input is too long for requested model.",
        (None, None, None),
    ),
    "a host of messages, by code": (
        MESSAGES,
        400,
        {
            "type": "error",
            "error": {"type": "invalid_request_error", "code": "context_length_exceeded", "message": "no"},
        },
        "no",
        (None, None, None),
    ),
    "a host of generateContent, by code": (
        GEMINI,
        400,
        {"error": {"code": "context_length_exceeded", "status": "INVALID_ARGUMENT", "message": "no"}},
        "no",
        (None, None, None),
    ),
    "llama.cpp's words in generateContent": (
        GEMINI,
        400,
        {"error": LLAMA},
        LLAMA["message"],
        (9000, None, 8192),
    ),
    "gemini": (
        GEMINI,
        400,
        {"error": {"code": 400, "status": "INVALID_ARGUMENT", "message": GOOGLE}},
        GOOGLE,
        (9, None, 8),
    ),
}


def said(case: str) -> tuple[UpstreamError, str, tuple[int | None, int | None, int | None]]:
    dialect, status, body, words, numbers = REFUSED[case]
    return provider_side_of(dialect).parse_error(status, json.dumps(body).encode()), words, numbers


def told(client: DialectName, error: UpstreamError) -> tuple[int, dict[str, Any]]:
    status, body = client_side_of(client).render_error(error, "req_1")
    found: dict[str, Any] = json.loads(body)["error"]
    return status, found


def in_messages(words: str, numbers: tuple[int | None, int | None, int | None]) -> str:
    used, answer, limit = numbers
    if used is None or limit is None:
        own = "prompt is too long"
    elif answer is not None and used <= limit:
        own = f"input length and `max_tokens` exceed context limit: {used} + {answer} > {limit}"
    else:
        own = f"prompt is too long: {used} tokens > {limit} maximum"
    return words if words == own else f"{own} ({words})"


@pytest.mark.parametrize("case", REFUSED)
def test_clients_of_messages_read_anthropics_words(case: str) -> None:
    error, words, numbers = said(case)
    assert told(MESSAGES, error) == (
        400,
        {"type": "invalid_request_error", "message": in_messages(words, numbers)},
    )


@pytest.mark.parametrize("case", REFUSED)
@pytest.mark.parametrize("client", [CHAT, RESPONSES])
def test_clients_of_openais_apis_read_its_code(client: DialectName, case: str) -> None:
    error, words, _ = said(case)
    assert told(client, error) == (
        400,
        {"type": "invalid_request_error", "code": "context_length_exceeded", "message": words, "param": None},
    )


@pytest.mark.parametrize("case", REFUSED)
def test_clients_of_generate_content_read_googles_words(case: str) -> None:
    error, _, (used, _, limit) = said(case)
    status, found = told(GEMINI, error)
    assert (status, found["code"], found["status"]) == (400, 400, "INVALID_ARGUMENT")
    counted = "" if used is None else f" ({used})"
    allowed = "" if limit is None else f" ({limit})"
    assert found["message"] == (
        f"The input token count{counted} exceeds the maximum number of tokens allowed{allowed}."
    )


@pytest.mark.parametrize("client", [CHAT, RESPONSES, MESSAGES, GEMINI])
def test_a_413_stays_one(client: DialectName) -> None:
    status, found = told(client, UpstreamError(413, "prompt is too long"))
    assert status == 413
    assert found.get("type", "invalid_request_error") == "invalid_request_error"


def test_words_that_are_anthropics_already_are_not_said_twice() -> None:
    words = "input length and `max_tokens` exceed context limit: 7 + 2 > 8, decrease input length"
    assert told(MESSAGES, UpstreamError(400, words))[1]["message"] == words


EVENTS: dict[str, tuple[DialectName, bytes]] = {
    "chat": (CHAT, b'data: {"error": {"message": "maximum context length", "type": "BadRequestError"}}\n\n'),
    "chat, by code": (CHAT, b'data: {"error": {"message": "no", "code": "context_length_exceeded"}}\n\n'),
    "responses": (
        RESPONSES,
        (
            b'data: {"type": "response.failed", "response": {"status": "failed", "error": '
            b'{"code": "context_length_exceeded", "message": "no"}}}\n\n'
        ),
    ),
    "responses' error": (
        RESPONSES,
        (
            b'event: error\ndata: {"type": "error", "message": "Your input exceeds the context window of '
            b'this model."}\n\n'
        ),
    ),
    "messages": (
        MESSAGES,
        (
            b'event: error\ndata: {"type": "error", "error": {"type": "invalid_request_error", "message": '
            b'"prompt is too long"}}\n\n'
        ),
    ),
    "messages, untyped": (
        MESSAGES,
        b'event: error\ndata: {"type": "error", "error": {"message": "prompt is too long"}}\n\n',
    ),
    "gemini": (
        GEMINI,
        b'data: {"error": {"message": "it exceeds the maximum number of tokens allowed"}}\n\n',
    ),
}
SIGNS = {
    CHAT: b'"code":"context_length_exceeded"',
    RESPONSES: b'"code":"context_length_exceeded"',
    MESSAGES: b'"type":"invalid_request_error","message":"prompt is too long',
    GEMINI: b"The input token count exceeds the maximum number of tokens allowed.",
}


@pytest.mark.parametrize("client", SIGNS)
@pytest.mark.parametrize("said", EVENTS)
def test_an_error_in_a_stream_is_told_the_same_way(said: str, client: DialectName) -> None:
    dialect, event = EVENTS[said]
    (broke,) = provider_side_of(dialect).stream_reader("seed").feed(event)
    assert isinstance(broke, Broke)
    side = client_side_of(client)
    assert SIGNS[client] in side.stream_writer(ReplyContext("req_1", "m", 0)).fail(broke.error)
    status, body = side.render_error(broke.error, "req_1")  # as the first event of a stream
    assert status == 400
    assert SIGNS[client] in body.replace(b'": "', b'":"')
