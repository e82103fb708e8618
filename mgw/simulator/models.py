"""``GET /v1/models`` in pages and ``/v1/models/{id}``, in each family's shape.

``sim-models-N`` lists N models, so that there are several pages.
"""

from typing import Final

from mgw.simulator.answer import Answer, Call, Family, Json, Refusal, unary
from mgw.simulator.families import unknown_model
from mgw.simulator.pages import anthropic_page, gemini_page
from mgw.simulator.times import time_of

LISTED: Final = ("echo-large", "echo-small", "echo-embedding")
_MOST: Final = 100_000
_MADE: Final = 1767322985
"""When the models came into the world, in seconds."""


def models_of(call: Call) -> Answer:
    """The list.  Any other name is answered, too; these are only the ones that are listed."""
    entries = [_entry(call, name) for name in _names(call)]
    match call.family:
        case Family.ANTHROPIC:
            return unary(anthropic_page(call, entries))
        case Family.GEMINI:
            return unary(gemini_page(call, "models", entries))
    return unary({"object": "list", "data": entries})  # OpenAI's has no pages


def _names(call: Call) -> tuple[str, ...]:
    wanted = call.faults.number("models")
    if wanted is None:
        return LISTED
    if wanted > _MOST:
        raise Refusal(400, f"The simulator lists {_MOST} models at most.")
    return (*LISTED, *(f"echo-{number:05d}" for number in range(len(LISTED), wanted)))[:wanted]


def model_of(call: Call) -> Answer:
    """One model."""
    if call.ids[-1].startswith("missing"):
        raise unknown_model(call.family, call.ids[-1])
    return unary(_entry(call, call.ids[-1]))


def drop_model(call: Call) -> Answer:
    """``DELETE /v1/models/{id}``: a tuned model of OpenAI's."""
    return unary({"id": call.ids[-1], "object": "model", "deleted": True})


def _entry(call: Call, name: str) -> Json:
    match call.family:
        case Family.ANTHROPIC:
            return {
                "type": "model",
                "id": name,
                "display_name": name.replace("-", " ").title(),
                "created_at": time_of(_MADE),
                "lifecycle": "active",
                "max_input_tokens": 200000,
                "max_tokens": 64000,
                "capabilities": None,
            }
        case Family.GEMINI:
            return {
                "name": f"models/{name}",
                "version": "001",
                "displayName": name.replace("-", " ").title(),
                "description": "Repeats what it is told.",
                "inputTokenLimit": 1048576,
                "outputTokenLimit": 65536,
                "supportedGenerationMethods": ["generateContent", "countTokens", "embedContent"],
                "temperature": 1,
                "topP": 0.95,
                "topK": 64,
                "thinking": True,
            }
    return {"id": name, "object": "model", "created": _MADE, "owned_by": "mgw-sim"}
