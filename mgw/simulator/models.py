"""``GET /v1/models`` and ``/v1/models/{id}`` in each family's shape."""

from typing import Final

from mgw.simulator.answer import Answer, Call, Json, Refusal, unary
from mgw.simulator.families import Family, family_of, unknown_model

LISTED: Final = ("echo-large", "echo-small", "echo-embedding")


def models_of(call: Call) -> Answer:
    """The list.  Any other name is answered, too; these are only the ones that are listed."""
    entries = [_entry(call, name) for name in LISTED]
    match _family(call):
        case Family.ANTHROPIC:
            _check_version(call)
            ends = {"first_id": LISTED[0], "last_id": LISTED[-1], "has_more": False}
            return unary({"data": entries, **ends})
        case Family.GEMINI:
            return unary({"models": entries})
    return unary({"object": "list", "data": entries})


def model_of(call: Call) -> Answer:
    """One model."""
    name = call.path.partition("/models/")[2]
    if name.startswith("missing"):
        raise unknown_model(_family(call), name)
    return unary(_entry(call, name))


def _family(call: Call) -> Family:
    return family_of(call.path, call.headers, call.query)


def _check_version(call: Call) -> None:
    if not call.headers["anthropic-version"]:
        raise Refusal(400, "anthropic-version: header is required")


def _entry(call: Call, name: str) -> Json:
    match _family(call):
        case Family.ANTHROPIC:
            return {
                "type": "model",
                "id": name,
                "display_name": name.replace("-", " ").title(),
                "created_at": "2026-01-02T03:04:05Z",
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
    return {"id": name, "object": "model", "created": 1767322985, "owned_by": "mgw-sim"}
