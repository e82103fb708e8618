"""Batches: checked when they come, and answered as their requests would be one by one."""

import json
from typing import Any

import pytest

from mgw.simulator.api import StreamResponse
from tests.memory.simulator.asking import CLAUDE, GOOGLE, Client, whole

BATCHES = "/v1/messages/batches"


def _request(custom_id: Any, said: str, **more: Any) -> dict[str, Any]:
    messages = [{"role": "user", "content": said}]
    return {"custom_id": custom_id, "params": {"model": "m", "max_tokens": 9, "messages": messages, **more}}


@pytest.fixture
def claude() -> Client:
    return Client(CLAUDE)


def test_each_request_of_a_batch_is_answered_on_its_line(claude: Client) -> None:
    asked = [_request("a", "hi"), _request("b", "ho", frobnicate=1)]
    batch = claude.told("POST", BATCHES, {"requests": asked})
    assert batch["processing_status"] == "ended"
    counts = {"processing": 0, "succeeded": 1, "errored": 1, "canceled": 0, "expired": 0}
    assert batch["request_counts"] == counts
    assert batch["results_url"] == f"http://h:1{BATCHES}/{batch['id']}/results"
    answer = claude.ask("GET", f"{BATCHES}/{batch['id']}/results")
    assert isinstance(answer, StreamResponse)
    assert answer.content_type == "application/x-jsonl"
    good, bad = [json.loads(line) for line in whole(answer).splitlines()]
    assert (good["custom_id"], good["result"]["message"]["content"][0]["text"]) == ("a", "You said: hi")
    assert (bad["custom_id"], bad["result"]["type"]) == ("b", "errored")
    assert "frobnicate" in bad["result"]["error"]["error"]["message"]


def test_a_model_inside_a_batch_asks_for_its_own_faults(claude: Client) -> None:
    asked = [_request("a", "hi", model="m+sim-refuse"), _request("b", "ho", model="sim-status-529")]
    batch = claude.told("POST", BATCHES, {"requests": asked})
    lines = whole(claude.ask("GET", f"{BATCHES}/{batch['id']}/results")).splitlines()
    refused, broken = [json.loads(line)["result"] for line in lines]
    assert refused["message"]["stop_reason"] == "refusal"
    assert broken["error"]["error"]["type"] == "overloaded_error"


def test_a_batch_is_listed_cancelled_and_deleted(claude: Client) -> None:
    names = [claude.told("POST", BATCHES, {"requests": [_request("a", "hi")]})["id"] for _ in range(2)]
    first = claude.told("GET", f"{BATCHES}?limit=1")
    assert (first["last_id"], first["has_more"]) == (names[0], True)
    second = claude.told("GET", f"{BATCHES}?limit=1&after_id={names[0]}")
    assert (second["last_id"], second["has_more"]) == (names[1], False)
    assert claude.told("GET", f"{BATCHES}?before_id={names[1]}")["first_id"] == names[0]
    assert claude.told("POST", f"{BATCHES}/{names[0]}/cancel")["cancel_initiated_at"] is not None
    gone = {"id": names[0], "type": "message_batch_deleted"}
    assert claude.told("DELETE", f"{BATCHES}/{names[0]}") == gone
    assert claude.refused("GET", f"{BATCHES}/{names[0]}/results")[0] == 404


@pytest.mark.parametrize(
    ("requests", "status", "named"),
    [
        (None, 400, "requests"),
        ([], 400, "requests"),
        ("a", 400, "requests"),
        ([1], 400, "requests.0"),
        ([_request("a b", "hi")], 400, "requests.0.custom_id"),
        ([_request("a", "hi"), _request("a", "hi")], 400, "requests.1.custom_id"),
        ([{"custom_id": "a"}], 400, "requests.0.params"),
        ([{"custom_id": "a", "params": {}}], 400, "requests.0.params.model"),
        ([_request("a", "hi", model="missing")], 404, "model: missing"),
        ([{**_request("a", "hi"), "more": 1}], 400, "requests.0.more"),
    ],
)
def test_a_batch_is_checked_when_it_comes(claude: Client, requests: Any, status: int, named: str) -> None:
    body = {} if requests is None else {"requests": requests}
    found, message = claude.refused("POST", BATCHES, body)
    assert (found, message.partition(":")[0] if status == 400 else message) == (status, named)


def test_a_batch_of_openais_is_made_asked_for_and_cancelled() -> None:
    ours = Client()
    made = ours.told("POST", "/v1/batches", {"input_file_id": "f", "endpoint": "/v1/responses"})
    assert (made["object"], made["status"]) == ("batch", "validating")
    assert ours.told("GET", f"/v1/batches/{made['id']}") == made
    assert ours.told("POST", f"/v1/batches/{made['id']}/cancel")["status"] == "cancelled"


def _inlined(*requests: Any) -> dict[str, Any]:
    listed = [{"request": request, "metadata": {"key": str(place)}} for place, request in enumerate(requests)]
    return {"batch": {"displayName": "d", "inputConfig": {"requests": {"requests": listed}}}}


def test_googles_batch_is_an_operation_that_soon_is_done() -> None:
    google = Client(GOOGLE)
    asked = _inlined({"contents": [{"parts": [{"text": "hi"}]}]}, {"contents": []})
    made = google.told("POST", "/v1beta/models/m:batchGenerateContent", asked)
    assert made["name"].startswith("batches/")
    assert made["metadata"]["state"] == "BATCH_STATE_PENDING"
    done = google.told("GET", f"/v1/{made['name']}")
    good, bad = done["metadata"]["output"]["inlinedResponses"]["inlinedResponses"]
    assert good["response"]["candidates"][0]["content"]["parts"][0]["text"] == "You said: hi"
    assert (good["metadata"], bad["error"]["code"]) == ({"key": "0"}, 400)
    assert google.told("GET", "/v1beta/batches")["operations"] == [done]
    assert google.told("POST", f"/v1beta/{made['name']}:cancel") == {}
    assert google.told("GET", f"/v1/{made['name']}")["metadata"]["state"] == "BATCH_STATE_CANCELLED"


def test_googles_batch_of_embeddings_has_embeddings() -> None:
    google = Client(GOOGLE)
    asked = _inlined({"content": {"parts": [{"text": "hi"}]}, "outputDimensionality": 4})
    made = google.told("POST", "/v1/tunedModels/m:asyncBatchEmbedContent", asked)
    assert made["metadata"]["model"] == "tunedModels/m"
    output = google.told("GET", f"/v1/{made['name']}")["metadata"]["output"]
    [one] = output["inlinedEmbedContentResponses"]["inlinedResponses"]
    assert len(one["response"]["embedding"]["values"]) == 4


def test_googles_batch_wants_something_to_do() -> None:
    assert Client(GOOGLE).refused("POST", "/v1/models/m:batchGenerateContent", {"batch": {}})[0] == 400


def test_an_import_into_a_store_is_done_at_once() -> None:
    google = Client(GOOGLE)
    made = google.told("POST", "/v1/fileSearchStores/s:importFile", {"fileName": "files/f"})
    assert made["done"]
    assert google.told("GET", f"/v1/{made['name']}") == made


def test_an_interaction_is_answered_and_streamed() -> None:
    google = Client(GOOGLE)
    body = {"model": "m", "input": [{"type": "text", "text": "hi"}]}
    made = google.told("POST", "/v1beta/interactions", body)
    assert made["steps"][0]["content"][0]["text"] == "You said: hi"
    assert google.told("GET", f"/v1/interactions/{made['id']}")["usage"]["total_tokens"] == 4
    answer = google.ask("POST", "/v1/interactions", {**body, "stream": True})
    assert isinstance(answer, StreamResponse)
    events = [piece.split(b"\n")[0].removeprefix(b"event: ") for piece in answer.pieces]
    assert (events[0], events[-1]) == (b"interaction.created", b"interaction.completed")
