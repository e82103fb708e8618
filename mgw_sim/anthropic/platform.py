"""Anthropic's platform beyond plain resources: message batches, events of sessions, the organization.

A batch is checked and answered when it comes, and its results are read line by line.  Each result is the
response that the same request would get by itself, errors included.  Source:
``anthropic.resources.messages.batches`` 2.12.
"""

import re
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from mgw_sim.anthropic.errors import error_value
from mgw_sim.anthropic.messages import messages
from mgw_sim.api import (
    ApiError,
    Family,
    Handler,
    Json,
    Request,
    Response,
    StreamResponse,
    UnaryResponse,
    dump_json,
    json_response,
    rfc3339,
    sse_event,
)
from mgw_sim.families import unknown_model
from mgw_sim.faults import UnknownFaultError, read_faults
from mgw_sim.platform.files import create_file
from mgw_sim.platform.resources import (
    find_resource,
    resource_response,
    store_key,
    store_new,
)
from mgw_sim.platform.store import Entry

_BATCHES_PATH: Final = "/v1/messages/batches"
_BATCH_PATH: Final = f"{_BATCHES_PATH}/{{}}"
_CUSTOM_ID: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_MAX_REQUESTS: Final = 100_000
_LIFETIME: Final = 24 * 3600  # seconds


def create_batch(request: Request) -> Response:
    """``POST /v1/messages/batches``."""
    requests = request.body.get("requests")
    if not isinstance(requests, list):
        raise ApiError(
            400, "requests: Field required" if requests is None else "requests: Input should be a list"
        )
    if not 1 <= len(requests) <= _MAX_REQUESTS:
        raise ApiError(
            400, f"requests: List should have between 1 and {_MAX_REQUESTS} items, not {len(requests)}"
        )
    custom_ids: set[str] = set()
    for index, entry in enumerate(requests):
        _check_request(index, entry, custom_ids)
    name = request.id("msgbatch_")
    lines = [_result_line(request, index, entry) for index, entry in enumerate(requests)]
    request.store.begin(name, tuple(lines))
    succeeded = sum(line["result"]["type"] == "succeeded" for line in lines)
    counts = {"processing": 0, "succeeded": succeeded, "errored": len(lines) - succeeded}
    return resource_response(
        request, store_new(request, _BATCHES_PATH, _batch_fields(request, name, counts), name)
    )


def _batch_fields(request: Request, name: str, counts: Json) -> Json:
    return {
        "processing_status": "ended",
        "request_counts": {**counts, "canceled": 0, "expired": 0},
        "ended_at": rfc3339(request.now),
        "expires_at": rfc3339(request.now + _LIFETIME),
        "archived_at": None,
        "cancel_initiated_at": None,
        "results_url": f"{request.origin}{_BATCHES_PATH}/{name}/results",
    }


def _check_request(index: int, entry: Any, custom_ids: set[str]) -> None:  # any JSON value
    path = f"requests.{index}"
    if not isinstance(entry, dict):
        raise ApiError(400, f"{path}: Input should be an object")
    for name in entry.keys() - {"custom_id", "params"}:
        raise ApiError(400, f"{path}.{name}: Extra inputs are not permitted")
    custom_id = entry.get("custom_id")
    if not isinstance(custom_id, str) or not _CUSTOM_ID.fullmatch(custom_id):
        raise ApiError(400, f"{path}.custom_id: String should match pattern '^[a-zA-Z0-9_-]{{1,64}}$'")
    if custom_id in custom_ids:
        raise ApiError(400, f"{path}.custom_id: '{custom_id}' is not unique within the batch")
    custom_ids.add(custom_id)
    params = entry.get("params")
    if not isinstance(params, dict):
        raise ApiError(400, f"{path}.params: Field required")
    model = params.get("model")
    if not isinstance(model, str):
        raise ApiError(400, f"{path}.params.model: Field required")
    if model.startswith("missing"):
        raise unknown_model(Family.ANTHROPIC, model)


def _result_line(request: Request, index: int, entry: Json) -> Json:
    """One result: what the request would have been answered by itself."""
    params: Json = {name: value for name, value in entry["params"].items() if name != "stream"}
    inner = msgspec.structs.replace(
        request, body=params, model=params["model"], number=request.number * 1000 + index
    )
    try:
        response = _respond(inner)
    except ApiError as api_error:
        error = error_value(api_error, f"req_sim{inner.number:08d}")
        return {"custom_id": entry["custom_id"], "result": {"type": "errored", "error": error}}
    assert isinstance(response, UnaryResponse)
    message: Json = msgspec.json.decode(response.body)
    return {"custom_id": entry["custom_id"], "result": {"type": "succeeded", "message": message}}


def _respond(request: Request) -> Response:
    """The answer to one request, with the faults that its own model asks for."""
    try:
        faults = read_faults(request.model, request.headers.items())
    except UnknownFaultError as error:
        raise ApiError(400, str(error)) from None
    status = faults.number("status")
    if status is not None and status >= 400:
        raise ApiError(status, f"The simulator was asked for status {status}.")
    return messages(msgspec.structs.replace(request, faults=faults))


def get_batch_results(request: Request) -> Response:
    """``GET /v1/messages/batches/{}/results``: a line for each, in the order in which they were asked."""
    find_resource(request, _BATCH_PATH)
    lines = request.store.sessions.get(request.ids[0]) or ()
    return StreamResponse(tuple(_json_lines(lines)), b"", "application/x-jsonl")


def _json_lines(lines: tuple[Json, ...]) -> Iterator[bytes]:
    for line in lines:
        yield dump_json(line) + b"\n"


def cancel_batch(request: Request) -> Response:
    """``POST /v1/messages/batches/{}/cancel``: everything has been answered already."""
    batch: Entry = {**find_resource(request, _BATCH_PATH), "cancel_initiated_at": rfc3339(request.now)}
    return resource_response(request, request.store.put(store_key(request, _BATCH_PATH), batch))


def stream_session_events(_: Request) -> Response:
    """A stream of a session's events: it rests."""
    event = {"type": "session.status_idle", "id": "sevt_sim"}
    return StreamResponse((sse_event(event, event["type"]),), sse_event({"type": "error"}, "error"))


def get_organization(_: Request) -> Response:
    """``GET /v1/organizations/me``."""
    return json_response({"id": "org_sim", "type": "organization", "name": "The simulator's"})


HANDLERS: Final[dict[tuple[str, str], Handler]] = {
    ("POST", "/messages/batches"): create_batch,
    ("POST", "/messages/batches/{}/cancel"): cancel_batch,
    ("GET", "/messages/batches/{}/results"): get_batch_results,
    ("POST", "/files"): create_file,
    ("GET", "/sessions/{}/events/stream"): stream_session_events,
    ("GET", "/sessions/{}/threads/{}/stream"): stream_session_events,
    ("GET", "/organizations/me"): get_organization,
}
