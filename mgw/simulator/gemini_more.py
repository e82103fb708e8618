"""Google's countTokens, embedContent and batchEmbedContents."""

from typing import Any, Final

from mgw.simulator.answer import Answer, Call, Json, Refusal
from mgw.simulator.gemini_content import pretty
from mgw.simulator.gemini_fields import BATCH_EMBED, COUNT, EMBED, require
from mgw.simulator.gemini_turns import check, prompt_tokens, text_of
from mgw.simulator.mind import count
from mgw.simulator.vectors import unit_vector

_DIMENSIONS: Final = 3072


def count_gemini_tokens(call: Call) -> Answer:
    """``POST …:countTokens``: bare contents, or a whole request under ``generateContentRequest``."""
    body = require(call.body, COUNT, lenient="lenient" in call.faults)
    asked = body.get("generateContentRequest") or {"contents": body.get("contents") or []}
    check(asked, signed=False)
    found = prompt_tokens(asked)
    return pretty({"totalTokens": found, "promptTokensDetails": [{"modality": "TEXT", "tokenCount": found}]})


def embed(call: Call) -> Answer:
    """``POST …:embedContent``."""
    body = require(call.body, EMBED, lenient="lenient" in call.faults)
    return pretty({"embedding": _embedding(body), "usageMetadata": _usage([body])})


def batch_embed(call: Call) -> Answer:
    """``POST …:batchEmbedContents``: each request names the model of the path again."""
    body = require(call.body, BATCH_EMBED, lenient="lenient" in call.faults)
    named = call.model if "/" in call.model else f"models/{call.model}"
    for index, request in enumerate(body["requests"]):
        if request.get("model") not in {named, call.model}:
            name = f"requests[{index}].model"
            said = "model must match the model in the batch request."
            raise Refusal(400, f"* BatchEmbedContentsRequest.{name}: {said}\n", name)
    made = [_embedding(request) for request in body["requests"]]
    return pretty({"embeddings": made, "usageMetadata": _usage(body["requests"])})


def _embedding(request: Json) -> Json:
    text = text_of(request["content"])
    if not text:
        raise Refusal(400, "* EmbedContentRequest.content: content is empty\n", "content")
    return {"values": unit_vector(text, request.get("outputDimensionality") or _DIMENSIONS)}


def _usage(requests: list[Any]) -> Json:
    return {"promptTokenCount": sum(count(text_of(request["content"])) for request in requests)}
