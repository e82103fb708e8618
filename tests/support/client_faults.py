"""What tests of clients that misbehave have in common."""

from __future__ import annotations

from typing import Any

from tests.support.raw_client import RawClient

MAX_BODY = 100_000
LIMIT = 1.5
"""Seconds that the hasty gateway lets a client be silent."""
CHUNKED = b"Transfer-Encoding: chunked"
GEMINI = "/v1beta/models/gemini-1:generateContent"


def close(client: RawClient) -> None:
    client.socket.close()


CHAT_EVENT: dict[str, Any] = {
    "dialect": "openai",
    "route": "chat",
    "modality": "text",
    "transport": "http",
    "stream": False,
    "ttft_ms": None,
    "tokens_in": None,
    "tokens_out": None,
}
NOT_SENT = {"provider": None, "model": None, "upstream_model": None, "attempts": 0, "key_hash": None}
"""Of an event whose request never came as far as a provider."""


def rejected(status: int) -> dict[str, Any]:
    return {"status": "rejected", "http_status": status, **NOT_SENT, "tokens_in": None, "ttft_ms": None}


ABORTED = {"status": "client_abort", "http_status": 499}
