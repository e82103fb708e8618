"""What the recording upstream answers: enough for an SDK to go on where one call makes several requests.

Sources: the polling helpers of OpenAI's SDK, ``messages.batches.results`` of Anthropic's (it fetches the
address that the batch names), and Google's resumable upload (``BaseApiClient._upload_fd``): an address on
"start", then chunks until one says "finalize".
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

from tests.support.sdk_walk.records import Recorded

_THING: Final[dict[str, Any]] = {
    "id": "thing_1",
    "object": "thing",
    "status": "completed",
    "data": [],
    "has_more": False,
    "thread_id": "thread_1",
    "choices": [],
    "file_counts": {"in_progress": 0},
}
"""An object of OpenAI or Anthropic that is done, and at once an empty last page of a list."""

_BY_PATH: Final[tuple[tuple[str, str, dict[str, Any]], ...]] = (
    ("GET", r"/v1/files/[^/]+", {"status": "processed"}),  # a poll ends with it
    ("GET", r"/v1/agents/sessions/[^/]+", {"status": "idle"}),  # only then input may be submitted
    (
        "GET",
        r"/v1/agents/sessions/[^/]+/artifacts",
        {
            "data": [
                {"id": "artifact_1", "session_id": "session_1", "turn_id": "turn_1", "path": "report.txt"}
            ]
        },
    ),
    ("GET", r"/v1/messages/batches/[^/]+", {"results_url": "{origin}{path}/results"}),
    ("POST", r"/v1/messages", {"type": "message", "role": "assistant", "content": [], "usage": {}}),
    ("POST", r"/v1/tunedModels", {"name": "tunedModels/tuned-1/operations/1"}),
)
"""Method, path, and what the answer says beyond or instead of the common keys."""


def answer_to(request: Recorded, origin: str) -> bytes:
    """Return the whole answer to a request, head and body."""
    command = request.header("x-goog-upload-command")
    if command == "start":
        address = f"{origin}{request.path}?upload_id=upload_1&upload_protocol=resumable"
        return _answer(b"{}", headers=f"X-Goog-Upload-Status: active\r\nX-Goog-Upload-URL: {address}\r\n")
    if command is not None:
        status = "final" if "finalize" in command else "active"
        return _answer(b'{"file": {"name": "files/1"}}', headers=f"X-Goog-Upload-Status: {status}\r\n")
    if b'"stream":true' in request.body or "alt=sse" in request.target:
        last = b"{}" if "streamGenerateContent" in request.target else b"[DONE]"
        return _answer(b"data: " + last + b"\n\n", "text/event-stream")
    return _answer(_object(request).replace("{origin}", origin).replace("{path}", request.path).encode())


def _object(request: Recorded) -> str:
    found = dict(_THING)
    for verb, pattern, more in _BY_PATH:
        if verb == request.method and re.fullmatch(pattern, request.path):
            found |= more
    return json.dumps(found)


def _answer(body: bytes, media_type: str = "application/json", headers: str = "") -> bytes:
    head = f"HTTP/1.1 200 OK\r\nContent-Type: {media_type}\r\nContent-Length: {len(body)}\r\n{headers}\r\n"
    return head.encode() + body
