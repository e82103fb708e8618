"""Google's long operations: batches of contents and embeddings, videos, tuned models, imports into a store.

Source: the converters of ``google.genai.batches``, ``operations`` and ``tunings`` 3.4.  A batch is pending in
the answer to its making, and done whenever it is asked for.
"""

from typing import Final

import msgspec

from mgw.simulator.answer import Answer, Call, Handler, Json, Refusal, Unary
from mgw.simulator.checks import Shape, array, integer, mapping, string
from mgw.simulator.gemini_content import generate, pretty
from mgw.simulator.gemini_errors import error_value
from mgw.simulator.gemini_fields import require
from mgw.simulator.gemini_more import embed
from mgw.simulator.resources import item_at, key_at, new
from mgw.simulator.times import time_of

_REQUEST: Final = Shape({"request": mapping(), "metadata": mapping()}, required=("request",))
_INPUT: Final = Shape(
    {"requests": mapping(Shape({"requests": array(mapping(_REQUEST))})), "fileName": string()},
)
_BATCH: Final = Shape(
    {
        "batch": mapping(
            Shape({"displayName": string(), "inputConfig": mapping(_INPUT)}, ("inputConfig",), is_open=True)
        )
    },
    required=("batch",),
)
_PREDICT: Final = Shape(
    {"instances": array(), "parameters": mapping(Shape({"sampleCount": integer(1, 8)}, is_open=True))}
)
_ITEM: Final = "/v1beta/batches/{}"
_TYPE: Final = "type.googleapis.com/google.ai.generativelanguage.v1beta."


def generate_batch(call: Call) -> Answer:
    """``POST …:batchGenerateContent``."""
    return pretty(_batch(call, "GenerateContentBatch", "inlinedResponses", generate))


def embed_batch(call: Call) -> Answer:
    """``POST …:asyncBatchEmbedContent``."""
    return pretty(_batch(call, "EmbedContentBatch", "inlinedEmbedContentResponses", embed))


def _batch(call: Call, kind: str, answers: str, each: Handler) -> Json:
    """Answer every request of a batch, keep that, and show the batch as it is before."""
    batch = require(call.body, _BATCH, lenient="lenient" in call.faults)["batch"]
    asked = batch["inputConfig"].get("requests") or {}
    inlined = asked.get("requests")
    given = [_answered(call, index, one, each) for index, one in enumerate(inlined or [])]
    output: Json = (
        {answers: {"inlinedResponses": given}} if inlined else {"responsesFile": "files/batch-results"}
    )
    name = call.id("b-")
    metadata: Json = {
        "@type": _TYPE + kind,
        "model": call.model if "/" in call.model else f"models/{call.model}",
        "displayName": batch.get("displayName", ""),
        "inputConfig": batch["inputConfig"],
        "createTime": time_of(call.now),
        "updateTime": time_of(call.now),
        "batchStats": {"requestCount": str(len(given))},
    }
    done = {**metadata, "state": "BATCH_STATE_SUCCEEDED", "endTime": time_of(call.now), "output": output}
    response = {"@type": f"{_TYPE}{kind}Output", **output}
    kept: Json = {"name": f"batches/{name}", "metadata": done, "done": True, "response": response}
    call.store.put((call.family.value, "/batches", name), kept)
    return {"name": f"batches/{name}", "metadata": {**metadata, "state": "BATCH_STATE_PENDING"}}


def _answered(call: Call, index: int, one: Json, each: Handler) -> Json:
    tag: Json = {"metadata": one["metadata"]} if "metadata" in one else {}
    body = {name: value for name, value in one["request"].items() if name != "model"}
    inner = msgspec.structs.replace(call, body=body, number=call.number * 1000 + index)
    try:
        answered = each(inner)
    except Refusal as refusal:
        return {"error": error_value(refusal)["error"], **tag}
    assert isinstance(answered, Unary)
    return {"response": msgspec.json.decode(answered.body), **tag}


def cancel(call: Call) -> Answer:
    """``POST …/batches/{}:cancel``."""
    found = item_at(call, _ITEM)
    metadata = {**found.get("metadata", {}), "state": "BATCH_STATE_CANCELLED"}
    call.store.put(key_at(call, _ITEM), {**found, "metadata": metadata})
    return pretty({})


def make_video(call: Call) -> Answer:
    """``POST …:predictLongRunning``: an operation below the model."""
    name = call.id("op-")
    path = f"models/{call.ids[-1]}/operations"
    sample = {"video": {"uri": f"{call.origin}/v1beta/files/{name}:download?alt=media"}}
    response = {"generateVideoResponse": {"generatedSamples": [sample]}}
    done: Json = {"name": f"{path}/{name}", "done": True, "response": response}
    call.store.put((call.family.value, f"/{path}", name), done)
    call.store.put((call.family.value, "/files", name), {"name": f"files/{name}", "mimeType": "video/mp4"})
    return pretty({"name": f"{path}/{name}"})


def make_images(call: Call) -> Answer:
    """``POST …:predict``: as many images as were asked for."""
    body = require(call.body, _PREDICT, lenient="lenient" in call.faults)
    wanted = (body.get("parameters") or {}).get("sampleCount") or 1
    one = {"mimeType": "image/png", "bytesBase64Encoded": "iVBORw0KGgo="}
    return pretty({"predictions": [one] * wanted})


def tune(call: Call) -> Answer:
    """``POST …/tunedModels``: an operation that has made a model."""
    made = new(call, call.template, {**call.body, "state": "ACTIVE"}, call.id("tuned-"))
    metadata = {"@type": _TYPE + "CreateTunedModelMetadata", "tunedModel": made["name"]}
    return pretty({"name": f"{made['name']}/operations/{call.id('op-')}", "metadata": metadata})


def import_file(call: Call) -> Answer:
    """``POST …/fileSearchStores/{}:importFile``: an operation that has made a document."""
    if not isinstance(call.body.get("fileName"), str):
        raise Refusal(400, "* ImportFileRequest.file_name: file_name is not specified\n", "file_name")
    name, store = call.id("doc-"), f"fileSearchStores/{call.ids[0]}"
    fields = {"displayName": call.body["fileName"], "state": "STATE_ACTIVE"}
    made = new(call, "/v1beta/fileSearchStores/{}/documents", fields, name)
    response = {"parent": store, "documentName": made["name"]}
    done: Json = {"name": f"{store}/operations/{name}", "done": True, "response": response}
    call.store.put((call.family.value, f"/{store}/operations", name), done)
    return pretty(done)


CLAIMS: Final[dict[tuple[str, str], Handler]] = {
    ("POST", "/models/{...}:batchGenerateContent"): generate_batch,
    ("POST", "/models/{...}:asyncBatchEmbedContent"): embed_batch,
    ("POST", "/tunedModels/{}:batchGenerateContent"): generate_batch,
    ("POST", "/tunedModels/{}:asyncBatchEmbedContent"): embed_batch,
    ("POST", "/batches/{}:cancel"): cancel,
    ("POST", "/models/{...}:predict"): make_images,
    ("POST", "/models/{...}:predictLongRunning"): make_video,
    ("POST", "/tunedModels"): tune,
    ("POST", "/fileSearchStores/{}:importFile"): import_file,
}
