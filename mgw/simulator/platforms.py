"""What of the vendors' platforms has a shape of its own and is no file, batch or medium."""

from typing import Any, Final

from mgw.simulator.answer import Answer, Call, Handler, Json, Refusal, Stream, Unary, sse, unary
from mgw.simulator.checks import Shape, array, mapping, string
from mgw.simulator.content import download
from mgw.simulator.gemini_content import pretty
from mgw.simulator.gemini_fields import require as require_of_google
from mgw.simulator.mind import count
from mgw.simulator.openai_errors import require
from mgw.simulator.openai_files import make_file
from mgw.simulator.pages import openai_page
from mgw.simulator.resources import fill, item_at, new
from mgw.simulator.store import Made

_SECRET_LIFE: Final = 600  # seconds
_SECRET: Final = Shape({"session": mapping(), "expires_after": mapping()})
_PERMISSIONS: Final = Shape({"project_ids": array(string())}, required=("project_ids",))
_REGISTER: Final = Shape({"uris": array(string())}, required=("uris",))
_SDP: Final = b"v=0\r\no=- 0 0 IN IP4 127.0.0.1\r\ns=-\r\nt=0 0\r\n"
_DEMANDED: Final = (
    ("/assistants", "assistants=v2"),
    ("/threads", "assistants=v2"),
    ("/chatkit", "chatkit_beta=v1"),
)


def demanding(path: str, handler: Handler) -> Handler:
    """The handler, behind the header that OpenAI's betas demand for a path."""
    beta = next((word for prefix, word in _DEMANDED if path.startswith(prefix)), None)
    if beta is None:
        return handler

    def checked(call: Call) -> Answer:
        if beta not in call.headers.get("openai-beta", ""):
            message = (
                "You must provide the 'OpenAI-Beta' header to access this API. Please try again by setting"
            )
            raise Refusal(400, f"{message} the header 'OpenAI-Beta: {beta}'.", None, "invalid_beta")
        return handler(call)

    return checked


def start_call(call: Call) -> Answer:
    """``POST /v1/realtime/calls``: an SDP answer, and where the call is."""
    place = ("Location", f"/v1/realtime/calls/{call.id('rtc_')}")
    new(call, call.template, {}, call.id("rtc_"))
    return Unary(_SDP, 201, "application/sdp", (place,))


def client_secret(call: Call) -> Answer:
    """``POST …/client_secrets``: a token that soon ends, for a session as it was asked for."""
    require(call.body, _SECRET, lenient="lenient" in call.faults)
    asked: Any = call.body.get("session") or {}
    session = {"id": call.id("sess_"), "object": "realtime.session", "type": "realtime", **asked}
    return unary({"value": call.id("ek_"), "expires_at": call.now + _SECRET_LIFE, "session": session})


def realtime_session(call: Call) -> Answer:
    """``POST /v1/realtime/sessions`` and ``…/transcription_sessions``: the same in its older form."""
    secret = {"value": call.id("ek_"), "expires_at": call.now + _SECRET_LIFE}
    return unary({**call.body, "id": call.id("sess_"), "object": "realtime.session", "client_secret": secret})


def search_store(call: Call) -> Answer:
    """``POST /v1/vector_stores/{}/search``."""
    item_at(call, "/v1/vector_stores/{}")
    asked = call.body.get("query")
    if not isinstance(asked, str | list):
        raise Refusal(400, "Missing required parameter: 'query'.", "query", "missing_required_parameter")
    page = {"object": "vector_store.search_results.page", "search_query": asked, "data": []}
    return unary({**page, "has_more": False, "next_page": None})


def permit(call: Call) -> Answer:
    """``POST /v1/fine_tuning/checkpoints/{}/permissions``: one for each project, as a list."""
    require(call.body, _PERMISSIONS, lenient="lenient" in call.faults)
    projects: list[str] = call.body["project_ids"]
    made = [
        new(call, call.template, {"project_id": one}, call.id("cp_", index))
        for index, one in enumerate(projects)
    ]
    return unary(openai_page(call, made))


def session_events(_: Call) -> Answer:
    """A stream of a session's events: it rests."""
    event = {"type": "session.status_idle", "id": "sevt_sim"}
    return Stream((sse(event, event["type"]),), sse({"type": "error"}, "error"))


def organization(_: Call) -> Answer:
    """``GET /v1/organizations/me``."""
    return unary({"id": "org_sim", "type": "organization", "name": "The simulator's"})


def register_files(call: Call) -> Answer:
    """``POST …/files:register``: files that lie elsewhere."""
    body = require_of_google(call.body, _REGISTER, lenient="lenient" in call.faults)
    uris: list[str] = body["uris"]
    found = [
        new(call, "/v1/files", {"uri": uri, "source": "REGISTERED"}, call.id("r-", index))
        for index, uri in enumerate(uris)
    ]
    return pretty({"files": found})


def new_signing_secret(call: Call) -> Answer:
    """``POST …/webhooks/{}:rotateSigningSecret``."""
    item_at(call, call.template.partition(":")[0])
    return pretty({"secret": call.id("whsec_")})


def environment_file(call: Call) -> Answer:
    """``GET …/environments/{}/files/{...}``: what is there, or its bytes with ``?alt=media``."""
    folder = fill(call.template, call.ids).partition("/files/")[0] + "/files"
    key = (call.family.value, folder, call.ids[-1])
    found = call.store.get(key)
    size = call.faults.number("size")
    if call.query.get("alt") == "media":
        kept = call.store.contents.get(key)
        if kept is None and size is None and not call.lenient:
            raise Refusal(404, f"There is no file {call.ids[-1]}.")
        return download(call, Made(size or 0) if kept is None else kept, "application/octet-stream", None)
    return pretty({"files": [found] if found else list(call.store.all(call.family.value, folder))})


def interact(call: Call) -> Answer:
    """``POST …/interactions``: an answer of the model's in steps, whole or as events."""
    if not call.body.get("model") and not call.body.get("agent"):
        raise Refusal(400, "* CreateInteractionRequest: model or agent is not specified\n", "model")
    text = _text_of(call.body.get("input"))
    reply, read = f"You said: {text}", count(text)
    usage = {
        "total_input_tokens": read,
        "total_output_tokens": count(reply),
        "total_tokens": read + count(reply),
    }
    steps = [{"type": "model_output", "content": [{"type": "text", "text": reply}]}]
    fields = {"steps": steps, "output_text": reply, "usage": usage, "object": "interaction", "role": "model"}
    asked = {name: value for name, value in call.body.items() if name not in {"stream", "input"}}
    made = new(call, call.template, {**asked, **fields})
    if not call.body.get("stream"):
        return pretty(made)
    begun: Json = {**made, "status": "in_progress", "steps": [], "usage": None, "output_text": None}
    events: list[Json] = [
        {"event_type": "interaction.created", "interaction": begun},
        {"event_type": "step.start", "index": 0, "step": {"type": "model_output"}},
        {"event_type": "step.delta", "index": 0, "delta": {"type": "text", "text": reply}},
        {"event_type": "step.stop", "index": 0},
        {"event_type": "interaction.completed", "interaction": made},
    ]
    error = {"event_type": "error", "error": {"code": "internal", "message": "The server broke."}}
    return Stream(tuple(sse(one, one["event_type"]) for one in events), sse(error, "error"))


def _text_of(said: Any) -> str:  # text, a part, parts or steps
    match said:
        case str():
            return said
        case list():
            return " ".join(filter(None, map(_text_of, said)))
        case dict():
            return str(said.get("text") or _text_of(said.get("content")))
    return ""


OPENAI: Final[dict[tuple[str, str], Handler]] = {
    ("POST", "/realtime/calls"): start_call,
    ("POST", "/realtime/translations/calls"): start_call,
    ("POST", "/realtime/client_secrets"): client_secret,
    ("POST", "/realtime/translations/client_secrets"): client_secret,
    ("POST", "/realtime/sessions"): realtime_session,
    ("POST", "/realtime/transcription_sessions"): realtime_session,
    ("POST", "/vector_stores/{}/search"): search_store,
    ("POST", "/fine_tuning/checkpoints/{}/permissions"): permit,
}
ANTHROPIC: Final[dict[tuple[str, str], Handler]] = {
    ("POST", "/files"): make_file,
    ("GET", "/sessions/{}/events/stream"): session_events,
    ("GET", "/sessions/{}/threads/{}/stream"): session_events,
    ("GET", "/organizations/me"): organization,
}
GEMINI: Final[dict[tuple[str, str], Handler]] = {
    ("POST", "/files:register"): register_files,
    ("POST", "/webhooks/{}:rotateSigningSecret"): new_signing_secret,
    ("GET", "/environments/{}/files/{...}"): environment_file,
    ("POST", "/interactions"): interact,
}
