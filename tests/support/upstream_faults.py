"""What tests of providers that fail have in common."""

from __future__ import annotations

from typing import Any

from tests.support.ledger import Ledger
from tests.support.raw_client import RawClient, RawResponse, chat
from tests.support.raw_upstream import COMPLETION, Script, Turn

LIMIT = 1.0
"""Seconds that the hasty provider may be silent."""
PIECE = (
    b'data: {"id":"c","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"x"}}]}\n\n'
)
USAGE = b'data: {"id":"c","choices":[],"usage":{"prompt_tokens":7,"completion_tokens":3}}\n\n'
DONE = b"data: [DONE]\n\n"


def ask(client: RawClient, model: str = "main/gpt-1", **fields: Any) -> RawResponse:
    client.send(chat(model, **fields))
    return client.read_response()


def upstream_error(ledger: Ledger, status: int, **more: Any) -> dict[str, Any]:
    """Return the event of a chat request that its provider failed."""
    expected: dict[str, Any] = {
        "status": "upstream_error",
        "http_status": status,
        "dialect": "openai",
        "route": "chat",
        "provider": "main",
        "model": "main/gpt-1",
        "upstream_model": "gpt-1",
        "modality": "text",
        "transport": "http",
        "attempts": 1,
        "stream": False,
        "tokens_in": None,
        "tokens_out": None,
    }
    event = ledger.one(**{**expected, **more})
    assert len(event["key_hash"]) == 12
    return event


def told(response: RawResponse, status: int) -> str:
    """Return the message of a refusal that has OpenAI's shape."""
    assert (response.status, response.whole) == (status, True)
    assert response.value(b"content-type") == b"application/json"
    assert response.value(b"x-gateway-request-id")
    error = response.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert error["type"] == {502: "upstream_error", 504: "timeout_error"}[status]
    message: str = error["message"]
    return message


def close_at_once(turn: Turn) -> None:
    assert turn.body
    turn.close()


def close_in_the_head(turn: Turn) -> None:
    assert turn.body
    turn.send(b"HTTP/1.1 200 OK\r\nContent-Ty")
    turn.close()


def saying(*pieces: bytes) -> Script:
    """Return what answers with these bytes, and closes in order."""

    def script(turn: Turn) -> None:
        assert turn.body
        turn.send(*pieces)
        turn.close()

    return script


def breaking(head: bytes, *pieces: bytes, reset: bool = False, stall: bool = False) -> Script:
    """Return what begins an answer and does not end it; each piece of it is seen by the client first."""

    def script(turn: Turn) -> None:
        assert turn.body
        turn.send(head, *pieces)
        if stall:
            turn.wait_until_left()
            turn.closed = True
        elif reset:
            turn.reset()
        else:
            turn.close()

    return script


HALF = COMPLETION[: len(COMPLETION) // 2]


KEPT = {"provider": "kept", "model": "kept/gpt-1"}
