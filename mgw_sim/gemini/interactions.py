"""Google's interactions over HTTP: an answer in steps, and tokens for clients that dial one.

Source: ``google.genai.interactions`` 3.6.
"""

from typing import Any, Final

from mgw_sim.api import ApiError, Handler, Json, Request, Response, StreamResponse, rfc3339, sse_event
from mgw_sim.gemini.content import pretty_json_response
from mgw_sim.model import token_count
from mgw_sim.platform.resources import find_resource, store_new

_TOKEN_SECONDS: Final = 30 * 60


def create_interaction(request: Request) -> Response:
    """``POST …/interactions``: an answer of the model's in steps, whole or as events."""
    if not request.body.get("model") and not request.body.get("agent"):
        raise ApiError(400, "* CreateInteractionRequest: model or agent is not specified\n", "model")
    text = input_text(request.body.get("input"))
    reply = f"You said: {text}"
    usage = usage_of(token_count(text), token_count(reply))
    steps = [{"type": "model_output", "content": [{"type": "text", "text": reply}]}]
    fields = {"steps": steps, "output_text": reply, "usage": usage, "object": "interaction", "role": "model"}
    echoed = {name: value for name, value in request.body.items() if name not in {"stream", "input"}}
    interaction = store_new(request, request.template, {**echoed, **fields})
    if not request.body.get("stream"):
        return pretty_json_response(interaction)
    in_progress: Json = {
        **interaction,
        "status": "in_progress",
        "steps": [],
        "usage": None,
        "output_text": None,
    }
    events: list[Json] = [
        {"event_type": "interaction.created", "interaction": in_progress},
        {"event_type": "step.start", "index": 0, "step": {"type": "model_output"}},
        {"event_type": "step.delta", "index": 0, "delta": {"type": "text", "text": reply}},
        {"event_type": "step.stop", "index": 0},
        {"event_type": "interaction.completed", "interaction": interaction},
    ]
    error = {"event_type": "error", "error": {"code": "internal", "message": "The server broke."}}
    return StreamResponse(
        tuple(sse_event(one, one["event_type"]) for one in events), sse_event(error, "error")
    )


def create_interaction_token(request: Request) -> Response:
    """``POST …/interactions/{}/auth_tokens``: what a client dials this one interaction with."""
    find_resource(request, request.template.rpartition("/")[0])
    expires = request.body.get("expire_time") or rfc3339(request.now + _TOKEN_SECONDS)
    name = request.id("")
    store_new(request, request.template, {"expires_at": expires}, name)
    return pretty_json_response({"auth_token": f"auth_tokens/{name}", "expires_at": expires})


def usage_of(tokens_in: int, tokens_out: int) -> Json:
    """What an interaction has come to."""
    return {
        "total_input_tokens": tokens_in,
        "total_output_tokens": tokens_out,
        "total_tokens": tokens_in + tokens_out,
    }


def input_text(value: Any) -> str:  # any JSON value
    """The text in a text, a part, parts or steps."""
    match value:
        case str():
            return value
        case list():
            return " ".join(filter(None, map(input_text, value)))
        case dict():
            return str(value.get("text") or input_text(value.get("content")))
    return ""


INTERACTION_HANDLERS: Final[dict[tuple[str, str], Handler]] = {
    ("POST", "/interactions"): create_interaction,
    ("POST", "/interactions/{}/auth_tokens"): create_interaction_token,
}
