"""Google's platform beyond plain resources: long operations, interactions, environments, registered files.

The operations are batches of contents and embeddings, videos, tuned models, imports into a store; a batch is
pending in the answer to its making, and done whenever it is asked for.  Source: the converters of
``google.genai.batches``, ``operations`` and ``tunings`` 3.4.
"""

from typing import Any, Final

import msgspec

from mgw.simulator.api import (
    ApiError,
    Handler,
    Json,
    Request,
    Response,
    StreamResponse,
    UnaryResponse,
    rfc3339,
    sse_event,
)
from mgw.simulator.gemini.content import embed_content, generate_content, pretty_json_response
from mgw.simulator.gemini.errors import error_value
from mgw.simulator.gemini.fields import validate
from mgw.simulator.http.bodies import download
from mgw.simulator.model import token_count
from mgw.simulator.platform.resources import fill_template, find_resource, store_key, store_new
from mgw.simulator.platform.store import GeneratedContent
from mgw.simulator.validation import Shape, array, integer, mapping, string

_REQUEST: Final = Shape({"request": mapping(), "metadata": mapping()}, required=("request",))
_INPUT_CONFIG: Final = Shape(
    {"requests": mapping(Shape({"requests": array(mapping(_REQUEST))})), "fileName": string()},
)
_BATCH: Final = Shape(
    {
        "batch": mapping(
            Shape(
                {"displayName": string(), "inputConfig": mapping(_INPUT_CONFIG)},
                ("inputConfig",),
                is_open=True,
            )
        )
    },
    required=("batch",),
)
_PREDICT: Final = Shape(
    {"instances": array(), "parameters": mapping(Shape({"sampleCount": integer(1, 8)}, is_open=True))}
)
_BATCH_PATH: Final = "/v1beta/batches/{}"
_TYPE_PREFIX: Final = "type.googleapis.com/google.ai.generativelanguage.v1beta."
_REGISTER: Final = Shape({"uris": array(string())}, required=("uris",))


def create_content_batch(call: Request) -> Response:
    """``POST …:batchGenerateContent``."""
    return pretty_json_response(
        _create_batch(call, "GenerateContentBatch", "inlinedResponses", generate_content)
    )


def create_embedding_batch(call: Request) -> Response:
    """``POST …:asyncBatchEmbedContent``."""
    return pretty_json_response(
        _create_batch(call, "EmbedContentBatch", "inlinedEmbedContentResponses", embed_content)
    )


def _create_batch(call: Request, kind: str, answers: str, each: Handler) -> Json:
    """Answer every request of a batch, keep that, and show the batch as it is before."""
    batch = validate(call.body, _BATCH, lenient="lenient" in call.faults)["batch"]
    asked = batch["inputConfig"].get("requests") or {}
    inlined = asked.get("requests")
    given = [_respond(call, index, one, each) for index, one in enumerate(inlined or [])]
    output: Json = (
        {answers: {"inlinedResponses": given}} if inlined else {"responsesFile": "files/batch-results"}
    )
    name = call.id("b-")
    metadata: Json = {
        "@type": _TYPE_PREFIX + kind,
        "model": call.model if "/" in call.model else f"models/{call.model}",
        "displayName": batch.get("displayName", ""),
        "inputConfig": batch["inputConfig"],
        "createTime": rfc3339(call.now),
        "updateTime": rfc3339(call.now),
        "batchStats": {"requestCount": str(len(given))},
    }
    done = {**metadata, "state": "BATCH_STATE_SUCCEEDED", "endTime": rfc3339(call.now), "output": output}
    response = {"@type": f"{_TYPE_PREFIX}{kind}Output", **output}
    kept: Json = {"name": f"batches/{name}", "metadata": done, "done": True, "response": response}
    call.store.put((call.family.value, "/batches", name), kept)
    return {"name": f"batches/{name}", "metadata": {**metadata, "state": "BATCH_STATE_PENDING"}}


def _respond(call: Request, index: int, one: Json, each: Handler) -> Json:
    tag: Json = {"metadata": one["metadata"]} if "metadata" in one else {}
    body = {name: value for name, value in one["request"].items() if name != "model"}
    inner = msgspec.structs.replace(call, body=body, number=call.number * 1000 + index)
    try:
        answered = each(inner)
    except ApiError as refusal:
        return {"error": error_value(refusal)["error"], **tag}
    assert isinstance(answered, UnaryResponse)
    return {"response": msgspec.json.decode(answered.body), **tag}


def cancel_batch(call: Request) -> Response:
    """``POST …/batches/{}:cancel``."""
    found = find_resource(call, _BATCH_PATH)
    metadata = {**found.get("metadata", {}), "state": "BATCH_STATE_CANCELLED"}
    call.store.put(store_key(call, _BATCH_PATH), {**found, "metadata": metadata})
    return pretty_json_response({})


def create_video(call: Request) -> Response:
    """``POST …:predictLongRunning``: an operation below the model."""
    name = call.id("op-")
    path = f"models/{call.ids[-1]}/operations"
    sample = {"video": {"uri": f"{call.origin}/v1beta/files/{name}:download?alt=media"}}
    response = {"generateVideoResponse": {"generatedSamples": [sample]}}
    done: Json = {"name": f"{path}/{name}", "done": True, "response": response}
    call.store.put((call.family.value, f"/{path}", name), done)
    call.store.put((call.family.value, "/files", name), {"name": f"files/{name}", "mimeType": "video/mp4"})
    return pretty_json_response({"name": f"{path}/{name}"})


def create_images(call: Request) -> Response:
    """``POST …:predict``: as many images as were asked for."""
    body = validate(call.body, _PREDICT, lenient="lenient" in call.faults)
    wanted = (body.get("parameters") or {}).get("sampleCount") or 1
    one = {"mimeType": "image/png", "bytesBase64Encoded": "iVBORw0KGgo="}
    return pretty_json_response({"predictions": [one] * wanted})


def create_tuned_model(call: Request) -> Response:
    """``POST …/tunedModels``: an operation that has made a model."""
    made = store_new(call, call.template, {**call.body, "state": "ACTIVE"}, call.id("tuned-"))
    metadata = {"@type": _TYPE_PREFIX + "CreateTunedModelMetadata", "tunedModel": made["name"]}
    return pretty_json_response({"name": f"{made['name']}/operations/{call.id('op-')}", "metadata": metadata})


def import_file(call: Request) -> Response:
    """``POST …/fileSearchStores/{}:importFile``: an operation that has made a document."""
    if not isinstance(call.body.get("fileName"), str):
        raise ApiError(400, "* ImportFileRequest.file_name: file_name is not specified\n", "file_name")
    name, store = call.id("doc-"), f"fileSearchStores/{call.ids[0]}"
    fields = {"displayName": call.body["fileName"], "state": "STATE_ACTIVE"}
    made = store_new(call, "/v1beta/fileSearchStores/{}/documents", fields, name)
    response = {"parent": store, "documentName": made["name"]}
    done: Json = {"name": f"{store}/operations/{name}", "done": True, "response": response}
    call.store.put((call.family.value, f"/{store}/operations", name), done)
    return pretty_json_response(done)


OPERATION_HANDLERS: Final[dict[tuple[str, str], Handler]] = {
    ("POST", "/models/{...}:batchGenerateContent"): create_content_batch,
    ("POST", "/models/{...}:asyncBatchEmbedContent"): create_embedding_batch,
    ("POST", "/tunedModels/{}:batchGenerateContent"): create_content_batch,
    ("POST", "/tunedModels/{}:asyncBatchEmbedContent"): create_embedding_batch,
    ("POST", "/batches/{}:cancel"): cancel_batch,
    ("POST", "/models/{...}:predict"): create_images,
    ("POST", "/models/{...}:predictLongRunning"): create_video,
    ("POST", "/tunedModels"): create_tuned_model,
    ("POST", "/fileSearchStores/{}:importFile"): import_file,
}


def register_files(call: Request) -> Response:
    """``POST …/files:register``: files that lie elsewhere."""
    body = validate(call.body, _REGISTER, lenient="lenient" in call.faults)
    uris: list[str] = body["uris"]
    found = [
        store_new(call, "/v1/files", {"uri": uri, "source": "REGISTERED"}, call.id("r-", index))
        for index, uri in enumerate(uris)
    ]
    return pretty_json_response({"files": found})


def rotate_signing_secret(call: Request) -> Response:
    """``POST …/webhooks/{}:rotateSigningSecret``."""
    find_resource(call, call.template.partition(":")[0])
    return pretty_json_response({"secret": call.id("whsec_")})


def get_environment_file(call: Request) -> Response:
    """``GET …/environments/{}/files/{...}``: what is there, or its bytes with ``?alt=media``."""
    folder = fill_template(call.template, call.ids).partition("/files/")[0] + "/files"
    key = (call.family.value, folder, call.ids[-1])
    found = call.store.get(key)
    size = call.faults.number("size")
    if call.query.get("alt") == "media":
        kept = call.store.contents.get(key)
        if kept is None and size is None and not call.lenient:
            raise ApiError(404, f"There is no file {call.ids[-1]}.")
        return download(
            call, GeneratedContent(size or 0) if kept is None else kept, "application/octet-stream", None
        )
    return pretty_json_response(
        {"files": [found] if found else list(call.store.all(call.family.value, folder))}
    )


def create_interaction(call: Request) -> Response:
    """``POST …/interactions``: an answer of the model's in steps, whole or as events."""
    if not call.body.get("model") and not call.body.get("agent"):
        raise ApiError(400, "* CreateInteractionRequest: model or agent is not specified\n", "model")
    text = _input_text(call.body.get("input"))
    reply, read = f"You said: {text}", token_count(text)
    usage = {
        "total_input_tokens": read,
        "total_output_tokens": token_count(reply),
        "total_tokens": read + token_count(reply),
    }
    steps = [{"type": "model_output", "content": [{"type": "text", "text": reply}]}]
    fields = {"steps": steps, "output_text": reply, "usage": usage, "object": "interaction", "role": "model"}
    asked = {name: value for name, value in call.body.items() if name not in {"stream", "input"}}
    made = store_new(call, call.template, {**asked, **fields})
    if not call.body.get("stream"):
        return pretty_json_response(made)
    begun: Json = {**made, "status": "in_progress", "steps": [], "usage": None, "output_text": None}
    events: list[Json] = [
        {"event_type": "interaction.created", "interaction": begun},
        {"event_type": "step.start", "index": 0, "step": {"type": "model_output"}},
        {"event_type": "step.delta", "index": 0, "delta": {"type": "text", "text": reply}},
        {"event_type": "step.stop", "index": 0},
        {"event_type": "interaction.completed", "interaction": made},
    ]
    error = {"event_type": "error", "error": {"code": "internal", "message": "The server broke."}}
    return StreamResponse(
        tuple(sse_event(one, one["event_type"]) for one in events), sse_event(error, "error")
    )


def _input_text(said: Any) -> str:  # text, a part, parts or steps
    match said:
        case str():
            return said
        case list():
            return " ".join(filter(None, map(_input_text, said)))
        case dict():
            return str(said.get("text") or _input_text(said.get("content")))
    return ""


GEMINI_HANDLERS: Final[dict[tuple[str, str], Handler]] = {
    ("POST", "/files:register"): register_files,
    ("POST", "/webhooks/{}:rotateSigningSecret"): rotate_signing_secret,
    ("GET", "/environments/{}/files/{...}"): get_environment_file,
    ("POST", "/interactions"): create_interaction,
}
