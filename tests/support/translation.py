"""Requests and responses of an exchange between two families."""

from __future__ import annotations

import json
from typing import Any

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from mgw.nouns.errors import GatewayError
from tests.support.configs import THREE_FAMILIES
from tests.support.pipelines import answered

OBSERVED = THREE_FAMILIES + "observe_dropped_fields: true\n"
MESSAGES = "/v1/messages"
HELLO = [{"role": "user", "content": "hello"}]
MESSAGE = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "claude-real",
    "content": [{"type": "text", "text": "hi"}],
    "stop_reason": "end_turn",
    "stop_sequence": None,
    "usage": {"input_tokens": 7, "output_tokens": 5, "cache_read_input_tokens": 3},
}
STREAM = b"text/event-stream; charset=utf-8"


def event(data: dict[str, Any]) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (data["type"].encode(), json.dumps(data).encode())


BEGIN = event({"type": "message_start", "message": MESSAGE | {"content": [], "stop_reason": None}})


def asked(model: str, **fields: Any) -> bytes:
    return json.dumps({"model": model, "messages": HELLO, **fields}).encode()


def said(body: dict[str, Any], status: bytes = b"200 OK") -> bytes:
    return answered(json.dumps(body).encode(), status)


def begun(*pieces: bytes) -> bytes:
    """An event stream that has not ended."""
    head = b"HTTP/1.1 200 OK\r\nContent-Type: " + STREAM + b"\r\nTransfer-Encoding: chunked\r\n\r\n"
    return head + b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces)


def failure_of(work: Deferred[None]) -> GatewayError:
    failures: list[Failure] = []
    _ = work.addErrback(failures.append)
    assert isinstance(failures[0].value, GatewayError)
    return failures[0].value
