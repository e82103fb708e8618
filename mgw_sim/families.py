"""The families: where a client's credential stands, how an error is spelt, and their lists of models.

``sim-models-N`` lists N models, so that ``GET /v1/models`` has several pages.
"""

import re
from collections.abc import Callable, Mapping
from typing import Final

from msgspec import Struct

from mgw_sim.anthropic.errors import error_response as anthropic_error_response
from mgw_sim.api import ApiError, Family, Json, Request, Response, UnaryResponse, json_response, rfc3339
from mgw_sim.aws.errors import AwsError
from mgw_sim.aws.errors import error_response as aws_error_response
from mgw_sim.aws.signature import read_signature
from mgw_sim.gemini.errors import error_response as gemini_error_response
from mgw_sim.gemini.vertex_anthropic import error_response as vertex_error_response
from mgw_sim.openai.errors import error_response as openai_error_response
from mgw_sim.platform.representation import anthropic_page, gemini_page

_BEARER: Final = re.compile(r"(?:Bearer|Token) +(\S.*)", re.IGNORECASE)
_SUBPROTOCOL_KEY: Final = re.compile(r"(?:^|[,\s])openai-insecure-api-key\.([^,\s]+)")
ERROR_RESPONSES: Final[Mapping[Family, Callable[[ApiError, str], UnaryResponse]]] = {
    Family.OPENAI: openai_error_response,
    Family.ANTHROPIC: anthropic_error_response,
    Family.GEMINI: gemini_error_response,
    Family.BEDROCK: aws_error_response,
    Family.VERTEX: vertex_error_response,
}
_MODEL_NAMES: Final = ("echo-large", "echo-small", "echo-embedding")
_MAX_MODELS: Final = 100_000
_CREATED: Final = 1767322985
"""When the models came into the world, in seconds."""


class Credential(Struct, frozen=True):
    """What the client showed, and whether it is a token or a key."""

    value: str
    is_token: bool


def credential_of(family: Family, headers: Mapping[str, str], query: Mapping[str, str]) -> Credential | None:
    """The credential that this family's vendor would look at, or None."""
    key = None
    if family is Family.ANTHROPIC:
        key = headers.get("x-api-key")
    elif family is Family.GEMINI:
        key = headers.get("x-goog-api-key") or query.get("key")
    else:
        key = headers.get("api-key")  # of Azure's clients
    if key:
        return Credential(key, is_token=False)
    signature = read_signature(headers.get("authorization", ""))
    if signature is not None:
        return Credential(signature.key_id, is_token=False)
    bearer = _BEARER.fullmatch(headers.get("authorization", ""))
    if bearer is None and family is Family.OPENAI:  # browsers cannot set headers on a WebSocket
        bearer = _SUBPROTOCOL_KEY.search(headers.get("sec-websocket-protocol", ""))
    token = bearer[1] if bearer else query.get("access_token") if family is Family.GEMINI else None
    return Credential(token, is_token=True) if token else None


def family_of(path: str, headers: Mapping[str, str], query: Mapping[str, str]) -> Family:
    """The family of a path that several have, and of one that nobody has."""
    if "anthropic-version" in headers or path.startswith("/v1/messages"):
        return Family.ANTHROPIC
    shows = "x-goog-api-key" in headers or "x-goog-api-client" in headers or "key" in query
    return Family.GEMINI if shows or re.match(r"/v1(beta|alpha)/", path) else Family.OPENAI


def missing_credential(family: Family) -> ApiError:
    """The client showed none."""
    return {
        Family.OPENAI: ApiError(
            401,
            "You didn't provide an API key. You need to provide your API key in an Authorization header "
            "using "
            "Bearer auth (i.e. Authorization: Bearer YOUR_KEY).",
        ),
        Family.ANTHROPIC: ApiError(401, "x-api-key header is required"),
        Family.GEMINI: ApiError(
            401,
            "Method doesn't allow unregistered callers (callers without established identity). Please use "
            "API Key "
            "or other form of API consumer identity to call this API.",
        ),
        Family.BEDROCK: AwsError("MissingAuthenticationTokenException", "Missing Authentication Token"),
        Family.VERTEX: ApiError(
            401,
            "Request is missing required authentication credential. Expected OAuth 2 access token.",
            code="CREDENTIALS_MISSING",
        ),
    }[family]


def invalid_credential(family: Family, credential: Credential) -> ApiError:
    """The client showed one that the vendor does not know."""
    if family is Family.GEMINI and not credential.is_token:
        return ApiError(400, "API key not valid. Please pass a valid API key.", code="API_KEY_INVALID")
    return {
        Family.OPENAI: ApiError(401, "Incorrect API key provided.", code="invalid_api_key"),
        Family.ANTHROPIC: ApiError(401, "invalid x-api-key"),
        Family.GEMINI: ApiError(
            401, "Request had invalid authentication credentials.", code="ACCESS_TOKEN_TYPE_UNSUPPORTED"
        ),
        Family.BEDROCK: AwsError(
            "UnrecognizedClientException", "The security token included in the request is invalid."
        ),
        Family.VERTEX: ApiError(
            401, "Request had invalid authentication credentials.", code="ACCESS_TOKEN_TYPE_UNSUPPORTED"
        ),
    }[family]


def unknown_model(family: Family, model: str) -> ApiError:
    """There is no such model."""
    return {
        Family.OPENAI: ApiError(
            404,
            f"The model `{model}` does not exist or you do not have access to it.",
            code="model_not_found",
        ),
        Family.ANTHROPIC: ApiError(404, f"model: {model}"),
        Family.GEMINI: ApiError(
            404,
            f"models/{model} is not found for API version v1beta, or is not supported for generateContent. "
            "Call ListModels to see the list of available models and their supported methods.",
        ),
        Family.BEDROCK: AwsError("ValidationException", "The provided model identifier is invalid."),
        Family.VERTEX: ApiError(
            404,
            f"Publisher Model `publishers/anthropic/models/{model}` was not found or your project does not "
            "have access to it. Please ensure you are using a valid model version.",
        ),
    }[family]


def prompt_too_long(family: Family) -> ApiError:
    """The prompt has more tokens than the model takes."""
    return {
        Family.OPENAI: ApiError(
            400,
            "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 "
            "tokens. Please reduce the length of the messages.",
            "messages",
            "context_length_exceeded",
        ),
        Family.ANTHROPIC: ApiError(400, "prompt is too long: 9000 tokens > 8192 maximum"),
        Family.GEMINI: ApiError(
            400, "The input token count (9000) exceeds the maximum number of tokens allowed (8192)."
        ),
        Family.BEDROCK: AwsError("ValidationException", "Input is too long for requested model."),
        Family.VERTEX: ApiError(400, "prompt is too long: 9000 tokens > 8192 maximum"),
    }[family]


def list_models(request: Request) -> Response:
    """The list.  Any other name is answered, too; these are only the ones that are listed."""
    entries = [_model_object(request, name) for name in _model_names(request)]
    match request.family:
        case Family.ANTHROPIC:
            return json_response(anthropic_page(request, entries))
        case Family.GEMINI:
            return json_response(gemini_page(request, "models", entries))
    return json_response({"object": "list", "data": entries})  # OpenAI's has no pages


def _model_names(request: Request) -> tuple[str, ...]:
    count = request.faults.number("models")
    if count is None:
        return _MODEL_NAMES
    if count > _MAX_MODELS:
        raise ApiError(400, f"The simulator lists at most {_MAX_MODELS} models.")
    return (*_MODEL_NAMES, *(f"echo-{number:05d}" for number in range(len(_MODEL_NAMES), count)))[:count]


def get_model(request: Request) -> Response:
    """One model."""
    if request.ids[-1].startswith("missing"):
        raise unknown_model(request.family, request.ids[-1])
    return json_response(_model_object(request, request.ids[-1]))


def delete_model(request: Request) -> Response:
    """``DELETE /v1/models/{id}``: a tuned model of OpenAI's."""
    return json_response({"id": request.ids[-1], "object": "model", "deleted": True})


def _model_object(request: Request, name: str) -> Json:
    match request.family:
        case Family.ANTHROPIC:
            return {
                "type": "model",
                "id": name,
                "display_name": name.replace("-", " ").title(),
                "created_at": rfc3339(_CREATED),
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
                "description": "Repeats the prompt.",
                "inputTokenLimit": 1048576,
                "outputTokenLimit": 65536,
                "supportedGenerationMethods": ["generateContent", "countTokens", "embedContent"],
                "temperature": 1,
                "topP": 0.95,
                "topK": 64,
                "thinking": True,
            }
    return {"id": name, "object": "model", "created": _CREATED, "owned_by": "mgw-sim"}
