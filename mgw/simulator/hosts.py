"""What hosts that speak OpenAI's wire have beyond it: reranking, OCR, balances, deferred answers.

Sources: the references of Cohere and Jina (rerank), Mistral (OCR), Moonshot (token counts, balance),
OpenRouter (credits, key, generation) and xAI (deferred completions).
"""

from typing import Any, Final

from mgw.simulator.answer import Answer, Call, Handler, Json, Refusal, Unary, unary
from mgw.simulator.mind import count
from mgw.simulator.vectors import unit_vector

_DIMENSIONS: Final = 32


def rerank(call: Call) -> Answer:
    """``POST /v1/rerank``: documents by their likeness to the query."""
    query, documents = _wanted(call, "query", str), _wanted(call, "documents", list)
    _wanted(call, "model", str)
    texts = [_text_of(one) for one in documents]
    target = unit_vector(query, _DIMENSIONS)
    scores = [
        sum(a * b for a, b in zip(target, unit_vector(text, _DIMENSIONS), strict=True)) for text in texts
    ]
    found: list[Json] = [
        {"index": index, "relevance_score": round((score + 1) / 2, 6), "document": {"text": texts[index]}}
        for index, score in enumerate(scores)
    ]
    found.sort(key=lambda one: -one["relevance_score"])
    total = count(query) + sum(count(text) for text in texts)
    usage = {"total_tokens": total, "prompt_tokens": total}
    top = call.body.get("top_n")
    shown = found[: top if isinstance(top, int) else len(found)]
    return unary({"id": call.id("rerank-"), "model": call.model, "results": shown, "usage": usage})


def _text_of(document: Any) -> str:  # text, or an object that has one
    return str(document.get("text", "")) if isinstance(document, dict) else str(document)


def read_document(call: Call) -> Answer:
    """``POST /v1/ocr``: one page."""
    _wanted(call, "document", dict)
    page: Json = {
        "index": 0,
        "markdown": "You showed a document.",
        "images": [],
        "dimensions": {"dpi": 200, "height": 2200, "width": 1700},
    }
    usage = {"pages_processed": 1, "doc_size_bytes": len(call.raw)}
    return unary({"pages": [page], "model": _wanted(call, "model", str), "usage_info": usage})


def estimate_tokens(call: Call) -> Answer:
    """``POST /v1/tokenizers/estimate-token-count``: the words of a chat's messages."""
    total = sum(
        count(str(one.get("content", ""))) for one in _wanted(call, "messages", list) if isinstance(one, dict)
    )
    _wanted(call, "model", str)
    return unary({"data": {"total_tokens": total}})


def _wanted(call: Call, name: str, kind: type) -> Any:  # a value of that kind
    found = call.body.get(name)
    if not isinstance(found, kind):
        raise Refusal(400, f"Missing required parameter: '{name}'.", name, "missing_required_parameter")
    return found


def balance(_: Call) -> Answer:
    """``GET /v1/users/me/balance``."""
    held = {"available_balance": 49.5, "voucher_balance": 46.5, "cash_balance": 3.0}
    return unary({"code": 0, "data": held, "scode": "0x0", "status": True})


def credit(_: Call) -> Answer:
    """``GET /v1/credits``."""
    return unary({"data": {"total_credits": 100.5, "total_usage": 25.75}})


def key(_: Call) -> Answer:
    """``GET /v1/key``."""
    return unary(
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


def generation(call: Call) -> Answer:
    """``GET /v1/generation?id=…``."""
    name = call.query.get("id", "")
    if not name:
        raise Refusal(400, "Missing required parameter: 'id'.", "id")
    if name.startswith("missing"):
        raise Refusal(404, f"Generation {name} not found")
    return unary({"data": {"id": name, "model": "echo-large", "total_cost": 0.0015, "tokens_prompt": 2}})


def deferred(call: Call) -> Answer:
    """``GET /v1/chat/deferred-completion/{}``: not yet when it is first asked for, and there from then on."""
    name = call.ids[0]
    if name.startswith("missing"):
        raise Refusal(404, f"Deferred completion {name} not found.")
    known = f"deferred {name}"
    if known not in call.store.sessions:
        call.store.begin(known, None)
        return Unary(b"", 202)
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": "You waited.", "refusal": None},
        "finish_reason": "stop",
    }
    made = {"id": name, "object": "chat.completion", "created": call.now, "model": "echo-large"}
    usage = {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}
    return unary({**made, "choices": [choice], "usage": usage})


CLAIMS: Final[dict[tuple[str, str], Handler]] = {
    ("POST", "/rerank"): rerank,
    ("POST", "/ocr"): read_document,
    ("POST", "/tokenizers/estimate-token-count"): estimate_tokens,
    ("GET", "/users/me/balance"): balance,
    ("GET", "/credits"): credit,
    ("GET", "/key"): key,
    ("GET", "/generation"): generation,
    ("GET", "/chat/deferred-completion/{}"): deferred,
}
