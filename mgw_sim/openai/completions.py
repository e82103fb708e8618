"""OpenAI's completions, embeddings and moderations."""

from typing import Any, Final

from mgw_sim.api import ApiError, Json, Request, Response, StreamResponse, json_response, sse_event
from mgw_sim.media import base64_floats, unit_vector
from mgw_sim.model import Completion, FinishReason, Prompt, complete, token_count, tokenize
from mgw_sim.openai.chat import DONE, usage
from mgw_sim.openai.chat_request import STREAM_OPTIONS
from mgw_sim.openai.errors import error_for, error_value, validate
from mgw_sim.validation import (
    Shape,
    array,
    boolean,
    either,
    find_problems,
    integer,
    mapping,
    number,
    string,
    tagged,
)

_DIMENSIONS: Final = 1536
_CATEGORIES: Final = (
    "harassment",
    "harassment/threatening",
    "hate",
    "hate/threatening",
    "illicit",
    "illicit/violent",
    "self-harm",
    "self-harm/instructions",
    "self-harm/intent",
    "sexual",
    "sexual/minors",
    "violence",
    "violence/graphic",
)
_COMPLETIONS: Final = Shape(
    {
        "model": string(),
        "prompt": either(string(), array()),
        "best_of": integer(0, 20),
        "echo": boolean(),
        "frequency_penalty": number(-2, 2),
        "logit_bias": mapping(),
        "logprobs": integer(0, 5),
        "max_tokens": integer(0),
        "n": integer(1, 128),
        "presence_penalty": number(-2, 2),
        "seed": integer(),
        "stop": either(string(), array(string())),
        "stream": boolean(),
        "stream_options": STREAM_OPTIONS,
        "suffix": string(),
        "temperature": number(0, 2),
        "top_p": number(0, 1),
        "user": string(),
    },
    required=("model", "prompt"),
)
_EMBEDDINGS: Final = Shape(
    {
        "model": string(),
        "input": either(string(), array()),
        "dimensions": integer(1, 3072),
        "encoding_format": string("float", "base64"),
        "user": string(),
    },
    required=("model", "input"),
)
_MODERATION_PART: Final = tagged(
    text=Shape({"text": string()}, required=("text",)),
    image_url=Shape({"image_url": mapping()}, required=("image_url",)),
)
_MODERATIONS: Final = Shape({"model": string(), "input": either(string(), array())}, required=("input",))


def completions(request: Request) -> Response:
    """``POST /v1/completions`` and ``/beta/completions``; with ``suffix`` the middle is filled in."""
    body = request.body
    validate(body, _COMPLETIONS, lenient="lenient" in request.faults)
    stop = body.get("stop")
    all_completions, prompts = [], []
    for text in _input_texts(body["prompt"], "prompt"):
        for index in range(body.get("n") or 1):
            prompts.append(
                Prompt(
                    text=f"{text}…{body['suffix']}" if body.get("suffix") else text,
                    tokens=token_count(text) + token_count(body.get("suffix") or ""),
                    max_tokens=body.get("max_tokens") or 16,
                    stop_sequences=(stop,) if isinstance(stop, str) else tuple(stop or ()),
                    candidate=index,
                )
            )
            all_completions.append(complete(prompts[-1], request.faults))
    token_usage = usage(request, Prompt("", sum(prompt.tokens for prompt in prompts)), all_completions)
    if body.get("stream"):
        return StreamResponse(
            tuple(_chunks(request, all_completions, token_usage)),
            sse_event(error_value(ApiError(500, "The server broke."))),
        )
    choices = [
        _choice(index, completion.text, completion) for index, completion in enumerate(all_completions)
    ]
    told = {} if "untold" in request.faults else {"usage": token_usage}
    return json_response({**_frame(request), "choices": choices, **told})


def _frame(request: Request) -> Json:
    return {
        "id": request.id("cmpl-"),
        "object": "text_completion",
        "created": request.now,
        "model": request.model,
    }


def _choice(index: int, text: str, completion: Completion | None) -> Json:
    finish = (
        None
        if completion is None
        else "length"
        if completion.finish_reason is FinishReason.LENGTH
        else "stop"
    )
    return {"text": text, "index": index, "logprobs": None, "finish_reason": finish}


def _chunks(request: Request, all_completions: list[Completion], token_usage: Json) -> list[bytes]:
    asked = bool((request.body.get("stream_options") or {}).get("include_usage"))
    wants_usage = asked and "untold" not in request.faults
    unused = {"usage": None} if wants_usage else {}
    events = []
    for index, completion in enumerate(all_completions):
        choices = [_choice(index, word, None) for word in tokenize(completion.text)]
        choices.append(_choice(index, "", completion))
        events += [sse_event({**_frame(request), "choices": [choice], **unused}) for choice in choices]
    if wants_usage:
        events.append(sse_event({**_frame(request), "choices": [], "usage": token_usage}))
    return [*events, DONE]


def _input_texts(value: Any, name: str) -> list[str]:  # a string, strings, tokens, or lists of tokens
    if isinstance(value, str):
        return [value]
    if not value:
        raise ApiError(400, f"Invalid '{name}': empty array.", name, "empty_array")
    if all(isinstance(one, str) for one in value):
        return list(value)
    if all(isinstance(one, int) for one in value):
        return [_tokens_as_text(value)]
    if all(isinstance(one, list) and one and all(isinstance(token, int) for token in one) for one in value):
        return [_tokens_as_text(one) for one in value]
    raise ApiError(400, f"Invalid type for '{name}': expected strings or tokens.", name, "invalid_type")


def _tokens_as_text(tokens: list[int]) -> str:
    return " ".join(f"<{token}>" for token in tokens)


def embeddings(request: Request) -> Response:
    """``POST /v1/embeddings``."""
    body = request.body
    validate(body, _EMBEDDINGS, lenient="lenient" in request.faults)
    texts = _input_texts(body["input"], "input")
    if not all(texts):
        raise ApiError(400, "Invalid 'input': input cannot be an empty string.", "input", "invalid_value")
    vectors = [unit_vector(text, body.get("dimensions") or _DIMENSIONS) for text in texts]
    data = [
        {
            "object": "embedding",
            "index": index,
            "embedding": base64_floats(vector) if body.get("encoding_format") == "base64" else vector,
        }
        for index, vector in enumerate(vectors)
    ]
    total = sum(token_count(text) for text in texts)
    token_usage = {"prompt_tokens": total, "total_tokens": total}
    return json_response({"object": "list", "data": data, "model": request.model, "usage": token_usage})


def moderations(request: Request) -> Response:
    """``POST /v1/moderations``: what contains the word ``violence`` is flagged as that."""
    body = request.body
    validate(body, _MODERATIONS, lenient="lenient" in request.faults)
    value = body["input"]
    is_parts = isinstance(value, list) and any(isinstance(one, dict) for one in value)
    texts = [_moderation_text(value)] if is_parts else _input_texts(value, "input")
    results = [_moderation("violence" in text.lower()) for text in texts]
    return json_response(
        {"id": request.id("modr-"), "model": request.model or "omni-moderation-latest", "results": results}
    )


def _moderation_text(parts: list[Any]) -> str:
    """The text of several parts, each text or an image."""
    for problem in find_problems(parts, array(_MODERATION_PART), ("input",)):
        raise error_for(problem)
    return " ".join(part.get("text") or "" for part in parts)


def _moderation(flagged: bool) -> Json:  # noqa: FBT001  the one fact there is
    hit = {"violence"} if flagged else set()
    return {
        "flagged": flagged,
        "categories": {name: name in hit for name in _CATEGORIES},
        "category_scores": {name: 0.9 if name in hit else 0.001 for name in _CATEGORIES},
        "category_applied_input_types": {name: ["text"] for name in _CATEGORIES},
    }
