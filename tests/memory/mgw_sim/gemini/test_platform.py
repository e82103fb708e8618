"""Google's batches, imports and interactions."""

from typing import Any

from mgw_sim.api import StreamResponse
from tests.memory.mgw_sim.client import GOOGLE, Client


def _inlined(*requests: Any) -> dict[str, Any]:
    listed = [{"request": request, "metadata": {"key": str(place)}} for place, request in enumerate(requests)]
    return {"batch": {"displayName": "d", "inputConfig": {"requests": {"requests": listed}}}}


def test_googles_batch_is_an_operation_that_soon_is_done() -> None:
    google = Client(GOOGLE)
    asked = _inlined({"contents": [{"parts": [{"text": "hi"}]}]}, {"contents": []})
    made = google.json("POST", "/v1beta/models/m:batchGenerateContent", asked)
    assert made["name"].startswith("batches/")
    assert made["metadata"]["state"] == "BATCH_STATE_PENDING"
    done = google.json("GET", f"/v1/{made['name']}")
    good, bad = done["metadata"]["output"]["inlinedResponses"]["inlinedResponses"]
    assert good["response"]["candidates"][0]["content"]["parts"][0]["text"] == "You said: hi"
    assert (good["metadata"], bad["error"]["code"]) == ({"key": "0"}, 400)
    assert google.json("GET", "/v1beta/batches")["operations"] == [done]
    assert google.json("POST", f"/v1beta/{made['name']}:cancel") == {}
    assert google.json("GET", f"/v1/{made['name']}")["metadata"]["state"] == "BATCH_STATE_CANCELLED"


def test_googles_batch_of_embeddings_has_embeddings() -> None:
    google = Client(GOOGLE)
    asked = _inlined({"content": {"parts": [{"text": "hi"}]}, "outputDimensionality": 4})
    made = google.json("POST", "/v1/tunedModels/m:asyncBatchEmbedContent", asked)
    assert made["metadata"]["model"] == "tunedModels/m"
    output = google.json("GET", f"/v1/{made['name']}")["metadata"]["output"]
    [one] = output["inlinedEmbedContentResponses"]["inlinedResponses"]
    assert len(one["response"]["embedding"]["values"]) == 4


def test_googles_batch_wants_something_to_do() -> None:
    assert Client(GOOGLE).error("POST", "/v1/models/m:batchGenerateContent", {"batch": {}})[0] == 400


def test_an_import_into_a_store_is_done_at_once() -> None:
    google = Client(GOOGLE)
    made = google.json("POST", "/v1/fileSearchStores/s:importFile", {"fileName": "files/f"})
    assert made["done"]
    assert google.json("GET", f"/v1/{made['name']}") == made


def test_an_interaction_is_answered_and_streamed() -> None:
    google = Client(GOOGLE)
    body = {"model": "m", "input": [{"type": "text", "text": "hi"}]}
    made = google.json("POST", "/v1beta/interactions", body)
    assert made["steps"][0]["content"][0]["text"] == "You said: hi"
    assert google.json("GET", f"/v1/interactions/{made['id']}")["usage"]["total_tokens"] == 4
    answer = google.ask("POST", "/v1/interactions", {**body, "stream": True})
    assert isinstance(answer, StreamResponse)
    events = [piece.split(b"\n")[0].removeprefix(b"event: ") for piece in answer.pieces]
    assert (events[0], events[-1]) == (b"interaction.created", b"interaction.completed")


def test_a_token_of_an_interaction_is_made_for_a_time_and_revoked_by_its_last_word() -> None:
    google = Client(GOOGLE)
    name = google.json("POST", "/v1beta/interactions", {"model": "m", "input": "hi"})["id"]
    tokens = f"/v1beta/interactions/{name}/auth_tokens"
    made = google.json("POST", tokens, {"expire_time": "2026-01-02T04:00:00Z"})
    assert made["auth_token"].startswith("auth_tokens/")
    assert made["expires_at"] == "2026-01-02T04:00:00Z"
    one = f"{tokens}/{made['auth_token'].removeprefix('auth_tokens/')}"
    assert google.json("DELETE", one) == {}
    assert google.error("DELETE", one)[0] == 404
    assert google.json("POST", tokens)["expires_at"] == "2026-01-02T03:33:05Z"
    assert google.error("POST", "/v1/interactions/missing-1/auth_tokens")[0] == 404
