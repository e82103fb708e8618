"""Message batches: checked when they come, and answered as their requests would be one by one."""

import json
from typing import Any

import pytest

from mgw_sim.api import StreamResponse
from tests.memory.mgw_sim.client import CLAUDE, Client, body_of

BATCHES = "/v1/messages/batches"


def _request(custom_id: Any, said: str, **more: Any) -> dict[str, Any]:
    messages = [{"role": "user", "content": said}]
    return {"custom_id": custom_id, "params": {"model": "m", "max_tokens": 9, "messages": messages, **more}}


@pytest.fixture
def claude() -> Client:
    return Client(CLAUDE)


def test_each_request_of_a_batch_is_answered_on_its_line(claude: Client) -> None:
    asked = [_request("a", "hi"), _request("b", "ho", frobnicate=1)]
    batch = claude.json("POST", BATCHES, {"requests": asked})
    assert batch["processing_status"] == "ended"
    counts = {"processing": 0, "succeeded": 1, "errored": 1, "canceled": 0, "expired": 0}
    assert batch["request_counts"] == counts
    assert batch["results_url"] == f"http://h:1{BATCHES}/{batch['id']}/results"
    answer = claude.ask("GET", f"{BATCHES}/{batch['id']}/results")
    assert isinstance(answer, StreamResponse)
    assert answer.content_type == "application/x-jsonl"
    good, bad = [json.loads(line) for line in body_of(answer).splitlines()]
    assert (good["custom_id"], good["result"]["message"]["content"][0]["text"]) == ("a", "You said: hi")
    assert (bad["custom_id"], bad["result"]["type"]) == ("b", "errored")
    assert "frobnicate" in bad["result"]["error"]["error"]["message"]


def test_a_model_inside_a_batch_asks_for_its_own_faults(claude: Client) -> None:
    asked = [_request("a", "hi", model="m+sim-refuse"), _request("b", "ho", model="sim-status-529")]
    batch = claude.json("POST", BATCHES, {"requests": asked})
    lines = body_of(claude.ask("GET", f"{BATCHES}/{batch['id']}/results")).splitlines()
    refused, broken = [json.loads(line)["result"] for line in lines]
    assert refused["message"]["stop_reason"] == "refusal"
    assert broken["error"]["error"]["type"] == "overloaded_error"


def test_a_batch_is_listed_cancelled_and_deleted(claude: Client) -> None:
    names = [claude.json("POST", BATCHES, {"requests": [_request("a", "hi")]})["id"] for _ in range(2)]
    first = claude.json("GET", f"{BATCHES}?limit=1")
    assert (first["last_id"], first["has_more"]) == (names[0], True)
    second = claude.json("GET", f"{BATCHES}?limit=1&after_id={names[0]}")
    assert (second["last_id"], second["has_more"]) == (names[1], False)
    assert claude.json("GET", f"{BATCHES}?before_id={names[1]}")["first_id"] == names[0]
    assert claude.json("POST", f"{BATCHES}/{names[0]}/cancel")["cancel_initiated_at"] is not None
    gone = {"id": names[0], "type": "message_batch_deleted"}
    assert claude.json("DELETE", f"{BATCHES}/{names[0]}") == gone
    assert claude.error("GET", f"{BATCHES}/{names[0]}/results")[0] == 404


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
    found, message = claude.error("POST", BATCHES, body)
    assert (found, message.partition(":")[0] if status == 400 else message) == (status, named)
