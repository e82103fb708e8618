"""OpenAI's errors: ``{"error": {"message", "type", "param", "code"}}``."""

from typing import Any

from mgw_sim.api import ApiError, Json, UnaryResponse, dump_json
from mgw_sim.validation import Field, Path, Problem, ProblemKind, Shape, find_problems

_TYPES = {
    401: "invalid_request_error",
    403: "permission_error",
    404: "invalid_request_error",
    429: "rate_limit_error",
    503: "server_error",
}


def error_value(api_error: ApiError) -> Json:
    """The JSON value of an error."""
    kind = _TYPES.get(api_error.status) or (
        "server_error" if api_error.status >= 500 else "invalid_request_error"
    )
    code = api_error.code or ("rate_limit_exceeded" if api_error.status == 429 else None)
    return {"error": {"message": api_error.message, "type": kind, "param": api_error.param, "code": code}}


def error_response(api_error: ApiError, request_id: str) -> UnaryResponse:
    """The response for an error."""
    return UnaryResponse(
        dump_json(error_value(api_error)), api_error.status, headers=(("x-request-id", request_id),)
    )


def format_path(path: Path) -> str:
    """A path as OpenAI writes it: ``messages[0].content``."""
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).lstrip(".")


def validate(body: Any, shape: Shape, *, lenient: bool) -> None:  # any JSON value
    """Raise the ApiError for the first problem of a body."""
    for problem in find_problems(body, Field(("object",), null=False, shape=shape)):
        if not (lenient and problem.kind is ProblemKind.UNKNOWN):
            raise error_for(problem)


def error_for(problem: Problem) -> ApiError:
    """The error for a problem."""
    name = format_path(problem.path)
    match problem.kind:
        case ProblemKind.UNKNOWN:
            return ApiError(400, f"Unknown parameter: '{name}'.", name, "unknown_parameter")
        case ProblemKind.MISSING:
            return ApiError(400, f"Missing required parameter: '{name}'.", name, "missing_required_parameter")
        case ProblemKind.TYPE:
            message = (
                f"Invalid type for '{name}': expected {problem.wanted}, but got {problem.found} instead."
            )
            return ApiError(400, message, name, "invalid_type")
    message = f"Invalid value: {problem.found} for '{name}'. Expected {problem.wanted}."
    return ApiError(400, message, name, "invalid_value")
