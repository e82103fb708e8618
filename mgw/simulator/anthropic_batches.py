"""Anthropic's message batches: checked when they come, answered at once, and asked for line by line.

Source: ``anthropic.resources.messages.batches`` 2.12.  Each result is the answer that the same request would
get by itself, refusals included.
"""

import re
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from mgw.simulator.answer import Answer, Call, Family, Handler, Json, Refusal, Stream, Unary, dump
from mgw.simulator.anthropic_errors import error_value
from mgw.simulator.anthropic_messages import messages
from mgw.simulator.families import unknown_model
from mgw.simulator.faults import UnknownFaultError, read_faults
from mgw.simulator.resources import item_at, key_at, new, said
from mgw.simulator.store import Entry
from mgw.simulator.times import time_of

_BATCHES: Final = "/v1/messages/batches"
_ITEM: Final = f"{_BATCHES}/{{}}"
_CUSTOM_ID: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_MOST: Final = 100_000
_LIFE: Final = 24 * 3600  # seconds


def make_batch(call: Call) -> Answer:
    """``POST /v1/messages/batches``."""
    requests = call.body.get("requests")
    if not isinstance(requests, list):
        raise Refusal(
            400, "requests: Field required" if requests is None else "requests: Input should be a list"
        )
    if not 1 <= len(requests) <= _MOST:
        raise Refusal(400, f"requests: List should have between 1 and {_MOST} items, not {len(requests)}")
    seen: set[str] = set()
    for index, request in enumerate(requests):
        _check(index, request, seen)
    name = call.id("msgbatch_")
    lines = [_line(call, index, request) for index, request in enumerate(requests)]
    call.store.begin(name, tuple(lines))
    succeeded = sum(line["result"]["type"] == "succeeded" for line in lines)
    counts = {"processing": 0, "succeeded": succeeded, "errored": len(lines) - succeeded}
    return said(call, new(call, _BATCHES, _ended(call, name, counts), name))


def _ended(call: Call, name: str, counts: Json) -> Json:
    return {
        "processing_status": "ended",
        "request_counts": {**counts, "canceled": 0, "expired": 0},
        "ended_at": time_of(call.now),
        "expires_at": time_of(call.now + _LIFE),
        "archived_at": None,
        "cancel_initiated_at": None,
        "results_url": f"{call.origin}{_BATCHES}/{name}/results",
    }


def _check(index: int, request: Any, seen: set[str]) -> None:  # any JSON value
    at = f"requests.{index}"
    if not isinstance(request, dict):
        raise Refusal(400, f"{at}: Input should be an object")
    for name in request.keys() - {"custom_id", "params"}:
        raise Refusal(400, f"{at}.{name}: Extra inputs are not permitted")
    custom = request.get("custom_id")
    if not isinstance(custom, str) or not _CUSTOM_ID.fullmatch(custom):
        raise Refusal(400, f"{at}.custom_id: String should match pattern '^[a-zA-Z0-9_-]{{1,64}}$'")
    if custom in seen:
        raise Refusal(400, f"{at}.custom_id: '{custom}' is not unique within the batch")
    seen.add(custom)
    params = request.get("params")
    if not isinstance(params, dict):
        raise Refusal(400, f"{at}.params: Field required")
    model = params.get("model")
    if not isinstance(model, str):
        raise Refusal(400, f"{at}.params.model: Field required")
    if model.startswith("missing"):
        raise unknown_model(Family.ANTHROPIC, model)


def _line(call: Call, index: int, request: Json) -> Json:
    """One result: what the request would have been answered by itself."""
    params: Json = {name: value for name, value in request["params"].items() if name != "stream"}
    inner = msgspec.structs.replace(
        call, body=params, model=params["model"], number=call.number * 1000 + index
    )
    try:
        answered = _answered(inner)
    except Refusal as refusal:
        error = error_value(refusal, f"req_sim{inner.number:08d}")
        return {"custom_id": request["custom_id"], "result": {"type": "errored", "error": error}}
    assert isinstance(answered, Unary)
    message: Json = msgspec.json.decode(answered.body)
    return {"custom_id": request["custom_id"], "result": {"type": "succeeded", "message": message}}


def _answered(call: Call) -> Answer:
    """The answer to one request, with the faults that its own model asks for."""
    try:
        faults = read_faults(call.model, call.headers.items())
    except UnknownFaultError as error:
        raise Refusal(400, str(error)) from None
    status = faults.number("status")
    if status is not None and status >= 400:
        raise Refusal(status, f"The simulator was asked for status {status}.")
    return messages(msgspec.structs.replace(call, faults=faults))


def results(call: Call) -> Answer:
    """``GET /v1/messages/batches/{}/results``: a line for each, in the order in which they were asked."""
    item_at(call, _ITEM)
    lines = call.store.sessions.get(call.ids[0]) or ()
    return Stream(tuple(_pieces(lines)), b"", "application/x-jsonl")


def _pieces(lines: tuple[Json, ...]) -> Iterator[bytes]:
    for line in lines:
        yield dump(line) + b"\n"


def cancel(call: Call) -> Answer:
    """``POST /v1/messages/batches/{}/cancel``: everything has been answered already."""
    found: Entry = {**item_at(call, _ITEM), "cancel_initiated_at": time_of(call.now)}
    return said(call, call.store.put(key_at(call, _ITEM), found))


CLAIMS: Final[dict[tuple[str, str], Handler]] = {
    ("POST", "/messages/batches"): make_batch,
    ("POST", "/messages/batches/{}/cancel"): cancel,
    ("GET", "/messages/batches/{}/results"): results,
}
