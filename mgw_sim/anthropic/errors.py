"""Anthropic's errors: ``{"type": "error", "error": {"type", "message"}, "request_id"}``."""

from typing import Any, Final

from mgw_sim.api import ApiError, Json, UnaryResponse, dump_json
from mgw_sim.validation import Field, Path, Problem, ProblemKind, Shape, find_problems

_TYPES: Final = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    408: "timeout_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
    529: "overloaded_error",
}


def error_value(api_error: ApiError, request_id: str) -> Json:
    """The JSON value of an error."""
    kind = _TYPES.get(api_error.status) or (
        "api_error" if api_error.status >= 500 else "invalid_request_error"
    )
    error: Json = {"type": kind, "message": api_error.message}
    if api_error.code is not None:  # the SDK's threads read it, and go on without a thread
        error["details"] = {"error_code": api_error.code, "unsupported": ["thread"]}
    return {"type": "error", "error": error, "request_id": request_id}


def error_response(api_error: ApiError, request_id: str) -> UnaryResponse:
    """The response for an error."""
    return UnaryResponse(
        dump_json(error_value(api_error, request_id)), api_error.status, headers=(("request-id", request_id),)
    )


def format_path(path: Path) -> str:
    """A path as Anthropic writes it: ``messages.0.content``."""
    return ".".join(str(step) for step in path)


def validate(body: Any, shape: Shape, *, lenient: bool) -> None:  # any JSON value
    """Raise the ApiError for the first problem of a body."""
    for problem in find_problems(body, Field(("object",), null=False, shape=shape)):
        if not (lenient and problem.kind is ProblemKind.UNKNOWN):
            raise error_for(problem)


def error_for(problem: Problem) -> ApiError:
    """The error for a problem."""
    return ApiError(400, f"{format_path(problem.path)}: {_problem_message(problem)}")


def _problem_message(problem: Problem) -> str:
    match problem.kind:
        case ProblemKind.UNKNOWN:
            return "Extra inputs are not permitted"
        case ProblemKind.MISSING:
            return "Field required"
        case ProblemKind.TYPE:
            return f"Input should be {problem.wanted}"
    return f"Input should be {problem.wanted}, got {problem.found}"
