"""Claude on Vertex AI: rawPredict, streamRawPredict and the token counts, below ``publishers/anthropic``.

A request is Anthropic's, with its version in the body and without ``model``; answers are Anthropic's own.
What Google's front refuses has Google's shape.  Sources: the Anthropic SDK's ``lib/vertex``, Anthropic's page
"Claude on Google Cloud".
"""

import json
import re
from typing import Any, Final

import msgspec

from mgw_sim.anthropic.errors import error_response as anthropic_error_response
from mgw_sim.anthropic.messages import count_tokens as count_message
from mgw_sim.anthropic.messages import messages
from mgw_sim.api import ApiError, Json, Request, Response, UnaryResponse
from mgw_sim.gemini.errors import error_response as google_error_response

COUNT_MODEL: Final = "count-tokens"
MAX_BYTES: Final = 30_000_000
_VERTEX_VERSION: Final = "vertex-2023-10-16"
_USUAL_VERSION: Final = "2023-06-01"
_DATED: Final = re.compile(r"\d{4}-\d{2}-\d{2}")
_MODEL: Final = re.compile(r"[A-Za-z0-9._~@-]+")
_OF_GOOGLE: Final = frozenset({401, 403, 404, 413, 429, 500, 503})
"""What Google's front refuses; Anthropic's models have the other statuses."""


def raw_predict(request: Request) -> Response:
    """``POST …/models/{id}:rawPredict``."""
    if request.ids[-1] == COUNT_MODEL:
        return _count_tokens(request)
    if request.body.get("stream"):
        raise ApiError(400, "stream: use streamRawPredict")
    return messages(_message_request(request))


def stream_raw_predict(request: Request) -> Response:
    """``POST …/models/{id}:streamRawPredict``."""
    if request.body.get("stream") is not True:
        raise ApiError(400, "stream: Input should be True")
    return messages(_message_request(request))


def error_response(api_error: ApiError, request_id: str) -> UnaryResponse:
    """The response for an error: of Google's front, or of the model."""
    if api_error.status in _OF_GOOGLE:
        return google_error_response(api_error, request_id)
    return anthropic_error_response(api_error, request_id)


def _count_tokens(request: Request) -> Response:
    """Count the tokens of a body that names its model."""
    model = request.body.get("model")
    if not isinstance(model, str) or not model:
        raise ApiError(400, "model: Field required")
    if model.endswith(("@default", "@latest")):
        raise ApiError(404, f"Publisher Model `publishers/anthropic/models/{model}` was not found.")
    asked = _message_request(request, model)
    answered = count_message(asked)
    assert isinstance(answered, UnaryResponse)
    return msgspec.structs.replace(answered, body=json.dumps(json.loads(answered.body)).encode())


def _message_request(request: Request, model: str | None = None) -> Request:
    """The request as Anthropic's own API has it."""
    if len(request.raw) > MAX_BYTES:
        raise ApiError(413, "Request payload size exceeds the limit: 30000000 bytes.")
    if model is None and "model" in request.body:
        raise ApiError(400, "model: Extra inputs are not permitted")
    name = request.model if model is None else model
    if not _MODEL.fullmatch(name.partition("+")[0]):
        raise ApiError(400, "The model id is malformed.")
    inner: Json = {**request.body, "model": name}
    version = inner.pop("anthropic_version", None)
    if version is None:
        raise ApiError(400, "anthropic_version: Field required")
    if version != _VERTEX_VERSION and not (isinstance(version, str) and _DATED.fullmatch(version)):
        raise ApiError(400, f'anthropic_version: "{version}" is not a valid version')
    headers = {key: value for key, value in request.headers.items() if key != "anthropic-version"}
    headers["anthropic-version"] = _USUAL_VERSION if version == _VERTEX_VERSION else version
    betas = inner.pop("anthropic_beta", None)
    if betas is not None:
        headers["anthropic-beta"] = ",".join(_names(betas))
    _check_betas(headers.get("anthropic-beta", ""))
    return msgspec.structs.replace(request, body=inner, headers=headers, model=name.partition("@")[0])


def _names(betas: Any) -> list[str]:  # any JSON value
    if not isinstance(betas, list) or not all(isinstance(name, str) for name in betas):
        raise ApiError(400, "anthropic_beta: Input should be a valid list")
    return betas


def _check_betas(header: str) -> None:
    names = [name.strip() for name in header.split(",")]
    if any("refused-silently" in name for name in names):
        raise ApiError(400, "invalid beta flag")
    refused = [name for name in names if "refused" in name]
    if refused:
        quoted = ", ".join(f"`{name}`" for name in refused)
        raise ApiError(400, f"Unexpected value(s) {quoted} for the `anthropic-beta` header.")
