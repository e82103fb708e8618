"""OpenAI's completions, embeddings and moderations."""

from typing import Any, Final

from mgw.simulator import mind
from mgw.simulator.answer import Answer, Call, Json, Refusal, Stream, sse, unary
from mgw.simulator.checks import (
    Shape,
    array,
    boolean,
    either,
    integer,
    mapping,
    number,
    problems,
    string,
    tagged,
)
from mgw.simulator.mind import Finish, Outcome, Prompt
from mgw.simulator.openai_errors import error_value, refusal_for, require
from mgw.simulator.openai_request import STREAM_OPTIONS
from mgw.simulator.openai_stream import DONE, usage
from mgw.simulator.vectors import packed, unit_vector

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
_MODERATED: Final = tagged(
    text=Shape({"text": string()}, required=("text",)),
    image_url=Shape({"image_url": mapping()}, required=("image_url",)),
)
_MODERATIONS: Final = Shape({"model": string(), "input": either(string(), array())}, required=("input",))


def completions(call: Call) -> Answer:
    """``POST /v1/completions`` and ``/beta/completions``; with ``suffix`` the middle is filled in."""
    body = call.body
    require(body, _COMPLETIONS, lenient="lenient" in call.faults)
    stop = body.get("stop")
    outcomes, prompts = [], []
    for text in _texts(body["prompt"], "prompt"):
        for index in range(body.get("n") or 1):
            prompts.append(
                Prompt(
                    text=f"{text}…{body['suffix']}" if body.get("suffix") else text,
                    tokens=mind.count(text) + mind.count(body.get("suffix") or ""),
                    max_tokens=body.get("max_tokens") or 16,
                    stops=(stop,) if isinstance(stop, str) else tuple(stop or ()),
                    candidate=index,
                )
            )
            outcomes.append(mind.answer(prompts[-1], call.faults))
    counted = usage(call, Prompt("", sum(prompt.tokens for prompt in prompts)), outcomes)
    if body.get("stream"):
        return Stream(
            tuple(_chunks(call, outcomes, counted)), sse(error_value(Refusal(500, "The server broke.")))
        )
    choices = [_choice(index, outcome.text, outcome) for index, outcome in enumerate(outcomes)]
    return unary({**_frame(call), "choices": choices, "usage": counted})


def _frame(call: Call) -> Json:
    return {"id": call.id("cmpl-"), "object": "text_completion", "created": call.now, "model": call.model}


def _choice(index: int, text: str, outcome: Outcome | None) -> Json:
    finish = None if outcome is None else "length" if outcome.finish is Finish.LENGTH else "stop"
    return {"text": text, "index": index, "logprobs": None, "finish_reason": finish}


def _chunks(call: Call, outcomes: list[Outcome], counted: Json) -> list[bytes]:
    wanted = bool((call.body.get("stream_options") or {}).get("include_usage"))
    unused = {"usage": None} if wanted else {}
    found = []
    for index, outcome in enumerate(outcomes):
        choices = [_choice(index, word, None) for word in mind.tokens(outcome.text)]
        choices.append(_choice(index, "", outcome))
        found += [sse({**_frame(call), "choices": [choice], **unused}) for choice in choices]
    if wanted:
        found.append(sse({**_frame(call), "choices": [], "usage": counted}))
    return [*found, DONE]


def _texts(said: Any, name: str) -> list[str]:  # a string, strings, tokens, or lists of tokens
    if isinstance(said, str):
        return [said]
    if not said:
        raise Refusal(400, f"Invalid '{name}': empty array.", name, "empty_array")
    if all(isinstance(one, str) for one in said):
        return list(said)
    if all(isinstance(one, int) for one in said):
        return [_spelt(said)]
    if all(isinstance(one, list) and one and all(isinstance(token, int) for token in one) for one in said):
        return [_spelt(one) for one in said]
    raise Refusal(400, f"Invalid type for '{name}': expected strings or tokens.", name, "invalid_type")


def _spelt(tokens: list[int]) -> str:
    return " ".join(f"<{token}>" for token in tokens)


def embeddings(call: Call) -> Answer:
    """``POST /v1/embeddings``."""
    body = call.body
    require(body, _EMBEDDINGS, lenient="lenient" in call.faults)
    texts = _texts(body["input"], "input")
    if not all(texts):
        raise Refusal(400, "Invalid 'input': input cannot be an empty string.", "input", "invalid_value")
    vectors = [unit_vector(text, body.get("dimensions") or _DIMENSIONS) for text in texts]
    data = [
        {
            "object": "embedding",
            "index": index,
            "embedding": packed(vector) if body.get("encoding_format") == "base64" else vector,
        }
        for index, vector in enumerate(vectors)
    ]
    found = sum(mind.count(text) for text in texts)
    counted = {"prompt_tokens": found, "total_tokens": found}
    return unary({"object": "list", "data": data, "model": call.model, "usage": counted})


def moderations(call: Call) -> Answer:
    """``POST /v1/moderations``: what contains the word ``violence`` is flagged as that."""
    body = call.body
    require(body, _MODERATIONS, lenient="lenient" in call.faults)
    said = body["input"]
    is_parts = isinstance(said, list) and any(isinstance(one, dict) for one in said)
    texts = [_joined(said)] if is_parts else _texts(said, "input")
    results = [_moderation("violence" in text.lower()) for text in texts]
    return unary(
        {"id": call.id("modr-"), "model": call.model or "omni-moderation-latest", "results": results}
    )


def _joined(parts: list[Any]) -> str:
    """The text of several parts, each text or an image."""
    for problem in problems(parts, array(_MODERATED), ("input",)):
        raise refusal_for(problem)
    return " ".join(part.get("text") or "" for part in parts)


def _moderation(flagged: bool) -> Json:  # noqa: FBT001  the one fact there is
    hit = {"violence"} if flagged else set()
    return {
        "flagged": flagged,
        "categories": {name: name in hit for name in _CATEGORIES},
        "category_scores": {name: 0.9 if name in hit else 0.001 for name in _CATEGORIES},
        "category_applied_input_types": {name: ["text"] for name in _CATEGORIES},
    }
