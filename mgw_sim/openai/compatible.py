"""What hosts that speak OpenAI's wire have beyond it: reranking, OCR, balances, deferred answers.

Sources: the references of Cohere and Jina (rerank), Mistral (OCR), Moonshot (token counts, balance),
OpenRouter (credits, key, generation) and xAI (deferred completions).
"""

from typing import Any, Final

from mgw_sim.api import ApiError, Handler, Json, Request, Response, UnaryResponse, json_response
from mgw_sim.media import unit_vector
from mgw_sim.model import token_count

_DIMENSIONS: Final = 32


def rerank(request: Request) -> Response:
    """``POST /v1/rerank``: documents by their likeness to the query."""
    query, documents = _required_field(request, "query", str), _required_field(request, "documents", list)
    _required_field(request, "model", str)
    texts = [_document_text(result) for result in documents]
    target = unit_vector(query, _DIMENSIONS)
    scores = [
        sum(a * b for a, b in zip(target, unit_vector(text, _DIMENSIONS), strict=True)) for text in texts
    ]
    results: list[Json] = [
        {"index": index, "relevance_score": round((score + 1) / 2, 6), "document": {"text": texts[index]}}
        for index, score in enumerate(scores)
    ]
    results.sort(key=lambda result: -result["relevance_score"])
    total = token_count(query) + sum(token_count(text) for text in texts)
    usage = {"total_tokens": total, "prompt_tokens": total}
    top = request.body.get("top_n")
    top_results = results[: top if isinstance(top, int) else len(results)]
    return json_response(
        {"id": request.id("rerank-"), "model": request.model, "results": top_results, "usage": usage}
    )


def _document_text(document: Any) -> str:  # text, or an object that has one
    return str(document.get("text", "")) if isinstance(document, dict) else str(document)


def read_document(request: Request) -> Response:
    """``POST /v1/ocr``: one page."""
    _required_field(request, "document", dict)
    page: Json = {
        "index": 0,
        "markdown": "You showed a document.",
        "images": [],
        "dimensions": {"dpi": 200, "height": 2200, "width": 1700},
    }
    usage = {"pages_processed": 1, "doc_size_bytes": len(request.raw)}
    return json_response(
        {"pages": [page], "model": _required_field(request, "model", str), "usage_info": usage}
    )


def estimate_tokens(request: Request) -> Response:
    """``POST /v1/tokenizers/estimate-token-count``: the words of a chat's messages."""
    total = sum(
        token_count(str(one.get("content", "")))
        for one in _required_field(request, "messages", list)
        if isinstance(one, dict)
    )
    _required_field(request, "model", str)
    return json_response({"data": {"total_tokens": total}})


def _required_field(request: Request, name: str, kind: type) -> Any:  # a value of that kind
    value = request.body.get(name)
    if not isinstance(value, kind):
        raise ApiError(400, f"Missing required parameter: '{name}'.", name, "missing_required_parameter")
    return value


def get_balance(_: Request) -> Response:
    """``GET /v1/users/me/balance``."""
    balance = {"available_balance": 49.5, "voucher_balance": 46.5, "cash_balance": 3.0}
    return json_response({"code": 0, "data": balance, "scode": "0x0", "status": True})


def get_credits(_: Request) -> Response:
    """``GET /v1/credits``."""
    return json_response({"data": {"total_credits": 100.5, "total_usage": 25.75}})


def get_key(_: Request) -> Response:
    """``GET /v1/key``."""
    return json_response(
        {
            "data": {
                "label": "sk-sim",
                "limit": 100,
                "usage": 25.75,
                "limit_remaining": 74.25,
                "is_free_tier": False,
            }
        }
    )


def get_generation(request: Request) -> Response:
    """``GET /v1/generation?id=…``."""
    name = request.query.get("id", "")
    if not name:
        raise ApiError(400, "Missing required parameter: 'id'.", "id")
    if name.startswith("missing"):
        raise ApiError(404, f"Generation {name} not found")
    return json_response(
        {"data": {"id": name, "model": "echo-large", "total_cost": 0.0015, "tokens_prompt": 2}}
    )


def get_deferred_completion(request: Request) -> Response:
    """``GET /v1/chat/deferred-completion/{}``: not yet when it is first asked for, and there from then on."""
    name = request.ids[0]
    if name.startswith("missing"):
        raise ApiError(404, f"Deferred completion {name} not found.")
    session_name = f"deferred {name}"
    if session_name not in request.store.sessions:
        request.store.begin(session_name, None)
        return UnaryResponse(b"", 202)
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": "You waited.", "refusal": None},
        "finish_reason": "stop",
    }
    completion = {"id": name, "object": "chat.completion", "created": request.now, "model": "echo-large"}
    usage = {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}
    return json_response({**completion, "choices": [choice], "usage": usage})


COMPATIBLE_HANDLERS: Final[dict[tuple[str, str], Handler]] = {
    ("POST", "/rerank"): rerank,
    ("POST", "/ocr"): read_document,
    ("POST", "/tokenizers/estimate-token-count"): estimate_tokens,
    ("GET", "/users/me/balance"): get_balance,
    ("GET", "/credits"): get_credits,
    ("GET", "/key"): get_key,
    ("GET", "/generation"): get_generation,
    ("GET", "/chat/deferred-completion/{}"): get_deferred_completion,
}
