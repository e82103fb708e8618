"""Google's platform beyond plain resources: long operations, environments, registered files.

The operations are batches of contents and embeddings, videos, tuned models, imports into a store; a batch is
pending in the answer to its making, and done whenever it is asked for.  Source: the converters of
``google.genai.batches``, ``operations`` and ``tunings`` 3.4.
"""

from typing import Final

import msgspec

from mgw_sim.api import (
    ApiError,
    Handler,
    Json,
    Request,
    Response,
    UnaryResponse,
    rfc3339,
)
from mgw_sim.gemini.content import embed_content, generate_content, pretty_json_response
from mgw_sim.gemini.errors import error_value
from mgw_sim.gemini.fields import validate
from mgw_sim.gemini.interactions import INTERACTION_HANDLERS
from mgw_sim.http.bodies import download
from mgw_sim.platform.resources import fill_template, find_resource, store_key, store_new
from mgw_sim.platform.store import GeneratedContent
from mgw_sim.validation import Shape, array, integer, mapping, string

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


def create_content_batch(request: Request) -> Response:
    """``POST …:batchGenerateContent``."""
    return pretty_json_response(
        _create_batch(request, "GenerateContentBatch", "inlinedResponses", generate_content)
    )


def create_embedding_batch(request: Request) -> Response:
    """``POST …:asyncBatchEmbedContent``."""
    return pretty_json_response(
        _create_batch(request, "EmbedContentBatch", "inlinedEmbedContentResponses", embed_content)
    )


def _create_batch(request: Request, kind: str, answers: str, each: Handler) -> Json:
    """Answer every request of a batch, keep that, and show the batch as it is before."""
    batch = validate(request.body, _BATCH, lenient="lenient" in request.faults)["batch"]
    requests = batch["inputConfig"].get("requests") or {}
    inlined_requests = requests.get("requests")
    results = [_respond(request, index, one, each) for index, one in enumerate(inlined_requests or [])]
    output: Json = (
        {answers: {"inlinedResponses": results}}
        if inlined_requests
        else {"responsesFile": "files/batch-results"}
    )
    name = request.id("b-")
    metadata: Json = {
        "@type": _TYPE_PREFIX + kind,
        "model": request.model if "/" in request.model else f"models/{request.model}",
        "displayName": batch.get("displayName", ""),
        "inputConfig": batch["inputConfig"],
        "createTime": rfc3339(request.now),
        "updateTime": rfc3339(request.now),
        "batchStats": {"requestCount": str(len(results))},
    }
    finished = {
        **metadata,
        "state": "BATCH_STATE_SUCCEEDED",
        "endTime": rfc3339(request.now),
        "output": output,
    }
    response = {"@type": f"{_TYPE_PREFIX}{kind}Output", **output}
    operation: Json = {"name": f"batches/{name}", "metadata": finished, "done": True, "response": response}
    request.store.put((request.family.value, "/batches", name), operation)
    return {"name": f"batches/{name}", "metadata": {**metadata, "state": "BATCH_STATE_PENDING"}}


def _respond(request: Request, index: int, entry: Json, each: Handler) -> Json:
    metadata: Json = {"metadata": entry["metadata"]} if "metadata" in entry else {}
    body = {name: value for name, value in entry["request"].items() if name != "model"}
    inner = msgspec.structs.replace(request, body=body, number=request.number * 1000 + index)
    try:
        response = each(inner)
    except ApiError as api_error:
        return {"error": error_value(api_error)["error"], **metadata}
    assert isinstance(response, UnaryResponse)
    return {"response": msgspec.json.decode(response.body), **metadata}


def cancel_batch(request: Request) -> Response:
    """``POST …/batches/{}:cancel``."""
    operation = find_resource(request, _BATCH_PATH)
    metadata = {**operation.get("metadata", {}), "state": "BATCH_STATE_CANCELLED"}
    request.store.put(store_key(request, _BATCH_PATH), {**operation, "metadata": metadata})
    return pretty_json_response({})


def create_video(request: Request) -> Response:
    """``POST …:predictLongRunning``: an operation below the model."""
    name = request.id("op-")
    path = f"models/{request.ids[-1]}/operations"
    sample = {"video": {"uri": f"{request.origin}/v1beta/files/{name}:download?alt=media"}}
    response = {"generateVideoResponse": {"generatedSamples": [sample]}}
    operation: Json = {"name": f"{path}/{name}", "done": True, "response": response}
    request.store.put((request.family.value, f"/{path}", name), operation)
    request.store.put(
        (request.family.value, "/files", name), {"name": f"files/{name}", "mimeType": "video/mp4"}
    )
    return pretty_json_response({"name": f"{path}/{name}"})


def create_images(request: Request) -> Response:
    """``POST …:predict``: as many images as were asked for."""
    body = validate(request.body, _PREDICT, lenient="lenient" in request.faults)
    count = (body.get("parameters") or {}).get("sampleCount") or 1
    image = {"mimeType": "image/png", "bytesBase64Encoded": "iVBORw0KGgo="}
    return pretty_json_response({"predictions": [image] * count})


def create_tuned_model(request: Request) -> Response:
    """``POST …/tunedModels``: an operation that has made a model."""
    tuned_model = store_new(
        request, request.template, {**request.body, "state": "ACTIVE"}, request.id("tuned-")
    )
    metadata = {"@type": _TYPE_PREFIX + "CreateTunedModelMetadata", "tunedModel": tuned_model["name"]}
    return pretty_json_response(
        {"name": f"{tuned_model['name']}/operations/{request.id('op-')}", "metadata": metadata}
    )


def import_file(request: Request) -> Response:
    """``POST …/fileSearchStores/{}:importFile``: an operation that has made a document."""
    if not isinstance(request.body.get("fileName"), str):
        raise ApiError(400, "* ImportFileRequest.file_name: file_name is not specified\n", "file_name")
    name, store = request.id("doc-"), f"fileSearchStores/{request.ids[0]}"
    fields = {"displayName": request.body["fileName"], "state": "STATE_ACTIVE"}
    document = store_new(request, "/v1beta/fileSearchStores/{}/documents", fields, name)
    response = {"parent": store, "documentName": document["name"]}
    operation: Json = {"name": f"{store}/operations/{name}", "done": True, "response": response}
    request.store.put((request.family.value, f"/{store}/operations", name), operation)
    return pretty_json_response(operation)


def register_files(request: Request) -> Response:
    """``POST …/files:register``: files that lie elsewhere."""
    body = validate(request.body, _REGISTER, lenient="lenient" in request.faults)
    uris: list[str] = body["uris"]
    files = [
        store_new(request, "/v1/files", {"uri": uri, "source": "REGISTERED"}, request.id("r-", index))
        for index, uri in enumerate(uris)
    ]
    return pretty_json_response({"files": files})


def rotate_signing_secret(request: Request) -> Response:
    """``POST …/webhooks/{}:rotateSigningSecret``."""
    find_resource(request, request.template.partition(":")[0])
    return pretty_json_response({"secret": request.id("whsec_")})


def get_environment_file(request: Request) -> Response:
    """``GET …/environments/{}/files/{...}``: what is there, or its bytes with ``?alt=media``."""
    folder = fill_template(request.template, request.ids).partition("/files/")[0] + "/files"
    key = (request.family.value, folder, request.ids[-1])
    file = request.store.get(key)
    size = request.faults.number("size")
    if request.query.get("alt") == "media":
        stored = request.store.contents.get(key)
        if stored is None and size is None and not request.lenient:
            raise ApiError(404, f"No file {request.ids[-1]} found.")
        return download(
            request,
            GeneratedContent(size or 0) if stored is None else stored,
            "application/octet-stream",
            None,
        )
    return pretty_json_response(
        {"files": [file] if file else list(request.store.all(request.family.value, folder))}
    )


HANDLERS: Final[dict[tuple[str, str], Handler]] = {
    ("POST", "/models/{...}:batchGenerateContent"): create_content_batch,
    ("POST", "/models/{...}:asyncBatchEmbedContent"): create_embedding_batch,
    ("POST", "/tunedModels/{}:batchGenerateContent"): create_content_batch,
    ("POST", "/tunedModels/{}:asyncBatchEmbedContent"): create_embedding_batch,
    ("POST", "/batches/{}:cancel"): cancel_batch,
    ("POST", "/models/{...}:predict"): create_images,
    ("POST", "/models/{...}:predictLongRunning"): create_video,
    ("POST", "/tunedModels"): create_tuned_model,
    ("POST", "/fileSearchStores/{}:importFile"): import_file,
    ("POST", "/files:register"): register_files,
    ("POST", "/webhooks/{}:rotateSigningSecret"): rotate_signing_secret,
    ("GET", "/environments/{}/files/{...}"): get_environment_file,
    **INTERACTION_HANDLERS,
}
