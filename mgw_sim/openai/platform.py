"""What of OpenAI's platform has a shape of its own: realtime sessions, vector stores, permissions, videos.

A video is queued when it is asked for, done when it is looked for.  Source: ``openai.types.video`` 3.54.
"""

from typing import Any, Final

from mgw_sim.api import (
    ApiError,
    Handler,
    Json,
    Request,
    Response,
    UnaryResponse,
    json_response,
)
from mgw_sim.http.bodies import download
from mgw_sim.openai.errors import validate
from mgw_sim.platform.representation import openai_page
from mgw_sim.platform.resources import (
    fields_of,
    find_resource,
    resource_response,
    store_key,
    store_new,
)
from mgw_sim.platform.store import Entry, GeneratedContent
from mgw_sim.validation import Shape, array, mapping, string

_SECRET_LIFETIME: Final = 600  # seconds
_CLIENT_SECRET: Final = Shape({"session": mapping(), "expires_after": mapping()})
_PERMISSIONS: Final = Shape({"project_ids": array(string())}, required=("project_ids",))
_SDP: Final = b"v=0\r\no=- 0 0 IN IP4 127.0.0.1\r\ns=-\r\nt=0 0\r\n"
_BETA_HEADERS: Final = (
    ("/assistants", "assistants=v2"),
    ("/threads", "assistants=v2"),
    ("/chatkit", "chatkit_beta=v1"),
)
_VIDEOS_PATH: Final = "/v1/videos"
_VIDEO_PATH: Final = "/v1/videos/{}"
_VARIANTS: Final = {"video": "video/mp4", "thumbnail": "image/webp", "spritesheet": "image/jpeg"}
_DEFAULT_VIDEO_SIZE: Final = 100_000


def require_beta_header(path: str, handler: Handler) -> Handler:
    """The handler, behind the header that OpenAI's betas demand for a path."""
    beta = next((word for prefix, word in _BETA_HEADERS if path.startswith(prefix)), None)
    if beta is None:
        return handler

    def checked(request: Request) -> Response:
        if beta not in request.headers.get("openai-beta", ""):
            message = (
                "You must provide the 'OpenAI-Beta' header to access this API. Please try again by setting"
            )
            raise ApiError(400, f"{message} the header 'OpenAI-Beta: {beta}'.", None, "invalid_beta")
        return handler(request)

    return checked


def start_realtime_call(request: Request) -> Response:
    """``POST /v1/realtime/calls``: an SDP answer, and where the call is."""
    place = ("Location", f"/v1/realtime/calls/{request.id('rtc_')}")
    store_new(request, request.template, {}, request.id("rtc_"))
    return UnaryResponse(_SDP, 201, "application/sdp", (place,))


def create_client_secret(request: Request) -> Response:
    """``POST …/client_secrets``: a token that soon ends, for a session as it was asked for."""
    validate(request.body, _CLIENT_SECRET, lenient="lenient" in request.faults)
    session_fields: Any = request.body.get("session") or {}
    session = {"id": request.id("sess_"), "object": "realtime.session", "type": "realtime", **session_fields}
    return json_response(
        {"value": request.id("ek_"), "expires_at": request.now + _SECRET_LIFETIME, "session": session}
    )


def create_realtime_session(request: Request) -> Response:
    """``POST /v1/realtime/sessions`` and ``…/transcription_sessions``: the same in its older form."""
    secret = {"value": request.id("ek_"), "expires_at": request.now + _SECRET_LIFETIME}
    return json_response(
        {**request.body, "id": request.id("sess_"), "object": "realtime.session", "client_secret": secret}
    )


def search_vector_store(request: Request) -> Response:
    """``POST /v1/vector_stores/{}/search``."""
    find_resource(request, "/v1/vector_stores/{}")
    query = request.body.get("query")
    if not isinstance(query, str | list):
        raise ApiError(400, "Missing required parameter: 'query'.", "query", "missing_required_parameter")
    page = {"object": "vector_store.search_results.page", "search_query": query, "data": []}
    return json_response({**page, "has_more": False, "next_page": None})


def create_permissions(request: Request) -> Response:
    """``POST /v1/fine_tuning/checkpoints/{}/permissions``: one for each project, as a list."""
    validate(request.body, _PERMISSIONS, lenient="lenient" in request.faults)
    projects: list[str] = request.body["project_ids"]
    permissions = [
        store_new(request, request.template, {"project_id": one}, request.id("cp_", index))
        for index, one in enumerate(projects)
    ]
    return json_response(openai_page(request, permissions))


def create_video(request: Request) -> Response:
    """``POST /v1/videos``, as a form or as JSON."""
    return resource_response(request, store_new(request, _VIDEOS_PATH, _video_fields(request)))


def remix_video(request: Request) -> Response:
    """``POST /v1/videos/{}/remix``."""
    find_resource(request, _VIDEO_PATH)
    return resource_response(
        request,
        store_new(request, _VIDEOS_PATH, {**_video_fields(request), "remixed_from_video_id": request.ids[0]}),
    )


def _video_fields(request: Request) -> Json:
    request_fields = fields_of(request)
    prompt = request_fields.get("prompt")
    if not isinstance(prompt, str) or not prompt:
        raise ApiError(400, "Missing required parameter: 'prompt'.", "prompt", "missing_required_parameter")
    seconds, size = str(request_fields.get("seconds") or "4"), str(request_fields.get("size") or "720x1280")
    fields = {"model": request.model or "sora-2", "prompt": prompt, "seconds": seconds, "size": size}
    return {**fields, "error": None, "expires_at": None, "completed_at": None, "remixed_from_video_id": None}


def get_video(request: Request) -> Response:
    """``GET /v1/videos/{}``: by now it is done."""
    return resource_response(request, _complete_video(request))


def _complete_video(request: Request) -> Entry:
    video = find_resource(request, _VIDEO_PATH)
    completed: Entry = {**video, "status": "completed", "progress": 100, "completed_at": request.now}
    is_stored = request.store.get(store_key(request, _VIDEO_PATH)) is not None
    return request.store.put(store_key(request, _VIDEO_PATH), completed) if is_stored else completed


def download_video(request: Request) -> Response:
    """``GET /v1/videos/{}/content``."""
    _complete_video(request)
    variant = request.query.get("variant", "video")
    if variant not in _VARIANTS:
        raise ApiError(400, f"Invalid value: '{variant}'.", "variant", "invalid_value")
    size = request.faults.number("size")
    content = GeneratedContent(_DEFAULT_VIDEO_SIZE if size is None else size)
    return download(request, content, _VARIANTS[variant], f"{request.ids[0]}.mp4")


PLATFORM_HANDLERS: Final[dict[tuple[str, str], Handler]] = {
    ("POST", "/videos"): create_video,
    ("POST", "/videos/edits"): create_video,
    ("POST", "/videos/extensions"): create_video,
    ("POST", "/videos/{}/remix"): remix_video,
    ("GET", "/videos/{}"): get_video,
    ("GET", "/videos/{}/content"): download_video,
    ("POST", "/realtime/calls"): start_realtime_call,
    ("POST", "/realtime/translations/calls"): start_realtime_call,
    ("POST", "/realtime/client_secrets"): create_client_secret,
    ("POST", "/realtime/translations/client_secrets"): create_client_secret,
    ("POST", "/realtime/sessions"): create_realtime_session,
    ("POST", "/realtime/transcription_sessions"): create_realtime_session,
    ("POST", "/vector_stores/{}/search"): search_vector_store,
    ("POST", "/fine_tuning/checkpoints/{}/permissions"): create_permissions,
}
