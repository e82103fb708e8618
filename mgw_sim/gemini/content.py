"""Google's generateContent and streamGenerateContent, countTokens, embedContent and batchEmbedContents.

What Google's own models take of ``thinkingConfig`` goes by their names (source: the thinking guide).
Budgets are those of the 2.5 series; levels came with Gemini 3.  A name that no pattern matches takes both.
"""

import json
import re
from typing import Any, Final

from msgspec.structs import replace

from mgw_sim.api import ApiError, Json, Request, Response, StreamResponse, UnaryResponse, dump_json
from mgw_sim.gemini.candidates import (
    CandidateSet,
    response,
    responses,
    speech_response,
    speech_responses,
    wants_speech,
)
from mgw_sim.gemini.conversation import (
    check_image_signatures,
    check_no_call_ids,
    check_request,
    prompt_tokens,
    text_of,
    tool_results,
)
from mgw_sim.gemini.errors import error_value
from mgw_sim.gemini.fields import (
    BATCH_EMBED,
    COUNT,
    EMBED,
    GENERATE,
    PREDICT,
    VERTEX_BATCH_EMBED,
    VERTEX_COUNT,
    VERTEX_EMBED,
    validate,
)
from mgw_sim.media import unit_vector
from mgw_sim.model import Prompt, Tool, ToolChoice, complete, token_count

_JSON_TYPE: Final = "application/json; charset=UTF-8"
_SIGNING_MODELS: Final = re.compile(r"gemini-(?:[3-9]|\d\d)")  # from Gemini 3 on
_SIGNING_IMAGE_MODELS: Final = re.compile(r"gemini-(?:[3-9]|\d\d).*-image|nano-banana")
_DIMENSIONS: Final = 3072
_BUDGETS: Final = (
    (re.compile(r"gemini-2\.5-pro"), 128, 32768),
    (re.compile(r"gemini-2\.5-flash-lite"), 512, 24576),
    (re.compile(r"gemini-2\.5-flash"), 1, 24576),
)
_NO_LEVELS: Final = re.compile(r"gemini-2\.")
_ALWAYS_THINKING: Final = re.compile(r"gemini-2\.5-pro")


def generate_content(request: Request) -> Response:
    """``POST …:generateContent``."""
    body = _validated_body(request)
    if wants_speech(body):
        return pretty_json_response(speech_response(request, body, read_prompt(body)))
    return pretty_json_response(response(request, _complete(request, body)))


def stream_generate_content(request: Request) -> Response:
    """``POST …:streamGenerateContent``: events with ``?alt=sse``, else a JSON array in pieces."""
    alt = request.query.get("alt", "json")
    if alt not in {"sse", "json"}:
        raise ApiError(400, f"Invalid value for alt: {alt}", "alt")
    body = _validated_body(request)
    if wants_speech(body):
        responses_sent = speech_responses(request, body, read_prompt(body))
    else:
        responses_sent = responses(request, _complete(request, body))
    error = error_value(ApiError(503, "The model is overloaded. Please try again later."))
    if alt == "sse":
        pieces = [b"data: " + dump_json(one) + b"\r\n\r\n" for one in responses_sent]
        error_piece = b"data: " + dump_json(error) + b"\r\n\r\n"
        if "odd-error" in request.faults:
            error_piece = json.dumps(error, indent=2).encode() + b"\n"
        return StreamResponse(tuple(pieces), error_piece, "text/event-stream")
    texts = [json.dumps(one, ensure_ascii=False, indent=2).encode() for one in responses_sent]
    array = [(b",\r\n" if index else b"[") + text for index, text in enumerate(texts)]
    error_piece = b",\r\n" + json.dumps(error, indent=2).encode() + b"\n]"
    return StreamResponse((*array, b"\n]"), error_piece, _JSON_TYPE)


def pretty_json_response(value: Any) -> UnaryResponse:  # any JSON value
    """A response as Google prints it."""
    return UnaryResponse(
        json.dumps(value, ensure_ascii=False, indent=2).encode() + b"\n", content_type=_JSON_TYPE
    )


def _validated_body(request: Request) -> Json:
    body = validate(request.body, GENERATE, lenient="lenient" in request.faults)
    signed = bool(_SIGNING_MODELS.match(request.model))
    if _is_vertex(request) and not signed:
        check_no_call_ids(body["contents"])
    check_request(body, signed="strict-signatures" in request.faults or signed)
    if _SIGNING_IMAGE_MODELS.search(request.model):
        check_image_signatures(body["contents"])
    check_model(request.model, body)
    return body


def _is_vertex(request: Request) -> bool:
    """Whether Vertex AI was asked, which has rules of its own."""
    return "/publishers/google/" in request.path


def _complete(request: Request, body: Json) -> CandidateSet:
    prompt = read_prompt(body)
    config = body.get("generationConfig") or {}
    indices = range(config.get("candidateCount") or 1)
    return CandidateSet(
        prompt,
        tuple(complete(replace(prompt, candidate=index), request.faults) for index in indices),
        shows_thoughts=bool((config.get("thinkingConfig") or {}).get("includeThoughts")),
        logprobs=config.get("logprobs") or 0 if config.get("responseLogprobs") else None,
    )


def read_prompt(body: Json) -> Prompt:
    """What the answer depends on."""
    config = body.get("generationConfig") or {}
    calling = (body.get("toolConfig") or {}).get("functionCallingConfig") or {}
    mode = str(calling.get("mode", "AUTO")).upper()
    users = [
        content for content in body["contents"] if content.get("role", "user") == "user" and text_of(content)
    ]
    schema = config.get("responseJsonSchema", config.get("responseSchema"))
    return Prompt(
        text=text_of(users[-1]) if users else "",
        tokens=prompt_tokens(body),
        tools=tuple(
            Tool(function["name"], function.get("parametersJsonSchema", function.get("parameters")))
            for tool in body.get("tools") or ()
            for function in tool.get("functionDeclarations") or ()
        ),
        tool_choice={"ANY": ToolChoice.ANY, "NONE": ToolChoice.NONE}.get(mode, ToolChoice.AUTO),
        allowed_tools=tuple(calling.get("allowedFunctionNames") or ()),
        results=tool_results(body["contents"]),
        schema=True if schema is None and config.get("responseMimeType") == "application/json" else schema,
        max_tokens=config.get("maxOutputTokens"),
        stop_sequences=tuple(config.get("stopSequences") or ()),
        wants_thinking=_wants_thinking(config.get("thinkingConfig") or {}),
    )


def _wants_thinking(thinking: Json) -> bool:
    """Whether thinking is asked for; whether it is shown is another question."""
    is_asked = thinking.get("includeThoughts") or "thinkingLevel" in thinking or "thinkingBudget" in thinking
    return bool(is_asked) and thinking.get("thinkingBudget") != 0


def count_tokens(request: Request) -> Response:
    """``POST …:countTokens``: bare contents, or a whole request under ``generateContentRequest``."""
    shape = VERTEX_COUNT if _is_vertex(request) else COUNT
    body = validate(request.body, shape, lenient="lenient" in request.faults)
    contents_request = body.get("generateContentRequest") or {**body, "contents": body.get("contents") or []}
    check_request(contents_request, signed=False)
    total = prompt_tokens(contents_request)
    return pretty_json_response(
        {"totalTokens": total, "promptTokensDetails": [{"modality": "TEXT", "tokenCount": total}]}
    )


def embed_content(request: Request) -> Response:
    """``POST …:embedContent``."""
    shape = VERTEX_EMBED if _is_vertex(request) else EMBED
    body = validate(request.body, shape, lenient="lenient" in request.faults)
    _check_method(request, predicts=False)
    return pretty_json_response({"embedding": _embedding(body), "usageMetadata": _usage([body])})


def batch_embed_contents(request: Request) -> Response:
    """``POST …:batchEmbedContents``: each request names the model of the path again, but on Vertex AI."""
    is_vertex = _is_vertex(request)
    shape = VERTEX_BATCH_EMBED if is_vertex else BATCH_EMBED
    body = validate(request.body, shape, lenient="lenient" in request.faults)
    _check_method(request, predicts=False)
    full_name = request.model if "/" in request.model else f"models/{request.model}"
    for index, entry in enumerate(body["requests"]):
        if not is_vertex and entry.get("model") not in {full_name, request.model}:
            name = f"requests[{index}].model"
            message = "model must match the model in the batch request."
            raise ApiError(400, f"* BatchEmbedContentsRequest.{name}: {message}\n", name)
    embeddings = [_embedding(entry) for entry in body["requests"]]
    return pretty_json_response({"embeddings": embeddings, "usageMetadata": _usage(body["requests"])})


def predict(request: Request) -> Response:
    """``POST …:predict``: embeddings of the older models on Vertex AI."""
    body = validate(request.body, PREDICT, lenient="lenient" in request.faults)
    _check_method(request, predicts=True)
    size = (body.get("parameters") or {}).get("outputDimensionality") or _DIMENSIONS
    predictions = [
        {
            "embeddings": {
                "values": unit_vector(instance["content"], size),
                "statistics": {"token_count": token_count(instance["content"]), "truncated": False},
            }
        }
        for instance in body["instances"]
    ]
    return pretty_json_response({"predictions": predictions, "metadata": {"billableCharacterCount": 1}})


def _check_method(request: Request, *, predicts: bool) -> None:
    """Raise the ApiError where Vertex AI has another method for a model's embeddings."""
    embeds = "gemini" in request.model or "maas" in request.model
    if _is_vertex(request) and embeds is predicts:
        raise ApiError(400, f"Publisher model {request.model} is not supported by this method.")


def _embedding(request: Json) -> Json:
    text = text_of(request["content"])
    if not text:
        raise ApiError(400, "* EmbedContentRequest.content: content is empty\n", "content")
    config = request.get("embedContentConfig") or request
    return {"values": unit_vector(text, config.get("outputDimensionality") or _DIMENSIONS)}


def _usage(requests: list[Any]) -> Json:
    return {"promptTokenCount": sum(token_count(text_of(request["content"])) for request in requests)}


def check_model(model: str, body: Json) -> None:
    """Raise the ApiError for the first thing that a model of this name does not take."""
    thinking = (body.get("generationConfig") or {}).get("thinkingConfig") or {}
    budget = thinking.get("thinkingBudget")
    if "thinkingLevel" in thinking and _NO_LEVELS.match(model):
        raise ApiError(400, "Thinking level is not supported for this model.")
    if budget == 0 and _ALWAYS_THINKING.match(model):
        raise ApiError(400, "Budget 0 is invalid. This model only works in thinking mode.")
    limits = next((limits for limits in _BUDGETS if limits[0].match(model)), None)
    if limits is None or budget is None or budget in {-1, 0}:
        return
    _, least, most = limits
    if not least <= budget <= most:
        message = f"Please choose a value between {least} and {most}."
        raise ApiError(400, f"The thinking budget {budget} is invalid. {message}")
